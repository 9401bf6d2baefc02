//! What expressions promise, from their text to their value.

mod cases;
mod compiling;
mod limits;
mod numbers;
mod payload;
mod semantics;

use std::collections::BTreeMap;
use std::sync::Arc;

use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

use super::{EvalError, Expr, Mapped, PayloadCache, Scope};

/// A batch of records with these payloads, a key, two headers, at offsets from 40.
fn batch(payloads: &[Option<&[u8]>]) -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("orders.in")]));
    for (row, payload) in payloads.iter().enumerate() {
        builder.header(b"trace", Some(b"first"));
        builder.header(b"trace", Some(b"last"));
        builder.header(b"none", None);
        builder
            .push(RecordRef {
                topic: 0,
                partition: 3,
                offset: RecordOffset(40 + row as i64),
                timestamp_ms: Some(1_700_000_000_123),
                key: Some(b"k-1"),
                payload: *payload,
                row: "",
            })
            .unwrap();
    }
    builder.finish()
}

fn compile(text: &str) -> Expr {
    Expr::compile(text).unwrap_or_else(|issue| panic!("`{text}`: {issue:?}"))
}

/// Runs `work` over one record with that payload.
fn with<T>(payload: Option<&[u8]>, work: impl FnOnce(&mut Scope<'_>) -> T) -> T {
    let batch = batch(&[payload]);
    let env = BTreeMap::from([("REGION".to_owned(), "eu".to_owned())]);
    let mut cache = PayloadCache::new();
    work(&mut Scope::new(&batch, 0, &env, &mut cache))
}

/// The value of an expression as JSON, or the problem without the words that name the expression.
fn value(text: &str, payload: &str) -> String {
    let expr = compile(text);
    with(Some(payload.as_bytes()), |scope| {
        let mut out = Vec::new();
        match expr.json(scope, &mut out) {
            Ok(Mapped::Json) => String::from_utf8(out).expect("JSON is UTF-8"),
            Ok(Mapped::Tombstone) => "tombstone".to_owned(),
            Err(error) => problem(text, &error),
        }
    })
}

fn problem(text: &str, error: &EvalError) -> String {
    let (kind, message) = match error {
        EvalError::Wire(message) => ("wire", message),
        EvalError::Task(message) => ("task", message),
    };
    // The cause comes first, the expression behind it.
    let (cause, excerpt) = message.rsplit_once(" (in `").unwrap_or_else(|| panic!("`{message}` names none"));
    let shown = excerpt.strip_suffix("`)").unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = match shown.strip_suffix('…') {
        Some(front) => line.starts_with(front) && front.chars().count() == 60,
        None => shown == line,
    };
    assert!(named, "`{message}` does not name `{text}`");
    format!("{kind}: {cause}")
}

/// Checks rows of (expression, payload, value or problem).
fn table(rows: &[(&str, &str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(text, payload, expected)| {
            let found = value(text, payload);
            (found != *expected)
                .then(|| format!("`{text}` over {payload}\n  gave     {found}\n  expected {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
