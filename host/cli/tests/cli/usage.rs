//! Arguments, help, and the variables that the command itself reads.

use crate::support::{Folder, SOUND};

#[test]
fn a_mistyped_flag_names_the_nearest() {
    let ended = Folder::with_flow(SOUND).run(&["run", "flow.yaml", "--workers-per-proces", "2"]);
    ended.expect_status(2);
    assert!(ended.stderr.contains("--workers-per-process"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty());
}

#[test]
fn a_flag_that_there_is_not_names_none_that_means_something_else() {
    let folder = Folder::with_flow(SOUND);
    let ended = folder.run(&["run", "flow.yaml", "--recovery", "x"]);
    ended.expect_status(2);
    assert!(ended.stderr.contains("'--recovery'"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--take-over"), "{}", ended.stderr);
    for (slip, meant) in [("--tak-over", "--take-over"), ("--take", "--take-over"), ("--admn", "--admin")] {
        let ended = folder.run(&["run", "flow.yaml", slip]);
        ended.expect_status(2);
        assert!(ended.stderr.contains(&format!("'{meant}'")), "{slip}: {}", ended.stderr);
    }
}

#[test]
fn a_mistyped_verb_names_the_nearest() {
    let folder = Folder::with(&[]);
    for (mistyped, meant) in [(&["chek"][..], "check"), (&["plugin", "inspct"], "inspect")] {
        let ended = folder.run(mistyped);
        ended.expect_status(2);
        assert!(ended.stderr.contains(&format!("'{meant}'")), "{}", ended.stderr);
    }
}

#[test]
fn values_out_of_range_are_usage() {
    let folder = Folder::with_flow(SOUND);
    let wrong: [&[&str]; 5] = [
        &["run", "flow.yaml", "-w", "0"],
        &["run", "flow.yaml", "-w", "many"],
        &["run"],
        &["dev", "flow.yaml", "--input", "-", "--timeout", "30"],
        &["check", "flow.yaml", "--format", "xml"],
    ];
    for arguments in wrong {
        folder.run(arguments).expect_status(2);
    }
}

#[test]
fn help_is_on_standard_output_and_has_examples() {
    let folder = Folder::with(&[]);
    let verbs: [&[&str]; 7] =
        [&[], &["run"], &["dev"], &["check"], &["explain"], &["plugin"], &["plugin", "inspect"]];
    for verb in verbs {
        let ended = folder.run(&[verb, &["--help"]].concat());
        ended.expect_status(0);
        assert!(ended.stdout.contains("Examples:\n  loom-host "), "{verb:?}: {}", ended.stdout);
        assert!(ended.stderr.is_empty());
    }
    assert!(folder.run(&["--version"]).expect_status(0).stdout.starts_with("loom-host 0."));
    folder.run(&[]).expect_status(2);
}

#[test]
fn flags_of_later_work_do_not_exist() {
    let folder = Folder::with_flow(SOUND);
    for flag in ["--recovery", "--admin", "--watch", "-a", "-i", "--from", "--take-over"] {
        folder.run(&["run", "flow.yaml", flag, "x"]).expect_status(2);
    }
}

#[test]
fn a_mistyped_filter_is_usage_and_names_the_nearest_level() {
    let output = Folder::with_flow(SOUND).command(&["check", "flow.yaml"]).env("LOOM_LOG", "inof").output();
    let output = output.expect("the command starts");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("LOOM_LOG=inof") && said.contains("\"info\""), "{said}");
}
