//! Numbered phases with their times, so that who waits for minutes sees where it stands.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Prints `[2/4] what …` before each phase and its time after it, to standard error.
pub struct Phases {
    total: usize,
    current: usize,
    start: Instant,
}

impl Phases {
    /// A task that has so many phases.
    pub fn new(total: usize) -> Self {
        Self { total, current: 0, start: Instant::now() }
    }

    /// Runs one phase.
    pub fn run<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.announce(what);
        let start = Instant::now();
        let result = work();
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        eprintln!("      {verdict} after {}", time(start.elapsed()));
        result
    }

    /// Announces the last phase when it is not ours to time.
    pub fn announce(&mut self, what: &str) {
        self.current += 1;
        eprintln!("[{}/{}] {what} …", self.current, self.total);
    }

    /// The time since the task began, as text.
    pub fn elapsed(&self) -> String {
        time(self.start.elapsed())
    }
}

fn time(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}
