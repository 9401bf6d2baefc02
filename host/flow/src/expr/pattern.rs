//! Regular expressions: linear in the text, bounded in memory, compiled once.
//!
//! A literal pattern is compiled with its expression. One that comes from the record is compiled when it is first seen
//! and kept by its thread, up to a bound; a flow that sends ever new patterns pays for each.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take.
const MAX_SIZE: usize = 1 << 20;
/// Patterns from records that a thread keeps.
const MAX_KEPT: usize = 64;

thread_local! {
    static KEPT: RefCell<HashMap<Box<str>, Result<Regex, String>>> = RefCell::new(HashMap::new());
}

/// Compiles a pattern; the error says what is wrong with it.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().map_err(|error| match error
    {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        // The library draws the pattern over several lines; its last line says what is wrong.
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("the pattern is not valid: {}", last.trim_start_matches("error: "))
        }
    })
}

/// Whether a pattern from a record is found in a text. Gives whether it had to be compiled, too.
pub(super) fn matches(text: &str, pattern: &str) -> (Result<bool, String>, bool) {
    KEPT.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(pattern) {
            return (known.as_ref().map(|regex| regex.is_match(text)).map_err(String::clone), false);
        }
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let compiled = compile(pattern);
        let found = compiled.as_ref().map(|regex| regex.is_match(text)).map_err(String::clone);
        kept.insert(pattern.into(), compiled);
        (found, true)
    })
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEPT, compile, matches};

    #[test]
    fn a_pattern_from_a_record_is_compiled_once() {
        assert_eq!(matches("order-17", "^order-[0-9]+$"), (Ok(true), true));
        assert_eq!(matches("order-x", "^order-[0-9]+$"), (Ok(false), false));
        for number in 0..MAX_KEPT {
            assert_eq!(matches("a", &format!("a{number}")), (Ok(false), true));
        }
        assert_eq!(matches("order-17", "^order-[0-9]+$"), (Ok(true), true), "the bound forgets");
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong_in_one_line() {
        assert_eq!(compile("a(").unwrap_err(), "the pattern is not valid: unclosed group");
        assert_eq!(compile("(a{1000}){1000}").unwrap_err(), "the pattern is too large");
        assert_eq!(matches("a", "a(").0, Err("the pattern is not valid: unclosed group".to_owned()));
    }
}
