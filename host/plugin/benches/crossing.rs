//! Crossing into a Rust component and back, 512 rows a batch, through steps that change nothing: the column form and
//! the plain one, 100 B and 1 kB a record, without headers and with four.
//!
//! Times are for a batch; the elements a second are records. The guests are built by `cargo xtask guests`.

use std::path::Path;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use loom_plugin::{CacheDir, Grants, HostOptions, Limits, NodeContext, PluginHost, PluginSpec, StepNode};
use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

const ROWS: usize = 512;

fn batch(size: usize, headers: usize) -> Batch {
    let payload = vec![b'x'; size];
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("orders.in")]));
    for offset in 0..ROWS {
        for _ in 0..headers {
            builder.header(b"traceparent", Some(b"00-4bf92f3577b34da6a3ce929d0e0e4736"));
        }
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(offset as i64),
                timestamp_ms: Some(1_700_000_000_000),
                key: Some(b"customer-1"),
                payload: Some(&payload),
                row: "",
            })
            .unwrap();
    }
    builder.finish()
}

fn step(host: &PluginHost, name: &str) -> StepNode {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is not built: run `cargo xtask guests`", path.display());
    let spec = PluginSpec {
        name: name.to_owned(),
        path,
        digest: None,
        config: serde_json::Value::Null,
        limits: Limits::default(),
        grants: Grants::default(),
    };
    let node = NodeContext {
        flow: "bench".into(),
        node: "process[0]".into(),
        plugin: name.into(),
        worker: 0,
        timeout: None,
    };
    StepNode::new(&host.load(&spec).expect("the guest loads"), node).expect("the guest starts")
}

fn crossing(criterion: &mut Criterion) {
    let host = PluginHost::new(HostOptions { cache_dir: CacheDir::Off }).expect("the engine starts");
    let mut group = criterion.benchmark_group("crossing");
    group.throughput(Throughput::Elements(ROWS as u64));
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    // Every second row, as behind a filter: gathered rather than passed as they lie.
    let scattered: Vec<u32> = (0..ROWS as u32).map(|row| (row * 2) % ROWS as u32).collect();
    for name in ["nop-column-step", "nop-step"] {
        let mut step = step(&host, name);
        for (size, headers) in [(100, 0), (1000, 0), (1000, 4)] {
            let batch = batch(size, headers);
            let id = BenchmarkId::new(name, format!("{size} B, {headers} headers"));
            group.bench_function(id, |bencher| bencher.iter(|| step.call(&batch, &rows)));
        }
        let batch = batch(100, 0);
        let id = BenchmarkId::new(name, "100 B, scattered rows");
        group.bench_function(id, |bencher| bencher.iter(|| step.call(&batch, &scattered)));
    }
    group.finish();
}

criterion_group!(benches, crossing);
criterion_main!(benches);
