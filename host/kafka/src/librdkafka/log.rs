//! librdkafka's own log lines, into `tracing`, and how often one thing is said.
//!
//! A broker that is away makes each client repeat itself for as long as it is, with other numbers each time. Each kind
//! of line is let through once in [`PAUSE`]; the next one says how many were held back.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::hints;

/// The shortest time between two lines of a kind.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// When each kind of line was last let through, and how many were held back since.
pub(super) struct Limiter<K> {
    seen: HashMap<K, (Instant, u64)>,
}

impl<K: Eq + Hash> Limiter<K> {
    pub(super) fn new() -> Self {
        Limiter { seen: HashMap::new() }
    }

    /// Whether a line of this kind may be said now; then also how many were held back.
    pub(super) fn admit(&mut self, kind: K, now: Instant) -> Option<u64> {
        match self.seen.get_mut(&kind) {
            Some((last, held)) if now.saturating_duration_since(*last) < PAUSE => {
                *held += 1;
                None
            }
            Some((last, held)) => {
                *last = now;
                Some(std::mem::take(held))
            }
            None => {
                self.seen.insert(kind, (now, 0));
                Some(0)
            }
        }
    }
}

/// Lines come from the threads of all clients. A kind is a hash of the line without its digits: brokers, clients and
/// times differ in them, and so does nothing that is worth a line of its own.
static LIMITER: Mutex<Option<(RandomState, Limiter<u64>)>> = Mutex::new(None);

/// How many kinds are remembered.
const KINDS: usize = 1000;

/// One line, with the level that syslog gives it. `err` is what librdkafka calls a connection that failed, and that is
/// waited out here: a warning. What ends a flow is an error, and told by the flow itself.
pub(super) fn line(level: i32, facility: &str, text: &str) {
    // A broker may close connections; whoever waits for an answer says so.
    let level = if hints::closed(facility, text) { 7 } else { level };
    let held = {
        let Ok(mut shared) = LIMITER.lock() else { return };
        let (hasher, limiter) = shared.get_or_insert_with(|| (RandomState::new(), Limiter::new()));
        if limiter.seen.len() >= KINDS {
            limiter.seen.clear();
        }
        limiter.admit(hasher.hash_one((level, facility, without_digits(text))), Instant::now())
    };
    let Some(held) = held else { return };
    match level {
        0..=2 => tracing::error!(target: "kafka", facility, held, "{text}"),
        3 | 4 => tracing::warn!(target: "kafka", facility, held, "{text}"),
        5 | 6 => tracing::info!(target: "kafka", facility, held, "{text}"),
        _ => tracing::debug!(target: "kafka", facility, held, "{text}"),
    }
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Limiter, PAUSE};

    #[test]
    fn a_kind_is_said_once_in_a_while_and_then_says_what_was_held_back() {
        let mut limiter = Limiter::new();
        let start = Instant::now();
        assert_eq!(limiter.admit("FAIL", start), Some(0));
        assert_eq!(limiter.admit("FAIL", start + Duration::from_secs(1)), None);
        assert_eq!(limiter.admit("OTHER", start + Duration::from_secs(1)), Some(0));
        assert_eq!(limiter.admit("FAIL", start + Duration::from_secs(2)), None);
        assert_eq!(limiter.admit("FAIL", start + PAUSE), Some(2));
        assert_eq!(limiter.admit("FAIL", start + PAUSE), None);
    }
}
