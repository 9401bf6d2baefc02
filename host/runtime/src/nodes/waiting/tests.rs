//! Waiting nodes on scripted calls and simulated time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_delivery::Accounts;
use loom_kafka::Waker;
use loom_plugin::{Breaker, Cause};
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, Moment, PartitionId, RecordOffset, RecordRef,
};

use super::{Answered, Fault, RowAnswer, Waiting, WaitingCalls, WaitingNode};
use crate::late::Leaving;
use crate::nodes::Target;
use crate::nodes::exits::Exits;
use crate::nodes::growth::Room;
use crate::nodes::plugins::Label;
use crate::rows::{Row, RowSet};
use crate::worker::Bounds;

/// What a call does: how long it takes, and what it answers.
type Says = (u64, Result<RowAnswer, Fault>);

/// Asked with a row's partition and offset, how often it was called before, and the moment in milliseconds.
type Script = Box<dyn FnMut(i32, i64, u32, u64) -> Says + Send>;

struct World {
    script: Script,
    now: u64,
    /// Calls under way: when they answer, and what.
    open: BTreeMap<u64, Says>,
    calls: Vec<(u64, i32, i64)>,
    most: usize,
}

#[derive(Clone)]
struct Scripted(Arc<Mutex<World>>);

impl WaitingCalls for Scripted {
    fn ring(&mut self, _bell: Waker) {}

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        let source = batch.source(row);
        let (partition, offset) = (source.partition, source.offset.0);
        let mut world = self.0.lock().unwrap();
        let before = world.calls.iter().filter(|(_, p, o)| (*p, *o) == (partition, offset)).count() as u32;
        let now = world.now;
        let (takes, says) = (world.script)(partition, offset, before, now);
        world.calls.push((now, partition, offset));
        world.open.insert(call, (now + takes, says));
        world.most = world.most.max(world.open.len());
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        let mut world = self.0.lock().unwrap();
        let now = world.now;
        let due: Vec<u64> =
            world.open.iter().filter(|(_, (at, _))| *at <= now).map(|(call, _)| *call).collect();
        for call in due {
            let (_, verdict) = world.open.remove(&call).unwrap();
            out.push(Answered { call, verdict });
        }
    }

    fn abandon(&mut self, call: u64) {
        self.0.lock().unwrap().open.remove(&call);
    }
}

struct Bench {
    node: WaitingNode,
    world: Arc<Mutex<World>>,
    accounts: Accounts,
    partitions: Vec<PartitionId>,
    next: Vec<i64>,
    /// Partition, offset and outcome of the rows that left.
    left: Vec<(u32, i64, &'static str)>,
    /// Rows that left and are not written, where they are kept.
    kept: Vec<Row>,
    keeps: bool,
    /// What may be made of a partition's records.
    bounds: Bounds,
    retried: u64,
}

fn passes() -> Result<RowAnswer, Fault> {
    Ok(RowAnswer::Changed(Box::default()))
}

fn fault(cause: Cause, waited: bool) -> Result<RowAnswer, Fault> {
    Err(Fault { cause, reason: "scripted".to_owned(), waited })
}

impl Bench {
    fn new(
        concurrency: usize,
        ordered: bool,
        network: bool,
        script: impl FnMut(i32, i64, u32, u64) -> Says + Send + 'static,
    ) -> Bench {
        let world =
            World { script: Box::new(script), now: 0, open: BTreeMap::new(), calls: Vec::new(), most: 0 };
        let world = Arc::new(Mutex::new(world));
        let node = WaitingNode::new(Waiting {
            plugin: Label { name: "p".into(), digest: "00".into() },
            span: tracing::Span::none(),
            exits: Arc::new(Exits::Either {
                yes: Target::End(Ending::Drained),
                no: Target::End(Ending::Filtered),
            }),
            grows: false,
            breaker: Breaker::new(true),
            calls: Box::new(Scripted(world.clone())),
            concurrency,
            limit: Duration::from_secs(1),
            ordered,
            retries: None,
            network,
        });
        let mut accounts = Accounts::tracked();
        let partitions: Vec<_> = (0..3).map(|_| accounts.add_partition(CommitOffset(0), None)).collect();
        Bench {
            node,
            world,
            accounts,
            partitions,
            next: vec![0; 3],
            left: Vec::new(),
            kept: Vec::new(),
            keeps: false,
            bounds: Bounds { records: 4, bytes: 1 << 20 },
            retried: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment::START + Duration::from_millis(self.world.lock().unwrap().now)
    }

    /// Rows of these partitions come, in this order.
    fn arrive(&mut self, partitions: &[usize]) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut tokens = Vec::new();
        for partition in partitions {
            let offset = RecordOffset(self.next[*partition]);
            self.next[*partition] += 1;
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: *partition as i32,
                    offset,
                    timestamp_ms: None,
                    key: None,
                    payload: Some(b"x"),
                    row: "",
                })
                .unwrap();
            tokens.push(self.accounts.register(self.partitions[*partition], offset, 1));
        }
        let now = self.now();
        self.node.arrive(RowSet::all(builder.finish(), tokens, None), now);
        self.start_calls(now);
    }

    fn room(&self) -> Room<'_> {
        Room { accounts: &self.accounts, bounds: self.bounds }
    }

    fn start_calls(&mut self, now: Moment) {
        self.node.start_calls(now, Room { accounts: &self.accounts, bounds: self.bounds });
    }

    fn step(&mut self) {
        let now = self.now();
        let (leaving, retried) = self.node.take_answers(now, 0.5, &mut self.accounts);
        self.start_calls(now);
        self.retried += retried;
        for leaving in leaving {
            let outcome = match &leaving {
                Leaving::Passed { to: Target::End(Ending::Filtered), .. } => "no",
                Leaving::Passed { .. } => "passed",
                Leaving::Became { .. } => "became",
                Leaving::Failed(failed) => failed.kind.name(),
            };
            let row = leaving.into_row();
            self.left.push((row.partition().0, row.batch.source(row.id).offset.0, outcome));
            self.kept.push(row);
            if !self.keeps {
                self.resolve(0);
            }
        }
    }

    /// A row that left is written.
    fn resolve(&mut self, kept: usize) {
        let row = self.kept.remove(kept);
        self.accounts.redeem(row.token, Ending::Drained);
    }

    /// Lets time pass until nothing is left, or so long.
    fn run(&mut self, limit: u64) {
        let end = self.world.lock().unwrap().now + limit;
        loop {
            self.step();
            let answer = self.world.lock().unwrap().open.values().map(|(at, _)| *at).min();
            let due = self.node.next_due(self.room()).map(|due| due.since(Moment::START).as_millis() as u64);
            let mut world = self.world.lock().unwrap();
            let next = [answer, due].into_iter().flatten().min();
            match next {
                Some(next) if next <= end => {
                    assert!(next > world.now || answer == Some(next), "a wake-up that leads to nothing");
                    world.now = next.max(world.now);
                }
                _ => {
                    world.now = end;
                    return;
                }
            }
        }
    }

    fn offsets(&self, partition: u32) -> Vec<i64> {
        self.left.iter().filter(|(p, _, _)| *p == partition).map(|(_, offset, _)| *offset).collect()
    }
}

#[test]
fn so_many_calls_are_under_way_and_no_more_and_partitions_take_turns() {
    let mut bench = Bench::new(3, true, false, |_, offset, _, _| (100 - offset as u64, passes()));
    bench.arrive(&[0, 0, 0, 0, 0, 0, 1, 2]);
    let first: Vec<_> = bench.world.lock().unwrap().calls.iter().map(|(_, p, o)| (*p, *o)).collect();
    assert_eq!(first, [(1, 0), (2, 0), (0, 0)], "each partition has its turn");
    bench.run(10_000);
    assert_eq!(bench.world.lock().unwrap().most, 3);
    assert_eq!(bench.offsets(0), [0, 1, 2, 3, 4, 5], "in order, though later ones were quicker");
    assert!(bench.node.is_empty() && bench.node.in_flight() == 0);
}

#[test]
fn rows_of_other_partitions_pass_one_that_hangs() {
    let mut bench = Bench::new(2, true, false, |partition, _, _, _| {
        (if partition == 0 { 1_000_000 } else { 5 }, passes())
    });
    bench.arrive(&[0, 1, 1, 1, 1]);
    bench.run(1_000);
    assert_eq!(bench.offsets(1), [0, 1, 2, 3]);
    assert_eq!(bench.node.waiting(), 1);
    assert_eq!(bench.node.abandon(), 1, "one call hung");
    assert!(bench.world.lock().unwrap().open.is_empty());
}

#[test]
fn out_of_order_rows_leave_with_their_answers() {
    let mut bench = Bench::new(4, false, false, |_, offset, _, _| (100 - offset as u64, passes()));
    bench.arrive(&[0, 0, 0, 0]);
    bench.run(1_000);
    assert_eq!(bench.offsets(0), [3, 2, 1, 0]);
}

#[test]
fn a_plugin_that_answers_retry_for_a_minute_loses_nothing_and_keeps_order() {
    let mut bench = Bench::new(4, true, true, |_, _, _, now| {
        (20, if now < 60_000 { fault(Cause::Retry, false) } else { passes() })
    });
    bench.arrive(&[0; 20]);
    assert!(bench.node.holding().next().is_some(), "nothing more is read while it waits");
    bench.run(50_000);
    assert!(bench.left.is_empty());
    assert!(bench.node.holding().eq([bench.partitions[0]]));
    bench.run(100_000);
    assert_eq!(bench.offsets(0), (0..20).collect::<Vec<_>>());
    let world = bench.world.lock().unwrap();
    let early: Vec<u64> = world.calls.iter().filter(|(at, ..)| *at < 60_000).map(|(at, ..)| *at).collect();
    assert!(early.len() < 16, "it is left alone meanwhile: {early:?}");
    assert!(bench.retried >= 4);
}

#[test]
fn a_time_out_of_the_network_is_late_and_any_other_is_the_records_own() {
    for (network, waited, outcome) in
        [(true, true, "passed"), (true, false, "task"), (false, true, "task"), (false, false, "task")]
    {
        let mut bench = Bench::new(2, true, network, move |_, offset, before, _| {
            (50, if offset == 1 && before < 3 { fault(Cause::Timeout, waited) } else { passes() })
        });
        bench.arrive(&[0, 0, 0]);
        bench.run(60_000);
        let expected = [(0, 0, "passed"), (0, 1, outcome), (0, 2, "passed")];
        assert_eq!(bench.left, expected, "network: {network}, waited: {waited}");
        assert_eq!(bench.retried, if outcome == "passed" { 3 } else { 0 });
    }
}

#[test]
fn a_predicate_says_which_way_and_a_failure_has_its_kind() {
    let mut bench = Bench::new(8, true, false, |_, offset, _, _| {
        let says = match offset {
            0 => Ok(RowAnswer::Is(true)),
            1 => Ok(RowAnswer::Is(false)),
            2 => fault(Cause::Reject, false),
            3 => fault(Cause::Fail, false),
            _ => fault(Cause::Trap, false),
        };
        (1, says)
    });
    bench.arrive(&[0; 5]);
    bench.run(100);
    let outcomes: Vec<_> = bench.left.iter().map(|(_, _, outcome)| *outcome).collect();
    let (business, task) = (ErrorKind::Business.name(), ErrorKind::Task.name());
    assert_eq!(outcomes, ["passed", "no", business, task, task]);
}

#[test]
fn a_plugin_that_traps_on_everything_holds_its_node_and_is_probed_alone() {
    let mut bench = Bench::new(4, true, false, |_, _, _, now| {
        (1, if now < 20_000 { fault(Cause::Trap, false) } else { passes() })
    });
    bench.arrive(&[0; 300]);
    bench.run(15_000);
    let failed = bench.left.len();
    assert!((100..120).contains(&failed), "{failed} rows failed before and by probing");
    assert!(bench.node.holding().next().is_some());
    bench.run(60_000);
    assert_eq!(bench.left.len(), 300);
    assert!(bench.left.is_sorted());
    assert!(bench.left.iter().filter(|(_, _, outcome)| *outcome == "passed").count() > 170);
}

#[test]
fn at_a_stop_what_is_tried_again_is_given_up_and_the_rest_goes_on() {
    let mut bench = Bench::new(2, true, true, |partition, _, _, _| {
        (10, if partition == 0 { fault(Cause::Retry, false) } else { passes() })
    });
    bench.arrive(&[0, 0, 0, 1, 1, 1]);
    bench.run(15);
    bench.node.give_up_retries();
    bench.run(1_000);
    assert_eq!(bench.offsets(0), [0_i64; 0]);
    assert_eq!(bench.offsets(1), [0, 1, 2]);
    assert!(bench.node.is_empty());
    assert_eq!(bench.accounts.tracker(bench.partitions[0]).watermark(), CommitOffset(0));
}

#[test]
fn no_more_is_made_than_there_is_room_for_and_the_oldest_always_gets_through() {
    // Each record becomes two rows; there is room for four more than the records themselves.
    let mut bench = Bench::new(1, true, false, |_, offset, _, _| {
        let letters = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let made = (0..2).fold(letters, |mut batch, _| {
            let (partition, offset) = (0, RecordOffset(offset));
            let (key, payload, timestamp_ms) = (None, Some(&b"xy"[..]), None);
            batch
                .push(RecordRef { topic: 0, partition, offset, timestamp_ms, key, payload, row: "0" })
                .unwrap();
            batch
        });
        (1, Ok(RowAnswer::Made(Arc::new({ made }.finish()))))
    });
    bench.node.parts.grows = true;
    bench.keeps = true;
    bench.arrive(&[0; 10]);
    bench.run(100);
    let made = bench.accounts.tracker(bench.partitions[0]).made();
    assert_eq!((bench.offsets(0), made.rows, made.bytes), (vec![0, 1, 2, 3], 4, 4 * 3));
    assert_eq!(bench.node.next_due(bench.room()), None, "nothing is due until there is room");
    // The third is resolved, and the fifth becomes two; then nothing more, the oldest still being there.
    bench.resolve(2);
    bench.run(100);
    assert_eq!(bench.offsets(0), [0, 1, 2, 3, 4]);
    // Those before the sixth are resolved: what was made of it may be as much as it likes.
    bench.bounds.records = 0;
    (0..4).for_each(|_| bench.resolve(0));
    bench.run(100);
    assert_eq!(bench.offsets(0), [0, 1, 2, 3, 4, 5]);
    bench.kept.drain(..).for_each(|row| row.token.give_up());
    bench.node.abandon();
}

#[test]
fn counted_retries_end_a_row_and_the_others_leave_in_order() {
    let mut bench = Bench::new(2, true, true, |_, offset, _, _| {
        let verdict = match offset {
            1 => fault(Cause::Retry, false),
            2 => fault(Cause::Timeout, true),
            _ => passes(),
        };
        (1, verdict)
    });
    bench.node.parts.retries = Some(2);
    bench.arrive(&[0, 0, 0, 0]);
    bench.run(60_000);
    assert_eq!(bench.left, [(0, 0, "passed"), (0, 1, "delivery"), (0, 2, "delivery"), (0, 3, "passed")]);
    let calls = bench.world.lock().unwrap().calls.iter().filter(|(_, _, offset)| *offset == 1).count();
    assert_eq!((calls, bench.retried), (3, 4));
}
