//! `check --plan`, `graph` and `init`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Folder, SOUND};

#[test]
fn the_plan_is_printed_and_problems_stand_beside_it() {
    let folder = Folder::with_flow(SOUND);
    let ended = folder.run(&["check", "flow.yaml", "--plan"]);
    ended.expect_status(0);
    assert!(ended.stdout.starts_with("plan: 1\nname: small\n") && ended.stderr.is_empty(), "{ended:#?}");
    let secret = SOUND.replace(
        "group_id: small",
        "group_id: small\n    security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_password: \"${PW}\", sasl_username: u }",
    );
    let warned = Folder::with_flow(&secret)
        .command(&["check", "flow.yaml", "--plan"])
        .env("PW", "canary-4711")
        .output();
    let shown = String::from_utf8_lossy(&warned.expect("the command starts").stdout).into_owned();
    assert!(shown.contains("sasl_password: \"***\"") && !shown.contains("canary"), "{shown}");
    let unset = Folder::with_flow(&SOUND.replace("group_id: small", "group_id: \"${GROUP}\"")).run(&[
        "check",
        "flow.yaml",
        "--plan",
    ]);
    unset.expect_status(0);
    assert!(
        unset.stdout.contains("group_id: ${GROUP}") && unset.stderr.contains("VARIABLE_UNSET"),
        "{unset:#?}"
    );
    let wrong = Folder::with_flow(&SOUND.replace("filter", "fliter")).run(&["check", "flow.yaml", "--plan"]);
    wrong.expect_status(1);
    assert!(wrong.stdout.is_empty() && wrong.stderr.contains("UNKNOWN_KEY"), "{wrong:#?}");
}

#[test]
fn a_flow_is_drawn_in_three_ways() {
    let folder = Folder::with_flow(SOUND);
    let tree = folder
        .command(&["graph", "flow.yaml"])
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("the command starts");
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    assert!(
        tree.starts_with("small\n├─ kafka.consumer at localhost:9092")
            && tree.contains("└─ into_topic out\n"),
        "{tree}"
    );
    let ascii =
        folder.command(&["graph", "flow.yaml"]).env("LC_ALL", "C").output().expect("the command starts");
    assert!(ascii.stdout.is_ascii(), "{ascii:?}");
    for (format, first) in [("mermaid", "flowchart TD\n"), ("dot", "digraph \"small\" {\n")] {
        let ended = folder.run(&["graph", "flow.yaml", "--format", format]);
        ended.expect_status(0);
        assert!(ended.stdout.starts_with(first), "{ended:#?}");
    }
    let plugin =
        SOUND.replace("process:\n", "plugins: { x: { component: nowhere.wasm } }\nprocess:\n  - step: x\n");
    let ended = Folder::with_flow(&plugin).run(&["graph", "flow.yaml"]);
    assert!(ended.expect_status(0).stdout.contains("step x"), "plugins are not looked into: {ended:#?}");
    let wrong = Folder::with_flow(&SOUND.replace("filter", "fliter")).run(&["graph", "flow.yaml"]);
    wrong.expect_status(1);
    assert!(wrong.stdout.is_empty() && wrong.stderr.contains("UNKNOWN_KEY"), "{wrong:#?}");
}

#[test]
fn a_first_flow_passes_check_and_runs_as_it_is() {
    let folder = Folder::with(&[]);
    let made = folder.run(&["init", "orders"]);
    made.expect_status(0);
    assert!(
        made.stdout.contains("orders/flow.yaml") && made.stdout.contains("loom-host dev orders/flow.yaml"),
        "{made:#?}"
    );
    // Nothing of the developer's environment, and the commands that the answer names.
    let check = folder.run(&["check", "orders/flow.yaml"]);
    assert_eq!(check.expect_status(0).stdout, "orders/flow.yaml: no problems\n");
    folder.run(&["graph", "orders/flow.yaml"]).expect_status(0);
    let dev = folder.run(&["dev", "orders/flow.yaml", "--input", "orders/records.jsonl"]);
    dev.expect_status(0);
    let lines: Vec<Value> =
        dev.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut topics: Vec<&str> = lines.iter().filter_map(|line| line["topic"].as_str()).collect();
    topics.sort_unstable();
    assert_eq!(topics, ["orders.failed", "orders.large", "orders.small"]);
    let ledger = &lines.last().expect("a last line")["ledger"];
    assert_eq!((&ledger["registered"], &ledger["ended"]["filtered"]), (&4.into(), &1.into()), "{ledger}");
    let test = folder.run(&["test", "orders"]);
    assert!(test.expect_status(0).stdout.ends_with("\n4 passed, 0 failed\n"), "{test:#?}");
    let cases = fs::read_to_string(folder.path().join("orders/test.schema.json")).expect("the schema");
    assert_eq!(cases, folder.run(&["schema", "--of", "test"]).stdout);
    let schema = fs::read_to_string(folder.path().join("orders/flow.schema.json")).expect("the schema");
    assert_eq!(schema, folder.run(&["schema"]).stdout);
    let flow = fs::read_to_string(folder.path().join("orders/flow.yaml")).expect("the flow");
    assert!(flow.starts_with("# yaml-language-server: $schema=flow.schema.json\n"), "{flow}");
}

/// With the toolchain that the tests are built with, and with the crates that the guests were built from.
#[test]
fn a_first_plugin_is_built_checked_and_run() {
    let folder = Folder::with(&[]);
    let made = folder.run(&["init", "orders", "--lang", "rust"]);
    made.expect_status(0);
    let build =
        "cargo build --release --target wasm32-wasip2 --manifest-path orders/plugins/total/Cargo.toml";
    assert!(made.stdout.contains(build), "{made:#?}");
    let unbuilt = folder.run(&["check", "orders/flow.yaml"]);
    assert!(unbuilt.expect_status(1).stdout.contains("PLUGIN_LOAD_FAILED"), "{unbuilt:#?}");

    let guests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins-example");
    let plugin = folder.path().join("orders/plugins/total");
    // The versions that are there already.
    fs::copy(guests.join("Cargo.lock"), plugin.join("Cargo.lock")).expect("the guests' versions");
    let cargo = PathBuf::from(env!("CARGO"));
    let mut command = folder.program(env!("CARGO"), &build.split(' ').skip(1).collect::<Vec<_>>());
    let built = command
        .args(["--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", guests.join("target"))
        .env("RUSTC", cargo.with_file_name("rustc"))
        .timeout(Duration::from_secs(600))
        .output()
        .expect("cargo starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let place = plugin.join("target/wasm32-wasip2/release");
    fs::create_dir_all(&place).expect("a folder");
    fs::copy(guests.join("target/wasm32-wasip2/release/total.wasm"), place.join("total.wasm"))
        .expect("the component was built");

    let check = folder.run(&["check", "orders/flow.yaml"]);
    assert_eq!(check.expect_status(0).stdout, "orders/flow.yaml: no problems\n");
    let dev = folder.run(&["dev", "orders/flow.yaml", "--input", "orders/records.jsonl"]);
    let lines = dev.expect_status(0).stdout.lines();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut topics: Vec<&str> = lines.iter().filter_map(|line| line["topic"].as_str()).collect();
    topics.sort_unstable();
    assert_eq!(topics, ["orders.failed", "orders.large", "orders.small"]);
    let test = folder.run(&["test", "orders"]);
    assert!(test.expect_status(0).stdout.ends_with("\n4 passed, 0 failed\n"), "{test:#?}");
}

#[test]
fn a_first_flow_never_overwrites() {
    let folder = Folder::with(&[("README.md", b"mine")]);
    let refused = folder.run(&["init", ".", "--name", "orders"]);
    refused.expect_status(4);
    assert!(refused.stderr.contains("README.md would be overwritten"), "{}", refused.stderr);
    let names: Vec<_> = fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["README.md"], "nothing was written");
    assert_eq!(fs::read(folder.path().join("README.md")).expect("the file"), b"mine");
    folder.run(&["init", "a"]).expect_status(0);
    folder.run(&["init", "a"]).expect_status(4);
    let misnamed = folder.run(&["init", "b", "--name", "a b"]);
    misnamed.expect_status(2);
    assert!(misnamed.stderr.contains("`a b`") && !folder.path().join("b").exists(), "{}", misnamed.stderr);
    let odd = folder.run(&["init", "c", "--name", "007"]);
    odd.expect_status(0);
    folder.run(&["check", "c/flow.yaml"]).expect_status(0);
    folder.run(&["test", "c"]).expect_status(0);
}
