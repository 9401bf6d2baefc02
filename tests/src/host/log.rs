//! What a child prints, line by line, as it comes, with waiting for a line that one expects.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// One line of the host's output. Its log is flat JSON wherever standard error is no terminal, but a panic is not.
#[derive(Clone, Debug)]
pub struct Line {
    /// As it was printed.
    pub text: String,
    /// The same as JSON, if it is that.
    pub json: Option<Value>,
}

impl Line {
    fn new(text: String) -> Self {
        Self { json: serde_json::from_str(&text).ok().filter(Value::is_object), text }
    }

    /// The log line's message; for a line that is no JSON, the line.
    pub fn message(&self) -> &str {
        self.field("message").and_then(Value::as_str).unwrap_or(&self.text)
    }

    /// The log line's level in upper case, such as `WARN`; empty for a line that is no JSON.
    pub fn level(&self) -> &str {
        self.field("level").and_then(Value::as_str).unwrap_or_default()
    }

    /// A field of the log line.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.json.as_ref()?.get(name)
    }

    /// A field that is a number; the log writes small ones as numbers and may write large ones as text.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.field(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }
}

/// The lines of one stream so far, shared with the thread that reads it.
#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    ended: bool,
}

/// One stream of a child.
pub(super) struct Stream {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    /// Reads a stream to its end, on a thread of its own, so that the child never blocks on a full pipe.
    pub(super) fn of(stream: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let reader = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut stream = BufReader::new(stream);
                let mut bytes = Vec::new();
                while stream.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                    let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
                    bytes.clear();
                    shared.lock().lines.push(Line::new(text));
                    shared.changed.notify_all();
                }
                shared.lock().ended = true;
                shared.changed.notify_all();
            }
        });
        Self { shared, reader: Some(reader) }
    }

    /// Waits for the first line at or after an index that is as wanted. Returns it with its index; None when the stream
    /// ends or the time is up first.
    pub(super) fn wait_for(
        &self,
        from: usize,
        wanted: impl Fn(&Line) -> bool,
        within: Duration,
    ) -> Option<(usize, Line)> {
        let deadline = Instant::now() + within;
        let mut seen = from;
        let mut guard = self.shared.lock();
        loop {
            let found = (seen..guard.lines.len()).find(|index| wanted(&guard.lines[*index]));
            if let Some(index) = found {
                return Some((index, guard.lines[index].clone()));
            }
            seen = seen.max(guard.lines.len());
            let left = deadline.saturating_duration_since(Instant::now());
            if guard.ended || left.is_zero() {
                return None;
            }
            (guard, _) =
                self.shared.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All lines so far.
    pub(super) fn so_far(&self) -> Vec<Line> {
        self.shared.lock().lines.clone()
    }

    /// All lines, once the stream has ended.
    pub(super) fn all(&mut self) -> Vec<Line> {
        if let Some(reader) = self.reader.take() {
            // It cannot panic, and if it did the lines so far are what there is.
            let _ = reader.join();
        }
        self.so_far()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stream;

    #[test]
    fn lines_are_found_as_they_come_and_the_end_is_noticed() {
        let text = b"plain\n{\"level\":\"INFO\",\"message\":\"started\",\"offset\":\"7\"}\n\xff rest";
        let mut stream = Stream::of(&text[..]);
        let (index, line) = stream
            .wait_for(0, |line| line.message() == "started", Duration::from_secs(5))
            .expect("it is there");
        assert_eq!((index, line.level(), line.number("offset")), (1, "INFO", Some(7)));
        assert!(stream.wait_for(2, |line| line.message() == "started", Duration::from_secs(5)).is_none());
        assert_eq!(stream.all().len(), 3);
    }
}
