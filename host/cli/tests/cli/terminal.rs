//! A terminal to run the command at: what people see, who pipe nothing. Linux's way of having one, without a library.

#![cfg(target_os = "linux")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::ioctl::{Getter, Setter, ioctl};

use crate::support::Folder;

/// `TIOCGPTN`: the number of the terminal that belongs to a controlling side.
const NUMBER: u32 = 0x8004_5430;
/// `TIOCSPTLCK`: whether it is locked.
const LOCK: u32 = 0x4004_5431;
/// `O_NOCTTY`: it must not become the test's own.
const NOT_OURS: i32 = 0o400;

/// A controlling side, and the terminal.
fn open() -> (File, File) {
    let open = |path: &str| {
        let file = OpenOptions::new().read(true).write(true).custom_flags(NOT_OURS).open(path);
        file.unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let control = open("/dev/ptmx");
    // SAFETY: the opcode reads no more than this number.
    unsafe { ioctl(&control, Setter::<LOCK, i32>::new(0)) }.expect("it can be unlocked");
    // SAFETY: the opcode writes no more than this number.
    let number = unsafe { ioctl(&control, Getter::<NUMBER, u32>::new()) }.expect("it has a number");
    (control, open(&format!("/dev/pts/{number}")))
}

/// Runs the command at a terminal to its end: its status, and all that is seen there, with the line ends of a file.
pub fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let (mut control, terminal) = open();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loom-host"));
    command.current_dir(folder.path()).args(arguments);
    command.env_remove("LOOM_LOG").env_remove("NO_COLOR").env_remove("LOOM_ADMIN").env("TERM", "xterm");
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).env("XDG_RUNTIME_DIR", folder.path());
    command.stdin(Stdio::null());
    command.stdout(terminal.try_clone().expect("a terminal")).stderr(terminal);
    let mut child = command.spawn().expect("the command starts");
    // The command is the only one that has the terminal: at its end there is nothing more to read, and that is an error.
    drop(command);
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = control.read(&mut piece) {
        seen.extend_from_slice(&piece[..read]);
    }
    let status = child.wait().expect("it ends").code();
    (status, String::from_utf8_lossy(&seen).replace("\r\n", "\n"))
}
