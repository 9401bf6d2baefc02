//! A column step that decodes, changes and encodes each order: the work of `transform`, which the bench also runs
//! natively, through the column interface.

mod transform;

use exports::loom::plugin::column_step::Guest;
use loom::plugin::columns::{Batch, ByteColumn, Changes, Fields, NullableColumn, Selection};
use loom::plugin::types::Failure;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "package test:json; world json-column-step { include loom:plugin/column-step-plugin@0.1.0; }",
    generate_all,
});

struct Json;
export!(Json);

impl Guest for Json {
    fn reads() -> Selection {
        Selection { fields: Fields::PAYLOAD, header_names: Vec::new() }
    }

    fn process(batch: Batch) -> Result<Changes, Failure> {
        let Some(payload) = batch.payload else {
            return Err(Failure::Fail("the payload was asked for and did not come".to_owned()));
        };
        let ByteColumn { data, offsets } = payload.values;
        let mut out = ByteColumn {
            data: Vec::with_capacity(data.len() * 5 / 4),
            offsets: Vec::with_capacity(offsets.len()),
        };
        out.offsets.push(0);
        let mut failures = Vec::new();
        for row in 0..batch.rows as usize {
            let order = &data[offsets[row] as usize..offsets[row + 1] as usize];
            let length = out.data.len();
            if let Err(error) = transform::transform(order, &mut out.data) {
                out.data.truncate(length);
                failures.push((row as u32, Failure::Reject(format!("not an order: {error}"))));
            }
            out.offsets.push(out.data.len() as i32);
        }
        let payload = NullableColumn { values: out, validity: Vec::new() };
        Ok(Changes { payload: Some(payload), key: None, headers: None, failures })
    }
}
