//! Every role that has a plain form only, and the plain expander and step, each obeying the commands of the `probe` crate.

use exports::loom::plugin::{
    batch_expand, batch_step, expand, partitioner, selector, setup, step, typed_expand,
};
use loom::plugin::types::{Change, Derived, Failure, Header, Message, Patch, Row, TypedRow};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-roles {
            include loom:plugin/step-plugin@0.1.0;
            include loom:plugin/expand-plugin@0.1.0;
            include loom:plugin/batch-step-plugin@0.1.0;
            include loom:plugin/batch-expand-plugin@0.1.0;
            include loom:plugin/typed-expand-plugin@0.1.0;
            include loom:plugin/selector-plugin@0.1.0;
            include loom:plugin/partitioner-plugin@0.1.0;
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
        probe::process(&record(&message), &HOST).map(patch).map_err(failure)
    }
}

impl batch_step::Guest for Probe {
    fn process(messages: Vec<Message>) -> Result<Vec<Result<Patch, Failure>>, Failure> {
        let config = probe::config();
        if let Some(why) = config.fail_call {
            return Err(Failure::Fail(why));
        }
        let answer = |message| probe::process(&record(message), &HOST).map(patch).map_err(failure);
        let mut answers: Vec<_> = messages.iter().map(answer).collect();
        answers.resize_with(answers.len().saturating_add_signed(config.answers_off as isize), || {
            Ok(patch(probe::Patch::default()))
        });
        Ok(answers)
    }
}

impl expand::Guest for Probe {
    fn expand(message: Message) -> Result<Vec<Row>, Failure> {
        let rows = probe::rows::expand(&record(&message), &HOST).map_err(failure)?;
        Ok(rows.into_iter().map(row).collect())
    }
}

impl typed_expand::Guest for Probe {
    fn types() -> Vec<String> {
        probe::rows::types()
    }

    fn expand(message: Message) -> Result<Vec<TypedRow>, Failure> {
        let rows = probe::rows::expand(&record(&message), &HOST).map_err(failure)?;
        Ok(rows.into_iter().map(|made| TypedRow { type_: made.r#type.clone(), row: row(made) }).collect())
    }
}

impl batch_expand::Guest for Probe {
    fn expand(messages: Vec<Message>) -> Result<Vec<Derived>, Failure> {
        let records: Vec<_> = messages.iter().map(record).collect();
        let derived = probe::rows::expand_batch(&records, &HOST).map_err(failure)?;
        Ok(derived.into_iter().map(|made| Derived { row: row(made.row), origins: made.origins }).collect())
    }
}

impl selector::Guest for Probe {
    fn select(message: Message) -> Result<Option<String>, Failure> {
        probe::rows::choose(&record(&message), &HOST).map_err(failure)
    }
}

impl partitioner::Guest for Probe {
    fn key(message: Message) -> Result<Option<Vec<u8>>, Failure> {
        let key = probe::rows::choose(&record(&message), &HOST).map_err(failure)?;
        Ok(key.map(String::into_bytes))
    }
}

fn patch(patch: probe::Patch) -> Patch {
    Patch { payload: change(patch.payload), key: change(patch.key), headers: patch.headers.map(headers) }
}

fn row(row: probe::rows::Row) -> Row {
    Row { payload: row.payload, key: row.key, headers: headers(row.headers) }
}

fn headers(headers: probe::Headers) -> Vec<Header> {
    headers.into_iter().map(|(name, value)| Header { name, value }).collect()
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
