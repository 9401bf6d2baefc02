//! A step and an expander in both forms. Each sets the payload to its own name, so that a test sees which of them the host
//! used.

use exports::loom::plugin::{column_expand, column_step, expand, step};
use loom::plugin::columns::{Batch, ByteColumn, Changes, Fields, NullableColumn, Rows, Selection};
use loom::plugin::types::{Change, Failure, Message, Patch, Row};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:both;
        world both-forms {
            include loom:plugin/step-plugin@0.1.0;
            include loom:plugin/column-step-plugin@0.1.0;
            include loom:plugin/expand-plugin@0.1.0;
            include loom:plugin/column-expand-plugin@0.1.0;
        }
    ",
    generate_all,
});

struct Both;
export!(Both);

impl step::Guest for Both {
    fn process(_: Message) -> Result<Patch, Failure> {
        Ok(Patch { payload: Change::Set(b"plain".to_vec()), key: Change::Keep, headers: None })
    }
}

impl expand::Guest for Both {
    fn expand(_: Message) -> Result<Vec<Row>, Failure> {
        Ok(vec![Row { payload: Some(b"plain".to_vec()), key: None, headers: Vec::new() }])
    }
}

impl column_step::Guest for Both {
    fn reads() -> Selection {
        nothing()
    }

    fn process(batch: Batch) -> Result<Changes, Failure> {
        let payload = Some(own_name(batch.rows));
        Ok(Changes { payload, key: None, headers: None, failures: Vec::new() })
    }
}

impl column_expand::Guest for Both {
    fn reads() -> Selection {
        nothing()
    }

    fn expand(batch: Batch) -> Result<Rows, Failure> {
        let (origin, payload) = ((0..batch.rows).collect(), own_name(batch.rows));
        Ok(Rows { origin, payload, key: None, headers: None, failures: Vec::new() })
    }
}

fn nothing() -> Selection {
    Selection { fields: Fields::empty(), header_names: Vec::new() }
}

fn own_name(rows: u32) -> NullableColumn {
    let offsets = (0..=rows as usize).map(|row| (row * "column".len()) as i32).collect();
    let values = ByteColumn { data: b"column".repeat(rows as usize), offsets };
    NullableColumn { values, validity: Vec::new() }
}
