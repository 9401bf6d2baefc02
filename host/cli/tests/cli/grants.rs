//! Folders that flow.yaml grants and that `run` cannot give: found before a broker is asked for anything.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Ended, Folder, flow_with_probe, without_broker};

fn flow(granted: &Path, mode: &str) -> String {
    without_broker(&flow_with_probe(&format!(
        "allow: {{ dirs: [ {{ host: {granted:?}, guest: /data, mode: {mode} }} ] }}"
    )))
}

#[test]
fn a_granted_folder_that_is_missing_or_a_file_is_status_3() {
    for mode in ["ro", "rw"] {
        for (name, told) in [("gone", "does not exist"), ("file", "is a file")] {
            // Beside the flow's file, as it is written there.
            let folder =
                Folder::with(&[("flow.yaml", flow(Path::new(name), mode).as_bytes()), ("file", b"")]);
            let ended = folder.run(&["run", "flow.yaml"]);
            ended.expect_status(3).expect_one_error(&["plugin x", &format!("./{name}"), told]);
        }
    }
}

/// The command, started with a read-only file system of nothing mounted on the folder that follows.
const MOUNTED: [&str; 7] = [
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-ceu",
    "mount -t tmpfs -o ro none \"$1\"; shift; exec \"$@\"",
    "sh",
];

/// A folder on a read-only mount, and whether it is one only for what [`MOUNTED`] starts. Where this machine lets
/// nobody mount, one that it has mounted so itself.
fn read_only_mount(folder: &Folder) -> (PathBuf, bool) {
    let own = folder.path().join("mounted");
    fs::create_dir(&own).expect("a folder");
    let path = own.to_string_lossy();
    let mounts = [&MOUNTED[..], &[&path, "true"]].concat();
    if folder.program("unshare", &mounts).output().is_ok_and(|output| output.status.success()) {
        return (own.clone(), true);
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the system's mounts");
    let mut read_only = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, options) = (PathBuf::from(fields.next()?), fields.nth(1)?);
        (options.split(',').any(|option| option == "ro") && fs::read_dir(&path).is_ok()).then_some(path)
    });
    (read_only.next().expect("nothing can be mounted here, and nothing is mounted read-only"), false)
}

#[test]
fn a_folder_on_a_read_only_mount_is_granted_for_reading_alone() {
    let folder = Folder::with(&[]);
    let (granted, alone) = read_only_mount(&folder);
    let path = granted.to_string_lossy();
    let run = |mode: &str| {
        fs::write(folder.path().join("flow.yaml"), flow(&granted, mode)).expect("a file");
        let command = [env!("CARGO_BIN_EXE_loom-host"), "run", "flow.yaml"];
        let mut command = match alone {
            true => folder.program("unshare", &[&MOUNTED[..], &[&path], &command].concat()),
            false => folder.command(&command[1..]),
        };
        Ended::of(&command.output().expect("it starts"))
    };
    let told = ["plugin x", &path, "cannot be written", "Read-only file system", "mode: ro"];
    run("rw").expect_status(3).expect_one_error(&told);
    // To read it is granted, and the next thing that is missing is the broker.
    run("ro").expect_status(4).expect_one_error(&["127.0.0.1:1", "startup_timeout"]);
}
