//! `run` on a terminal: a line now and then that says how fast the flow is, and how far behind.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use loom_runtime::status::RunPhase;
use loom_runtime::{Board, FlowStatus};

use crate::show::table::{count, number};
use crate::terminal;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// How long workers are waited for; one that is in a plugin's call answers later.
const ANSWER: Duration = Duration::from_millis(500);

/// Prints the lines until it is dropped; nothing where nobody looks on.
pub struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Of the flow at this board.
    pub fn start(board: &Board) -> Progress {
        if !terminal::stderr_is_terminal() {
            return Progress(None);
        }
        let board = board.clone();
        let (over, ended) = channel::<()>();
        let tell = move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let status = board.read(ANSWER);
                if status.phase == RunPhase::Running {
                    tracing::info!("{}", line(&status));
                }
            }
        };
        // Without the thread only the lines are missing.
        Progress(
            thread::Builder::new().name("progress".to_owned()).spawn(tell).ok().map(|thread| (over, thread)),
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.0.take() {
            drop(over);
            let _ = thread.join();
        }
    }
}

/// What there is to say: the rate, the lag, what is open, and what was dropped.
pub fn line(status: &FlowStatus) -> String {
    let lags: Vec<i64> = status.partitions.iter().filter_map(|partition| partition.lag).collect();
    let lag = if lags.is_empty() { "unknown".to_owned() } else { number(lags.iter().sum()) };
    let rates = status.rates.map_or_else(String::new, |rates| {
        format!("{} records/s read, {}/s resolved, ", per_second(rates.read), per_second(rates.resolved))
    });
    let mut line = format!("{rates}lag {lag}, {} open", count(status.ledger.outstanding));
    if status.dropped.rows > 0 {
        line.push_str(&format!(", {} dropped", count(status.dropped.rows)));
    }
    let reasons: Vec<&str> = status.reasons.iter().map(|reason| reason.kind.as_str()).collect();
    if !reasons.is_empty() {
        line.push_str(&format!("; not ready: {}", reasons.join(", ")));
    }
    line
}

/// A rate for people: small ones with a digit after the point.
pub fn per_second(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

#[cfg(test)]
mod tests {
    use loom_runtime::FlowStatus;
    use loom_runtime::status::{DroppedStatus, RateStatus, Reason};

    use super::{line, per_second};

    #[test]
    fn a_line_has_rate_and_lag_and_what_is_wrong() {
        let mut status = FlowStatus::default();
        assert_eq!(line(&status), "lag unknown, 0 open");
        status.rates = Some(RateStatus { over_ms: 10_000, read: 12_345.4, resolved: 0.25 });
        status.dropped = DroppedStatus { rows: 7, ..DroppedStatus::default() };
        status.reasons = vec![Reason { kind: "output".to_owned(), text: String::new() }];
        assert_eq!(
            line(&status),
            "12,345 records/s read, 0.2/s resolved, lag unknown, 0 open, 7 dropped; not ready: output"
        );
        assert_eq!([0.0, 9.94, 9.96, 1000.4].map(per_second), ["0.0", "9.9", "10", "1,000"]);
    }
}
