//! A plain predicate that obeys the commands of the `probe` crate.

use exports::loom::plugin::{predicate, setup};
use loom::plugin::types::{Failure, Message};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-predicate {
            include loom:plugin/predicate-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

struct Probe;
export!(Probe);

const HOST: probe::Host = probe::Host { context, log };

fn context() -> probe::Context {
    use loom::plugin::context::{flow, node, plugin, worker};
    probe::Context { flow: flow(), node: node(), plugin: plugin(), worker: worker() }
}

fn log(line: &str) {
    loom::plugin::log::log(loom::plugin::log::Level::Info, line);
}

impl setup::Guest for Probe {
    fn configure(config: String) -> Result<(), String> {
        probe::configure(&config, &HOST).map(|_| ())
    }
}

impl predicate::Guest for Probe {
    fn test(message: Message) -> Result<bool, Failure> {
        let record = probe::Record {
            payload: message.payload.as_deref(),
            key: message.key.as_deref(),
            headers: message.headers.iter().map(|h| (h.name.as_str(), h.value.as_deref())).collect(),
            topic: &message.topic,
            partition: message.partition,
            offset: message.offset,
            timestamp_ms: message.timestamp_ms,
            row: &message.row,
        };
        probe::test(&record, &HOST).map_err(|failure| match failure {
            probe::Failure::Reject(why) => Failure::Reject(why),
            probe::Failure::Retry(why) => Failure::Retry(why),
            probe::Failure::Fail(why) => Failure::Fail(why),
        })
    }
}
