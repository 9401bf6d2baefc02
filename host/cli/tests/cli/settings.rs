//! Where a setting comes from: a flag goes before its variable, that before the overlays, those before the file. The table in
//! `docs/operations.md` has a row for each setting, and every row is tried here.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Ended, Folder, SOUND};

/// A row of the table.
#[derive(Debug)]
struct Row {
    flag: Option<String>,
    variable: Option<String>,
    key: Option<String>,
    default: String,
}

/// The rows under the heading of the table; a dash is none.
fn rows() -> Vec<Row> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table =
        text.split("| setting | flag | variable | key | default |\n").nth(1).expect("the table of settings");
    let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let code = |cell: &str| cell.split('`').nth(1).map(str::to_owned);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [_, flag, variable, key, default] = cells[..] else { panic!("{line}") };
            let flag = code(flag).map(|flag| flag.split(' ').next().unwrap_or_default().to_owned());
            Row { flag, variable: code(variable), key: code(key), default: code(default).unwrap_or_default() }
        })
        .collect()
}

/// A flow with a second consumer, and with a key set to a value, if any.
fn flow_with(key: Option<(&str, &str)>) -> String {
    let second = "  consumers: { a: { brokers: [a], group_id: a, topics: [a], delivery: at_least_once }, b: { brokers: [b], group_id: b, topics: [b], delivery: at_least_once }, c: { brokers: [c], group_id: c, topics: [c], delivery: at_least_once } }\n  producer:";
    SOUND.replace("  producer:", second) + &key.map(|(key, value)| nested(key, value)).unwrap_or_default()
}

/// `a.b.c` and a value, as YAML.
fn nested(key: &str, value: &str) -> String {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let rest = rest.map(|rest| {
        rest.split('.').rev().fold(value.to_owned(), |inner, key| format!("{{ {key}: {inner} }}"))
    });
    format!("{first}: {}\n", rest.unwrap_or_else(|| value.to_owned()))
}

/// What the plan has at a key.
fn planned(ended: &Ended, key: &str) -> String {
    ended.expect_status(0);
    let (parent, name) = key.rsplit_once('.').unwrap_or(("", key));
    // The plan says which consumer is read where the flow names it.
    let name = if key == "source" { "from" } else { name };
    let parent = parent.rsplit('.').next().unwrap_or_default();
    let text = match ended.stdout.split_once(&format!("{parent}:\n")) {
        Some((_, after)) if !parent.is_empty() => after,
        _ => &ended.stdout,
    };
    let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {key} in {}", ended.stdout)).to_owned()
}

/// Three values for a key, the third the flag's; and how the plan shows each.
fn values(key: &str) -> [(&'static str, &'static str); 4] {
    match key {
        "source" => [
            ("a", "kafka.consumers.a"),
            ("b", "kafka.consumers.b"),
            ("c", "kafka.consumers.c"),
            ("consumer", "kafka.consumer"),
        ],
        key if key.ends_with("_ms") || key.ends_with("records") => {
            [("11", "11"), ("12", "12"), ("13", "13"), ("14", "14")]
        }
        key if key.ends_with("prefetch") || key.ends_with("bytes") => {
            [("1MiB", "1MiB"), ("2MiB", "2MiB"), ("3MiB", "3MiB"), ("4MiB", "4MiB")]
        }
        _ => [("11s", "11s"), ("12s", "12s"), ("13s", "13s"), ("14s", "14s")],
    }
}

#[test]
fn every_row_of_the_table_holds() {
    let rows = rows();
    assert!(rows.len() >= 10, "{rows:?}");
    for Row { flag, variable, key, default } in rows {
        match key {
            Some(key) => of_the_flow(flag.as_deref(), variable.as_deref(), &key, &default),
            None => of_the_process(flag.as_deref(), variable.as_deref()),
        }
    }
}

/// A setting of the flow: each layer wins over those before it.
fn of_the_flow(flag: Option<&str>, variable: Option<&str>, key: &str, default: &str) {
    let [file, overlay, env, given] = values(key);
    let folder = Folder::with(&[
        ("plain.yaml", flow_with(None).as_bytes()),
        ("flow.yaml", flow_with(Some((key, file.0))).as_bytes()),
        ("over.yaml", nested(key, overlay.0).as_bytes()),
    ]);
    let plan = |arguments: &[&str], env: Option<&str>| {
        let mut command = folder.command(&[&["check", "--plan"], arguments].concat());
        if let (Some(variable), Some(value)) = (variable, env) {
            command.env(variable, value);
        }
        planned(&Ended::of(&command.output().expect("the command starts")), key)
    };
    let expected = if key == "source" { "kafka.consumer" } else { default };
    assert_eq!(plan(&["plain.yaml"], None), expected, "the default of {key}");
    assert_eq!(plan(&["flow.yaml"], None), file.1, "{key} in the file");
    assert_eq!(plan(&["flow.yaml", "--overlay", "over.yaml"], None), overlay.1, "{key} in an overlay");
    if variable.is_some() {
        assert_eq!(
            plan(&["flow.yaml", "--overlay", "over.yaml"], Some(env.0)),
            env.1,
            "{key} by {variable:?}"
        );
    }
    if let Some(flag) = flag {
        assert_eq!(
            plan(&["flow.yaml", flag, given.0, "--overlay", "over.yaml"], Some(env.0)),
            given.1,
            "{key} by {flag}"
        );
    }
}

/// A setting of the process: read by every verb that takes it, the flag before the variable.
fn of_the_process(flag: Option<&str>, variable: Option<&str>) {
    let folder = Folder::with_flow(SOUND);
    let status = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = folder.command(&[&["check", "flow.yaml"], arguments].concat());
        command.envs(variable);
        Ended::of(&command.output().expect("the command starts"))
    };
    let (wrong, right) = match variable {
        Some("LOOM_WORKERS_PER_PROCESS") => ("none", "2"),
        Some("LOOM_ADMIN_ADDRESS") => ("nowhere", "off"),
        // A text without rules of its own: any value is taken, wherever it is from.
        Some("LOOM_CACHE_DIR") => ("", "cache"),
        Some("LOOM_LOG") => ("inof", "info"),
        other => panic!("{other:?} is not tried"),
    };
    let variable = variable.expect("a process's setting has a variable");
    status(&[], Some((variable, right))).expect_status(0);
    status(&[], Some((variable, wrong))).expect_status(2);
    if let Some(flag) = flag {
        status(&[flag, right], Some((variable, wrong))).expect_status(0);
        let said = status(&[flag, wrong], None);
        said.expect_status(2);
        assert!(said.stderr.contains(flag), "{}", said.stderr);
    }
}

#[test]
fn a_wrong_value_is_told_where_it_was_given() {
    let folder =
        Folder::with(&[("flow.yaml", SOUND.as_bytes()), ("over.yaml", b"runtime:\n  prefetchh: 1MiB\n")]);
    let ended = folder.run(&["check", "flow.yaml", "--overlay", "over.yaml"]);
    ended.expect_status(1);
    assert!(
        ended.stdout.contains("[over.yaml:2:3]") && ended.stdout.contains("did you mean `prefetch`"),
        "{}",
        ended.stdout
    );
    let ended = folder.run(&["check", "flow.yaml", "--overlay", "over.yaml", "--format", "json"]);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(
        (&report["issues"][0]["file"], &report["issues"][0]["line"]),
        (&"over.yaml".into(), &2.into())
    );
    let ended = folder.run(&["check", "flow.yaml", "--source", "nobody"]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("--source or LOOM_SOURCE:1:"), "{}", ended.stdout);
    let ended = folder.run(&["check", "flow.yaml", "--overlay", "ovre.yaml"]);
    ended.expect_status(1);
    assert!(
        ended.stdout.contains("cannot read the overlay ovre.yaml") && ended.stdout.contains("over.yaml?"),
        "{}",
        ended.stdout
    );
    folder.run(&["check", "flow.yaml", "--shutdown-timeout", "30"]).expect_status(2);
    let ended = folder.run(&["run", "flow.yaml", "--overlay", "over.yaml"]);
    ended.expect_status(1);
    assert_eq!(ended.log()[0]["file"], "over.yaml", "{ended:#?}");
}

#[test]
fn check_takes_what_run_takes() {
    let folder = Folder::with_flow(SOUND);
    let words = [
        "-w",
        "2",
        "--from",
        "beginning",
        "--take-over",
        "--admin",
        "off",
        "--cache-dir",
        "c",
        "--startup-timeout",
        "1s",
    ];
    folder.run(&[&["check", "flow.yaml"], &words[..]].concat()).expect_status(0);
}

#[test]
fn overlays_and_flags_reach_every_verb_that_reads_a_flow() {
    let over = "process: [ { into_topic: elsewhere } ]\n";
    let folder = Folder::with(&[
        ("flow.yaml", SOUND.as_bytes()),
        ("over.yaml", over.as_bytes()),
        ("two.yaml", b"name: renamed\n"),
        ("in.jsonl", b"{}\n"),
    ]);
    let graph = folder.run(&["graph", "flow.yaml", "--overlay", "over.yaml", "--overlay", "two.yaml"]);
    assert!(
        graph.stdout.starts_with("renamed\n") && graph.stdout.contains("into_topic elsewhere"),
        "{graph:#?}"
    );
    let dev = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--overlay", "over.yaml"]);
    dev.expect_status(0);
    assert!(dev.stdout.starts_with("{\"topic\":\"elsewhere\""), "{dev:#?}");
    for verb in [&["offsets", "flow.yaml"][..], &["offsets", "reset", "flow.yaml", "--to", "end", "--yes"]] {
        let ended = folder.run(&[verb, &["--source", "nobody"]].concat());
        ended.expect_status(1);
        assert!(ended.stderr.contains("nobody"), "{ended:#?}");
    }
}
