//! A scripted sink, and a bench that drives it: time stands still unless it is moved, and every end of a row is booked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_delivery::Accounts;
use loom_flow::plan::FlushBounds;
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, Moment, PartitionId, RecordOffset, RecordRef,
};

use super::super::{Sink, SinkBounds, SinkCalls, SinkEvent};
use crate::rows::RowSet;

/// A row by partition and offset.
pub(super) type Place = (i32, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Write,
    Flush,
    Close,
}

/// What a sink does in one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Says {
    pub(super) fails: Option<Cause>,
    /// These of the rows that it holds are completed.
    pub(super) completes: Vec<Place>,
    /// These are failed through the tracker.
    pub(super) verdicts: Vec<(Place, Cause)>,
    /// It completes once more what it completed in this call, and a token of nobody's.
    pub(super) babbles: bool,
    pub(super) lets_go: bool,
}

type Script = Box<dyn FnMut(Call, &[Place], &[Place]) -> Says + Send>;

/// What the instances of one sink share.
pub(super) struct World {
    /// Asked at each call with the rows of the call and all that the instance holds.
    pub(super) script: Script,
    pub(super) calls: Vec<(Call, Vec<Place>)>,
    pub(super) completed: BTreeSet<Place>,
    /// So many starts fail.
    pub(super) refuses: u32,
    pub(super) starts: u32,
}

struct Fake {
    world: Arc<Mutex<World>>,
    held: Vec<(Place, u32)>,
    said: Vec<(u32, Verdict)>,
    usable: bool,
}

impl Fake {
    fn call(&mut self, call: Call, own: &[Place]) -> Result<(), CallFailure> {
        let mut world = self.world.lock().unwrap();
        let held: Vec<Place> = self.held.iter().map(|(place, _)| *place).collect();
        let says = (world.script)(call, own, &held);
        world.calls.push((call, own.to_vec()));
        for place in &says.completes {
            let Some(at) = self.held.iter().position(|(held, _)| held == place) else { continue };
            let (place, handle) = self.held.remove(at);
            world.completed.insert(place);
            self.said.push((handle, Verdict::Complete));
            if says.babbles {
                self.said.push((handle, Verdict::Complete));
                self.said.push((0xdead_beef, Verdict::Complete));
            }
        }
        for (place, cause) in says.verdicts {
            let Some(at) = self.held.iter().position(|(held, _)| *held == place) else { continue };
            let (_, handle) = self.held.remove(at);
            self.said.push((handle, Verdict::Fail(cause, "verdict".to_owned())));
        }
        self.usable &= !says.lets_go && !says.fails.is_some_and(Cause::is_trap);
        match says.fails {
            None => Ok(()),
            Some(cause) => {
                self.held.retain(|(place, _)| !own.contains(place));
                Err(CallFailure { cause, reason: "scripted".to_owned() })
            }
        }
    }
}

impl SinkCalls for Fake {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        assert!(self.usable, "an instance that trapped is not called");
        let places: Vec<Place> = rows.iter().map(|row| place(batch, *row)).collect();
        for place in &places {
            assert!(!self.world.lock().unwrap().completed.contains(place), "{place:?} was completed before");
        }
        self.held.extend(places.iter().copied().zip(handles.iter().copied()));
        self.call(Call::Write, &places)
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        assert!(self.usable, "an instance that trapped is not called");
        self.call(Call::Flush, &[])
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        self.call(Call::Close, &[])
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        out.append(&mut self.said);
    }

    fn is_usable(&self) -> bool {
        self.usable
    }

    fn wants_recycling(&self) -> bool {
        false
    }
}

fn place(batch: &Batch, row: u32) -> Place {
    let source = batch.source(row);
    (source.partition, source.offset.0)
}

/// A sink on the bench: time stands still unless it is moved.
pub(super) struct Bench {
    pub(super) accounts: Accounts,
    pub(super) sink: Sink,
    pub(super) world: Arc<Mutex<World>>,
    pub(super) now: Moment,
    pub(super) next: [i64; 3],
    /// How each row ended: none = completed.
    pub(super) ended: BTreeMap<Place, Option<ErrorKind>>,
    /// In the order in which rows ended.
    pub(super) order: Vec<Place>,
}

pub(super) const BOUNDS: FlushBounds =
    FlushBounds { records: 1000, bytes: 1 << 20, interval: Duration::from_secs(1) };

/// Completes all that it holds in `flush`.
pub(super) fn good(call: Call, _: &[Place], held: &[Place]) -> Says {
    Says { completes: if call == Call::Flush { held.to_vec() } else { vec![] }, ..Says::default() }
}

pub(super) fn fails(cause: Cause) -> Says {
    Says { fails: Some(cause), ..Says::default() }
}

impl Bench {
    pub(super) fn new(
        bounds: FlushBounds,
        script: impl FnMut(Call, &[Place], &[Place]) -> Says + Send + 'static,
    ) -> Self {
        Bench::with(bounds, true, script)
    }

    pub(super) fn with(
        bounds: FlushBounds,
        tracked: bool,
        script: impl FnMut(Call, &[Place], &[Place]) -> Says + Send + 'static,
    ) -> Self {
        let script: Script = Box::new(script);
        let world = Arc::new(Mutex::new(World {
            script,
            calls: Vec::new(),
            completed: BTreeSet::new(),
            refuses: 0,
            starts: 0,
        }));
        let instance = |world: &Arc<Mutex<World>>| {
            Box::new(Fake { world: world.clone(), held: Vec::new(), said: Vec::new(), usable: true })
        };
        let again = world.clone();
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            let mut world = again.lock().unwrap();
            world.starts += 1;
            if world.refuses > 0 {
                world.refuses -= 1;
                return Err("refused to start".to_owned());
            }
            Ok(instance(&again))
        };
        let mut accounts = if tracked { Accounts::tracked() } else { Accounts::untracked() };
        for _ in 0..3 {
            accounts.add_partition(CommitOffset(0), None);
        }
        let bounds = SinkBounds { flush: bounds, write_bytes: 1 << 20, tracked, retries: None };
        Bench {
            accounts,
            sink: Sink::new(instance(&world), Box::new(make), bounds),
            world,
            now: Moment(Duration::from_secs(100)),
            next: [0; 3],
            ended: BTreeMap::new(),
            order: Vec::new(),
        }
    }

    /// One batch with a row for each of these partitions, in this order.
    pub(super) fn arrive(&mut self, partitions: &[i32]) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut tokens = Vec::new();
        for partition in partitions {
            let at = &mut self.next[*partition as usize];
            let offset = RecordOffset(*at);
            *at += 1;
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: *partition,
                    offset,
                    timestamp_ms: None,
                    key: None,
                    payload: Some(b"0123456789"),
                    row: "",
                })
                .unwrap();
            tokens.push(self.accounts.register(PartitionId(*partition as u32), offset, 10));
        }
        let mut events = Vec::new();
        self.sink.arrive(RowSet::all(builder.finish(), tokens, None), self.now, 0.5, &mut events);
        self.book(events);
    }

    pub(super) fn book(&mut self, events: Vec<SinkEvent>) {
        for event in events {
            let (row, kind) = match event {
                SinkEvent::Completed(row) => (row, None),
                SinkEvent::Failed(failed) => (failed.row, Some(failed.kind)),
            };
            let place = place(&row.batch, row.id);
            assert!(row.attempts > 0, "{place:?} ended without a call");
            self.accounts.redeem(row.token, kind.map_or(Ending::Sink, Ending::Dropped));
            assert_eq!(self.ended.insert(place, kind), None, "{place:?} ended twice");
            self.order.push(place);
        }
    }

    pub(super) fn progress(&mut self) {
        let mut events = Vec::new();
        self.sink.progress(self.now, 0.5, &mut events);
        self.book(events);
    }

    /// Moves time to whatever is due next, until the sink holds nothing. How long that took.
    pub(super) fn drain(&mut self) -> Duration {
        let start = self.now;
        for _ in 0..20_000 {
            if self.sink.is_quiet() {
                return self.now.since(start);
            }
            let due = self.sink.next_due().expect("a sink that holds rows has something to do");
            self.now = self.now.max(due);
            self.progress();
        }
        panic!("the sink never comes to rest: {} open, {} wait", self.sink.open(), self.sink.waiting());
    }

    pub(super) fn calls(&self) -> Vec<(Call, Vec<Place>)> {
        self.world.lock().unwrap().calls.clone()
    }

    pub(super) fn offsets(&self, partition: i32) -> Vec<i64> {
        let mine = self.order.iter().filter(|(other, _)| *other == partition);
        mine.map(|(_, offset)| *offset).collect()
    }

    pub(super) fn all_ended(&self) {
        let expected: usize = self.next.iter().map(|next| *next as usize).sum();
        assert_eq!(self.ended.len(), expected);
        assert_eq!(self.accounts.ledger().live, 0);
        assert_eq!(self.accounts.ledger().outstanding, 0);
    }

    pub(super) fn kinds(&self) -> Vec<ErrorKind> {
        self.ended.values().filter_map(|kind| *kind).collect()
    }
}
