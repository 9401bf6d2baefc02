//! What goes wrong in a case, and what is seen of it.
//!
//! A case is one or several lives of the flow: one that is killed is followed by another, on the same broker. What was
//! seen belongs to the case, and so does how often a fault has struck; a life adds the request to stop, and whether it
//! was killed. A life that was killed sees and does nothing more, whatever its threads are still about.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loom_flow::Stretch;
use loom_flow::cases::{CallEnd, Case, Fault, FaultKind, KillAt};
use loom_kafka::memory::Record;
use loom_plugin::{CallFailure, Cause, NodeContext, Script};
use loom_runtime::{Stop, Unrouted, Watch};
use loom_types::{Batch, ErrorKind, Source};

/// The record, and which of its rows, that something was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub row: String,
}

impl Origin {
    pub fn of(source: Source<'_>) -> Self {
        Origin {
            topic: source.topic.to_string(),
            partition: source.partition,
            offset: source.offset.0,
            row: source.row.to_owned(),
        }
    }

    fn is_at(&self, place: &Place) -> bool {
        (&*self.topic, self.partition, self.offset) == (&*place.topic, place.partition, place.offset)
    }
}

/// A record that an output or a sink has.
#[derive(Clone, Debug)]
pub struct Made {
    /// The topic, or the sink's plugin.
    pub into: String,
    pub record: Record,
    pub origin: Origin,
    life: usize,
}

/// A failure that dropped a record.
#[derive(Clone, Debug)]
pub struct Dropped {
    pub node: String,
    pub kind: ErrorKind,
    pub reason: String,
    pub origin: Origin,
    life: usize,
}

/// What was seen of all lives.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub written: Vec<Made>,
    pub sunk: Vec<Made>,
    pub dropped: Vec<Dropped>,
}

impl Seen {
    /// The same with what a later life only did again left out: after a kill records are delivered again, and how many is
    /// a matter of time.
    pub fn once(self) -> Seen {
        Seen {
            written: once(self.written, |made| (made.life, (made.into.clone(), made.origin.clone()))),
            sunk: once(self.sunk, |made| (made.life, (made.into.clone(), made.origin.clone()))),
            dropped: once(self.dropped, |one| (one.life, (one.node.clone(), one.kind, one.origin.clone()))),
        }
    }
}

/// Of equal things as many as the life has that has most of them.
fn once<T, K: Ord + Clone>(all: Vec<T>, of: impl Fn(&T) -> (usize, K)) -> Vec<T> {
    let mut in_life: BTreeMap<(usize, K), usize> = BTreeMap::new();
    let mut kept: BTreeMap<K, usize> = BTreeMap::new();
    let mut is_new = |one: &T| {
        let (life, key) = of(one);
        let count = in_life.entry((life, key.clone())).or_default();
        *count += 1;
        let most = kept.entry(key).or_default();
        let new = *count > *most;
        *most = (*most).max(*count);
        new
    };
    all.into_iter().filter(|one| is_new(one)).collect()
}

/// A place of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    topic: String,
    partition: i32,
    offset: i64,
}

/// A fault, with how often it may still strike.
struct Armed {
    at: Stretch,
    what: FaultKind,
    /// The topic of a refusing output.
    topic: String,
    place: Option<Place>,
    left: Option<u64>,
    reason: Option<String>,
    struck: bool,
}

impl Armed {
    fn new(fault: &Fault, first_topic: &str, topic_of: &dyn Fn(&str) -> String) -> Self {
        let place = fault.record.as_ref().map(|record| Place {
            topic: record.value.topic.clone().unwrap_or_else(|| first_topic.to_owned()),
            partition: record.value.partition,
            offset: record.value.offset,
        });
        let topic = match &fault.what {
            FaultKind::Refuse { output } => topic_of(&output.value),
            _ => String::new(),
        };
        // Dying is done once.
        let left = if matches!(fault.what, FaultKind::Kill(_)) { Some(1) } else { fault.times };
        let (what, reason) = (fault.what.clone(), fault.reason.clone());
        Armed { at: fault.at, what, topic, place, left, reason, struck: false }
    }

    fn is_armed(&self) -> bool {
        self.left != Some(0)
    }

    fn strike(&mut self) {
        self.struck = true;
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
    }

    fn is_about<'a>(&self, mut rows: impl Iterator<Item = Source<'a>>) -> bool {
        self.place.as_ref().is_none_or(|place| rows.any(|row| Origin::of(row).is_at(place)))
    }

    fn failure(&self, ends: CallEnd) -> CallFailure {
        let (cause, reason) = match ends {
            CallEnd::Trap => (Cause::Trap, "trapped, as the case says"),
            CallEnd::Timeout => (Cause::Timeout, "ran longer than its limit, as the case says"),
            CallEnd::Fail => (Cause::Fail, "failed, as the case says"),
            CallEnd::Reject => (Cause::Reject, "rejected, as the case says"),
            CallEnd::Retry => (Cause::Retry, "asks to be called again, as the case says"),
        };
        CallFailure { cause, reason: self.reason.clone().unwrap_or_else(|| reason.to_owned()) }
    }
}

/// One case's faults and what is seen of it.
pub struct Scene {
    faults: Mutex<Vec<Armed>>,
    seen: Mutex<Seen>,
    captures: bool,
}

impl Scene {
    /// `first_topic`: the flow's; `topic_of`: the topic of an output.
    pub fn new(case: &Case, first_topic: &str, topic_of: &dyn Fn(&str) -> String) -> Arc<Self> {
        let faults = case.faults.iter().map(|fault| Armed::new(fault, first_topic, topic_of)).collect();
        Arc::new(Scene { faults: Mutex::new(faults), seen: Mutex::default(), captures: case.captures_sinks })
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Where faults stand that never struck.
    pub fn unstruck(&self) -> Vec<Stretch> {
        lock(&self.faults).iter().filter(|fault| !fault.struck).map(|fault| fault.at).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One life of the flow.
pub struct Life {
    scene: Arc<Scene>,
    number: usize,
    stop: Stop,
    killed: AtomicBool,
}

impl Life {
    pub fn new(scene: &Arc<Scene>, number: usize, stop: &Stop) -> Arc<Self> {
        let killed = AtomicBool::new(false);
        Arc::new(Life { scene: scene.clone(), number, stop: stop.clone(), killed })
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.stop.kill();
    }

    /// How many records of a partition may be read from this offset on before it is killed; none for all.
    pub fn before_kill(&self, topic: &str, partition: i32, next: i64) -> Option<u64> {
        let faults = lock(&self.scene.faults);
        let kills =
            faults.iter().filter(|fault| fault.is_armed() && fault.what == FaultKind::Kill(KillAt::Read));
        let here = kills.filter_map(|fault| fault.place.as_ref());
        let here = here.filter(|place| *place.topic == *topic && place.partition == partition);
        here.filter_map(|place| u64::try_from(place.offset - next).ok()).min()
    }

    /// A record is about to be read, at which the flow is killed.
    pub fn kill_at_read(&self, topic: &str, partition: i32, offset: i64) {
        let place = Place { topic: topic.to_owned(), partition, offset };
        self.strike_kill(KillAt::Read, |at| *at == place);
    }

    /// An output of a record was just written. Whether the flow is killed by it.
    pub fn was_written(&self, origin: &Origin) -> bool {
        self.strike_kill(KillAt::Written, |at| origin.is_at(at))
    }

    fn strike_kill(&self, when: KillAt, is_here: impl Fn(&Place) -> bool) -> bool {
        let mut faults = lock(&self.scene.faults);
        let mut kills =
            faults.iter_mut().filter(|fault| fault.is_armed() && fault.what == FaultKind::Kill(when));
        let Some(fault) = kills.find(|fault| fault.place.as_ref().is_some_and(&is_here)) else {
            return false;
        };
        fault.strike();
        drop(faults);
        self.kill();
        true
    }

    /// Why an output refuses a row, if it does.
    pub fn refuses(&self, topic: &str, source: Source<'_>) -> Option<String> {
        let mut faults = lock(&self.scene.faults);
        let fault = faults.iter_mut().find(|fault| {
            fault.is_armed()
                && matches!(fault.what, FaultKind::Refuse { .. })
                && *fault.topic == *topic
                && fault.is_about(std::iter::once(source))
        })?;
        fault.strike();
        Some(fault.reason.clone().unwrap_or_else(|| "refused, as the case says".to_owned()))
    }

    /// A record was written to a topic.
    pub fn saw_written(&self, topic: &str, record: Record, origin: Origin) {
        let made = Made { into: topic.to_owned(), record, origin, life: self.number };
        lock(&self.scene.seen).written.push(made);
    }

    fn ends(
        &self,
        node: &NodeContext,
        is_it: impl Fn(&FaultKind) -> Option<(&str, CallEnd)>,
        rows: Option<(&Batch, &[u32])>,
    ) -> Option<CallFailure> {
        if self.is_killed() {
            return Some(CallFailure { cause: Cause::Retry, reason: "the process was killed".to_owned() });
        }
        let mut faults = lock(&self.scene.faults);
        for fault in faults.iter_mut().filter(|fault| fault.is_armed()) {
            let Some((whom, ends)) = is_it(&fault.what) else { continue };
            let is_whom = *whom == *node.plugin || *whom == *node.node;
            let is_about = match rows {
                Some((batch, rows)) => fault.is_about(rows.iter().map(|row| batch.source(*row))),
                None => true,
            };
            if is_whom && is_about {
                let failure = fault.failure(ends);
                fault.strike();
                return Some(failure);
            }
        }
        None
    }
}

fn call_of(what: &FaultKind) -> Option<(&str, CallEnd)> {
    match what {
        FaultKind::Call { whom, ends } => Some((&whom.value, *ends)),
        _ => None,
    }
}

fn flush_of(what: &FaultKind) -> Option<(&str, CallEnd)> {
    match what {
        FaultKind::Flush { whom, ends } => Some((&whom.value, *ends)),
        _ => None,
    }
}

impl Script for Life {
    fn call(&self, node: &NodeContext, batch: &Batch, rows: &[u32]) -> Option<CallFailure> {
        self.ends(node, call_of, Some((batch, rows)))
    }

    fn flush(&self, node: &NodeContext) -> Option<CallFailure> {
        self.ends(node, flush_of, None)
    }
}

impl Watch for Life {
    fn captures_sinks(&self) -> bool {
        self.scene.captures
    }

    fn sunk(&self, node: &NodeContext, batch: &Batch, row: u32) {
        if self.is_killed() {
            return;
        }
        let origin = Origin::of(batch.source(row));
        let made = Made {
            into: node.plugin.to_string(),
            record: record_of(batch, row),
            origin: origin.clone(),
            life: self.number,
        };
        lock(&self.scene.seen).sunk.push(made);
        self.was_written(&origin);
    }

    fn unrouted(&self, error: &Unrouted<'_>) {
        if error.stops || self.is_killed() {
            return;
        }
        lock(&self.scene.seen).dropped.push(Dropped {
            node: error.node.to_owned(),
            kind: error.kind,
            reason: error.reason.to_owned(),
            origin: Origin::of(error.source),
            life: self.number,
        });
    }
}

/// A row as a sink gets it.
pub fn record_of(batch: &Batch, row: u32) -> Record {
    Record {
        key: batch.key(row).map(<[u8]>::to_vec),
        payload: batch.payload(row).map(<[u8]>::to_vec),
        headers: batch.headers(row).map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect(),
        timestamp_ms: batch.source(row).timestamp_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::once;

    #[test]
    fn what_a_later_life_does_again_counts_once() {
        let seen = [(0, "a"), (0, "a"), (0, "b"), (1, "b"), (1, "b"), (1, "c"), (2, "a"), (2, "c")];
        let kept = once(seen.to_vec(), |one| *one);
        assert_eq!(kept, [(0, "a"), (0, "a"), (0, "b"), (1, "b"), (1, "c")]);
    }
}
