//! A plugin's words in the host's log: its `log` calls, and its stdout and stderr line by line, each with flow, node,
//! plugin and worker, and with the record that it was called for.
//!
//! Lines are cut at 16 KiB, empty ones are left out. Bytes a second are bounded, with a second's worth of burst; lines above
//! are left out and counted, and the count is told with the next line that passes, or when the instance ends. The last lines
//! of a call are kept, as they say why it trapped.

mod call;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loom_types::Batch;
use tracing::Level;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::node::NodeContext;
use call::{Call, Place};

/// The longest line; what is behind is cut off.
const LINE_BYTES: usize = 16 << 10;

/// What a line costs at least, so that empty lines are bounded too.
const LINE_COST: f64 = 64.0;

/// What a stream takes in one go.
const PERMIT: usize = 64 << 10;

/// The log of one instance.
#[derive(Debug)]
pub(crate) struct PluginLog {
    node: NodeContext,
    rate: Mutex<Rate>,
    call: Mutex<Call>,
}

impl PluginLog {
    pub(crate) fn new(node: NodeContext, bytes_per_second: u64) -> Self {
        PluginLog {
            node,
            rate: Mutex::new(Rate::new(bytes_per_second, Instant::now())),
            call: Mutex::default(),
        }
    }

    /// The next call is for these rows of a batch, or for none in particular.
    pub(crate) fn begin(&self, about: Option<(&Batch, &[u32])>) {
        self.call().begin(about);
    }

    /// The last lines that the call under way wrote; none where it wrote nothing.
    pub(crate) fn last_lines(&self) -> Option<String> {
        self.call().last_lines()
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line, unless there is nothing in it or the rate is used up.
    pub(crate) fn line(&self, level: Level, message: &str) {
        if message.trim_ascii().is_empty() {
            return;
        }
        let kept = cut(message, LINE_BYTES);
        let mut call = self.call();
        call.wrote(kept);
        let admitted =
            self.rate.lock().unwrap_or_else(PoisonError::into_inner).admit(kept.len(), Instant::now());
        match admitted {
            Admitted::No => {}
            Admitted::Yes { left_out } => {
                self.tell_left_out(left_out);
                let cut_off = message.len() - kept.len();
                if cut_off == 0 {
                    self.emit(level, call.place(), format_args!("{kept}"));
                } else {
                    self.emit(level, call.place(), format_args!("{kept}… ({cut_off} bytes cut off)"));
                }
            }
        }
    }

    /// The plugin's name.
    pub(crate) fn plugin(&self) -> &str {
        &self.node.plugin
    }

    /// Writes a line of the host's own about the plugin, whatever it says itself.
    pub(crate) fn host(&self, level: Level, message: std::fmt::Arguments<'_>) {
        self.emit(level, self.call().place(), message);
    }

    fn tell_left_out(&self, lines: u64) {
        if lines > 0 {
            self.emit(
                Level::WARN,
                None,
                format_args!("{lines} lines of this plugin's log were left out (limits.log)"),
            );
        }
    }

    fn emit(&self, level: Level, at: Option<&Place>, message: std::fmt::Arguments<'_>) {
        let NodeContext { flow, node, plugin, worker, .. } = &self.node;
        let (flow, node, plugin) = (&**flow, &**node, &**plugin);
        let (topic, partition, offset) =
            (at.map(|at| &*at.topic), at.map(|at| at.partition), at.map(|at| at.offset));
        let row = at.map(|at| &*at.row).filter(|row| !row.is_empty());
        let records = at.map(|at| at.records).filter(|records| *records > 1);
        macro_rules! emit {
            ($level:ident) => {
                tracing::$level!(
                    target: "plugin",
                    flow, node, plugin, worker, topic, partition, offset, row, records,
                    "{message}"
                )
            };
        }
        match level {
            Level::ERROR => emit!(error),
            Level::WARN => emit!(warn),
            Level::INFO => emit!(info),
            Level::DEBUG => emit!(debug),
            Level::TRACE => emit!(trace),
        }
    }
}

impl Drop for PluginLog {
    fn drop(&mut self) {
        let left_out = self.rate.get_mut().unwrap_or_else(PoisonError::into_inner).left_out;
        self.tell_left_out(left_out);
    }
}

/// The longest beginning of at most so many bytes that ends between characters.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes.min(text.len()))]
}

#[derive(Debug, PartialEq, Eq)]
enum Admitted {
    Yes { left_out: u64 },
    No,
}

/// A token bucket over bytes, which holds a second's worth.
#[derive(Debug)]
struct Rate {
    per_second: f64,
    level: f64,
    filled: Instant,
    left_out: u64,
}

impl Rate {
    fn new(bytes_per_second: u64, now: Instant) -> Self {
        let per_second = bytes_per_second as f64;
        Rate { per_second, level: per_second, filled: now, left_out: 0 }
    }

    fn admit(&mut self, bytes: usize, now: Instant) -> Admitted {
        let passed = now.saturating_duration_since(self.filled).min(Duration::from_secs(1));
        self.level = (self.level + passed.as_secs_f64() * self.per_second).min(self.per_second);
        self.filled = now;
        let cost = (bytes as f64).max(LINE_COST);
        // A line longer than a second's worth passes when the bucket is full, else it never would.
        if self.level >= cost.min(self.per_second) && self.per_second > 0.0 {
            self.level = (self.level - cost).max(0.0);
            Admitted::Yes { left_out: std::mem::take(&mut self.left_out) }
        } else {
            self.left_out += 1;
            Admitted::No
        }
    }
}

/// A guest's stdout or stderr. All streams that a guest opens on it share one line.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug)]
struct Lines {
    log: Arc<PluginLog>,
    level: Level,
    line: Vec<u8>,
    /// Bytes of the line under way that did not fit.
    over: usize,
}

impl Captured {
    pub(crate) fn new(log: Arc<PluginLog>, level: Level) -> Self {
        Captured { lines: Arc::new(Mutex::new(Lines { log, level, line: Vec::new(), over: 0 })) }
    }

    fn take(&self, bytes: &[u8]) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
    }

    /// Nothing more comes: the line under way is a line.
    pub(crate) fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).finish();
    }
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            // One byte more than a line holds is kept, so that the log sees that it must cut.
            let room = (LINE_BYTES + 1).saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.over += text.len() - room;
            if ended {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if self.over == 0 {
            self.log.line(self.level, text);
        } else {
            let over = self.over;
            self.log.line(self.level, &format!("{}… ({over} bytes cut off)", cut(text, LINE_BYTES - 64)));
        }
        self.line.clear();
        self.over = 0;
    }

    fn finish(&mut self) {
        if !self.line.is_empty() {
            self.end();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.finish();
    }
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Captured {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl tokio::io::AsyncWrite for Captured {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.take(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Admitted, Rate, cut};

    #[test]
    fn what_is_above_the_rate_is_counted_and_told_with_the_next_line() {
        let start = Instant::now();
        let mut rate = Rate::new(1000, start);
        for _ in 0..10 {
            assert_eq!(rate.admit(100, start), Admitted::Yes { left_out: 0 });
        }
        assert_eq!(rate.admit(100, start), Admitted::No);
        assert_eq!(rate.admit(0, start), Admitted::No, "an empty line costs too");
        let later = start + Duration::from_millis(100);
        assert_eq!(rate.admit(100, later), Admitted::Yes { left_out: 2 });
        assert_eq!(rate.admit(100, later), Admitted::No);
    }

    #[test]
    fn a_line_longer_than_a_seconds_worth_still_passes() {
        let start = Instant::now();
        let mut rate = Rate::new(1000, start);
        assert_eq!(rate.admit(5000, start), Admitted::Yes { left_out: 0 });
        assert_eq!(rate.admit(5000, start + Duration::from_millis(999)), Admitted::No);
        assert_eq!(rate.admit(5000, start + Duration::from_secs(2)), Admitted::Yes { left_out: 1 });
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("a", 9), "a");
    }
}
