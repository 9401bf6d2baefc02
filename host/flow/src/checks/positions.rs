//! `TERMINAL_NOT_LAST`, `FORK_NOT_LAST`, `BROADCAST_NOT_LAST`: nothing may follow a node where records end.

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::Kind;

pub(super) fn check(checks: &mut Checks<'_>) {
    for seated in &checks.processes {
        let Some((_, not_last)) = seated.process.nodes.split_last() else { continue };
        let followed = not_last.iter().zip(&seated.process.nodes[1..]);
        for (node, next) in followed.filter(|(node, _)| node.kind.is_terminal()) {
            let (code, name, hint) = match node.kind {
                Kind::Fork(_) => (Code::ForkNotLast, "fork", "move what follows into the branches"),
                Kind::Broadcast(_) => {
                    (Code::BroadcastNotLast, "broadcast", "move what follows into the branches")
                }
                _ => (
                    Code::TerminalNotLast,
                    "terminal",
                    "to write and go on, use `broadcast` with a branch for each",
                ),
            };
            let message = format!("records end in this {name}, and another node follows it");
            let problem = Problem::error(code, message)
                .related(next.place.span, "this node gets no records")
                .hint(hint);
            checks.report.push(&node.place, problem);
        }
    }
}
