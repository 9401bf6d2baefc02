//! Text from outside that would act on a terminal, in each place where a verb shows such text: nothing of it acts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use loom_types::is_acting;
use serde_json::{Value, json};

use crate::support::{Ended, Folder, SOUND, flow_with_step, guest, without_broker};

/// C0, line ends, DEL, C1, and marks of direction. What comes after a line end would pass for a line of ours.
const CANARY: &str =
    "c\u{1b}[31m\u{1b}]0;t\u{7}\r\nFORGED\u{8}\u{7f}\u{85}\u{9b}2J\u{61c}\u{200f}\u{202e}\u{2066}y";

/// The same within a quoted text of YAML.
fn yaml() -> String {
    CANARY
        .chars()
        .map(|c| if c.is_ascii_graphic() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
        .collect()
}

/// Makes sure that nothing acts in what people see, and that the canary was there.
#[track_caller]
fn is_quiet(what: &str, seen: &str) {
    let acting = seen.chars().find(|c| is_acting(*c) && *c != '\n');
    assert_eq!(acting, None, "{what}: {seen:?}");
    let forged = seen.lines().find(|line| line.trim_start().starts_with("FORGED"));
    assert_eq!(forged, None, "{what}: {seen:?}");
    assert!(seen.contains("FORGED"), "{what} does not show the canary: {seen:?}");
}

#[track_caller]
fn is_quiet_ended(what: &str, ended: &Ended) {
    is_quiet(what, &format!("{}{}", ended.stdout, ended.stderr));
}

/// A file's name cannot hold all of it in every file system; this much it can.
const NAME: &str = "n\u{1b}[31m\nFORGED\u{9b}\u{202e}";

#[test]
fn verbs_that_read_files() {
    let canary = yaml();
    let wrong = SOUND
        .replace("topics: [in]", &format!("topics: [\"{canary}\"]"))
        .replace("group_id: small", &format!("group_id: \"{canary}\""))
        .replace("into_topic: out", &format!("into_topic: \"{canary}\""))
        .replace(
            "process:\n",
            &format!("\"{canary}\": 1\nruntime: {{ prefetch: \"{canary}\" }}\nprocess:\n"),
        );
    let raw = SOUND.replace("name: small", "name: small # FORGED \u{202e}\u{9b}\nkafak: 1 # FORGED\u{2066}");
    let folder = Folder::with(&[
        ("wrong.yaml", wrong.as_bytes()),
        ("raw.yaml", raw.as_bytes()),
        (NAME, b"not a component"),
        (&format!("{NAME}.yaml"), b"name: [\x1bFORGED"),
        ("broken.yaml", CANARY.as_bytes()),
    ]);
    let named = format!("{NAME}.yaml");
    for arguments in [
        vec!["check", "wrong.yaml"],
        vec!["check", "raw.yaml"],
        vec!["check", "broken.yaml"],
        vec!["check", &named],
        vec!["check", "no-such-FORGED\n\u{1b}.yaml"],
        vec!["graph", "wrong.yaml"],
        vec!["graph", &named],
        vec!["explain", CANARY],
        vec!["plugin", "inspect", NAME, "absent-FORGED\u{1b}\n"],
        vec!["init", "made", "--name", CANARY],
        vec!["man", "--dir", "wrong.yaml/FORGED\n\u{1b}"],
        vec!["offsets", "wrong.yaml"],
        vec!["status", "--flow", CANARY],
        vec!["why", CANARY],
        vec!["status", "--url", CANARY],
        vec!["check", "--no-such-FORGED\n\u{1b}"],
        vec!["offsets", "reset", "raw.yaml", "--to", CANARY],
    ] {
        is_quiet_ended(&format!("{arguments:?}"), &folder.run(&arguments));
    }
    // A flow that is right, with odd names.
    let odd = SOUND
        .replace("name: small", &format!("name: \"{canary}\""))
        .replace("payload.total > 10", &format!("payload.total == \\\"{canary}\\\"").replace("\\\"", "'"));
    let folder = Folder::with_flow(&odd);
    is_quiet_ended("graph", &folder.run(&["graph", "flow.yaml"]));
    is_quiet_ended("plan", &folder.run(&["check", "flow.yaml", "--plan"]));
}

#[test]
fn json_stays_exact() {
    let canary = yaml();
    let wrong = SOUND.replace("process:\n", &format!("\"{canary}\": 1\nprocess:\n"));
    let ended = Folder::with_flow(&wrong).run(&["check", "flow.yaml", "--format", "json"]);
    let found: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let message = found["issues"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains(CANARY), "{found:#}");
}

#[test]
fn a_broker_that_is_not_there_and_a_group() {
    let flow = without_broker(SOUND).replace("127.0.0.1:1", "FORGED\\x1b\\n.invalid:1");
    let folder = Folder::with_flow(&flow);
    for arguments in [&["offsets", "flow.yaml"][..], &["check", "flow.yaml", "--broker"]] {
        is_quiet_ended(&format!("{arguments:?}"), &folder.run(arguments));
    }
}

#[test]
fn cases_of_a_flow() {
    let canary = yaml();
    let flow = flow_with_step(&guest("probe-step"))
        .replace("errors:\n  default: [ { into_topic: failed } ]\n", "errors: { unrouted: drop }\n");
    let cases = format!(
        "cases:\n  - name: \"{canary}\"\n    records: [ {{ key: \"{canary}\", value: \"reject:{canary}\" }}, {{ value: \"{canary}\" }} ]\n    \
         expect: {{ topics: {{ out: [ {{ value: \"x{canary}\" }} ] }} }}\n"
    );
    let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), ("flow.test.yaml", cases.as_bytes())]);
    is_quiet_ended("test", folder.run(&["test"]).expect_status(1));
    is_quiet_ended("test --format tap", folder.run(&["test", "--format", "tap"]).expect_status(1));
    fs::write(folder.path().join("flow.test.yaml"), format!("\"{canary}\": 1\n")).expect("a file");
    is_quiet_ended("test of a broken file", folder.run(&["test"]).expect_status(1));
}

/// An admin server that answers every question with this document.
fn serve(document: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let body = document.to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    url
}

#[test]
fn a_running_flow() {
    let c = CANARY;
    let plugin = json!({ "name": c, "digest": c });
    let ledger = json!({
        "registered": 2, "resolved": 1, "outstanding": 1, "skipped": 0, "minted": 2, "consumed": 0, "live": 1,
        "ended": { "dropped(task)": 1, c: 3 },
    });
    let place = json!({
        "node": c, "plugin": plugin, "attempt": 2, "rows": 2, "answer": c, "release": { "kind": "output", "what": c },
    });
    let document = json!({
        "version": 1, "flow": c, "group": c, "phase": "running", "uptime_ms": 5, "ready": false,
        "dropped": { "rows": 1, "bound": c, "lately": 1, "above": true },
        "reasons": [ { "kind": c, "text": c } ],
        "workers": [ { "worker": 0, "age_ms": 3000, "ended": false, "call": { "node": c, "plugin": plugin, "for_ms": 9 } } ],
        "partitions": [ {
            "topic": c, "partition": 0, "worker": 0, "position": 2, "committed": 1, "floor": null, "end": 4, "lag": 3,
            "intake": "held", "outstanding_records": 1, "outstanding_bytes": 9, "stalled": { "offset": 1, "for_ms": 9, "cause": c },
            "oldest": { "offset": 1, "age_ms": 2000, "places": [ place ] }, "ledger": ledger,
        } ],
        "nodes": [ {
            "node": c, "kind": c, "plugin": plugin, "rows": 1, "errors": { c: 1 }, "retries": 0, "waiting": 1, "breaker": null,
            "sink": null,
        } ],
        "outputs": [ {
            "topic": c, "pending": 1, "in_flight": 0, "acknowledged": 0, "refused": 0, "waiting_ms": 20000,
        } ],
        "plugins": [ { "name": c, "file": c, "digest": c } ],
        "commits": { "requests": 1, "failures": 1, "failing_ms": 5, "last_error": c },
        "client_errors": [ { "worker": null, "age_ms": 5, "text": c } ],
        "ledger": ledger, "cycles": 1, "notes": { c: c }, "restarts": 0,
    });
    let url = serve(&document);
    let folder = Folder::with(&[]);
    let status = folder.run(&["status", "--url", &url]);
    is_quiet_ended("status", status.expect_status(0));
    assert!(status.stdout.starts_with("1 row dropped"), "{}", status.stdout);
    let partition = format!("{c}/0");
    for arguments in [vec!["why", "--url", &url], vec!["why", "--url", &url, &partition]] {
        is_quiet_ended("why", folder.run(&arguments).expect_status(0));
    }
    is_quiet_ended("why of another", folder.run(&["why", "--url", &url, "in/3"]).expect_status(2));
    is_quiet_ended("status of another", folder.run(&["status", "other", "--url", &url]).expect_status(4));
    let exact = folder.run(&["status", "--url", &url, "--format", "json"]);
    let exact: Value = serde_json::from_str(&exact.stdout).expect("JSON");
    assert_eq!(exact["partitions"][0]["topic"], c);
    let exact = folder.run(&["why", "--url", &url, "--format", "json"]);
    let exact: Value = serde_json::from_str(&exact.stdout).expect("JSON");
    assert_eq!(exact[0]["oldest"]["places"][0]["answer"], c);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_at_a_terminal() {
    use crate::terminal;

    let record = |payload: &str| json!({ "key": CANARY, "payload": payload }).to_string();
    let input =
        [CANARY.to_owned(), format!("reject:{CANARY}"), format!("log:{CANARY}")].map(|text| record(&text));
    for unrouted in ["drop", "stop"] {
        let flow = flow_with_step(&guest("probe-step")).replace(
            "errors:\n  default: [ { into_topic: failed } ]\n",
            &format!("errors: {{ unrouted: {unrouted} }}\n"),
        );
        let folder =
            Folder::with(&[("flow.yaml", flow.as_bytes()), ("in.jsonl", input.join("\n").as_bytes())]);
        let (_, seen) = terminal::run(&folder, &["dev", "flow.yaml", "--input", "in.jsonl", "--envelope"]);
        is_quiet("dev", &without_colours(&seen));
        assert!(!seen.contains("\u{1b}[31m\u{1b}]"), "{seen:?}");
        assert!(seen.contains("from in/0 at 0"), "{seen}");
        assert!(seen.contains("stopped small"), "{seen}");
    }
    // What `run` cannot start with.
    let flow = without_broker(SOUND).replace("127.0.0.1:1", "FORGED\\x1b\\n.invalid:1");
    let (status, seen) = terminal::run(&Folder::with_flow(&flow), &["run", "flow.yaml", "--admin", "off"]);
    assert_eq!(status, Some(1), "{seen}");
    is_quiet("run", &without_colours(&seen));
}

/// The colours that are ours taken out: `ESC [`, numbers, `m`. Those of the canary are shown, and have no ESC.
#[cfg(target_os = "linux")]
fn without_colours(seen: &str) -> String {
    let mut pieces = seen.split("\u{1b}[");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(rest) => text.push_str(rest),
            None => text.push_str(&format!("\u{1b}[{piece}")),
        }
    }
    text
}
