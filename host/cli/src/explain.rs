//! `explain`: what a code means, from the documentation beside the check that raises it.

use loom_flow::{Code, Raised};
use loom_types::printable;

use crate::args::ExplainArgs;
use crate::status::Status;
use crate::terminal;

/// Prints what the codes mean, or the list of all. A code that there is not is answered with the nearest, status 2.
pub fn explain(args: &ExplainArgs) -> Status {
    if args.list {
        return print(&list());
    }
    let mut codes = Vec::new();
    let mut unknown = String::new();
    for text in &args.codes {
        match Code::parse(text) {
            Ok(code) => codes.push(code),
            Err(near) => {
                let near = near.map_or_else(
                    || "`loom-host explain --list` shows all".to_owned(),
                    |near| format!("did you mean {near}?"),
                );
                unknown.push_str(&format!("error: there is no code \"{}\"; {near}\n", printable(text)));
            }
        }
    }
    if !unknown.is_empty() {
        terminal::print_error(&unknown);
        return Status::Usage;
    }
    let width = terminal::width();
    let texts: Vec<String> = codes.into_iter().map(|code| code.entry().explained(code, width)).collect();
    print(&texts.join("\n"))
}

/// A line for each code: code, severity, title.
fn list() -> String {
    let longest = Code::ALL.iter().map(|code| code.as_str().len()).max().unwrap_or_default();
    let line = |code: &Code| {
        let entry = code.entry();
        let severity = match entry.raised {
            Raised::ByCheck => entry.severity.name(),
            Raised::AtStart => "at start",
            Raised::ByBroker => "at broker",
        };
        format!("{:longest$}  {severity:9}  {}\n", code.as_str(), entry.title)
    };
    Code::ALL.iter().map(line).collect()
}

fn print(text: &str) -> Status {
    match terminal::print(text) {
        Ok(()) => Status::Done,
        Err(error) => {
            terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
            Status::Failed
        }
    }
}
