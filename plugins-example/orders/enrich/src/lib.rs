//! A step: reads an order, works out its total, settles its currency, and hands on the order with both in it.
//!
//! What is wrong with the *order* is a `reject`: the record takes the flow's `business` error route, and trying again
//! would be useless. Nothing here waits or fails otherwise, so `retry` and `fail` are not used.

use std::sync::OnceLock;

use exports::loom::plugin::{setup, step};
use loom::plugin::types::{Change, Failure, Message, Patch};
use serde::{Deserialize, Serialize};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package example:enrich;
        world enrich {
            include loom:plugin/step-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

/// `config:` of the plugin in flow.yaml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The currency of an order that names none.
    currency: String,
}

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    #[serde(default)]
    currency: Option<String>,
    lines: Vec<Line>,
    #[serde(default)]
    total: f64,
    /// Whatever else the order says goes through as it is.
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    sku: String,
    quantity: u32,
    price: f64,
}

/// Set once by `configure`, which the host calls before the first record.
static CONFIG: OnceLock<Config> = OnceLock::new();

struct Enrich;
export!(Enrich);

impl setup::Guest for Enrich {
    fn configure(config: String) -> Result<(), String> {
        let mut config: Config = serde_json::from_str(&config).map_err(|e| format!("config: {e}"))?;
        config.currency = currency(&config.currency).ok_or_else(|| {
            format!("config: currency is {:?}; write three letters, such as EUR", config.currency)
        })?;
        CONFIG.set(config).map_err(|_| "configured twice".to_owned())
    }
}

impl step::Guest for Enrich {
    fn process(message: Message) -> Result<Patch, Failure> {
        let payload = message.payload.as_deref().unwrap_or_default();
        let default = CONFIG.get().map(|config| config.currency.as_str());
        let order = enrich(payload, default).map_err(Failure::Reject)?;
        Ok(Patch { payload: Change::Set(order), key: Change::Keep, headers: None })
    }
}

/// The order with its total and currency, or what is wrong with it.
fn enrich(payload: &[u8], default_currency: Option<&str>) -> Result<Vec<u8>, String> {
    if payload.is_empty() {
        return Err("the record is empty, an order was expected".to_owned());
    }
    let mut order: Order = serde_json::from_slice(payload).map_err(|e| format!("not an order: {e}"))?;
    if order.lines.is_empty() {
        return Err(format!("order {} has no lines", order.id));
    }
    order.currency = Some(match (&order.currency, default_currency) {
        (Some(text), _) => {
            currency(text).ok_or_else(|| format!("order {}: no currency is called {text:?}", order.id))?
        }
        (None, Some(default)) => default.to_owned(),
        (None, None) => return Err(format!("order {} names no currency", order.id)),
    });
    order.total = total(&order.lines);
    serde_json::to_vec(&order).map_err(|e| format!("order {}: {e}", order.id))
}

/// Added up in whole cents: sums of binary fractions drift.
fn total(lines: &[Line]) -> f64 {
    let cents: f64 = lines.iter().map(|line| (line.price * 100.0).round() * f64::from(line.quantity)).sum();
    cents / 100.0
}

/// Three letters, in upper case.
fn currency(text: &str) -> Option<String> {
    let text = text.trim();
    (text.len() == 3 && text.bytes().all(|b| b.is_ascii_alphabetic())).then(|| text.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::enrich;

    #[test]
    fn an_order_gets_its_total_and_currency_and_keeps_the_rest() {
        let order = br#"{"id":"o-1","customer":"c-1","currency":"usd","note":"gift",
            "lines":[{"sku":"a","quantity":3,"price":0.1},{"sku":"b","quantity":1,"price":19.99}]}"#;
        let enriched: serde_json::Value =
            serde_json::from_slice(&enrich(order, Some("EUR")).unwrap()).unwrap();
        assert_eq!(enriched["total"], 20.29);
        assert_eq!(enriched["currency"], "USD");
        assert_eq!(enriched["note"], "gift");
    }

    #[test]
    fn a_missing_currency_is_the_configured_one() {
        let order = br#"{"id":"o-1","customer":"c-1","lines":[{"sku":"a","quantity":1,"price":1}]}"#;
        let enriched: serde_json::Value =
            serde_json::from_slice(&enrich(order, Some("EUR")).unwrap()).unwrap();
        assert_eq!(enriched["currency"], "EUR");
    }

    #[test]
    fn what_is_no_order_is_refused_with_the_reason() {
        let no_lines = br#"{"id":"o-7","customer":"c-1","lines":[]}"#;
        let odd_currency =
            br#"{"id":"o-8","customer":"c-1","currency":"E1R","lines":[{"sku":"a","quantity":1,"price":1}]}"#;
        assert!(enrich(no_lines, Some("EUR")).unwrap_err().contains("o-7 has no lines"));
        assert!(enrich(odd_currency, Some("EUR")).unwrap_err().contains("E1R"));
        assert!(enrich(b"", Some("EUR")).unwrap_err().contains("empty"));
        assert!(enrich(b"{\"id\":", Some("EUR")).unwrap_err().contains("not an order"));
    }
}
