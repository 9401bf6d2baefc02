//! Batches on scripted calls, against models that know no tokens: which records a commit may pass, which rows are called when,
//! and in which order batches leave.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_delivery::{Accounts, Made as MadeOf, Token};
use loom_kafka::Waker;
use loom_plugin::{BatchExpandAnswers, Breaker, Cause, Origins, RowFailure, StepAnswers};
use loom_types::{
    Batch, BatchBuilder, Changes, CommitOffset, Ending, ErrorKind, Moment, PartitionId, RecordOffset,
    RecordRef,
};
use proptest::prelude::*;

use super::calls::{Answered, BatchAnswer, BatchCalls};
use super::collect::{Collect, CollectBounds, Gather};
use super::derive::derive;
use super::held::Held;
use super::node::{BatchNode, Batching};
use crate::nodes::plugins::Label;
use crate::nodes::waiting::Fault;
use crate::nodes::{Room, Target};
use crate::rows::RowSet;
use crate::worker::Bounds;

/// Rows of these partitions and offsets.
fn batch(rows: &[(i32, i64)]) -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
    for (partition, offset) in rows {
        builder
            .push(RecordRef {
                topic: 0,
                partition: *partition,
                offset: RecordOffset(*offset),
                timestamp_ms: None,
                key: None,
                payload: Some(b"x"),
                row: "",
            })
            .unwrap();
    }
    builder.finish()
}

/// What a batch expander makes of a batch, of whatever size it is.
#[derive(Clone, Debug)]
struct Made {
    /// Sets of places, each with how many rows name it; a place beyond the batch counts from its start again.
    sets: Vec<(BTreeSet<usize>, usize)>,
    /// Places whose records failed: no row names them.
    failed: BTreeSet<usize>,
}

fn made() -> impl Strategy<Value = Made> {
    let set = (prop::collection::btree_set(0..12_usize, 1..6), 1..4_usize);
    let all = (Just((0..12).collect::<BTreeSet<_>>()), 1..4_usize);
    let sets = prop::collection::vec(prop_oneof![3 => set, 1 => all], 0..6);
    (sets, prop::collection::btree_set(0..12_usize, 0..3)).prop_map(|(sets, failed)| Made { sets, failed })
}

/// A row with all the records that it stands for, by partition and offset.
type Known = (Token, BTreeSet<(usize, i64)>);

/// The rows that became of a batch, failed ones too.
fn become_of(accounts: &mut Accounts, batch: Vec<Known>, made: &Made) -> Vec<Known> {
    let mut failed = Vec::new();
    let (mut tokens, mut records) = (Vec::new(), Vec::new());
    let size = batch.len();
    for (place, (token, stands_for)) in batch.into_iter().enumerate() {
        records.push(stands_for.clone());
        if made.failed.contains(&place) {
            failed.push((token, stands_for));
        } else {
            tokens.push((place as u32, token));
        }
    }
    let mut origins = Origins::new();
    let mut names = Vec::new();
    for (set, count) in &made.sets {
        let places: BTreeSet<usize> = set.iter().map(|place| place % size.max(1)).collect();
        let places: Vec<usize> = places.into_iter().filter(|place| !made.failed.contains(place)).collect();
        if places.is_empty() || size == 0 {
            continue;
        }
        let number = origins.add_set(places.iter().map(|place| *place as u32));
        for _ in 0..*count {
            origins.add_row(number);
            names.push(places.iter().flat_map(|place| records[*place].clone()).collect());
        }
    }
    let derived = derive(accounts, tokens, &origins, names.len() as u32);
    assert_eq!(derived.len(), names.len());
    derived.into_iter().zip(names).chain(failed).collect()
}

/// Registers the records of several batches, makes rows of each, and of all these rows as one batch rows again; then ends all
/// in random order. After each, every partition's watermark is the lowest record that some row still stands for.
fn check_accounts(batches: &[(Vec<usize>, Made)], again: Option<&Made>, order: &[u32], tracked: bool) {
    let mut accounts = if tracked { Accounts::tracked() } else { Accounts::untracked() };
    let partitions: Vec<PartitionId> =
        (0..2).map(|_| accounts.add_partition(CommitOffset(0), None)).collect();
    let mut next = [0_i64; 2];
    let mut rows: Vec<Known> = Vec::new();
    for (records, made) in batches {
        let register = |partition: &usize| {
            let offset = next[*partition];
            next[*partition] += 1;
            let token = accounts.register(partitions[*partition], RecordOffset(offset), 1);
            (token, BTreeSet::from([(*partition, offset)]))
        };
        let batch: Vec<Known> = records.iter().map(register).collect();
        rows.extend(become_of(&mut accounts, batch, made));
    }
    if let Some(made) = again {
        rows = become_of(&mut accounts, rows, made);
    }
    let mut rows: Vec<(u32, Known)> = order.iter().cycle().copied().zip(rows).collect();
    rows.sort_by_key(|(at, _)| *at);
    let mut left: VecDeque<Known> = rows.into_iter().map(|(_, row)| row).collect();
    loop {
        for (partition, id) in partitions.iter().enumerate() {
            let open = left.iter().flat_map(|(_, records)| records);
            let open = open.filter(|(other, _)| *other == partition).map(|(_, offset)| *offset).min();
            let expected = CommitOffset(open.filter(|_| tracked).unwrap_or(next[partition]));
            let tracker = accounts.tracker(*id);
            assert_eq!(tracker.watermark(), expected, "partition {partition}");
            assert!(tracker.ledger().balances(), "{:?}", tracker.ledger());
        }
        let Some((token, _)) = left.pop_front() else { break };
        accounts.redeem(token, Ending::Topic);
    }
    let ledger = accounts.ledger();
    assert_eq!((ledger.outstanding, ledger.live), (0, 0), "{ledger:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_waits_for_exactly_the_rows_that_stand_for_it(
        batches in prop::collection::vec((prop::collection::vec(0..2_usize, 1..12), made()), 1..4),
        again in prop::option::of(made()),
        order in prop::collection::vec(any::<u32>(), 64),
        tracked in prop::bool::weighted(0.8),
    ) {
        check_accounts(&batches, again.as_ref(), &order, tracked);
    }
}

#[test]
fn what_a_summary_of_many_records_costs_is_parents_and_rows() {
    let mut accounts = Accounts::tracked();
    let partition = accounts.add_partition(CommitOffset(0), None);
    let tokens: Vec<Token> =
        (0..1000).map(|offset| accounts.register(partition, RecordOffset(offset), 1)).collect();
    let mut origins = Origins::new();
    let all = origins.add_set(0..1000);
    (0..1000).for_each(|_| origins.add_row(all));
    let rows = derive(&mut accounts, (0..).zip(tokens), &origins, 1000);
    // One group, and a share of it for each row: no token for a pair of both.
    assert_eq!(accounts.ledger().minted, 1000 + 1 + 1000);
    for (ended, token) in rows.into_iter().enumerate() {
        assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(0), "{ended} rows ended");
        accounts.redeem(token, Ending::Topic);
    }
    assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(1000));
}

const WIDE: Bounds = Bounds { records: usize::MAX, bytes: u64::MAX };

/// What a call does: how long it takes, and what it answers to each row, none where it passes.
type Says = (u64, Result<Vec<Option<Cause>>, Fault>);

/// Asked with the rows' offsets, and the moment in milliseconds.
type Script = Box<dyn FnMut(&[i64], u64) -> Says + Send>;

struct World {
    script: Script,
    now: u64,
    open: BTreeMap<u64, (u64, Result<BatchAnswer, Fault>)>,
    /// When, and the offsets.
    calls: Vec<(u64, Vec<i64>)>,
    most: usize,
}

struct Scripted {
    world: Arc<Mutex<World>>,
    direct: bool,
}

impl BatchCalls for Scripted {
    fn ring(&mut self, _: Waker) {}

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], _: u32) {
        let mut world = self.world.lock().unwrap();
        let offsets: Vec<i64> = rows.iter().map(|row| batch.source(*row).offset.0).collect();
        let now = world.now;
        let (takes, says) = (world.script)(&offsets, now);
        let answer = says.map(|verdicts| {
            let failures = verdicts.iter().enumerate().filter_map(|(position, cause)| {
                Some(RowFailure {
                    position: position as u32,
                    cause: (*cause)?,
                    reason: "scripted".to_owned(),
                })
            });
            let failures = failures.collect();
            BatchAnswer::Changed(StepAnswers {
                answered: verdicts.len() as u32,
                changes: Changes::default(),
                failures,
            })
        });
        world.calls.push((now, offsets));
        let takes = if self.direct { 0 } else { takes };
        world.open.insert(call, (now + takes, answer));
        world.most = world.most.max(world.open.len());
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        let mut world = self.world.lock().unwrap();
        let now = world.now;
        let due: Vec<u64> =
            world.open.iter().filter(|(_, (at, _))| *at <= now).map(|(call, _)| *call).collect();
        for call in due {
            let (_, answer) = world.open.remove(&call).unwrap();
            out.push((call, answer));
        }
    }

    fn abandon(&mut self, call: u64) {
        self.world.lock().unwrap().open.remove(&call);
    }
}

struct Bench {
    node: BatchNode,
    world: Arc<Mutex<World>>,
    accounts: Accounts,
    partitions: Vec<PartitionId>,
    next: Vec<i64>,
    /// By batch that left: its rows' partition, offset and outcome.
    left: Vec<Vec<(u32, i64, &'static str)>>,
    retried: u64,
}

/// How a node of a test is made.
struct Setup {
    direct: bool,
    concurrency: usize,
    ordered: bool,
    network: bool,
    fails_batches: bool,
    retries: Option<u32>,
}

const DIRECT: Setup = Setup {
    direct: true,
    concurrency: 1,
    ordered: true,
    network: false,
    fails_batches: false,
    retries: None,
};

const WAITING: Setup = Setup { direct: false, concurrency: 2, ..DIRECT };

fn pass(offsets: &[i64]) -> Result<Vec<Option<Cause>>, Fault> {
    Ok(vec![None; offsets.len()])
}

fn fault(cause: Cause, waited: bool) -> Result<Vec<Option<Cause>>, Fault> {
    Err(Fault { cause, reason: "scripted".to_owned(), waited })
}

impl Bench {
    fn new(setup: Setup, script: impl FnMut(&[i64], u64) -> Says + Send + 'static) -> Bench {
        let world =
            World { script: Box::new(script), now: 0, open: BTreeMap::new(), calls: Vec::new(), most: 0 };
        let world = Arc::new(Mutex::new(world));
        let node = BatchNode::new(Batching {
            plugin: Label { name: "b".into(), digest: "00".into() },
            span: tracing::Span::none(),
            next: Target::End(Ending::Drained),
            breaker: Breaker::new(true),
            calls: Box::new(Scripted { world: world.clone(), direct: setup.direct }),
            concurrency: setup.concurrency,
            limit: Duration::from_secs(1),
            ordered: setup.ordered,
            retries: setup.retries,
            network: setup.network,
            fails_batches: setup.fails_batches,
            grows: false,
        });
        let mut accounts = Accounts::tracked();
        let partitions = (0..3).map(|_| accounts.add_partition(CommitOffset(0), None)).collect();
        Bench { node, world, accounts, partitions, next: vec![0; 3], left: Vec::new(), retried: 0 }
    }

    fn now(&self) -> Moment {
        Moment::START + Duration::from_millis(self.world.lock().unwrap().now)
    }

    /// A batch of rows of these partitions comes.
    fn arrive(&mut self, partitions: &[usize]) {
        let mut rows = Vec::new();
        let mut tokens = Vec::new();
        for partition in partitions {
            let offset = self.next[*partition];
            self.next[*partition] += 1;
            rows.push((*partition as i32, offset));
            tokens.push(self.accounts.register(self.partitions[*partition], RecordOffset(offset), 1));
        }
        self.node.push(RowSet::all(batch(&rows), tokens, None), self.now());
    }

    fn step(&mut self) {
        let now = self.now();
        let room = Room { accounts: &self.accounts, bounds: WIDE };
        let (leaving, retried) = self.node.progress(now, 0.5, room, &mut || true);
        self.retried += retried;
        for held in leaving {
            let through = held.through(&mut self.accounts);
            assert!(through.on.len() <= 1, "what passes goes on as one batch");
            let mut rows = Vec::new();
            for set in through.on {
                for row in set.into_rows(1) {
                    rows.push((row.partition().0, row.batch.source(row.id).offset.0, "passed"));
                    self.accounts.redeem(row.token, Ending::Drained);
                }
            }
            for failed in through.failed {
                let row = failed.row;
                rows.push((row.partition().0, row.batch.source(row.id).offset.0, failed.kind.name()));
                self.accounts.redeem(row.token, Ending::Dropped(failed.kind));
            }
            rows.sort_unstable();
            self.left.push(rows);
        }
    }

    /// Lets time pass until nothing is left to do, or so long.
    fn run(&mut self, limit: u64) {
        let end = self.world.lock().unwrap().now + limit;
        loop {
            self.step();
            let answer = self.world.lock().unwrap().open.values().map(|(at, _)| *at).min();
            let room = Room { accounts: &self.accounts, bounds: WIDE };
            let due = self.node.next_due(room).map(|due| due.since(Moment::START).as_millis() as u64);
            let mut world = self.world.lock().unwrap();
            match [answer, due].into_iter().flatten().min() {
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

    /// The offsets of a partition, in the order in which they left, passed or not.
    fn offsets(&self, partition: u32) -> Vec<i64> {
        let rows = self.left.iter().flatten().filter(|(other, ..)| *other == partition);
        rows.map(|(_, offset, _)| *offset).collect()
    }

    fn calls(&self) -> Vec<Vec<i64>> {
        self.world.lock().unwrap().calls.iter().map(|(_, offsets)| offsets.clone()).collect()
    }
}

#[test]
fn only_rows_that_are_not_decided_are_called_again_and_the_batch_goes_on_as_one() {
    for setup in [DIRECT, WAITING] {
        let mut tries = 0;
        let mut bench = Bench::new(setup, move |offsets, _| {
            tries += u32::from(offsets.contains(&1));
            let verdict = |offset: &i64| match offset {
                1 | 3 if tries <= 2 => Some(Cause::Retry),
                2 => Some(Cause::Reject),
                _ => None,
            };
            (1, Ok(offsets.iter().map(verdict).collect()))
        });
        bench.arrive(&[0; 5]);
        bench.step();
        // Behind it, and not of its partition.
        bench.arrive(&[0; 2]);
        bench.arrive(&[1]);
        bench.run(60_000);
        assert_eq!(bench.calls()[0], [0, 1, 2, 3, 4]);
        let again: Vec<_> = bench.calls().into_iter().filter(|call| call == &[1, 3]).collect();
        assert_eq!(again.len(), 2);
        let places: Vec<_> = bench.left.iter().map(|rows| (rows[0].0, rows[0].1, rows.len())).collect();
        assert_eq!(places, [(1, 0, 1), (0, 0, 5), (0, 5, 2)], "the other partition does not wait");
        assert_eq!(bench.left[1][2], (0, 2, "business"));
        assert_eq!(bench.retried, 4);
        assert!(bench.node.is_empty());
        assert_eq!(bench.accounts.ledger().outstanding, 0);
    }
}

#[test]
fn a_call_of_several_rows_that_trapped_is_no_attempt_of_any_of_them() {
    let mut again: BTreeMap<i64, u32> = BTreeMap::new();
    let mut bench = Bench::new(Setup { retries: Some(1), ..WAITING }, move |offsets, _| {
        let says = match offsets {
            [alone] => {
                let tries = again.entry(*alone).or_default();
                *tries += 1;
                Ok(vec![(*tries == 1).then_some(Cause::Retry)])
            }
            _ => fault(Cause::Trap, false),
        };
        (1, says)
    });
    bench.arrive(&[0; 3]);
    bench.run(60_000);
    let passed: Vec<_> = (0..3).map(|offset| (0, offset, "passed")).collect();
    assert_eq!(bench.left, [passed], "each has its one retry, whatever became of the call with the others");
    assert_eq!(bench.calls()[0], [0, 1, 2]);
    // All three once alone, together again, and alone again.
    assert_eq!(bench.calls().len(), 8);
}

#[test]
fn calls_overlap_within_their_number_and_batches_leave_in_order_unless_they_need_not() {
    for (ordered, expected) in [(true, [0, 1, 2, 3, 4, 5]), (false, [2, 3, 4, 5, 0, 1])] {
        let mut bench = Bench::new(Setup { ordered, ..WAITING }, |offsets, _| {
            (if offsets[0] == 0 { 100 } else { 10 }, pass(offsets))
        });
        (0..3).for_each(|_| bench.arrive(&[0; 2]));
        bench.run(1_000);
        assert_eq!(bench.offsets(0), expected);
        assert_eq!(bench.world.lock().unwrap().most, 2);
    }
}

#[test]
fn a_call_that_does_not_come_back_is_made_again_row_by_row() {
    for cause in [Cause::Trap, Cause::Protocol, Cause::Timeout] {
        let mut bench = Bench::new(WAITING, move |offsets, _| {
            (1, if offsets.contains(&2) { fault(cause, false) } else { pass(offsets) })
        });
        bench.arrive(&[0; 4]);
        bench.run(1_000);
        assert_eq!(bench.calls(), [vec![0, 1, 2, 3], vec![0], vec![1], vec![2], vec![3]]);
        let expected = [(0, 0, "passed"), (0, 1, "passed"), (0, 2, "task"), (0, 3, "passed")];
        assert_eq!(bench.left, [expected.to_vec()], "{cause:?}");
        assert_eq!(bench.world.lock().unwrap().most, 2, "within the number of calls");
    }
}

#[test]
fn where_running_rows_again_is_not_safe_a_trap_is_the_fault_of_all_and_a_wrong_answer_is_not() {
    let setup = || Setup { fails_batches: true, ..WAITING };
    let mut bench = Bench::new(setup(), |_, _| (1, fault(Cause::Trap, false)));
    bench.arrive(&[0; 3]);
    bench.run(1_000);
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(bench.left[0].iter().map(|row| row.2).collect::<Vec<_>>(), ["task"; 3]);
    let mut bench = Bench::new(setup(), |offsets, _| {
        (1, if offsets.len() > 1 { fault(Cause::Protocol, false) } else { pass(offsets) })
    });
    bench.arrive(&[0; 3]);
    bench.run(1_000);
    assert_eq!(bench.left[0].iter().map(|row| row.2).collect::<Vec<_>>(), ["passed"; 3]);
}

#[test]
fn a_slow_network_is_waited_for_with_the_whole_batch() {
    let mut bench = Bench::new(Setup { network: true, ..WAITING }, |offsets, now| {
        (10, if now < 5_000 { fault(Cause::Timeout, true) } else { pass(offsets) })
    });
    bench.arrive(&[0; 3]);
    bench.run(2_000);
    assert!(bench.left.is_empty());
    assert_eq!(bench.node.holding(), [bench.partitions[0]]);
    bench.run(60_000);
    assert_eq!(bench.offsets(0), [0, 1, 2]);
    assert!(bench.calls().iter().all(|call| call.len() == 3), "{:?}", bench.calls());
    assert!(bench.retried >= 3);
}

#[test]
fn counted_retries_end_the_rows_that_used_them_up_and_no_other() {
    for setup in [DIRECT, WAITING] {
        let mut bench = Bench::new(Setup { retries: Some(2), ..setup }, |offsets, _| {
            (1, Ok(offsets.iter().map(|offset| (*offset == 1).then_some(Cause::Retry)).collect()))
        });
        bench.arrive(&[0; 3]);
        bench.run(60_000);
        assert_eq!(bench.left, [vec![(0, 0, "passed"), (0, 1, "delivery"), (0, 2, "passed")]]);
        assert_eq!(bench.calls(), [vec![0, 1, 2], vec![1], vec![1]]);
    }
}

#[test]
fn a_plugin_that_traps_on_everything_holds_its_node_and_is_probed_with_one_row() {
    for (setup, direct) in [(DIRECT, true), (WAITING, false)] {
        let mut bench = Bench::new(setup, |offsets, now| {
            let traps = |_: &i64| Some(Cause::Trap);
            (1, if now < 20_000 { Ok(offsets.iter().map(traps).collect()) } else { pass(offsets) })
        });
        (0..3).for_each(|_| bench.arrive(&[0; 100]));
        bench.run(15_000);
        // Calls that overlap were made before the first one was answered.
        let calls = bench.calls();
        let probes = &calls[if direct { 1 } else { 2 }..];
        assert!(!probes.is_empty() && probes.iter().all(|call| call.len() == 1), "{probes:?}");
        assert_eq!(bench.node.holding(), [bench.partitions[0]]);
        bench.run(60_000);
        assert_eq!(bench.offsets(0), (0..300).collect::<Vec<_>>());
        let passed = bench.left.iter().flatten().filter(|row| row.2 == "passed").count();
        assert!((if direct { 150..200 } else { 50..100 }).contains(&passed), "{passed}");
    }
}

#[test]
fn at_a_stop_batches_that_are_tried_again_are_given_up_with_those_behind_them() {
    let mut bench = Bench::new(Setup { concurrency: 4, ..WAITING }, |offsets, _| {
        let retry = offsets.len() == 3;
        (10, Ok(offsets.iter().map(|_| retry.then_some(Cause::Retry)).collect()))
    });
    bench.arrive(&[0; 3]);
    bench.arrive(&[1; 2]);
    bench.run(15);
    bench.arrive(&[0; 2]);
    bench.arrive(&[1; 2]);
    bench.node.give_up_retries();
    bench.run(60_000);
    assert_eq!((bench.offsets(0), bench.offsets(1)), (vec![], vec![0, 1, 2, 3]));
    assert!(bench.node.is_empty());
    assert_eq!(bench.accounts.tracker(bench.partitions[0]).watermark(), CommitOffset(0));
    let mut bench = Bench::new(WAITING, |offsets, _| (1_000_000, pass(offsets)));
    bench.arrive(&[0; 3]);
    bench.step();
    assert_eq!((bench.node.waiting(), bench.node.abandon()), (3, 1));
    assert!(bench.world.lock().unwrap().open.is_empty());
}

/// Gathers by source partition: rows of these partitions come at these moments, in milliseconds.
struct Gathering {
    node: Collect,
    accounts: Accounts,
    partitions: Vec<PartitionId>,
    next: Vec<i64>,
}

impl Gathering {
    fn new(records: usize, bytes: u64, timeout_ms: Option<u64>, most: (usize, u64)) -> Gathering {
        let timeout = timeout_ms.map(Duration::from_millis);
        let bounds = CollectBounds { records, bytes, timeout };
        let node = Collect::new(Gather::Partition, bounds, most, Target::End(Ending::Drained));
        let mut accounts = Accounts::tracked();
        let partitions = (0..3).map(|_| accounts.add_partition(CommitOffset(0), None)).collect();
        Gathering { node, accounts, partitions, next: vec![0; 3] }
    }

    fn arrive(&mut self, partitions: &[usize], at: u64, route: Option<ErrorKind>) -> Vec<Vec<(u32, i64)>> {
        let (mut rows, mut tokens) = (Vec::new(), Vec::new());
        for partition in partitions {
            let offset = self.next[*partition];
            self.next[*partition] += 1;
            rows.push((*partition as i32, offset));
            tokens.push(self.accounts.register(self.partitions[*partition], RecordOffset(offset), 1));
        }
        let rows = RowSet::all(batch(&rows), tokens, route);
        let leaving = self.node.arrive(rows, ms(at), &self.accounts);
        self.told(leaving)
    }

    fn due(&mut self, at: u64) -> Vec<Vec<(u32, i64)>> {
        let leaving = self.node.due(ms(at));
        self.told(leaving)
    }

    fn told(&mut self, leaving: Vec<RowSet>) -> Vec<Vec<(u32, i64)>> {
        let each = leaving.into_iter().map(|set| {
            let rows = set.into_rows(0).map(|row| {
                let source = row.batch.source(row.id);
                let told = (source.partition as u32, source.offset.0);
                self.accounts.redeem(row.token, Ending::Drained);
                told
            });
            rows.collect()
        });
        each.collect()
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        self.node.abandon();
    }
}

fn ms(at: u64) -> Moment {
    Moment::START + Duration::from_millis(at)
}

const NO_BOUND: (usize, u64) = (usize::MAX, u64::MAX);

#[test]
fn each_batch_leaves_so_long_after_its_first_record_however_many_follow() {
    let mut gathering = Gathering::new(100, u64::MAX, Some(500), NO_BOUND);
    let mut left = Vec::new();
    // A record every 400 ms, and a worker that wakes when it is told to.
    for record in 0..12 {
        let at = record * 400;
        while let Some(due) = gathering.node.next_due().filter(|due| *due < ms(at)) {
            let due = due.since(Moment::START).as_millis() as u64;
            left.extend(gathering.due(due).into_iter().map(|rows| (due, rows.len(), rows[0].1)));
        }
        assert!(gathering.arrive(&[0], at, None).is_empty());
    }
    let expected: Vec<_> = (0..6).map(|batch| (batch * 800 + 500, 2, batch as i64 * 2)).collect();
    assert_eq!(left, expected[..5]);
    assert_eq!(gathering.node.next_due(), Some(ms(4500)));
    assert!(gathering.due(4499).is_empty());
    assert_eq!(gathering.due(4500), [[(0, 10), (0, 11)]]);
    assert!(gathering.node.is_empty() && gathering.node.next_due().is_none());
}

#[test]
fn batches_are_full_by_records_or_bytes_and_of_one_partition_and_one_kind_of_error() {
    let mut gathering = Gathering::new(3, u64::MAX, None, NO_BOUND);
    assert_eq!(
        gathering.arrive(&[0, 0, 0, 0, 1, 0, 0, 0], 0, None),
        [[(0, 0), (0, 1), (0, 2)], [(0, 3), (0, 4), (0, 5)]]
    );
    assert_eq!(gathering.node.waiting(), 2);
    assert!(
        gathering.arrive(&[0], 0, Some(ErrorKind::Task)).is_empty(),
        "error rows are no batch with others"
    );
    assert_eq!(gathering.arrive(&[0], 0, None), Vec::<Vec<_>>::new());
    assert_eq!(gathering.arrive(&[0], 0, None), [[(0, 6), (0, 8), (0, 9)]]);
    gathering.node.ask();
    assert_eq!(gathering.due(0), [vec![(1, 0)], vec![(0, 7)]]);
    // Each row is one byte.
    let mut gathering = Gathering::new(usize::MAX, 2, None, NO_BOUND);
    assert_eq!(gathering.arrive(&[0], 0, None), Vec::<Vec<_>>::new());
    assert_eq!(gathering.arrive(&[0; 4], 0, None), [[(0, 0), (0, 1)], [(0, 2), (0, 3)]]);
    assert_eq!(gathering.node.waiting(), 1);
    let mut gathering = Gathering::new(usize::MAX, 1, None, NO_BOUND);
    assert_eq!(gathering.arrive(&[0, 0], 0, None), [[(0, 0)], [(0, 1)]]);
}

#[test]
fn a_batch_leaves_early_when_its_partition_waits_for_it_and_when_there_are_too_many_rows() {
    let mut gathering = Gathering::new(100, u64::MAX, None, NO_BOUND);
    gathering.arrive(&[0, 1, 0], 0, None);
    let (zero, one) = (gathering.partitions[0], gathering.partitions[1]);
    gathering.node.ask_for(zero, RecordOffset(1));
    assert_eq!(gathering.node.next_due(), None, "another record is the one that it waits for");
    gathering.node.ask_for(one, RecordOffset(0));
    assert_eq!(gathering.node.next_due(), Some(Moment::START));
    assert_eq!(gathering.due(0), [[(1, 0)]]);
    gathering.node.ask_for(zero, RecordOffset(0));
    assert_eq!(gathering.due(0), [[(0, 0), (0, 1)]]);
    let mut gathering = Gathering::new(100, u64::MAX, None, (4, u64::MAX));
    assert!(gathering.arrive(&[0, 0, 1, 1], 0, None).is_empty());
    assert_eq!(gathering.arrive(&[2], 0, None), [[(0, 0), (0, 1)]], "the oldest batch makes room");
    gathering.node.abandon();
    assert_eq!((gathering.node.waiting(), gathering.node.next_due()), (0, None));
}

/// A batch waits while as much was made of its partition's records as may be; the one with the oldest record does not.
#[test]
fn where_rows_are_made_the_bound_of_what_is_made_holds_batches_but_for_the_oldest() {
    let mut bench = Bench::new(DIRECT, |offsets, _| (0, pass(offsets)));
    bench.node.parts.grows = true;
    let narrow = Bounds { records: 10, bytes: u64::MAX };
    let oldest = bench.accounts.register(bench.partitions[0], RecordOffset(0), 1);
    bench.next[0] = 1;
    bench.accounts.count_made(&oldest, MadeOf { rows: 10, bytes: 0 });
    bench.arrive(&[0, 0]);
    bench.arrive(&[1, 1]);
    let progress = |bench: &mut Bench| {
        let room = Room { accounts: &bench.accounts, bounds: narrow };
        let (leaving, _) = bench.node.progress(Moment::START, 0.5, room, &mut || true);
        let mut left = Vec::new();
        for held in leaving {
            for row in held.through(&mut bench.accounts).on.into_iter().flat_map(|set| set.into_rows(1)) {
                left.push(row.partition().0);
                bench.accounts.redeem(row.token, Ending::Topic);
            }
        }
        left
    };
    assert_eq!(progress(&mut bench), [1, 1], "another partition goes on");
    let room = Room { accounts: &bench.accounts, bounds: narrow };
    assert_eq!(bench.node.next_due(room), None, "it is asked again when something was resolved");
    bench.accounts.redeem(oldest, Ending::Topic);
    assert_eq!(progress(&mut bench), [0, 0]);
    bench.arrive(&[0, 0]);
    let first = bench.accounts.tracker(bench.partitions[0]).oldest();
    assert_eq!(first, Some(RecordOffset(3)));
    let narrow = Room { accounts: &bench.accounts, bounds: Bounds { records: 0, bytes: 0 } };
    assert_eq!(bench.node.next_due(narrow), Some(Moment::START), "all else waits for it");
    assert_eq!(progress(&mut bench), [0, 0]);
}

/// A batch by a key is of several partitions: the one with a partition's oldest record may wait behind one that has no room.
#[test]
fn the_bound_of_what_is_made_holds_no_batch_that_the_oldest_record_waits_behind() {
    for (ordered, expected) in [(true, vec![vec![2, 2], vec![0, 1]]), (false, vec![vec![0, 1]])] {
        let mut bench = Bench::new(Setup { ordered, ..DIRECT }, |offsets, _| (0, pass(offsets)));
        bench.node.parts.grows = true;
        let [zero, one] = [bench.partitions[0], bench.partitions[1]];
        let mut tokens = BTreeMap::new();
        for partition in [zero, one] {
            for offset in 0..3 {
                let token = bench.accounts.register(partition, RecordOffset(offset), 1);
                tokens.insert((partition.0 as i32, offset), token);
            }
        }
        // What was made of this one waits for others behind the node; the other partition's oldest is there too.
        bench.accounts.count_made(&tokens[&(0, 1)], MadeOf { rows: 10, bytes: 0 });
        for rows in [[(0, 2), (1, 2)], [(0, 0), (1, 1)]] {
            let tokens = rows.iter().map(|row| tokens.remove(row).unwrap()).collect();
            bench.node.push(RowSet::all(batch(&rows), tokens, None), Moment::START);
        }
        let room = Room { accounts: &bench.accounts, bounds: Bounds { records: 10, bytes: u64::MAX } };
        assert_eq!(bench.node.next_due(room), Some(Moment::START), "ordered: {ordered}");
        let (leaving, _) = bench.node.progress(Moment::START, 0.5, room, &mut || true);
        assert_eq!(bench.calls(), expected, "ordered: {ordered}");
        leaving.into_iter().for_each(Held::give_up);
        bench.node.abandon();
        tokens.into_values().for_each(Token::give_up);
    }
}

/// Rows that a batch expander made in several calls leave in the order of their batch.
#[test]
fn what_was_made_in_several_calls_is_in_order_again() {
    struct Expander(Option<Answered>, u32);
    impl BatchCalls for Expander {
        fn ring(&mut self, _: Waker) {}
        fn is_direct(&self) -> bool {
            true
        }
        fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], _: u32) {
            self.1 += 1;
            let first = self.1 == 1;
            let mut origins = Origins::new();
            let (mut from, mut failures) = (Vec::new(), Vec::new());
            for (position, row) in rows.iter().enumerate() {
                let position = position as u32;
                // The first time only every other record is done; each becomes two rows.
                if first && row % 2 == 1 {
                    failures.push(RowFailure { position, cause: Cause::Retry, reason: String::new() });
                    continue;
                }
                let set = origins.add_set([position]);
                (0..2).for_each(|_| origins.add_row(set));
                from.extend([*row, *row]);
            }
            let answers = BatchExpandAnswers {
                answered: rows.len() as u32,
                rows: batch.select(&from),
                origins,
                failures,
            };
            self.0 = Some((call, Ok(BatchAnswer::Made(answers))));
        }
        fn answers(&mut self, out: &mut Vec<Answered>) {
            out.extend(self.0.take());
        }
        fn abandon(&mut self, _: u64) {}
    }
    let mut bench = Bench::new(DIRECT, |offsets, _| (0, pass(offsets)));
    bench.node.parts.calls = Box::new(Expander(None, 0));
    bench.arrive(&[0; 5]);
    bench.step();
    let room = Room { accounts: &bench.accounts, bounds: WIDE };
    let due = bench.node.next_due(room).expect("the others are called again");
    let (leaving, _) = bench.node.progress(due, 0.5, room, &mut || true);
    let mut seen = Vec::new();
    for held in leaving {
        for set in held.through(&mut bench.accounts).on {
            for row in set.into_rows(1) {
                seen.push(row.batch.source(row.id).offset.0);
                bench.accounts.redeem(row.token, Ending::Topic);
            }
        }
    }
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    assert_eq!(bench.accounts.tracker(bench.partitions[0]).watermark(), CommitOffset(5));
}
