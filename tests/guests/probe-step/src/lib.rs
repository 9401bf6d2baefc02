//! A plain step that obeys the commands of the `probe` crate.

use exports::loom::plugin::{setup, step};
use loom::plugin::types::{Change, Failure, Header, Message, Patch};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-step {
            include loom:plugin/step-plugin@0.1.0;
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

impl step::Guest for Probe {
    fn process(message: Message) -> Result<Patch, Failure> {
        let patch = probe::process(&record(&message), &HOST).map_err(failure)?;
        let header = |(name, value)| Header { name, value };
        Ok(Patch {
            payload: change(patch.payload),
            key: change(patch.key),
            headers: patch.headers.map(|headers| headers.into_iter().map(header).collect()),
        })
    }
}

fn record(message: &Message) -> probe::Record<'_> {
    probe::Record {
        payload: message.payload.as_deref(),
        key: message.key.as_deref(),
        headers: message.headers.iter().map(|h| (h.name.as_str(), h.value.as_deref())).collect(),
        topic: &message.topic,
        partition: message.partition,
        offset: message.offset,
        timestamp_ms: message.timestamp_ms,
        row: &message.row,
    }
}

fn change(change: probe::Change) -> Change {
    match change {
        probe::Change::Keep => Change::Keep,
        probe::Change::Clear => Change::Clear,
        probe::Change::Set(bytes) => Change::Set(bytes),
    }
}

fn failure(failure: probe::Failure) -> Failure {
    match failure {
        probe::Failure::Reject(why) => Failure::Reject(why),
        probe::Failure::Retry(why) => Failure::Retry(why),
        probe::Failure::Fail(why) => Failure::Fail(why),
    }
}
