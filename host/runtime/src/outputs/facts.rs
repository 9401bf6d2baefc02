//! Questions about output topics while the flow runs, and their answers: a worker never waits for a broker.

use std::sync::Arc;

use loom_flow::plan::OutputId;
use loom_kafka::{KafkaError, OutputInfo};

use crate::keeper::Desk;

/// Reads what outputs' topics take, again.
pub(crate) trait TopicFacts {
    /// Asks, once; never blocks.
    fn ask(&mut self, output: OutputId);

    /// Appends the answers that have come, one for each question. A new one wakes the worker.
    fn answers(&mut self, out: &mut Vec<(OutputId, Result<OutputInfo, KafkaError>)>);
}

/// The keeper asks the brokers.
impl TopicFacts for Arc<Desk> {
    fn ask(&mut self, output: OutputId) {
        self.ask_about(output);
    }

    fn answers(&mut self, out: &mut Vec<(OutputId, Result<OutputInfo, KafkaError>)>) {
        out.extend(self.told_about());
    }
}
