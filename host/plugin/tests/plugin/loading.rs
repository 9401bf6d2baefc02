//! What is found before a plugin is compiled or runs.

use std::path::PathBuf;

use loom_plugin::{
    CacheDir, FactsError, HostOptions, LoadError, PluginHost, PluginSpec, StepNode, read_facts,
};
use serde_json::Value;

use crate::common::{guest, host, load, node, payloads, spec};

#[test]
fn facts_name_roles_imports_and_exports() {
    let roles = |name: &str| read_facts(&guest(name)).unwrap().roles.names().join(" ");
    assert_eq!(roles("probe-step"), "step setup");
    assert_eq!(roles("probe-column-step"), "column-step setup");
    assert_eq!(roles("probe-predicate"), "predicate setup");
    assert_eq!(roles("probe-column-predicate"), "column-predicate setup");
    assert_eq!(roles("both-forms"), "step column-step expand column-expand");
    assert_eq!(
        roles("probe-roles"),
        "step expand batch-step batch-expand typed-expand selector partitioner setup"
    );
    assert_eq!(roles("probe-column-expand"), "column-expand setup");
    assert_eq!(roles("probe-sink"), "sink bind-commit-tracker setup");
    assert_eq!(roles("untracked-sink"), "sink");
    let facts = read_facts(&guest("probe-sink")).unwrap();
    assert_eq!(facts.track, Some("0.1"));
    assert!(facts.imports.iter().any(|import| import == "loom:plugin/delivery@0.1.0"), "{:?}", facts.imports);
    assert!(facts.exports.iter().any(|export| export == "loom:plugin/sink@0.1.0"), "{:?}", facts.exports);
    assert_eq!(facts.size, std::fs::metadata(guest("probe-sink")).unwrap().len());
    assert_eq!(facts.digest, load(&spec("probe-sink", Value::Null)).digest());
}

#[test]
fn a_foreign_track_is_told_with_what_is_supported() {
    let error = read_facts(&guest("foreign-track")).unwrap_err();
    assert!(matches!(&error, FactsError::ForeignTrack { found, .. } if found == "0.9"), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("foreign-track.wasm uses loom:plugin/step of track 0.9; this host speaks 0.1"),
        "{text}"
    );
    assert!(!error.is_bad_file());
}

#[test]
fn an_import_that_is_neither_wasi_nor_ours_is_named() {
    let error = host().load(&spec("unknown-import", Value::Null)).unwrap_err();
    assert!(matches!(&error, LoadError::Facts { source: FactsError::UnknownImport { .. }, .. }), "{error}");
    assert!(error.to_string().contains("acme:things/oracle@1.0.0"), "{error}");
    assert!(!error.is_bad_file());
}

#[test]
fn a_file_that_is_no_component_has_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(guest("nop-step")).unwrap();
    let cases: [(&str, &[u8], &str); 5] = [
        ("core.wasm", b"\0asm\x01\0\0\0", "is a core WebAssembly module, not a component"),
        ("text.wasm", b"plugins: {}\n", "is text, not a WebAssembly component"),
        ("empty.wasm", b"", "is empty"),
        ("truncated.wasm", &whole[..whole.len() / 2], "is truncated"),
        ("noise.wasm", b"\x01\x02\x03\xff", "is no valid WebAssembly component"),
    ];
    for (name, bytes, told) in cases {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = host().load(&PluginSpec { path, ..spec("nop-step", Value::Null) }).unwrap_err();
        assert!(error.to_string().contains(told), "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(error.is_bad_file(), "{name}");
    }
    let path = dir.path().join("none.wasm");
    let error = host().load(&PluginSpec { path, ..spec("nop-step", Value::Null) }).unwrap_err();
    assert!(error.is_bad_file() && error.to_string().contains("none.wasm"), "{error}");
}

#[test]
fn every_prefix_of_a_component_is_refused_and_nothing_panics() {
    let whole = std::fs::read(guest("nop-step")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("cut.wasm");
    for end in (0..whole.len()).step_by(997) {
        std::fs::write(&path, &whole[..end]).unwrap();
        if let Ok(facts) = read_facts(&path) {
            // A cut between two sections can leave a smaller component, but never the whole one.
            assert!(facts.size < whole.len() as u64);
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let whole = std::fs::read(guest("nop-step")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("damaged.wasm");
    for at in (8..whole.len()).step_by(1499) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        // Loading may succeed: not every byte means something.
        let _ = host().load(&PluginSpec { path: path.clone(), ..spec("nop-step", Value::Null) });
    }
}

#[test]
fn a_pinned_digest_must_be_the_files() {
    let digest = load(&spec("nop-step", Value::Null)).digest().to_owned();
    for pin in [digest.clone(), format!("sha256:{digest}"), digest.to_uppercase()] {
        load(&PluginSpec { digest: Some(pin), ..spec("nop-step", Value::Null) });
    }
    let pin = Some(format!("sha256:{}", "0".repeat(64)));
    let error = host().load(&PluginSpec { digest: pin, ..spec("nop-step", Value::Null) }).unwrap_err();
    assert!(matches!(error, LoadError::Digest { .. }) && error.to_string().contains(&digest), "{error}");
}

#[test]
fn a_second_host_takes_compiled_code_from_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let entries =
        || std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let run = || {
        let host = PluginHost::new(HostOptions { cache_dir: CacheDir::At(cache.clone()) }).unwrap();
        let plugin = host.load(&spec("nop-step", Value::Null)).unwrap();
        let (answers, events) = crate::common::logged(|| {
            let host = host.clone();
            host.load(&spec("nop-step", Value::Null)).unwrap();
            StepNode::new(&plugin, node()).unwrap().call(&payloads(["a"]), &[0])
        });
        assert!(answers.failures.is_empty());
        assert!(events.iter().all(|event| event["message"] != "compiling"), "one file is compiled once");
    };
    run();
    let [entry] = &entries()[..] else { panic!("one entry") };
    let written = std::fs::read(entry).unwrap();
    let (_, events) = crate::common::logged(run);
    assert!(events.iter().all(|event| event["message"] != "compiling"), "{events:?}");
    // A damaged entry is not believed, and written anew.
    std::fs::write(entry, &written[..written.len() / 2]).unwrap();
    let (_, events) = crate::common::logged(run);
    assert!(events.iter().any(|event| event["message"] == "compiling"), "{events:?}");
    assert_eq!(std::fs::metadata(entry).unwrap().len(), written.len() as u64);
}

/// A component in the text format, as a file.
fn component(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("made.wasm");
    std::fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

const TAKES_ONE: &str = r#"(core module $m (func (export "f") (param i32)))
    (core instance $i (instantiate $m))"#;

#[test]
fn bind_commit_tracker_must_take_the_commit_tracker() {
    let dir = tempfile::tempdir().unwrap();
    let with = |interface: &str, handle: &str| {
        format!(
            r#"(component
                (import "{interface}" (instance $d (export "commit-tracker" (type (sub resource)))))
                (alias export $d "commit-tracker" (type $tracker))
                {TAKES_ONE}
                (func $f (param "tracker" ({handle} $tracker)) (canon lift (core func $i "f")))
                (export "bind-commit-tracker" (func $f)))"#
        )
    };
    let right = component(&dir, &with("loom:plugin/delivery@0.1.0", "own"));
    assert_eq!(read_facts(&right).unwrap().roles.names(), ["bind-commit-tracker"]);
    let number = format!(
        r#"(component {TAKES_ONE}
            (func $f (param "tracker" u32) (canon lift (core func $i "f")))
            (export "bind-commit-tracker" (func $f)))"#
    );
    let no_function = r#"(component (instance $i) (export "bind-commit-tracker" (instance $i)))"#.to_owned();
    let borrowed = with("loom:plugin/delivery@0.1.0", "borrow");
    let other = with("loom:plugin/context@0.1.0", "own");
    for wrong in [number, no_function, borrowed, other] {
        let path = component(&dir, &wrong);
        let error = read_facts(&path).unwrap_err();
        assert!(matches!(error, FactsError::TrackerSignature { .. }), "{wrong}: {error}");
        assert!(error.to_string().contains("func(tracker: commit-tracker)"), "{error}");
        assert!(!error.is_bad_file());
    }
}

#[test]
fn a_function_that_this_host_lacks_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let newer = component(
        &dir,
        r#"(component (import "loom:plugin/log@0.1.7" (instance (export "flush-log" (func)))))"#,
    );
    let error = read_facts(&newer).unwrap_err();
    assert!(matches!(error, FactsError::MissingFunction { .. }), "{error}");
    assert!(error.to_string().contains("imports flush-log of loom:plugin/log@0.1.7"), "{error}");
    let known = component(
        &dir,
        r#"(component (import "loom:plugin/context@0.1.7" (instance (export "worker" (func (result u32))))))"#,
    );
    host().load(&PluginSpec { path: known, ..spec("nop-step", Value::Null) }).unwrap();
}

#[test]
fn wasi_is_linked_in_the_versions_of_0_2_and_refused_in_others() {
    let dir = tempfile::tempdir().unwrap();
    let importing = |import: &str| {
        let text =
            format!(r#"(component (import "{import}" (instance (export "fields" (type (sub resource))))))"#);
        host().load(&PluginSpec { path: component(&dir, &text), ..spec("nop-step", Value::Null) })
    };
    importing("wasi:http/types@0.2.0").unwrap();
    importing("wasi:http/types@0.2.6").unwrap();
    for foreign in ["wasi:http/types@0.3.0", "wasi:keyvalue/store@0.2.0", "wasi:http/types"] {
        let error = importing(foreign).unwrap_err();
        assert!(error.to_string().contains(foreign), "{error}");
        assert!(!error.is_bad_file());
    }
}

#[test]
fn an_export_of_other_types_than_the_contract_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = component(
        &dir,
        &format!(
            r#"(component {TAKES_ONE}
                (func $process (param "message" u32) (canon lift (core func $i "f")))
                (instance $step (export "process" (func $process)))
                (export "loom:plugin/step@0.1.0" (instance $step)))"#
        ),
    );
    let plugin = load(&PluginSpec { path, ..spec("nop-step", Value::Null) });
    let error = StepNode::new(&plugin, node()).unwrap_err();
    let told = "exports step with other types than the contract: expected `record` found `u32`";
    assert!(error.to_string().contains(told), "{error}");
    let path =
        component(&dir, r#"(component (instance $step) (export "loom:plugin/step@0.1.0" (instance $step)))"#);
    let error = host().load(&PluginSpec { path, ..spec("nop-step", Value::Null) }).unwrap_err();
    assert!(matches!(error, LoadError::Link { .. }), "{error}");
    assert!(error.to_string().contains("process"), "{error}");
}

#[test]
fn a_stack_that_overflows_names_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = component(
        &dir,
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func $deep (param i64) (result i64)
                    (i64.add (call $deep (i64.add (local.get 0) (i64.const 1))) (i64.const 1)))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
                (func (export "configure") (param i32 i32) (result i32)
                    (drop (call $deep (i64.const 0))) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $configure (param "config" string) (result (result (error string)))
                (canon lift (core func $i "configure")
                    (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
            (instance $setup (export "configure" (func $configure)))
            (export "loom:plugin/setup@0.1.9" (instance $setup)))"#,
    );
    let error =
        StepNode::new(&load(&PluginSpec { path, ..spec("nop-step", Value::Null) }), node()).unwrap_err();
    assert_eq!(error.to_string(), "plugin p failed in configure: it used more than its stack of 1 MiB");
}

#[test]
fn a_file_without_an_end_is_not_read() {
    let error = read_facts(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
