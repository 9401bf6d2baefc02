//! `MISSING_TERMINAL_OUTPUT`, `FORK_BRANCH_NO_TERMINAL`, `UNTERMINATED_BRANCH`: every path ends in a terminal.
//!
//! A path of the flow itself and a branch of a `fork` must say where its records end. A branch of a `broadcast` and an
//! error route may leave it open: their records drain, which is worth a warning.

use super::Checks;
use crate::issue::Code;
use crate::report::{Place, Problem};
use crate::spec::{Kind, ProcessSpec, Seat};

const HINT: &str = "end it with `into_topic`, `into_sink` or `drain`";

pub(super) fn check(checks: &mut Checks<'_>) {
    for seated in checks.processes.iter().filter(|seated| !ends(seated.process)) {
        let place = last_place(seated.process);
        let path = &seated.process.place.path;
        let problem = match seated.seat {
            Seat::Top => Problem::error(
                Code::MissingTerminalOutput,
                "the process ends without a terminal: its results go nowhere",
            ),
            Seat::ForkBranch => {
                let message = format!("the branch `{path}` ends without a terminal");
                Problem::error(Code::ForkBranchNoTerminal, message)
            }
            Seat::BroadcastBranch | Seat::ExpandRoute | Seat::ErrorRoute => {
                let message = format!("`{path}` ends without a terminal, so its records drain");
                Problem::warning(Code::UnterminatedBranch, message)
            }
            // Records come out of it and go on in the process around.
            Seat::RouterBranch => continue,
        };
        let at = Place { span: place.span, path: path.clone() };
        checks.report.push(&at, problem.hint(HINT));
    }
}

/// Whether records end in it. A node that was not understood may have been a terminal.
fn ends(process: &ProcessSpec) -> bool {
    process.nodes.iter().any(|node| node.kind.is_terminal() || matches!(node.kind, Kind::Unknown))
}

fn last_place(process: &ProcessSpec) -> &Place {
    process.nodes.last().map_or(&process.place, |node| &node.place)
}
