//! A typed expander: an invoice becomes its head, its lines and its discounts, each a row of a type of its own.

use exports::loom::plugin::typed_expand;
use loom::plugin::types::{Failure, Message, Row, TypedRow};
use serde::{Deserialize, Serialize};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package example:unbundle;
        world unbundle { include loom:plugin/typed-expand-plugin@0.1.0; }
    ",
    generate_all,
});

const HEAD: &str = "head";
const LINE: &str = "line";
const DISCOUNT: &str = "discount";

#[derive(Deserialize)]
struct Invoice {
    id: String,
    customer: String,
    lines: Vec<Line>,
    #[serde(default)]
    discounts: Vec<Discount>,
}

#[derive(Deserialize, Serialize)]
struct Line {
    sku: String,
    cents: i64,
}

#[derive(Deserialize, Serialize)]
struct Discount {
    code: String,
    cents: i64,
}

/// A row: the invoice's name, and what the row is about.
#[derive(Serialize)]
struct Of<'a, T> {
    invoice: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(flatten)]
    what: T,
}

#[derive(Serialize)]
struct Head<'a> {
    customer: &'a str,
    cents: i64,
}

struct Unbundle;
export!(Unbundle);

impl typed_expand::Guest for Unbundle {
    fn types() -> Vec<String> {
        [HEAD, LINE, DISCOUNT].map(str::to_owned).to_vec()
    }

    fn expand(message: Message) -> Result<Vec<TypedRow>, Failure> {
        let payload = message.payload.as_deref().unwrap_or_default();
        let invoice: Invoice =
            serde_json::from_slice(payload).map_err(|e| Failure::Reject(format!("not an invoice: {e}")))?;
        if invoice.lines.is_empty() {
            return Err(Failure::Reject(format!("the invoice {} has no lines", invoice.id)));
        }
        rows(&invoice).map_err(|error| Failure::Fail(error.to_string()))
    }
}

fn rows(invoice: &Invoice) -> serde_json::Result<Vec<TypedRow>> {
    let of = &*invoice.id;
    let gross: i64 = invoice.lines.iter().map(|line| line.cents).sum();
    let off: i64 = invoice.discounts.iter().map(|discount| discount.cents).sum();
    let head = Head { customer: &invoice.customer, cents: gross - off };
    let mut rows = vec![row(HEAD, &Of { invoice: of, line: None, what: head })?];
    for (number, what) in invoice.lines.iter().enumerate() {
        rows.push(row(LINE, &Of { invoice: of, line: Some(number), what })?);
    }
    for what in &invoice.discounts {
        rows.push(row(DISCOUNT, &Of { invoice: of, line: None, what })?);
    }
    Ok(rows)
}

fn row(r#type: &str, value: &impl Serialize) -> serde_json::Result<TypedRow> {
    let payload = Some(serde_json::to_vec(value)?);
    Ok(TypedRow { type_: r#type.to_owned(), row: Row { payload, key: None, headers: Vec::new() } })
}
