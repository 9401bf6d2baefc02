//! One CEL predicate on a payload of about 200 bytes, beside what a parse of it with serde_json takes. Budget: 1.3 times the
//! parse. An element is a record; as in a worker the payloads of a batch are different texts, and what was decoded is forgotten
//! after it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use loom_flow::expr::{Expr, PayloadCache, Scope};
use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

const ROWS: u32 = 512;

/// An order of about 200 bytes.
fn order(number: u32) -> String {
    let (customer, cents) = (number % 5_000, 100 + number % 99_900);
    format!(
        r#"{{"id":"o-{number:09}","customer":"c-{customer:05}","currency":"EUR","total":{}.{:02},"lines":[{{"sku":"A-1","quantity":2,"price":19.99}},{{"sku":"B-2","quantity":1,"price":3.50}}],"note":"left at the door","paid":true}}"#,
        cents / 100,
        cents % 100,
    )
}

fn orders() -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("orders.in")]));
    for number in 0..ROWS {
        let payload = order(number);
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(number.into()),
                timestamp_ms: Some(1_700_000_000_000),
                key: None,
                payload: Some(payload.as_bytes()),
                row: "",
            })
            .unwrap();
    }
    builder.finish()
}

fn expression(criterion: &mut Criterion) {
    let batch = orders();
    let env = BTreeMap::new();
    let mut group = criterion.benchmark_group("expression");
    group.throughput(Throughput::Elements(ROWS.into()));
    group.bench_function("serde_json", |bencher| {
        bencher.iter(|| {
            for row in 0..ROWS {
                let payload = batch.payload(row).unwrap_or_default();
                let value: serde_json::Value = serde_json::from_slice(payload).expect("an order");
                black_box(value);
            }
        });
    });
    for (name, text) in [
        ("one field", "payload.total > 500.0"),
        ("three fields", "payload.currency == 'EUR' && payload.paid && payload.total > 500.0"),
        ("a list", "payload.lines.exists(line, line.quantity > 1)"),
        ("no payload", "msg.offset % 2 == 0"),
    ] {
        let expr = Expr::compile(text).expect("it compiles");
        let mut cache = PayloadCache::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for row in 0..ROWS {
                    let held = expr.test(&mut Scope::new(&batch, row, &env, &mut cache));
                    black_box(held.expect("a condition"));
                }
                cache.clear();
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    expression(&mut criterion);
    criterion.final_summary();
}
