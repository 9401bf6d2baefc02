//! What is documented of a code: the text of `loom-host explain CODE` and of its page.
//!
//! An entry stands in the file of the check that raises the code; codes that reading raises have theirs under
//! `checks/read`, those that only a start raises under `checks/at_start`. Its two flows are fixtures too: the tests
//! compile them, and the page shows what `check` prints for the first.

use crate::issue::{Code, Domain, Severity};

/// The documentation of one code.
#[derive(Debug)]
pub struct Entry {
    /// What is wrong, in one line without a full stop.
    pub title: &'static str,
    /// What it is in most cases; the flow that fails shows it.
    pub severity: Severity,
    /// When it is raised, in Markdown.
    pub meaning: &'static str,
    /// What would happen without it, in Markdown.
    pub why: &'static str,
    /// A whole flow that raises it.
    pub fails: &'static str,
    /// The same flow, right.
    pub repaired: &'static str,
    /// Who raises it.
    pub raised: Raised,
}

/// Who raises a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The compiler: `check`, and `run` and `dev` before they start.
    ByCheck,
    /// Only a start: `check` cannot see it, so it finds nothing in either flow.
    AtStart,
    /// A start, and `check --broker`: it takes a broker to see it.
    ByBroker,
}

impl Entry {
    /// The code's page, in Markdown. `printed` is what `check` prints for the flow that fails.
    #[must_use]
    pub fn page(&self, code: Code, printed: &str) -> String {
        let Entry { title, fails, repaired, .. } = self;
        let lead = wrapped(&format!("{title}. {}", self.standing(code)), PAGE_WIDTH);
        let (meaning, why) = (wrapped(self.meaning, PAGE_WIDTH), wrapped(self.why, PAGE_WIDTH));
        let prints = match self.raised {
            Raised::ByCheck => format!("`loom-host check` prints:\n\n```\n{}\n```\n", printed.trim_end()),
            Raised::AtStart => {
                "`loom-host check` finds nothing wrong with it; the start is refused.\n".to_owned()
            }
            Raised::ByBroker => "`loom-host check` finds nothing wrong with it; `loom-host check --broker` and the start do.\n"
                .to_owned(),
        };
        format!(
            "# {code}\n\n{lead}\n{meaning}\n## Why it matters\n\n{why}\n## A flow that fails\n\n\
             ```yaml\n{fails}```\n\n{prints}\n## The flow repaired\n\n```yaml\n{repaired}```\n"
        )
    }

    /// The same for a terminal of this width, without what `check` prints.
    #[must_use]
    pub fn explained(&self, code: Code, width: usize) -> String {
        let lead = wrapped(&format!("{code}: {}. {}", self.title, self.standing(code)), width);
        let (meaning, why) = (wrapped(self.meaning, width), wrapped(self.why, width));
        let indented = |flow: &str| flow.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let (fails, repaired) = (indented(self.fails), indented(self.repaired));
        format!("{lead}\n{meaning}\n{why}\nA flow that fails:\n\n{fails}\nThe flow repaired:\n\n{repaired}")
    }

    /// Severity and exit status in a sentence.
    #[must_use]
    pub fn standing(&self, code: Code) -> &'static str {
        match (self.severity, self.raised, code.domain()) {
            (Severity::Warning, ..) => "A warning: the flow runs.",
            (_, Raised::AtStart, _) => "An error of the start: status 3.",
            (_, Raised::ByBroker, Domain::Runtime) => "An error: status 1 of `check --broker`, 3 of `run`.",
            (_, Raised::ByBroker, _) => "An error: status 1 of `check --broker`, 4 of `run`.",
            (_, _, Domain::Flow | Domain::Broker) => "An error: status 1.",
            (_, _, Domain::Runtime) => {
                "A runtime configuration error: status 1 of `check`, 3 of `run` and `dev`."
            }
        }
    }
}

/// Columns of a page's text.
const PAGE_WIDTH: usize = 120;

/// Paragraphs with line breaks at spaces, each paragraph with its line end and an empty line between two; items of a list
/// stand under one another.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (index, paragraph) in text.split("\n\n").enumerate() {
        let item = paragraph.starts_with("- ");
        if index > 0
            && !(item && text.split("\n\n").nth(index - 1).is_some_and(|last| last.starts_with("- ")))
        {
            out.push('\n');
        }
        let mut column = 0;
        for word in paragraph.split(' ') {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > width {
                out.push_str(if item { "\n  " } else { "\n" });
                column = if item { 2 } else { 0 };
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
        out.push('\n');
    }
    out
}

/// A whole flow around what an example is about: name, consumer and producer stand before it.
macro_rules! flow {
    ($body:literal) => {
        concat!(
            "name: orders\n",
            "kafka:\n",
            "  consumer:\n",
            "    brokers: [\"kafka:9092\"]\n",
            "    group_id: orders\n",
            "    topics: [orders.in]\n",
            "    delivery: at_least_once\n",
            "  producer: { brokers: [\"kafka:9092\"] }\n",
            $body
        )
    };
}

pub(crate) use flow;

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn paragraphs_and_lists_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three\n\nfour", 9), "one two\nthree\n\nfour\n");
        assert_eq!(wrapped("a:\n\n- one two\n\n- three", 7), "a:\n\n- one\n  two\n- three\n");
        assert_eq!(wrapped("longer-than-the-width x", 4), "longer-than-the-width\nx\n");
    }
}
