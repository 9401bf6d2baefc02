//! What is granted can be used, and nothing else.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use loom_plugin::{DirGrant, DirMode, Grants, LoadError, PluginSpec, StepNode};
use serde_json::Value;

use crate::common::{host, load, logged, node, payloads, plugin_messages, spec, texts};

/// What one command answers under these grants.
fn ask(grants: Grants, command: &str) -> String {
    let plugin = load(&PluginSpec { grants, ..spec("probe-step", Value::Null) });
    let batch = payloads([command]);
    let answers = StepNode::new(&plugin, node()).unwrap().call(&batch, &[0]);
    assert!(answers.failures.is_empty(), "{command}: {:?}", answers.failures);
    texts(&batch, &[0], answers.changes).remove(0).unwrap()
}

fn folder(host: &Path, mode: DirMode) -> Grants {
    Grants {
        dirs: vec![DirGrant { host: host.to_owned(), guest: "/data".to_owned(), mode }],
        ..Grants::default()
    }
}

#[test]
fn the_environment_is_what_is_granted_by_name() {
    let grants = Grants { env: vec![("REGION".to_owned(), "eu".to_owned())], ..Grants::default() };
    assert_eq!(ask(grants.clone(), "env:REGION"), "eu");
    assert!(ask(grants, "env:PATH").starts_with("error:"));
    assert!(ask(Grants::default(), "env:REGION").starts_with("error:"));
}

#[test]
fn a_folder_can_be_read_and_written_as_granted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "alpha").unwrap();
    let read_only = || folder(dir.path(), DirMode::ReadOnly);
    assert_eq!(ask(read_only(), "read:/data/a.txt"), "alpha");
    assert_eq!(ask(read_only(), "list:/data"), "a.txt");
    assert!(ask(read_only(), "write:/data/b.txt").starts_with("error:"));
    assert!(!dir.path().join("b.txt").exists());
    assert_eq!(ask(folder(dir.path(), DirMode::ReadWrite), "write:/data/b.txt"), "written");
    assert_eq!(std::fs::read_to_string(dir.path().join("b.txt")).unwrap(), "written\n");
    assert!(ask(Grants::default(), "list:/").starts_with("error:"));
}

#[test]
fn nothing_leads_out_of_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, secret) = (dir.path().join("inside"), dir.path().join("secret.txt"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(&secret, "secret").unwrap();
    symlink(&secret, inside.join("absolute")).unwrap();
    symlink("../secret.txt", inside.join("relative")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("kept.txt", inside.join("within")).unwrap();
    std::fs::write(inside.join("kept.txt"), "kept").unwrap();
    let grants = || folder(&inside, DirMode::ReadWrite);
    for path in ["../secret.txt", "absolute", "relative", "up/secret.txt", "./../inside/../secret.txt"] {
        let answer = ask(grants(), &format!("read:/data/{path}"));
        assert!(answer.starts_with("error:"), "{path}: {answer}");
        let answer = ask(grants(), &format!("write:/data/{path}"));
        assert!(answer.starts_with("error:"), "{path}: {answer}");
    }
    assert!(ask(grants(), &format!("read:{}", secret.display())).starts_with("error:"));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(ask(grants(), "read:/data/within"), "kept", "a link that stays inside is followed");
}

#[test]
fn the_network_is_refused_and_told_once_with_what_would_grant_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let plugin = load(&spec("probe-step", Value::Null));
    let batch = payloads([format!("connect:{address}"), "connect:db.example:5432".to_owned()]);
    let ((), events) = logged(|| {
        for _ in 0..2 {
            let answers = StepNode::new(&plugin, node()).unwrap().call(&batch, &[0, 1]);
            assert!(answers.failures.is_empty(), "{:?}", answers.failures);
            for answer in texts(&batch, &[0, 1], answers.changes) {
                let answer = answer.unwrap();
                assert!(answer.starts_with("error:"), "{answer}");
            }
        }
    });
    assert!(listener.accept().is_err(), "nobody connected");
    let messages = plugin_messages(&events);
    let about = |text: &str| messages.iter().filter(|message| message.contains(text)).count();
    assert_eq!(
        about(&format!("plugins: {{ p: {{ allow: {{ tcp: [\"{address}\"] }} }} }}")),
        1,
        "{messages:?}"
    );
    assert_eq!(about("looking up the name \"db.example\" is not granted"), 1, "{messages:?}");
    let refused = events.iter().filter(|event| {
        event["message"].as_str().is_some_and(|text| text.contains("the plugin was told access-denied"))
    });
    let refused: Vec<_> = refused.collect();
    let named =
        |event: &&Value| event["flow"].is_string() && event["node"].is_string() && event["worker"] == 3;
    assert!(refused.len() == 2 && refused.iter().all(named), "where it was: {refused:#?}");
}

#[test]
fn a_grant_that_cannot_be_given_is_found_when_the_plugin_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    for (path, told) in [(dir.path().join("missing"), "does not exist"), (file, "is a file")] {
        let spec = PluginSpec { grants: folder(&path, DirMode::ReadOnly), ..spec("probe-step", Value::Null) };
        let error = host().load(&spec).unwrap_err();
        assert!(matches!(error, LoadError::Grant { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(told) && text.contains(&*path.to_string_lossy()), "{text}");
        assert!(!error.is_bad_file());
    }
}
