//! Excerpts of very long lines, cut to what is around their place: a flow that is one line of JSON would else be printed
//! whole for each issue.

use super::Excerpts;
use crate::issue::{Issue, Stretch};

/// Bytes of a line that is shown whole.
const WHOLE: usize = 500;

/// Bytes before a place, and from it on.
const BEFORE: usize = 60;
const FROM: usize = 200;

/// The text around an issue with its long lines cut, and the issue with its places in that; none where no line is long.
/// Lines keep their numbers.
pub(super) fn around(source: &Excerpts<'_>, issue: &Issue) -> Option<(String, Issue)> {
    let mut places: Vec<Stretch> = vec![issue.at];
    places.extend(issue.related.iter().map(|(at, _)| *at));
    let line_of = |offset: usize| source.line_of(offset.min(source.text.len()));
    let first = places.iter().map(|at| line_of(at.offset)).min()?.saturating_sub(1);
    let last = places.iter().map(|at| line_of(at.offset + at.len)).max()? + 1;
    let last = last.min(source.lines.len() - 1);
    let line = |number: usize| {
        let end = source.lines.get(number + 1).copied().unwrap_or(source.text.len());
        source.lines[number]..end
    };
    if (first..=last).all(|number| line(number).len() <= WHOLE) {
        return None;
    }
    // Lines before are empty: they are counted and not shown.
    let mut text = "\n".repeat(first);
    let mut moved = places.clone();
    for number in first..=last {
        let whole = line(number);
        let kept = if whole.len() <= WHOLE {
            whole.clone()
        } else {
            let here = places.iter().map(|at| at.offset).find(|offset| whole.contains(offset));
            let place = here.unwrap_or(whole.start);
            let start = floor(source.text, place.saturating_sub(BEFORE).max(whole.start));
            start..floor(source.text, (place + FROM).min(whole.end))
        };
        if kept.start > whole.start {
            text.push('…');
        }
        let at = text.len();
        let inside = source.text[kept.clone()].trim_end_matches(['\n', '\r']);
        text.push_str(inside);
        let place_of = |offset: usize| at + offset.clamp(kept.start, kept.start + inside.len()) - kept.start;
        for (from, to) in places.iter().zip(&mut moved) {
            let end = from.offset + from.len;
            if whole.contains(&from.offset) || from.offset == whole.end && number == last {
                to.offset = place_of(from.offset);
                to.len = 0;
            }
            if line_of(from.offset) <= number && line_of(end) >= number {
                to.len = place_of(end).saturating_sub(to.offset);
            }
        }
        if kept.end < whole.end && inside.len() == kept.len() {
            text.push('…');
        }
        text.push('\n');
    }
    let mut narrow = issue.clone();
    narrow.at = moved[0];
    if let Some((at, _)) = &mut narrow.related {
        *at = moved[1];
    }
    Some((text, narrow))
}

/// The last boundary of a character up to here.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::issue::{Code, Issue, Severity, Stretch};
    use crate::render::{HumanStyle, human};

    #[test]
    fn a_very_long_line_is_shown_around_its_place_alone() {
        let long = format!(
            "a: 1\nb: [{}WRONG{}]\nc: {}\nd: é",
            "é, ".repeat(4000),
            ", x".repeat(4000),
            "y".repeat(9000)
        );
        let offset = long.find("WRONG").expect("it is there");
        let at = Stretch { line: 2, column: 8005, offset, len: 5 };
        let end = long.len() - 2;
        let related = Some((Stretch { line: 4, column: 4, offset: end, len: 2 }, "the other".to_owned()));
        for related in [None, related] {
            let issue = Issue {
                severity: Severity::Error,
                code: Code::ValueInvalid,
                message: "m".repeat(5000),
                file: "f.yaml".to_owned(),
                at,
                related,
                path: "b".to_owned(),
                hint: None,
            };
            let text = human(&[issue], &[("f.yaml".to_owned(), long.clone())], HumanStyle::default());
            assert!(text.len() < 4000 && text.contains("[f.yaml:2:8005]"), "{text}");
            let shown = text.lines().find(|line| line.contains("WRONG")).expect("the place is shown");
            assert!(shown.contains(" 2 │ …") && shown.ends_with('…'), "{shown}");
            let under =
                text.lines().skip_while(|line| !line.contains("WRONG")).nth(1).expect("a mark under it");
            let column = |line: &str, what: &str| line[..line.find(what).expect(what)].chars().count();
            assert_eq!(column(shown, "WRONG"), column(under, "──┬──"), "{text}");
        }
    }
}
