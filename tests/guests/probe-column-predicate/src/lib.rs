//! A predicate in the column form that obeys, row by row, the commands of the `probe` crate.

use exports::loom::plugin::{column_predicate, setup};
use loom::plugin::columns::{Batch, ByteColumn, Fields, NullableColumn, Selection};
use loom::plugin::types::Failure;
use probe::columns::{Bytes, Nullable};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-column-predicate {
            include loom:plugin/column-predicate-plugin@0.1.0;
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

impl column_predicate::Guest for Probe {
    fn reads() -> Selection {
        let config = probe::config();
        let fields = match &config.reads {
            None => Fields::all(),
            Some(names) => names.iter().map(|name| field(name)).collect(),
        };
        Selection { fields, header_names: config.header_names }
    }

    fn test(batch: Batch) -> Result<column_predicate::Verdicts, Failure> {
        let config = probe::config();
        if let Some(why) = config.fail_call {
            return Err(Failure::Fail(why));
        }
        let batch = borrow(&batch);
        let mut verdicts =
            column_predicate::Verdicts { yes: Vec::with_capacity(batch.rows), failures: Vec::new() };
        for row in 0..batch.rows {
            let answer = probe::test(&batch.record(row), &HOST);
            verdicts.yes.push(u8::from(matches!(answer, Ok(true))));
            if let Err(why) = answer {
                verdicts.failures.push((row as u32, failure(why)));
            }
        }
        match config.bad_columns.as_deref() {
            Some("failure-row") => {
                verdicts.failures.push((batch.rows as u32, Failure::Reject("no such row".to_owned())));
            }
            Some(_) => drop(verdicts.yes.pop()),
            None => {}
        }
        Ok(verdicts)
    }
}

fn field(name: &str) -> Fields {
    match name {
        "payload" => Fields::PAYLOAD,
        "key" => Fields::KEY,
        "headers" => Fields::HEADERS,
        "source" => Fields::SOURCE,
        other => panic!("reads: {other:?} is not known"),
    }
}

fn borrow(batch: &Batch) -> probe::columns::Batch<'_> {
    probe::columns::Batch {
        rows: batch.rows as usize,
        payload: batch.payload.as_ref().map(nullable_of),
        key: batch.key.as_ref().map(nullable_of),
        headers: batch.headers.as_ref().map(|column| probe::columns::HeaderColumn {
            offsets: &column.offsets,
            names: bytes_of(&column.names),
            values: nullable_of(&column.values),
        }),
        source: batch.source.as_ref().map(|column| probe::columns::Source {
            topics: &column.topics,
            topic: &column.topic,
            partition: &column.partition,
            offset: &column.offset,
            timestamp_ms: &column.timestamp_ms,
            timestamp_validity: &column.timestamp_validity,
            row: column.row.as_ref().map(bytes_of),
        }),
    }
}

fn bytes_of(column: &ByteColumn) -> Bytes<'_> {
    Bytes { data: &column.data, offsets: &column.offsets }
}

fn nullable_of(column: &NullableColumn) -> Nullable<'_> {
    Nullable { values: bytes_of(&column.values), validity: &column.validity }
}

fn failure(failure: probe::Failure) -> Failure {
    match failure {
        probe::Failure::Reject(why) => Failure::Reject(why),
        probe::Failure::Retry(why) => Failure::Retry(why),
        probe::Failure::Fail(why) => Failure::Fail(why),
    }
}
