//! A plain step that changes nothing: what is left is the cost of crossing.

use exports::loom::plugin::step::Guest;
use loom::plugin::types::{Change, Failure, Message, Patch};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "package test:nop; world nop-step { include loom:plugin/step-plugin@0.1.0; }",
    generate_all,
});

struct Nop;
export!(Nop);

impl Guest for Nop {
    fn process(_: Message) -> Result<Patch, Failure> {
        Ok(Patch { payload: Change::Keep, key: Change::Keep, headers: None })
    }
}
