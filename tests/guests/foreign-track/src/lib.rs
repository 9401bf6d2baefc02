//! A step of `loom:plugin@0.9.0`, a track that the host does not support and must refuse by name.

use exports::loom::plugin::step::Guest;

wit_bindgen::generate!({ path: "wit", world: "foreign" });

struct Foreign;
export!(Foreign);

impl Guest for Foreign {
    fn process(message: String) -> Result<String, String> {
        Ok(message)
    }
}
