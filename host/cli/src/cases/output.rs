//! The outcome of cases for people, as JUnit XML, and as TAP.

use std::time::Duration;

use loom_types::{printable, printable_lines};

use super::compare::Difference;

/// A case that was played.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: String,
    /// None where it passed.
    pub failure: Option<Failure>,
    /// Whether its expectation was written from what came.
    pub written: bool,
    pub took: Duration,
}

/// Why a case failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// What came of it is not what was expected.
    Differs(Vec<Difference>),
    /// It was not played: the flow, or the test file, is wrong. As `check` would print it.
    Unplayed(String),
}

/// A file's cases.
#[derive(Clone, Debug)]
pub struct FileOutcome {
    pub file: String,
    pub cases: Vec<Outcome>,
}

impl Failure {
    /// What it is, line by line.
    fn lines(&self, file: &str) -> Vec<String> {
        match self {
            // It has colours and lines of ours.
            Failure::Unplayed(text) => printable_lines(text.trim_end()).lines().map(str::to_owned).collect(),
            Failure::Differs(differences) => {
                let mut lines = Vec::new();
                for Difference { at, message, details } in differences.iter().take(MOST_DIFFERENCES) {
                    let (file, message) = (printable(file), printable(message));
                    lines.push(cut(&format!("{file}:{}:{}: {message}", at.line, at.column)));
                    let mut details = details.iter().flat_map(|detail| detail.lines());
                    let shown = details.by_ref().take(MOST_DETAILS);
                    lines.extend(shown.map(|line| cut(&format!("  {}", printable(line)))));
                    more(&mut lines, "  ", details.count());
                }
                more(&mut lines, "", differences.len().saturating_sub(MOST_DIFFERENCES));
                lines
            }
        }
    }

    /// What it is in a few words.
    fn short(&self) -> String {
        match self {
            Failure::Differs(differences) => {
                differences.first().map_or_else(String::new, |first| cut(&first.message))
            }
            Failure::Unplayed(text) => text.lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// Differences of a case that are told, and lines of each: who has broken everything needs no more to see it.
const MOST_DIFFERENCES: usize = 100;
const MOST_DETAILS: usize = 20;

/// Characters of a line.
const LONGEST_LINE: usize = 1000;

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn more(lines: &mut Vec<String>, indent: &str, count: usize) {
    if count > 0 {
        lines.push(format!("{indent}and {count} more"));
    }
}

fn failed(files: &[FileOutcome]) -> usize {
    files.iter().flat_map(|file| &file.cases).filter(|case| case.failure.is_some()).count()
}

fn all(files: &[FileOutcome]) -> usize {
    files.iter().map(|file| file.cases.len()).sum()
}

/// A line for each case, with what is wrong under it, and a sum.
pub fn human(files: &[FileOutcome], colour: bool) -> String {
    let (green, red, plain) = if colour { ("\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "", "") };
    let mut text = String::new();
    for FileOutcome { file, cases } in files {
        text.push_str(&format!("{}\n", printable(file)));
        for case in cases {
            let name = printable(&case.name);
            match &case.failure {
                None if case.written => text.push_str(&format!("  {green}wrote{plain} {name}\n")),
                None => text.push_str(&format!("  {green}ok{plain}   {name}\n")),
                Some(failure) => {
                    text.push_str(&format!("  {red}FAIL{plain} {name}\n"));
                    for line in failure.lines(file) {
                        text.push_str(&format!("    {line}\n"));
                    }
                }
            }
        }
    }
    let (failed, all) = (failed(files), all(files));
    text.push_str(&format!("\n{} passed, {failed} failed\n", all - failed));
    let written = files.iter().flat_map(|file| &file.cases).filter(|case| case.written).count();
    if written > 0 {
        let what = if written == 1 { "1 expectation was" } else { &format!("{written} expectations were") };
        text.push_str(&format!("{what} written from what came out: read before you commit\n"));
    }
    text
}

/// TAP, version 14.
pub fn tap(files: &[FileOutcome]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", all(files));
    let cases = files.iter().flat_map(|file| file.cases.iter().map(move |case| (file, case)));
    for (number, (FileOutcome { file, .. }, case)) in (1..).zip(cases) {
        // One line: a name with a line end could pass for a result.
        let name = format!("{file}: {}", case.name).replace('\\', "\\\\").replace('#', "\\#");
        let name = name.replace(['\n', '\r'], " ");
        let name = printable(&name);
        match &case.failure {
            None => text.push_str(&format!("ok {number} - {name}\n")),
            Some(failure) => {
                text.push_str(&format!("not ok {number} - {name}\n  ---\n  message: |-\n"));
                for line in failure.lines(file) {
                    text.push_str(&format!("    {line}\n"));
                }
                text.push_str("  ...\n");
            }
        }
    }
    text
}

/// JUnit's XML, as most build servers read it.
pub fn junit(files: &[FileOutcome]) -> String {
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let took = |file: &FileOutcome| -> Duration { file.cases.iter().map(|case| case.took).sum() };
    let total: Duration = files.iter().map(took).sum();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuites tests=\"{}\" failures=\"{}\" time=\"{}\">\n",
        all(files),
        failed(files),
        seconds(total)
    ));
    for file in files {
        let name = xml(&file.file);
        let failures = failed(std::slice::from_ref(file));
        text.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" time=\"{}\">\n",
            file.cases.len(),
            seconds(took(file))
        ));
        for case in &file.cases {
            let head = format!(
                "    <testcase name=\"{}\" classname=\"{name}\" time=\"{}\"",
                xml(&case.name),
                seconds(case.took)
            );
            match &case.failure {
                None => text.push_str(&format!("{head}/>\n")),
                Some(failure) => text.push_str(&format!(
                    "{head}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                    xml(&failure.short()),
                    xml(&failure.lines(&file.file).join("\n"))
                )),
            }
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

/// Text as XML 1.0 takes it; characters that it has no form for are shown as `\u{…}`.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_flow::Stretch;

    use super::{Difference, Failure, FileOutcome, Outcome, human, junit, tap};

    fn files() -> Vec<FileOutcome> {
        let at = Stretch { line: 7, column: 11, offset: 0, len: 0 };
        let difference = Difference {
            at,
            message: "topic `out`: record 0 is not as expected".to_owned(),
            details: vec!["payload.a is \"<\u{1}\", expected 2".to_owned()],
        };
        let case = |name: &str, failure| Outcome {
            name: name.to_owned(),
            failure,
            written: false,
            took: Duration::from_millis(5),
        };
        vec![FileOutcome {
            file: "a.test.yaml".to_owned(),
            cases: vec![
                case("one & two #3", None),
                case("bad", Some(Failure::Differs(vec![difference]))),
                case("wrong", Some(Failure::Unplayed("error[X]: no\n  at 1\n".to_owned()))),
            ],
        }]
    }

    #[test]
    fn people_see_each_case_and_every_difference() {
        assert_eq!(
            human(&files(), false),
            "a.test.yaml\n  ok   one & two #3\n  FAIL bad\n    a.test.yaml:7:11: topic `out`: record 0 is not as expected\n\
             \x20     payload.a is \"<\\u{1}\", expected 2\n  FAIL wrong\n    error[X]: no\n      at 1\n\n1 passed, 2 failed\n"
        );
    }

    #[test]
    fn long_reports_are_cut() {
        let at = Stretch { line: 1, column: 1, offset: 0, len: 0 };
        let difference = Difference { at, message: "x".repeat(5000), details: vec!["y".to_owned(); 50] };
        let failure = Some(Failure::Differs(vec![difference; 250]));
        let outcome = Outcome { name: "long".to_owned(), failure, written: false, took: Duration::ZERO };
        let files = [FileOutcome { file: "a".to_owned(), cases: vec![outcome] }];
        let text = human(&files, false);
        assert!(text.contains("\n      and 30 more\n") && text.contains("\n    and 150 more\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 1010));
        assert!(junit(&files).lines().all(|line| line.chars().count() < 250_000));
    }

    #[test]
    fn junit_is_xml_whatever_is_in_it() {
        let text = junit(&files());
        for part in [
            "<testsuites tests=\"3\" failures=\"2\" time=\"0.015\">",
            "<testcase name=\"one &amp; two #3\" classname=\"a.test.yaml\" time=\"0.005\"/>",
            "<failure message=\"topic `out`: record 0 is not as expected\">a.test.yaml:7:11: topic",
            "&quot;&lt;\\u{1}&quot;",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn tap_numbers_cases_and_escapes_directives() {
        let text = tap(&files());
        assert!(
            text.starts_with("TAP version 14\n1..3\nok 1 - a.test.yaml: one & two \\#3\nnot ok 2 - "),
            "{text}"
        );
        assert!(text.contains("  ---\n  message: |-\n    a.test.yaml:7:11: topic"), "{text}");
        let mut forged = files();
        forged[0].cases[0].name.push_str("\nok 2 - forged");
        let text = tap(&forged);
        assert_eq!(text.lines().filter(|line| line.starts_with("ok ")).count(), 1, "{text}");
    }
}
