//! The host as a child process.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use super::log::{Line, Stream};
use super::stopped::Stopped;
use crate::PATIENCE;

/// A running host. Dropping it kills it.
pub struct Host {
    child: Child,
    log: Stream,
    output: Stream,
    command: String,
}

/// A host that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; None when a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard error: the log.
    pub log: Vec<Line>,
    /// Standard output.
    pub output: Vec<Line>,
}

impl Host {
    /// Starts `loom-host` with these arguments in a folder.
    ///
    /// # Errors
    /// If the binary cannot be built or started.
    pub fn start(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Self> {
        Self::start_with(folder, arguments, |_| ())
    }

    /// The same, with a command that is changed before it is started: its environment, its standard input.
    ///
    /// # Errors
    /// As for `start`.
    pub fn start_with(
        folder: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        change: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let mut command = Command::new(super::binary()?);
        command
            .current_dir(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A filter that the developer has set must not hide the lines that tests wait for.
            .env_remove("LOOM_LOG")
            .env("RUST_BACKTRACE", "0")
            // Signals that the terminal sends to the tests are not for it.
            .process_group(0);
        change(&mut command);
        let text = xtask::programs::line(&command);
        let mut child = command.spawn().with_context(|| format!("cannot start `{text}`"))?;
        let log = Stream::of(child.stderr.take().context("standard error is not piped")?);
        let output = Stream::of(child.stdout.take().context("standard output is not piped")?);
        Ok(Self { child, log, output, command: text })
    }

    /// Runs `loom-host` to its end.
    ///
    /// # Errors
    /// If it cannot be started, or does not end in time.
    pub fn run(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Ended> {
        Self::start(folder, arguments)?.wait()
    }

    /// Waits for a log line as wanted, also one that came already.
    ///
    /// # Errors
    /// If none comes in time, or the host ends before; the log is in the error.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Line) -> bool) -> Result<Line> {
        self.wait_for_after(0, what, wanted).map(|(_, line)| line)
    }

    /// Waits for a log line as wanted from an index on; returns it with its index.
    ///
    /// # Errors
    /// As for `wait_for`.
    pub fn wait_for_after(
        &self,
        from: usize,
        what: &str,
        wanted: impl Fn(&Line) -> bool,
    ) -> Result<(usize, Line)> {
        match self.log.wait_for(from, wanted, PATIENCE) {
            Some(found) => Ok(found),
            None => bail!("{} did not log {what}; it logged:\n{}", self.command, text(&self.log.so_far())),
        }
    }

    /// Waits for a line on standard output as wanted.
    ///
    /// # Errors
    /// If none comes in time, or the host ends before.
    pub fn wait_for_output(&self, what: &str, wanted: impl Fn(&Line) -> bool) -> Result<Line> {
        match self.output.wait_for(0, wanted, PATIENCE) {
            Some((_, line)) => Ok(line),
            None => bail!("{} did not print {what}; its log:\n{}", self.command, text(&self.log.so_far())),
        }
    }

    /// The log so far.
    pub fn log(&self) -> Vec<Line> {
        self.log.so_far()
    }

    /// The log so far, as text.
    pub fn log_text(&self) -> String {
        text(&self.log.so_far())
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If the process has ended and was waited for.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.command))
    }

    /// SIGTERM, then waits for the end.
    ///
    /// # Errors
    /// If it does not end in time.
    pub fn stop(self) -> Result<Ended> {
        self.signal(Signal::TERM)?;
        self.wait()
    }

    /// `kill -9`, then waits for the end.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(mut self) -> Result<Ended> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.command))?;
        self.wait()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If it does not come within [`PATIENCE`]; the host is killed then, and the log is in the error.
    pub fn wait(self) -> Result<Ended> {
        self.wait_within(PATIENCE)
    }

    /// Waits for the end, so long at most.
    ///
    /// # Errors
    /// As for `wait`.
    pub fn wait_within(mut self, within: Duration) -> Result<Ended> {
        let deadline = Instant::now() + within;
        // The log's end is the event: the host's death closes the pipe.
        self.log.wait_for(usize::MAX, |_| false, within);
        let Some(status) = self.status_before(deadline)? else {
            let log = text(&self.log.so_far());
            bail!("{} did not end within {within:?}; it logged:\n{log}", self.command);
        };
        let (log, output) = (self.log.all(), self.output.all());
        Ok(Ended { status: status.code(), signal: status.signal(), log, output })
    }

    /// Its exit status, once the pipe is closed a matter of moments.
    fn status_before(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended already, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The structured last line of an orderly end, with counters and ledger.
    ///
    /// # Errors
    /// If the last line is another one; the log is in the error.
    pub fn stopped(&self) -> Result<Stopped> {
        Stopped::from_log(&self.log).with_context(|| format!("it logged:\n{}", text(&self.log)))
    }

    /// Makes sure that it ended with this status.
    ///
    /// # Errors
    /// If it did not; the log is in the error.
    pub fn expect_status(&self, status: i32) -> Result<&Self> {
        if self.status != Some(status) {
            let how = match self.signal {
                Some(signal) => format!("by signal {signal}"),
                None => format!("with status {}", self.status.unwrap_or(-1)),
            };
            bail!("it ended {how}, not with status {status}; it logged:\n{}", text(&self.log));
        }
        Ok(self)
    }

    /// The log as text.
    pub fn log_text(&self) -> String {
        text(&self.log)
    }

    /// The log lines that are as wanted.
    pub fn logged(&self, wanted: impl Fn(&Line) -> bool) -> Vec<&Line> {
        self.log.iter().filter(|line| wanted(line)).collect()
    }
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
}
