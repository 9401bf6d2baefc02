//! What the tests share: the guests, one host with a cache of its own, batches.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use loom_plugin::{
    CacheDir, Grants, HostOptions, Limits, NodeContext, Plugin, PluginHost, PluginSpec, StepNode,
};
use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};
use serde_json::Value;

/// The component of a guest under `tests/guests`.
pub fn guest(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is not built: run `cargo xtask guests`", path.display());
    path
}

static HOST: LazyLock<(PluginHost, tempfile::TempDir)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let cache_dir = CacheDir::At(dir.path().join("cache"));
    (PluginHost::new(HostOptions { cache_dir }).unwrap(), dir)
});

/// The host of this process, as there is one in each.
pub fn host() -> &'static PluginHost {
    &HOST.0
}

/// A guest with more time than a busy machine needs.
pub fn spec(name: &str, config: Value) -> PluginSpec {
    PluginSpec {
        name: "p".to_owned(),
        path: guest(name),
        digest: None,
        config,
        limits: Limits { timeout: Duration::from_secs(20), memory: 32 << 20, ..Limits::default() },
        grants: Grants::default(),
    }
}

/// The same with little time, so that guests that loop or sleep are soon done with.
pub fn quick(spec: PluginSpec) -> PluginSpec {
    PluginSpec { limits: Limits { timeout: Duration::from_millis(300), ..spec.limits }, ..spec }
}

pub fn load(spec: &PluginSpec) -> Plugin {
    host().load(spec).unwrap_or_else(|error| panic!("{error}"))
}

pub fn node() -> NodeContext {
    NodeContext {
        flow: "orders".into(),
        node: "process[0]".into(),
        plugin: "p".into(),
        worker: 3,
        timeout: None,
    }
}

pub fn step(name: &str, config: Value) -> StepNode {
    StepNode::new(&load(&spec(name, config)), node()).unwrap_or_else(|error| panic!("{error}"))
}

/// The two forms of a probe.
pub const STEPS: [&str; 2] = ["probe-step", "probe-column-step"];

/// Records whose payloads are these, with a key and no headers, at offsets from 0.
pub fn payloads<P: AsRef<[u8]>>(payloads: impl IntoIterator<Item = P>) -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
    for (offset, payload) in payloads.into_iter().enumerate() {
        builder
            .push(RecordRef {
                topic: 0,
                partition: 1,
                offset: RecordOffset(offset as i64),
                timestamp_ms: None,
                key: Some(b"key"),
                payload: Some(payload.as_ref()),
                row: "",
            })
            .unwrap();
    }
    builder.finish()
}

pub fn all(batch: &Batch) -> Vec<u32> {
    (0..batch.len() as u32).collect()
}

/// The payloads after a step, as text; none is a tombstone.
pub fn texts(batch: &Batch, rows: &[u32], changes: loom_types::Changes) -> Vec<Option<String>> {
    let after = batch.select(rows).with(changes);
    (0..rows.len() as u32)
        .map(|row| after.payload(row).map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        .collect()
}

/// What is logged on this thread while `work` runs, as JSON objects.
pub fn logged<T>(work: impl FnOnce() -> T) -> (T, Vec<Value>) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let value = tracing::subscriber::with_default(subscriber, work);
    let bytes = lines.0.lock().unwrap().clone();
    let events = serde_json::Deserializer::from_slice(&bytes).into_iter().map(Result::unwrap).collect();
    (value, events)
}

/// The messages among them that came from plugins.
pub fn plugin_messages(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["target"] == "plugin" && event["level"] != "DEBUG")
        .map(|event| event["message"].as_str().unwrap())
        .collect()
}

/// Has so many threads compute while `work` runs.
pub fn busy<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _over = Over(&done);
        work()
    })
}

/// Says that this test is skipped, and why, where it is seen although the test passes, and where `cargo xtask test` counts
/// it.
pub fn skip(why: &str) {
    // libtest names the thread of a test after it.
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Written directly: what `eprintln!` prints in a passing test is not shown.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
    if let Some(path) = std::env::var_os("LOOM_SKIPPED_TESTS") {
        let file = std::fs::File::options().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{name}"));
    }
}
