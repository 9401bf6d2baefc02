//! A column step that reads the payloads and changes nothing: what is left is the cost of crossing.

use exports::loom::plugin::column_step::Guest;
use loom::plugin::columns::{Batch, Changes, Fields, Selection};
use loom::plugin::types::Failure;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "package test:nop; world nop-column-step { include loom:plugin/column-step-plugin@0.1.0; }",
    generate_all,
});

struct Nop;
export!(Nop);

impl Guest for Nop {
    fn reads() -> Selection {
        Selection { fields: Fields::PAYLOAD, header_names: Vec::new() }
    }

    fn process(_: Batch) -> Result<Changes, Failure> {
        Ok(Changes { payload: None, key: None, headers: None, failures: Vec::new() })
    }
}
