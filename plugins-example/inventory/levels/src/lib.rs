//! A batch expander: sums a batch's movements of stock by article. Each sum names the movements that it stands for; the host
//! commits none of them before the sum is written.

use std::collections::BTreeMap;

use exports::loom::plugin::batch_expand;
use loom::plugin::types::{Derived, Failure, Message, Row};
use serde::{Deserialize, Serialize};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package example:levels;
        world levels { include loom:plugin/batch-expand-plugin@0.1.0; }
    ",
    generate_all,
});

#[derive(Deserialize)]
struct Movement {
    sku: String,
    change: i64,
}

#[derive(Serialize)]
struct Change<'a> {
    sku: &'a str,
    change: i64,
    movements: usize,
}

/// What is known of an article after some of the batch.
#[derive(Default)]
struct Sum {
    change: i64,
    /// Places in the batch.
    origins: Vec<u32>,
}

struct Levels;
export!(Levels);

impl batch_expand::Guest for Levels {
    fn expand(messages: Vec<Message>) -> Result<Vec<Derived>, Failure> {
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for (place, message) in (0..).zip(&messages) {
            let payload = message.payload.as_deref().unwrap_or_default();
            let movement: Movement = serde_json::from_slice(payload).map_err(|error| {
                let Message { topic, partition, offset, .. } = message;
                Failure::Reject(format!("{topic}/{partition} offset {offset} is no movement: {error}"))
            })?;
            let sum = sums.entry(movement.sku).or_default();
            sum.change = sum
                .change
                .checked_add(movement.change)
                .ok_or_else(|| Failure::Reject("the changes of an article exceed 64 bits".to_owned()))?;
            sum.origins.push(place);
        }
        sums.into_iter().map(|(sku, sum)| derived(&sku, sum)).collect()
    }
}

fn derived(sku: &str, sum: Sum) -> Result<Derived, Failure> {
    let change = Change { sku, change: sum.change, movements: sum.origins.len() };
    let payload = serde_json::to_vec(&change).map_err(|error| Failure::Fail(error.to_string()))?;
    let row = Row { payload: Some(payload), key: None, headers: Vec::new() };
    Ok(Derived { row, origins: sum.origins })
}
