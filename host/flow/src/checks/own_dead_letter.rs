//! An output that names itself as its `dlq`: it refused the record already, and would again.

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{IntoTopic, Kind, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, _) in nodes(&checks.processes) {
        let Kind::IntoTopic(IntoTopic { output: Some(output), dlq: Some(dlq), .. }) = &node.kind else {
            continue;
        };
        if output.value == dlq.value {
            let message = "the `dlq` is the output itself, which refused the record already";
            let problem = Problem::error(Code::ValueInvalid, message).hint("name another output");
            checks.report.push(&dlq.place, problem);
        }
    }
}
