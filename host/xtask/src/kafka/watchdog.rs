//! Ends a process when we end, however we end.
//!
//! A shell waits on a pipe whose other end only we hold. When this process is gone, by `kill -9` too, the pipe closes,
//! and the shell kills what it watches and removes the folder. It is in a process group of its own, so that Ctrl-C does
//! not end it first.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

pub(super) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Watches over a process and the folder that it works in.
    pub(super) fn over(pid: u32, folder: &Path) -> Result<Self> {
        const SCRIPT: &str = r#"read -r _; kill -9 "$1" 2>/dev/null; while kill -0 "$1" 2>/dev/null; do sleep 0.1; done; rm -rf "$2""#;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog", &pid.to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start `sh`")?;
        Ok(Self { shell })
    }
}

impl Drop for Watchdog {
    /// Calls it off: whoever drops it ends the process in an orderly way.
    fn drop(&mut self) {
        // It can only fail for a shell that is gone already.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
