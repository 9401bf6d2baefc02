//! Which call of a plugin a worker is in, for whoever asks while it is.
//!
//! A worker that is in a call answers nobody, so it notes the call before it makes it: one store before and one after,
//! no lock, and nothing for a record that no plugin is called for. Node and moment are in one word, so that a reader
//! never sees one call's node with another's moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bits of the moment, in milliseconds: five hundred years.
const MOMENT: u32 = 44;

/// A worker's note.
#[derive(Debug)]
pub(crate) struct Calling {
    begun: Instant,
    /// The node's index, counted from 1, above the moment; 0 outside of calls.
    word: AtomicU64,
}

impl Default for Calling {
    fn default() -> Self {
        Calling { begun: Instant::now(), word: AtomicU64::new(0) }
    }
}

impl Calling {
    /// A call at this node begins.
    pub(crate) fn begins(&self, node: usize) {
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0) & ((1 << MOMENT) - 1);
        self.word.store((node as u64 + 1) << MOMENT | since, Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn ends(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// The call under way at `now`: the node's index, and how long it has taken.
    pub(super) fn now(&self, now: Instant) -> Option<(usize, Duration)> {
        let word = self.word.load(Ordering::Relaxed);
        let node = usize::try_from(word >> MOMENT).ok()?.checked_sub(1)?;
        let since = Duration::from_millis(word & ((1 << MOMENT) - 1));
        Some((node, now.saturating_duration_since(self.begun).saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Calling;

    #[test]
    fn a_call_is_known_by_its_node_and_how_long_it_takes() {
        let calling = Calling::default();
        assert_eq!(calling.now(Instant::now()), None);
        for node in [0, 1, 9_999] {
            calling.begins(node);
            let (found, took) = calling.now(Instant::now() + Duration::from_secs(12)).unwrap();
            assert_eq!(found, node);
            assert!((12..60).contains(&took.as_secs()), "{took:?}");
        }
        calling.ends();
        assert_eq!(calling.now(Instant::now()), None);
    }
}
