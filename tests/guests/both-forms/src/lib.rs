//! A step in both forms. Each sets the payload to its own name, so that a test sees which of them the host used.

use exports::loom::plugin::{column_step, step};
use loom::plugin::columns::{Batch, ByteColumn, Changes, Fields, NullableColumn, Selection};
use loom::plugin::types::{Change, Failure, Message, Patch};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:both;
        world both-forms {
            include loom:plugin/step-plugin@0.1.0;
            include loom:plugin/column-step-plugin@0.1.0;
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

impl column_step::Guest for Both {
    fn reads() -> Selection {
        Selection { fields: Fields::empty(), header_names: Vec::new() }
    }

    fn process(batch: Batch) -> Result<Changes, Failure> {
        let rows = batch.rows as usize;
        let values = ByteColumn {
            data: b"column".repeat(rows),
            offsets: (0..=rows).map(|row| (row * "column".len()) as i32).collect(),
        };
        let payload = NullableColumn { values, validity: Vec::new() };
        Ok(Changes { payload: Some(payload), key: None, headers: None, failures: Vec::new() })
    }
}
