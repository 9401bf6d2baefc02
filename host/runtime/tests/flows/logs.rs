//! What runs have logged, of all tests together: a test tells its lines by the flow's name or by what only it says.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what is logged from now on; the first call decides, so a test that reads logs calls it before it runs.
pub fn keep() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing_subscriber::fmt().json().flatten_event(true).with_writer(|| Keep).init();
    });
}

/// The lines kept so far that `pick` takes.
pub fn lines(pick: impl Fn(&Value) -> bool) -> Vec<Value> {
    let bytes = LINES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| pick(line)).collect()
}

/// The lines of one flow.
pub fn of_flow(name: &str) -> Vec<Value> {
    lines(|line| line["flow"] == name)
}
