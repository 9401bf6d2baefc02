//! Questions about topics while the flow runs, asked away from the worker, since they may block.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loom_flow::plan::OutputId;
use loom_kafka::{Broker, KafkaError, Kind, OutputInfo, OutputSettings, Waker};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

type Answer = (OutputId, Result<OutputInfo, KafkaError>);

/// Reads what outputs' topics take, again.
pub(crate) trait TopicFacts {
    /// Asks, once; never blocks.
    fn ask(&mut self, output: OutputId);

    /// Appends the answers that have come, one for each question. A new one wakes the worker.
    fn answers(&mut self, out: &mut Vec<Answer>);
}

/// Asks on a thread for each question: there are few.
pub(crate) struct Asking {
    broker: Arc<dyn Broker>,
    outputs: Arc<[OutputSettings]>,
    answers: Arc<Mutex<Vec<Answer>>>,
    waker: Waker,
}

impl Asking {
    pub(crate) fn new(broker: Arc<dyn Broker>, outputs: Arc<[OutputSettings]>, waker: Waker) -> Self {
        Asking { broker, outputs, answers: Arc::default(), waker }
    }
}

impl TopicFacts for Asking {
    fn ask(&mut self, output: OutputId) {
        let (broker, outputs) = (self.broker.clone(), self.outputs.clone());
        let (answers, waker) = (self.answers.clone(), self.waker.clone());
        let question = move || {
            let settings = std::slice::from_ref(&outputs[output.0]);
            let answer = broker.output_topics(settings, TIMEOUT).and_then(|mut infos| match infos.pop() {
                Some(info) => info,
                None => Err(unanswered("the broker gave no answer")),
            });
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((output, answer));
            waker();
        };
        if let Err(error) = std::thread::Builder::new().name("topic-facts".to_owned()).spawn(question) {
            let answer = (output, Err(unanswered(&format!("no thread could be started: {error}"))));
            self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        }
    }

    fn answers(&mut self, out: &mut Vec<Answer>) {
        out.append(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn unanswered(why: &str) -> KafkaError {
    KafkaError {
        kind: Kind::Transient,
        code: "_NOENT",
        message: format!("asking about an output topic: {why}"),
    }
}
