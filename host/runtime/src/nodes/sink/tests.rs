//! The protocol against a scripted sink: whatever it answers, every row ends once, and completed rows are never written
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_delivery::Accounts;
use loom_flow::plan::FlushBounds;
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, Moment, PartitionId, RecordOffset, RecordRef,
};
use proptest::prelude::*;

use super::{Sink, SinkBounds, SinkCalls, SinkEvent};
use crate::rows::RowSet;

/// A row by partition and offset.
type Place = (i32, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Write,
    Flush,
    Close,
}

/// What a sink does in one call.
#[derive(Clone, Debug, Default)]
struct Says {
    fails: Option<Cause>,
    /// These of the rows that it holds are completed.
    completes: Vec<Place>,
    /// These are failed through the tracker.
    verdicts: Vec<(Place, Cause)>,
    /// It completes once more what it completed in this call, and a token of nobody's.
    babbles: bool,
    lets_go: bool,
}

type Script = Box<dyn FnMut(Call, &[Place], &[Place]) -> Says + Send>;

/// What the instances of one sink share.
struct World {
    /// Asked at each call with the rows of the call and all that the instance holds.
    script: Script,
    calls: Vec<(Call, Vec<Place>)>,
    completed: BTreeSet<Place>,
    /// So many starts fail.
    refuses: u32,
    starts: u32,
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
struct Bench {
    accounts: Accounts,
    sink: Sink,
    world: Arc<Mutex<World>>,
    now: Moment,
    next: [i64; 3],
    /// How each row ended: none = completed.
    ended: BTreeMap<Place, Option<ErrorKind>>,
    /// In the order in which rows ended.
    order: Vec<Place>,
}

const BOUNDS: FlushBounds = FlushBounds { records: 1000, bytes: 1 << 20, interval: Duration::from_secs(1) };

/// Completes all that it holds in `flush`.
fn good(call: Call, _: &[Place], held: &[Place]) -> Says {
    Says { completes: if call == Call::Flush { held.to_vec() } else { vec![] }, ..Says::default() }
}

fn fails(cause: Cause) -> Says {
    Says { fails: Some(cause), ..Says::default() }
}

impl Bench {
    fn new(
        bounds: FlushBounds,
        script: impl FnMut(Call, &[Place], &[Place]) -> Says + Send + 'static,
    ) -> Self {
        Bench::with(bounds, true, script)
    }

    fn with(
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
        let bounds = SinkBounds { flush: bounds, write_bytes: 1 << 20, tracked };
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
    fn arrive(&mut self, partitions: &[i32]) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut tokens = Vec::new();
        for partition in partitions {
            let at = &mut self.next[*partition as usize];
            let offset = RecordOffset(*at);
            *at += 1;
            builder.push(RecordRef {
                topic: 0,
                partition: *partition,
                offset,
                timestamp_ms: None,
                key: None,
                payload: Some(b"0123456789"),
                row: "",
            });
            tokens.push(self.accounts.register(PartitionId(*partition as u32), offset, 10));
        }
        let mut events = Vec::new();
        self.sink.arrive(RowSet::all(builder.finish(), tokens, None), self.now, 0.5, &mut events);
        self.book(events);
    }

    fn book(&mut self, events: Vec<SinkEvent>) {
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

    fn progress(&mut self) {
        let mut events = Vec::new();
        self.sink.progress(self.now, 0.5, &mut events);
        self.book(events);
    }

    /// Moves time to whatever is due next, until the sink holds nothing. How long that took.
    fn drain(&mut self) -> Duration {
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

    fn calls(&self) -> Vec<(Call, Vec<Place>)> {
        self.world.lock().unwrap().calls.clone()
    }

    fn offsets(&self, partition: i32) -> Vec<i64> {
        let mine = self.order.iter().filter(|(other, _)| *other == partition);
        mine.map(|(_, offset)| *offset).collect()
    }

    fn all_ended(&self) {
        let expected: usize = self.next.iter().map(|next| *next as usize).sum();
        assert_eq!(self.ended.len(), expected);
        assert_eq!(self.accounts.ledger().live, 0);
        assert_eq!(self.accounts.ledger().outstanding, 0);
    }

    fn kinds(&self) -> Vec<ErrorKind> {
        self.ended.values().filter_map(|kind| *kind).collect()
    }
}

const HARD: [Cause; 5] = [Cause::Reject, Cause::Fail, Cause::Trap, Cause::Timeout, Cause::Protocol];

#[test]
fn one_poison_row_among_many_is_found_and_its_neighbours_are_completed() {
    for cause in HARD {
        for call in [Call::Write, Call::Flush] {
            let poison = (1, 70);
            let mut bench = Bench::new(BOUNDS, move |at, own, held| {
                let seen = if at == Call::Write { own } else { held };
                if at == call && seen.contains(&poison) { fails(cause) } else { good(at, own, held) }
            });
            let rows: Vec<i32> = (0..500).map(|n| n % 3).collect();
            bench.arrive(&rows);
            bench.drain();
            bench.all_ended();
            let kind = if cause == Cause::Reject { ErrorKind::Business } else { ErrorKind::Delivery };
            assert_eq!(bench.ended[&poison], Some(kind), "{cause:?} in {call:?}");
            assert_eq!(bench.kinds().len(), 1);
            assert!(bench.offsets(0).is_sorted() && bench.offsets(1).is_sorted());
        }
    }
}

#[test]
fn what_fails_once_is_written_again_and_completed() {
    for cause in HARD.into_iter().chain([Cause::Retry]) {
        for call in [Call::Write, Call::Flush] {
            for rows in [1, 5] {
                let mut failed = false;
                let mut bench = Bench::new(BOUNDS, move |at, own, held| {
                    if at == call && !std::mem::replace(&mut failed, at == call) {
                        return fails(cause);
                    }
                    good(at, own, held)
                });
                bench.arrive(&vec![0; rows]);
                bench.drain();
                bench.all_ended();
                assert_eq!(bench.kinds(), [], "{cause:?} in {call:?} of {rows}");
                assert_eq!(bench.offsets(0), (0..rows as i64).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn rows_completed_before_a_call_fails_are_not_written_again() {
    for cause in HARD {
        let mut first = true;
        let mut bench = Bench::new(BOUNDS, move |call, own, held| {
            if call == Call::Write && std::mem::take(&mut first) {
                return Says { completes: own[..2].to_vec(), ..fails(cause) };
            }
            good(call, own, held)
        });
        bench.arrive(&[0; 5]);
        bench.drain();
        bench.all_ended();
        // The fake itself fails the test when a completed row comes again.
        assert_eq!(bench.offsets(0), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_trap_loses_what_was_open_and_that_is_written_again_too() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| {
        if call == Call::Write && own.contains(&(0, 3)) { fails(Cause::Trap) } else { good(call, own, held) }
    });
    bench.arrive(&[0, 0, 0]);
    bench.arrive(&[0, 0]);
    bench.drain();
    bench.all_ended();
    assert_eq!(bench.kinds(), [ErrorKind::Delivery]);
    assert_eq!(bench.offsets(0), [0, 1, 2, 3, 4]);
}

#[test]
fn rows_left_open_by_a_flush_are_sent_once_more_to_a_new_instance_and_then_fail() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| {
        let mut says = good(call, own, held);
        says.completes.retain(|place| *place != (0, 1));
        says
    });
    bench.arrive(&[0, 0, 0]);
    bench.drain();
    bench.all_ended();
    assert_eq!(bench.ended[&(0, 1)], Some(ErrorKind::Delivery));
    let writes: Vec<_> = bench
        .calls()
        .into_iter()
        .filter(|(call, own)| *call == Call::Write && own.contains(&(0, 1)))
        .collect();
    assert_eq!(writes.len(), 2);
    assert_eq!(bench.world.lock().unwrap().starts, 1);
}

#[test]
fn tokens_of_nobody_and_spent_ones_are_counted_and_change_nothing() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| Says { babbles: true, ..good(call, own, held) });
    bench.arrive(&[0, 0]);
    bench.drain();
    bench.all_ended();
    assert_eq!(bench.sink.violations, 4);
    assert_eq!(bench.kinds(), []);
}

#[test]
fn a_sink_that_completes_in_write_needs_no_flush() {
    let mut bench = Bench::new(BOUNDS, |_, own, _| Says { completes: own.to_vec(), ..Says::default() });
    bench.arrive(&[0, 1, 2]);
    bench.all_ended();
    assert_eq!(bench.sink.next_due(), None);
}

#[test]
fn a_sink_that_cannot_be_started_waits_with_growing_pauses_and_loses_nothing() {
    let mut first = true;
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        if call == Call::Write && std::mem::take(&mut first) {
            fails(Cause::Trap)
        } else {
            good(call, own, held)
        }
    });
    bench.world.lock().unwrap().refuses = 6;
    bench.arrive(&[0, 1]);
    bench.arrive(&[0, 1]);
    let took = bench.drain();
    bench.all_ended();
    assert_eq!(bench.kinds(), []);
    assert_eq!(bench.world.lock().unwrap().starts, 7);
    assert!(took >= Duration::from_millis(75 * (1 + 2 + 4 + 8 + 16 + 32)), "{took:?}");
    assert_eq!(bench.offsets(0), [0, 1]);
}

#[test]
fn a_row_that_is_to_be_tried_again_keeps_its_partitions_order_and_lets_others_go_on() {
    let mut left = 3;
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        if call == Call::Write && own.contains(&(0, 1)) && left > 0 {
            left -= 1;
            return fails(Cause::Retry);
        }
        good(call, own, held)
    });
    bench.arrive(&[0, 0, 1, 2, 0, 1]);
    assert_eq!(bench.sink.holding().collect::<BTreeSet<_>>().len(), 3);
    bench.arrive(&[1, 0, 2]);
    let took = bench.drain();
    bench.all_ended();
    for partition in 0..3 {
        assert!(bench.offsets(partition).is_sorted());
    }
    let first_of_0 = bench.order.iter().position(|(partition, _)| *partition == 0).unwrap();
    assert!(bench.order[..first_of_0].iter().filter(|(partition, _)| *partition > 0).count() >= 4);
    assert!(took >= Duration::from_millis(75 * 7), "the waits grow: {took:?}");
}

#[test]
fn a_row_that_asks_for_time_while_written_alone_does_not_hold_other_partitions() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| match call {
        Call::Write if own.len() > 1 => fails(Cause::Fail),
        Call::Write if own[0] == (0, 0) => fails(Cause::Retry),
        _ => good(call, own, held),
    });
    bench.arrive(&[0, 1, 0, 2]);
    bench.now = bench.now + Duration::from_secs(10);
    (0..10).for_each(|_| bench.progress());
    assert_eq!(bench.order, [(1, 0), (2, 0)]);
    assert_eq!(bench.sink.holding().collect::<BTreeSet<_>>(), [PartitionId(0)].into());
    bench.sink.abandon_waiting();
}

#[test]
fn a_flush_that_asks_for_time_keeps_the_rows_where_they_are() {
    let mut left = 2;
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        if call == Call::Flush && left > 0 {
            left -= 1;
            return fails(Cause::Retry);
        }
        good(call, own, held)
    });
    bench.arrive(&[0, 0]);
    bench.drain();
    bench.all_ended();
    let writes = bench.calls().iter().filter(|(call, _)| *call == Call::Write).count();
    assert_eq!(writes, 1);
    assert_eq!((bench.kinds(), bench.sink.violations), (vec![], 0));
}

#[test]
fn a_flush_comes_at_the_first_bound() {
    let flushes = |bounds: FlushBounds, rows: usize| {
        let mut bench = Bench::new(bounds, good);
        bench.arrive(&vec![0; rows]);
        let flushes = bench.calls().iter().filter(|(call, _)| *call == Call::Flush).count();
        let longest = bench.calls().iter().map(|(_, own)| own.len()).max().unwrap();
        bench.drain();
        (flushes, longest)
    };
    assert_eq!(flushes(BOUNDS, 30), (0, 30));
    assert_eq!(flushes(FlushBounds { records: 10, ..BOUNDS }, 35), (3, 10));
    assert_eq!(flushes(FlushBounds { bytes: 100, ..BOUNDS }, 35), (1, 35));
    assert_eq!(flushes(BOUNDS, 1500), (1, 512));
}

#[test]
fn the_age_is_that_of_the_oldest_row_and_new_ones_do_not_postpone_it() {
    let mut bench = Bench::new(BOUNDS, good);
    let start = bench.now;
    while bench.ended.is_empty() {
        bench.arrive(&[0]);
        assert!(bench.now.since(start) < Duration::from_secs(2));
        bench.now = bench.now + Duration::from_millis(100);
        bench.progress();
    }
    assert_eq!(bench.now.since(start), Duration::from_secs(1));
    bench.drain();
}

#[test]
fn a_verdict_on_one_row_is_its_end_or_its_wait() {
    let mut retried = false;
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        let mut says = good(call, own, held);
        if call == Call::Flush {
            says.completes.retain(|(_, offset)| *offset != 1);
            for place in held.iter().filter(|(_, offset)| *offset == 1) {
                match place.0 {
                    0 => says.verdicts.push((*place, Cause::Reject)),
                    1 => says.verdicts.push((*place, Cause::Fail)),
                    _ if !std::mem::replace(&mut retried, true) => says.verdicts.push((*place, Cause::Retry)),
                    _ => says.completes.push(*place),
                }
            }
        }
        says
    });
    bench.arrive(&[0, 1, 2, 0, 1, 2, 0, 1, 2]);
    bench.drain();
    bench.all_ended();
    let ends: Vec<_> = (0..3).map(|partition| bench.ended[&(partition, 1)]).collect();
    assert_eq!(ends, [Some(ErrorKind::Business), Some(ErrorKind::Delivery), None]);
    assert_eq!(bench.kinds().len(), 2);
}

#[test]
fn a_sink_that_lets_go_of_its_tracker_has_failed() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| Says {
        lets_go: call == Call::Write && own.contains(&(0, 1)),
        ..good(call, own, held)
    });
    bench.arrive(&[0, 0, 0]);
    bench.drain();
    bench.all_ended();
    assert_eq!(bench.ended[&(0, 1)], Some(ErrorKind::Delivery));
    assert_eq!(bench.kinds().len(), 1);
}

#[test]
fn close_completes_what_it_can_and_the_rest_is_given_up() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| match call {
        Call::Close => Says { completes: held[..2].to_vec(), fails: Some(Cause::Fail), ..Says::default() },
        _ => good(call, own, held),
    });
    bench.arrive(&[0, 0, 0, 0]);
    let mut events = Vec::new();
    assert!(bench.sink.close(&mut events).is_err());
    bench.book(events);
    assert_eq!(bench.offsets(0), [0, 1]);
    assert!(bench.sink.is_quiet());
    bench.arrive(&[0]);
    assert!(bench.sink.is_quiet(), "a row that comes afterwards is given up");
    assert_eq!(bench.accounts.ledger().outstanding, 3);
}

#[test]
fn at_a_stop_what_asks_for_more_time_is_not_waited_for() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| match call {
        Call::Flush => fails(Cause::Retry),
        _ => good(call, own, held),
    });
    bench.arrive(&[0, 0]);
    bench.sink.ask_flush();
    bench.progress();
    assert!(bench.sink.next_due() > Some(bench.now), "it waits");
    let flushes = |bench: &Bench| bench.calls().iter().filter(|(call, _)| *call == Call::Flush).count();
    let before = flushes(&bench);
    bench.sink.hurry();
    bench.progress();
    assert_eq!(flushes(&bench), before + 1, "one attempt more");
    bench.sink.abandon_back_offs();
    let mut events = Vec::new();
    bench.sink.close(&mut events).unwrap();
    bench.book(events);
    assert_eq!(bench.accounts.ledger().outstanding, 2);
}

#[test]
fn without_a_tracker_a_written_row_is_done_and_bounds_still_flush() {
    let mut bench = Bench::with(FlushBounds { records: 3, ..BOUNDS }, false, |call, _, _| match call {
        Call::Write | Call::Flush | Call::Close => Says::default(),
    });
    bench.arrive(&[0, 0, 0, 0]);
    assert_eq!(bench.offsets(0), [0, 1, 2, 3]);
    assert_eq!(bench.sink.flushes, 1);
    bench.now = bench.now + Duration::from_secs(1);
    bench.progress();
    assert_eq!(bench.sink.flushes, 2);
}

/// What one call does, drawn at random; behind the last, the sink works.
#[derive(Clone, Debug)]
struct Draw {
    fails: Option<Cause>,
    /// Of the rows held, those at these residues are completed.
    completes: u8,
    verdict: Option<Cause>,
    babbles: bool,
    lets_go: bool,
    refuses: u32,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let cause = || {
        prop_oneof![
            Just(Cause::Reject),
            Just(Cause::Retry),
            Just(Cause::Fail),
            Just(Cause::Trap),
            Just(Cause::Timeout),
        ]
    };
    let draw = (
        prop::option::weighted(0.4, cause()),
        0..16_u8,
        prop::option::weighted(0.1, prop_oneof![Just(Cause::Reject), Just(Cause::Retry), Just(Cause::Fail)]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
        prop_oneof![9 => Just(0_u32), 1 => 1..3_u32],
    );
    let draw = draw.prop_map(|(fails, completes, verdict, babbles, lets_go, refuses)| Draw {
        fails,
        completes,
        verdict,
        babbles,
        lets_go,
        refuses,
    });
    prop::collection::vec(draw, 0..40)
}

proptest! {
    #[test]
    fn whatever_a_sink_answers_every_row_ends_once(
        draws in draws(),
        arrivals in prop::collection::vec((prop::collection::vec(0..3_i32, 1..8), 0..3000_u64), 1..12),
        records in 1..20_usize,
    ) {
        let mut left = draws.clone().into_iter();
        let refuses: u32 = draws.iter().map(|draw| draw.refuses).sum();
        let mut bench = Bench::new(FlushBounds { records, ..BOUNDS }, move |call, own, held| {
            let Some(draw) = left.next() else { return good(call, own, held) };
            let picked = held.iter().enumerate().filter(|(at, _)| draw.completes >> (at % 4) & 1 == 1);
            let verdict = draw.verdict.and_then(|cause| Some((*held.first()?, cause)));
            Says {
                fails: draw.fails,
                completes: picked.map(|(_, place)| *place).collect(),
                verdicts: verdict.into_iter().collect(),
                babbles: draw.babbles,
                lets_go: draw.lets_go,
            }
        });
        bench.world.lock().unwrap().refuses = refuses;
        for (partitions, wait) in arrivals {
            bench.arrive(&partitions);
            bench.now = bench.now + Duration::from_millis(wait);
            bench.progress();
        }
        bench.drain();
        bench.all_ended();
        // First writes keep each partition's order, whatever is written again.
        for partition in 0..3 {
            let mut seen = BTreeSet::new();
            let calls = bench.calls();
            let written = calls.iter().filter(|(call, _)| *call == Call::Write).flat_map(|(_, own)| own);
            let firsts: Vec<i64> = written
                .filter(|place| place.0 == partition && seen.insert(**place))
                .map(|place| place.1)
                .collect();
            prop_assert!(firsts.is_sorted(), "{firsts:?}");
        }
    }
}
