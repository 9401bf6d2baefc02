//! Values that nothing may show, and texts without them.

/// Values that must not be printed.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    pub(crate) fn remember(&mut self, value: &str) {
        if !value.is_empty() && !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
        }
    }

    /// A text without them, wherever they overlap: one may be a part of another. A short value is taken out only where it
    /// stands alone: `1` would eat every number, and a password that is also a word would make messages unreadable.
    pub(crate) fn redact(&self, text: &str) -> String {
        Secrets::redact_all([self], text)
    }

    /// The same for several. One after the other would not do: what the first has hidden, the second no longer finds.
    pub(crate) fn redact_all<'s>(all: impl IntoIterator<Item = &'s Secrets>, text: &str) -> String {
        let mut longest_first: Vec<&str> =
            all.into_iter().flat_map(|secrets| &secrets.values).map(String::as_str).collect();
        longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
        // Of each byte, whether it is a secret's.
        let mut hidden = vec![false; text.len()];
        for value in longest_first {
            hide(text, value, &mut hidden);
        }
        let mut out = String::with_capacity(text.len());
        let mut before = false;
        for (at, c) in text.char_indices() {
            match (hidden[at], before) {
                (false, _) => out.push(c),
                (true, false) => out.push_str("***"),
                (true, true) => {}
            }
            before = hidden[at];
        }
        out
    }
}

/// Shorter values are taken out only where nothing is joined to them.
const LONG: usize = 8;

/// Marks a value wherever it stands, also where it overlaps itself.
fn hide(text: &str, value: &str, hidden: &mut [bool]) {
    let step = value.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(value)) {
        let (at, end) = (from + found, from + found + value.len());
        from = at + step;
        // A secret beside it is no part of its word.
        let before = text[..at].char_indices().rev().take_while(|(at, _)| !hidden[*at]).map(|(_, c)| c);
        let behind = text[end..].char_indices().take_while(|(at, _)| !hidden[end + at]).map(|(_, c)| c);
        if value.len() >= LONG || !continues(before) && !continues(behind) {
            hidden[at..end].fill(true);
        }
    }
}

/// Whether these characters, from a value outwards, belong to one word, name or address with it.
fn continues(mut outwards: impl Iterator<Item = char>) -> bool {
    match outwards.next() {
        Some('.' | '-' | '_' | ':' | '/') => outwards.next().is_some_and(char::is_alphanumeric),
        Some(next) => next.is_alphanumeric(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.remember(value);
        }
        secrets
    }

    #[test]
    fn a_secret_that_is_a_part_of_another_leaves_nothing_of_it() {
        for [short, long] in [
            ["hunter2-", "hunter2-and-more"],
            ["and-more", "hunter2-and-more"],
            ["ter2-and", "hunter2-and-more"],
            ["hunter2", "hunter2-and-more"],
            ["h", "hunter2-and-more"],
        ] {
            for values in [[short, long], [long, short]] {
                let said = secrets(&values).redact(&format!("no {long}, no {short}: {long}{short}"));
                assert!(
                    !said.contains("hunter") && !said.contains("more") && !said.contains("ter2"),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn secrets_that_overlap_are_hidden_whole() {
        let both = secrets(&["abcdefgh", "efghijkl"]);
        assert_eq!(both.redact("<abcdefghijkl>"), "<***>");
        assert_eq!(secrets(&["abababab"]).redact("<ababababab>"), "<***>");
        assert_eq!(secrets(&["abcdefgh"]).redact("abcdefghabcdefgh, abcdefgh"), "***, ***");
        assert_eq!(secrets(&["hunter2long", "short"]).redact("shorthunter2long"), "***");
        let (old, new) = (secrets(&["abcdefgh"]), secrets(&["abcdefgh-ijkl"]));
        assert_eq!(Secrets::redact_all([&old, &new], "<abcdefgh-ijkl>"), "<***>");
        assert_eq!(secrets(&["äöüäöü"]).redact("<äöüäöüäöü>é"), "<***>é");
    }

    #[test]
    fn what_came_in_is_taken_out_of_foreign_words() {
        let secrets = secrets(&["hunter2", "1"]);
        assert_eq!(secrets.redact("bad value hunter2 for 1 of 10"), "bad value *** for *** of 10");
        assert_eq!(secrets.redact("(hunter2): 'hunter2'; hunter2."), "(***): '***'; ***.");
    }

    #[test]
    fn what_only_looks_like_a_short_secret_stays() {
        let secrets = secrets(&["1", "flow", "a-long-secret"]);
        let said = "127.0.0.1:9092/1-a, 11: flows, orders.flow, dataflow, flow-1 and flow_2";
        assert_eq!(secrets.redact(said), said);
        assert_eq!(secrets.redact("xa-long-secrety"), "x***y");
    }
}
