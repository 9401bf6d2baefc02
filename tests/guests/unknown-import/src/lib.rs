//! A step that imports `acme:things/oracle`, which is neither WASI nor ours: an error when the flow is assembled.

use acme::things::oracle::ask;
use exports::loom::plugin::step::Guest;
use loom::plugin::types::{Change, Failure, Message, Patch};

wit_bindgen::generate!({
    path: ["../../../wit", "wit"],
    inline: "
        package test:unknown;
        world unknown-import {
            include loom:plugin/step-plugin@0.1.0;
            import acme:things/oracle@1.0.0;
        }
    ",
    generate_all,
});

struct Unknown;
export!(Unknown);

impl Guest for Unknown {
    fn process(message: Message) -> Result<Patch, Failure> {
        let answer = ask(&message.topic);
        Ok(Patch { payload: Change::Set(answer.into_bytes()), key: Change::Keep, headers: None })
    }
}
