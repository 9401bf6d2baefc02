//! An expander in the column form that obeys, row by row, the commands of the `probe` crate.

use exports::loom::plugin::{column_expand, setup};
use loom::plugin::columns::{self, Batch, ByteColumn, Fields, HeaderColumn, NullableColumn, Selection};
use loom::plugin::types::Failure;
use probe::columns::{Bytes, HeaderBuilder, Nullable, NullableBuilder};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-column-expand {
            include loom:plugin/column-expand-plugin@0.1.0;
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

impl column_expand::Guest for Probe {
    fn reads() -> Selection {
        let config = probe::config();
        let fields = match &config.reads {
            None => Fields::all(),
            Some(names) => names.iter().map(|name| field(name)).collect(),
        };
        Selection { fields, header_names: config.header_names }
    }

    fn expand(batch: Batch) -> Result<columns::Rows, Failure> {
        let config = probe::config();
        if let Some(why) = config.fail_call {
            return Err(Failure::Fail(why));
        }
        let batch = borrow(&batch);
        let answers = (0..batch.rows).map(|row| probe::rows::expand(&batch.record(row), &HOST)).collect();
        let rows = probe::columns::rows(answers, &config);
        Ok(columns::Rows {
            origin: rows.origin,
            payload: nullable(rows.payload),
            key: rows.key.map(nullable),
            headers: rows.headers.map(headers),
            failures: rows.failures.into_iter().map(|(row, why)| (row, failure(why))).collect(),
        })
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

fn nullable(builder: NullableBuilder) -> NullableColumn {
    NullableColumn {
        values: ByteColumn { data: builder.data, offsets: builder.offsets },
        validity: builder.validity,
    }
}

fn headers(builder: HeaderBuilder) -> HeaderColumn {
    HeaderColumn {
        offsets: builder.offsets,
        names: ByteColumn { data: builder.names, offsets: builder.name_offsets },
        values: nullable(builder.values),
    }
}

fn failure(failure: probe::Failure) -> Failure {
    match failure {
        probe::Failure::Reject(why) => Failure::Reject(why),
        probe::Failure::Retry(why) => Failure::Retry(why),
        probe::Failure::Fail(why) => Failure::Fail(why),
    }
}
