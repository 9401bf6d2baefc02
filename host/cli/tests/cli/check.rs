//! `check`: what it says of files, in both forms.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{CORE_MODULE, Ended, Folder, SOUND, flow_with_step, guest, without_broker};

/// What `check --format json` says of a folder's flow.
fn json(folder: &Folder, arguments: &[&str]) -> (Ended, Value) {
    let ended = folder.run(&[&["check", "flow.yaml", "--format", "json"], arguments].concat());
    let value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    (ended, value)
}

/// The codes of all issues, in their order.
fn codes(report: &Value) -> Vec<&str> {
    let issues = report["issues"].as_array().map(Vec::as_slice).unwrap_or_default();
    issues.iter().filter_map(|issue| issue["code"].as_str()).collect()
}

#[test]
fn a_sound_flow_is_status_0() {
    let folder = Folder::with_flow(SOUND);
    let ended = folder.run(&["check", "flow.yaml"]);
    ended.expect_status(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("flow.yaml: no problems\n", ""));
    let (ended, report) = json(&folder, &[]);
    ended.expect_status(0);
    assert_eq!(report, serde_json::json!({ "version": 1, "issues": [], "errors": 0, "warnings": 0 }));
}

/// No broker is asked for any of it.
#[test]
fn what_a_start_refuses_of_the_clients_settings_check_refuses_too() {
    for (extra, named) in [
        ("fetch.max.bytes: 1500000000", "`receive.message.max.bytes` must be >="),
        ("message.max.bytes: 5000, fetch.max.bytes: 4000", "`fetch.max.bytes` must be >="),
        ("reconnect.backoff.ms: 5000", "`reconnect.backoff.max.ms` must be >="),
        ("ssl.ca.location: ca.pem", "`ssl.ca.location` would do nothing"),
        ("session.timeout.ms: 10000", "`session.timeout.ms` cannot be set"),
        ("isolation.level: read_uncommitted", "`isolation.level` is managed"),
    ] {
        let flow = SOUND.replace("group_id: small", &format!("group_id: small\n    extra: {{ {extra} }}"));
        let folder = Folder::with_flow(&flow);
        let (ended, report) = json(&folder, &[]);
        ended.expect_status(1);
        assert_eq!((codes(&report), ended.stderr.as_str()), (vec!["KAFKA_CONFIG_INVALID"], ""), "{extra}");
        let message = report["issues"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{extra}: {message}");
        folder.run(&["run", "flow.yaml"]).expect_status(1);
        folder.run(&["graph", "flow.yaml"]).expect_status(if message.contains("would not start") {
            0
        } else {
            1
        });
    }
}

#[test]
fn json_has_the_documented_shape() {
    let flow = SOUND.replace("group_id: small", "group_idd: small");
    let (ended, report) = json(&Folder::with_flow(&flow), &[]);
    ended.expect_status(1);
    assert!(ended.stderr.is_empty(), "{ended:#?}");
    let mistyped = report["issues"]
        .as_array()
        .and_then(|issues| issues.iter().find(|issue| issue["code"] == "UNKNOWN_KEY"));
    let mistyped = mistyped.unwrap_or_else(|| panic!("{report:#}"));
    let keys: Vec<&String> = mistyped.as_object().map(|issue| issue.keys().collect()).unwrap_or_default();
    assert_eq!(keys, ["code", "column", "file", "hint", "line", "message", "path", "severity"]);
    assert_eq!((&mistyped["line"], &mistyped["column"]), (&Value::from(5), &Value::from(5)));
    assert_eq!((&mistyped["severity"], &mistyped["file"]), (&"error".into(), &"flow.yaml".into()));
    assert_eq!(report["errors"], codes(&report).len());
}

#[test]
fn a_mistyped_key_names_the_nearest_and_shows_its_line() {
    let flow = SOUND.replace("group_id: small", "group_idd: small");
    let ended = Folder::with_flow(&flow).run(&["check", "flow.yaml"]);
    ended.expect_status(1);
    for part in ["error[UNKNOWN_KEY]", "`group_idd`", "`group_id`", "group_idd: small", "flow.yaml:5:5"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\u{1b}'), "colour is for terminals");
}

#[test]
fn all_problems_come_at_once() {
    // An unknown plugin, a fork whose branch ends nowhere, and a batch of nothing.
    let flow = SOUND.replace("topics: [in]", "topics: [in]\n    batch_size: 0").replace(
        "  - into_topic: out",
        "  - step: nowhere\n  - fork:\n      when: [ { if: payload.a, process: [ { filter: payload.b } ] } ]\n      \
         default: [ drain ]",
    );
    let (ended, report) = json(&Folder::with_flow(&flow), &[]);
    ended.expect_status(1);
    for code in ["VALUE_INVALID", "PLUGIN_UNKNOWN", "FORK_BRANCH_NO_TERMINAL"] {
        assert!(codes(&report).contains(&code), "{code}: {report:#}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_issue_in_both_forms() {
    let folder = Folder::with(&[("flwo.yaml", SOUND.as_bytes())]);
    let ended = folder.run(&["check", "flow.yaml"]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("no such file") && ended.stdout.contains("flwo.yaml?"), "{}", ended.stdout);
    let (ended, report) = json(&folder, &[]);
    ended.expect_status(1);
    assert_eq!(codes(&report), ["FILE_INVALID"]);
    let ended = folder.run(&["run", "."]);
    ended.expect_status(1).expect_one_error(&["it is a folder"]);
}

#[test]
fn files_that_a_flow_names_and_that_are_not_there_come_with_what_to_do() {
    let hints = |flow: &str, files: &[(&str, &[u8])]| {
        let flow = [("flow.yaml", flow.as_bytes())];
        let (_, report) = json(&Folder::with(&[&flow[..], files].concat()), &[]);
        let issue = report["issues"].as_array().and_then(|issues| issues.first()).expect("an issue").clone();
        (
            issue["message"].as_str().unwrap_or_default().to_owned(),
            issue["hint"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (message, hint) = hints(&flow_with_step("enrich.wasm"), &[("enrihc.wasm", &b""[..])]);
    assert!(
        message.contains("no such file") && hint.contains("did you mean ") && hint.contains("enrihc.wasm"),
        "{hint}"
    );
    let (_, hint) = hints(&flow_with_step("enrich.wasm"), &[]);
    assert!(hint.contains("build the plugin"), "{hint}");
    let (_, hint) = hints(&flow_with_step("gone/enrich.wasm"), &[]);
    assert!(hint.contains("gone is not there"), "{hint}");
    let (message, hint) = hints(&SOUND.replace("group_id: small", "group_id: \"${file:gone}\""), &[]);
    assert!(
        message.ends_with("cannot be read: no such file") && hint.contains("beside the flow file"),
        "{message}: {hint}"
    );
}

#[test]
fn what_is_no_yaml_is_one_issue() {
    let wrong: [(&str, &[u8]); 4] = [
        ("not YAML", b"name: [unclosed\nkafka: }"),
        ("not text", b"name: \xff\xfe\n"),
        ("empty", b""),
        ("a component", CORE_MODULE),
    ];
    for (what, bytes) in wrong {
        let (ended, report) = json(&Folder::with(&[("flow.yaml", bytes)]), &[]);
        ended.expect_status(1);
        assert_eq!(report["issues"].as_array().map(Vec::len), Some(1), "{what}: {report:#}");
    }
}

#[test]
fn a_variable_without_value_is_a_warning_unless_it_is_required() {
    let flow = SOUND.replace("group_id: small", "group_id: \"${LOOM_CLI_TEST_UNSET}\"");
    let folder = Folder::with_flow(&flow);
    let (ended, report) = json(&folder, &[]);
    ended.expect_status(0);
    assert_eq!((codes(&report), &report["warnings"]), (vec!["VARIABLE_UNSET"], &Value::from(1)));
    let (ended, report) = json(&folder, &["--require-env"]);
    ended.expect_status(1);
    assert_eq!((codes(&report), &report["errors"]), (vec!["VARIABLE_UNSET"], &Value::from(1)));
    let message = report["issues"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("LOOM_CLI_TEST_UNSET"), "{message}");
}

#[test]
fn a_value_of_the_environment_is_never_printed() {
    let flow = SOUND.replace("delivery: at_least_once", "delivery: \"${LOOM_CLI_TEST_CANARY}\"");
    let folder = Folder::with_flow(&flow);
    for format in ["human", "json"] {
        let mut command = folder.command(&["check", "flow.yaml", "--format", format]);
        let output =
            command.env("LOOM_CLI_TEST_CANARY", "hunter2secret").output().expect("the command starts");
        let ended = Ended::of(&output);
        ended.expect_status(1);
        assert!(ended.stdout.contains("${LOOM_CLI_TEST_CANARY}"), "{ended:#?}");
        assert!(!ended.stdout.contains("hunter2secret") && !ended.stderr.contains("hunter2secret"));
    }
}

#[test]
fn a_file_that_is_no_component_is_named_with_what_it_is() {
    let foreign = guest("foreign-track");
    let cases: [(&str, &[u8], &[&str]); 4] = [
        ("core.wasm", CORE_MODULE, &["core", "module"]),
        ("text.wasm", b"hello", &["text"]),
        ("empty.wasm", b"", &["empty"]),
        ("gone.wasm", b"", &["no such file"]),
    ];
    for (name, bytes, words) in cases {
        let flow = flow_with_step(name);
        let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), (name, bytes)]);
        if name == "gone.wasm" {
            std::fs::remove_file(folder.path().join(name)).expect("it is there");
        }
        let (ended, report) = json(&folder, &[]);
        ended.expect_status(1);
        assert_eq!(codes(&report), ["PLUGIN_LOAD_FAILED"], "{name}: {report:#}");
        let message = report["issues"][0]["message"].as_str().unwrap_or_default();
        words.iter().chain(&[name]).for_each(|word| assert!(message.contains(word), "{word}: {message}"));
        json(&folder, &["--no-plugins"]).0.expect_status(0);
    }
    let (ended, report) = json(&Folder::with_flow(&flow_with_step(&foreign)), &[]);
    ended.expect_status(1);
    let message = report["issues"][0]["message"].as_str().unwrap_or_default();
    ["loom:plugin/step", "0.9", "0.1"].iter().for_each(|word| assert!(message.contains(word), "{message}"));
}

#[test]
fn several_files_and_folders_are_checked_in_one_call() {
    let wrong = SOUND.replace("group_id: small", "group_idd: small");
    let warned = SOUND.replace("group_id: small", "group_id: \"${HOSTNAME:-x}\"");
    let folder = Folder::with(&[
        ("a.yaml", SOUND.as_bytes()),
        ("wrong.yaml", wrong.as_bytes()),
        ("overlay.yaml", b"kafka: { consumer: { group_id: other } }\n"),
        ("a.test.yaml", b"records: []\n"),
        ("utf16.yml", b"\xff\xfen\0"),
        (".hidden.yaml", b"process: ["),
        ("notes.txt", b"process: ["),
    ]);
    std::fs::create_dir_all(folder.path().join("below/target")).expect("folders");
    std::fs::write(folder.path().join("below/warned.yaml"), &warned).expect("a file");
    std::fs::write(folder.path().join("below/target/old.yaml"), "process: [").expect("a file");
    let ended = folder.run(&["check", "a.yaml", "gone.yaml", "."]);
    ended.expect_status(1);
    let lines: Vec<&str> =
        ended.stdout.lines().filter(|line| line.contains(".yaml: ") || line.contains(".yml: ")).collect();
    assert_eq!(
        lines,
        [
            "a.yaml: no problems",
            "error[FILE_INVALID]: cannot read the flow gone.yaml: no such file",
            "./below/warned.yaml: 0 errors, 1 warning",
            "./overlay.yaml: left out, it has no `process` and so is no flow",
            "./utf16.yml: 1 error, 0 warnings",
            "./wrong.yaml: 2 errors, 0 warnings",
        ],
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.ends_with("\n5 files: 4 errors, 1 warning\n"), "{}", ended.stdout);
    let ended = folder.run(&["check", "a.yaml", "gone.yaml", ".", "--format", "json"]);
    ended.expect_status(1);
    let report: Value = serde_json::from_str(&ended.stdout).expect("one object");
    let files: Vec<&str> = report["issues"]
        .as_array()
        .map(|issues| issues.iter().filter_map(|issue| issue["file"].as_str()).collect())
        .unwrap_or_default();
    assert_eq!(
        files,
        ["gone.yaml", "./below/warned.yaml", "./utf16.yml", "./wrong.yaml", "./wrong.yaml"],
        "{report:#}"
    );
    assert_eq!((&report["errors"], &report["warnings"]), (&Value::from(4), &Value::from(1)));
}

#[test]
fn a_folder_without_a_flow_is_an_issue() {
    let folder = Folder::with(&[("notes.txt", b"hello")]);
    let ended = folder.run(&["check", "."]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("there is no flow in the folder ."), "{}", ended.stdout);
}

#[test]
fn warnings_are_refused_where_that_is_asked_for() {
    let folder = Folder::with_flow(&SOUND.replace("    delivery: at_least_once\n", ""));
    let (ended, report) = json(&folder, &[]);
    ended.expect_status(0);
    assert_eq!(codes(&report), ["DELIVERY_UNSET"]);
    let (ended, report) = json(&folder, &["--deny-warnings"]);
    ended.expect_status(1);
    assert_eq!((&report["errors"], &report["issues"][0]["severity"]), (&Value::from(0), &"warning".into()));
    let ended = folder.run(&["check", "flow.yaml", "--deny-warnings"]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("warning[DELIVERY_UNSET]") && ended.stdout.contains("--deny-warnings"));
    Folder::with_flow(SOUND).run(&["check", "flow.yaml", "--deny-warnings"]).expect_status(0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let flow = SOUND.replace("group_id: small", "group_idd: small");
    let folder = Folder::with_flow(&flow);
    let mut child = Command::new(env!("CARGO_BIN_EXE_loom-host"))
        .current_dir(folder.path())
        .args(["check", "flow.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    assert_eq!((child.wait().expect("it ends").code(), said.as_str()), (Some(1), ""));
}

#[test]
fn a_plugin_that_quotes_its_configuration_does_not_give_a_secret_away() {
    let plugin = format!(
        "{{ component: {:?}, config: {{ refuse: \"no ${{LOOM_CLI_TEST_CANARY}}\" }} }}",
        guest("probe-step")
    );
    let flow = flow_with_step("x.wasm").replace("{ component: \"x.wasm\" }", &plugin);
    let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), ("in", b"{}\n")]);
    let mut command = folder.command(&["dev", "flow.yaml", "--input", "in"]);
    let output = command.env("LOOM_CLI_TEST_CANARY", "hunter2secret").output().expect("the command starts");
    let ended = Ended::of(&output);
    ended.expect_status(3).expect_one_error(&["refuses its configuration", "***"]);
    assert!(!ended.stderr.contains("hunter2secret"), "{ended:#?}");
}

#[test]
fn brokers_that_do_not_answer_are_a_problem_at_their_place() {
    let flow = without_broker(SOUND);
    let folder = Folder::with_flow(&flow);
    let quiet = folder.run(&["check", "flow.yaml"]);
    assert_eq!(quiet.expect_status(0).stdout, "flow.yaml: no problems\n");
    let asked = folder.run(&["check", "flow.yaml", "--broker", "--format", "json"]);
    let told: Value = serde_json::from_str(&asked.expect_status(1).stdout).expect("JSON");
    let issues = told["issues"].as_array().expect("a list");
    assert_eq!(issues.len(), 1, "{told}");
    let issue = &issues[0];
    assert_eq!(
        (&issue["code"], &issue["path"], &issue["line"]),
        (&"BROKER_UNREACHABLE".into(), &"kafka.consumer".into(), &3.into()),
        "{told}"
    );
    assert!(issue["message"].as_str().is_some_and(|message| message.contains("127.0.0.1:1")), "{told}");
    // Every connection that is dead is named, each at its place.
    let two =
        flow.replace("producer: { brokers: [\"127.0.0.1:1\"]", "producer: { brokers: [\"127.0.0.1:2\"]");
    assert_ne!(two, flow);
    let both = Folder::with_flow(&two).run(&["check", "flow.yaml", "--broker"]);
    let text = &both.expect_status(1).stdout;
    assert!(text.contains("asking 127.0.0.1:1 (kafka.consumer.brokers)"), "{text}");
    assert!(text.contains("asking 127.0.0.1:2 (kafka.producer.brokers)"), "{text}");
    let unset = Folder::with_flow(&flow.replace("group_id: small", "group_id: \"${GROUP}\""));
    let unset = unset.run(&["check", "flow.yaml", "--broker"]);
    assert!(unset.expect_status(1).stdout.contains("VARIABLE_UNSET"), "{unset:#?}");
}

#[test]
fn what_runs_on_one_worker_alone_is_an_error_of_check_with_more() {
    let keyed =
        "process:\n  - collect_batch: { max_records: 10, timeout_ms: 100, key: payload.id }\n  - for_each\n";
    let folder = Folder::with_flow(&SOUND.replace("process:\n", keyed));
    folder.run(&["check", "flow.yaml"]).expect_status(0);
    let ended = folder.run(&["check", "flow.yaml", "-w", "2", "--format", "json"]);
    let told: Value = serde_json::from_str(&ended.expect_status(1).stdout).expect("JSON");
    let issue = &told["issues"][0];
    assert_eq!((&issue["code"], &issue["path"]), (&"NOT_AVAILABLE".into(), &"process[0]".into()), "{told}");
    assert!(issue["message"].as_str().is_some_and(|message| message.contains("on 2 workers")), "{told}");
}
