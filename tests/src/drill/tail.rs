//! Watches the output topic as it grows, and notes when each record came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::account::Sighting;
use crate::PATIENCE;
use crate::host::Host;
use crate::kafka::{Broker, Reader};

pub(super) struct Tail {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    seen: Mutex<Vec<Seen>>,
    grown: Condvar,
    /// Why nothing more will be seen.
    problem: OnceLock<String>,
}

/// A record of the output, and when it was seen.
#[derive(Clone, Copy)]
struct Seen {
    sighting: Sighting,
    at: Instant,
}

impl Tail {
    /// Follows a topic from its beginning, on a thread that ends with this value.
    pub(super) fn start(broker: &Broker, topic: &str) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let reader = broker.reader(topic)?;
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                if let Err(error) = shared.follow(reader) {
                    let _ = shared.problem.set(format!("{error:#}"));
                    shared.grown.notify_all();
                }
            }
        });
        Ok(Self { shared })
    }

    /// Waits until so many records were seen, and returns when the last of them was. The host is the one that should
    /// make them: its log is in the error.
    pub(super) fn await_len(&self, count: usize, host: &Host) -> Result<Instant> {
        match self.wait(count) {
            Ok(seen) => Ok(seen[count - 1].at),
            Err(error) => bail!("{error:#}\nThe host logged:\n{}", host.log_text()),
        }
    }

    /// How many records of a partition came out.
    pub(super) fn count(&self, partition: u32) -> usize {
        self.shared.lock().iter().filter(|seen| seen.sighting.partition == partition).count()
    }

    /// Waits until every partition that has a mark, an offset, has come to it; None if that takes too long.
    pub(super) fn await_marks(&self, marks: &[Option<u64>], within: Duration) -> Option<Instant> {
        let deadline = Instant::now() + within;
        let mut open = marks.to_vec();
        let mut seen = self.shared.lock();
        let mut looked = 0;
        loop {
            for Seen { sighting, at } in &seen[looked..] {
                let mark = &mut open[sighting.partition as usize];
                if mark.is_some_and(|mark| sighting.offset >= mark) {
                    *mark = None;
                    if open.iter().all(Option::is_none) {
                        return Some(*at);
                    }
                }
            }
            looked = seen.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.problem.get().is_some() {
                return None;
            }
            (seen, _) = self.shared.grown.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first so many records, in the order of each output partition; waits for them.
    pub(super) fn first(&self, count: usize) -> Result<Vec<Sighting>> {
        Ok(self.wait(count)?[..count].iter().map(|seen| seen.sighting).collect())
    }

    fn wait(&self, count: usize) -> Result<MutexGuard<'_, Vec<Seen>>> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.shared.lock();
        while seen.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(problem) = self.shared.problem.get() {
                bail!("the output cannot be followed: {problem}");
            }
            if left.is_zero() {
                bail!("the output has {} records after {PATIENCE:?}; {count} were expected", seen.len());
            }
            (seen, _) = self.shared.grown.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(seen)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn follow(&self, mut reader: Reader) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(row) = reader.next(Duration::from_millis(200))? else { continue };
            let at = Instant::now();
            let sighting = Sighting::from_payload(row.payload.as_deref().unwrap_or_default());
            let Some(sighting) = sighting else { bail!("a record came out that nobody wrote: {row:?}") };
            self.lock().push(Seen { sighting, at });
            self.grown.notify_all();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
