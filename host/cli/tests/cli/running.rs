//! The command while it runs.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Folder;

/// The command while it runs. Dropping it kills it.
pub struct Running {
    pub child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub fn start(folder: &Folder, arguments: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loom-host"))
            .current_dir(folder.path())
            .args(arguments)
            .env_remove("LOOM_LOG")
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("XDG_RUNTIME_DIR", folder.path())
            .env_remove("LOOM_ADMIN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let log = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        Running { child, log }
    }

    pub fn write(&mut self, line: &[u8]) {
        self.child.stdin.as_mut().expect("it is piped").write_all(line).expect("it is open");
    }

    /// Standard output, after its first line.
    pub fn first_output(&mut self) -> BufReader<ChildStdout> {
        let mut output = BufReader::new(self.child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("an output");
        assert!(line.contains("\"topic\":\"out\""), "a line is handed on while more is waited for: {line:?}");
        output
    }

    /// Reads the log up to a line with these words in it; that line.
    pub fn wait_for(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        for line in self.log.by_ref() {
            let line = line.expect("text");
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("{words:?} was not logged: {seen:#?}");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    pub fn status(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
