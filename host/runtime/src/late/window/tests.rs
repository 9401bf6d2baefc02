//! Rows in, calls in any order, answers in any order: what leaves, and in which order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Accounts;
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, Moment, Moves, PartitionId, RecordOffset, RecordRef,
};
use proptest::prelude::*;

use super::{Leaving, Stand, Window};
use crate::nodes::Target;
use crate::rows::{FailedRow, Row};

/// Each row of the window is of a batch of its own; copies of all rows that wait or have their verdict take their places.
#[test]
fn rows_go_on_as_their_copies_except_those_that_are_called() {
    let mut bench = Bench::new(true);
    (0..4).for_each(|_| bench.push());
    let first = bench.call().unwrap();
    let second = bench.call().unwrap();
    bench.pass(second);
    let mut moves = Moves::new();
    let before: Vec<Arc<Batch>> = bench.window.rows().map(|(row, ..)| row.batch.clone()).collect();
    before.iter().for_each(|batch| moves.add(batch, vec![0]).unwrap());
    bench.window.follow(&moves);
    let moved = |(row, before): (&Row, &Arc<Batch>)| !Arc::ptr_eq(&row.batch, before);
    let moved: Vec<bool> = bench.window.rows().map(|(row, ..)| row).zip(&before).map(moved).collect();
    assert_eq!(moved, [false, true, true, true]);
    bench.pass(first);
    assert_eq!(bench.left, [0, 1]);
    while let Some(number) = bench.call() {
        bench.pass(number);
    }
    assert_eq!(bench.left, [0, 1, 2, 3]);
}

struct Bench {
    accounts: Accounts,
    partition: PartitionId,
    window: Window,
    next: i64,
    now: Moment,
    left: Vec<i64>,
}

impl Bench {
    fn new(ordered: bool) -> Bench {
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        Bench {
            accounts,
            partition,
            window: Window::new(ordered),
            next: 0,
            now: Moment::START,
            left: Vec::new(),
        }
    }

    fn push(&mut self) {
        let offset = RecordOffset(self.next);
        self.next += 1;
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset,
                timestamp_ms: None,
                key: None,
                payload: Some(b"x"),
                row: "",
            })
            .unwrap();
        let token = self.accounts.register(self.partition, offset, 1);
        let row = Row::new(Arc::new(builder.finish()), 0, token, None, 0);
        self.window.push(row, self.now);
    }

    /// Calls the next row, if one may be called now.
    fn call(&mut self) -> Option<u64> {
        let next = || self.window.next_call(4).filter(|(_, due)| *due <= self.now).map(|(number, _)| number);
        let number = self.window.due_again(self.now).or_else(next)?;
        self.window.call(number, self.now);
        Some(number)
    }

    fn pass(&mut self, number: u64) {
        let row = self.window.answered(number).unwrap();
        self.window.settle(number, Leaving::Passed { row, to: Target::End(Ending::Drained) });
        self.leave();
    }

    fn fail(&mut self, number: u64) {
        let row = self.window.answered(number).unwrap();
        let failed = FailedRow { row, kind: ErrorKind::Task, reason: String::new() };
        self.window.settle(number, Leaving::Failed(failed));
        self.leave();
    }

    fn retry(&mut self, number: u64, wait: u64) {
        let row = self.window.answered(number).unwrap();
        self.window.retry(number, row, self.now + Duration::from_millis(wait));
    }

    fn leave(&mut self) {
        while let Some(leaving) = self.window.leave() {
            let row = leaving.into_row();
            self.left.push(row.batch.source(row.id).offset.0);
            self.accounts.redeem(row.token, Ending::Drained);
        }
    }

    fn give_up(&mut self, rows: Vec<Row>) -> Vec<i64> {
        rows.into_iter()
            .map(|row| {
                let offset = row.batch.source(row.id).offset.0;
                row.token.give_up();
                offset
            })
            .collect()
    }
}

#[test]
fn rows_leave_in_order_whatever_the_order_of_answers() {
    let mut bench = Bench::new(true);
    (0..4).for_each(|_| bench.push());
    let calls: Vec<u64> = (0..4).map(|_| bench.call().unwrap()).collect();
    assert_eq!(bench.call(), None, "there is none left");
    bench.pass(calls[2]);
    bench.fail(calls[1]);
    assert_eq!(bench.left, [0_i64; 0]);
    let stands: Vec<Stand> = bench.window.rows().map(|(_, _, stand)| stand).collect();
    let called = Stand::Called { until: Moment::START };
    assert_eq!(stands, [called, Stand::Answered, Stand::Answered, called]);
    bench.pass(calls[0]);
    assert_eq!(bench.left, [0, 1, 2]);
    bench.pass(calls[3]);
    assert!(bench.window.is_empty());
}

#[test]
fn out_of_order_rows_leave_as_they_come() {
    let mut bench = Bench::new(false);
    (0..3).for_each(|_| bench.push());
    let calls: Vec<u64> = (0..3).map(|_| bench.call().unwrap()).collect();
    bench.pass(calls[2]);
    bench.retry(calls[0], 100);
    bench.pass(calls[1]);
    assert_eq!(bench.left, [2, 1]);
    bench.push();
    let other = bench.call().expect("a row that waits for another try holds back nothing");
    bench.pass(other);
    assert_eq!(bench.call(), None);
    bench.now = bench.now + Duration::from_millis(100);
    let again = bench.call().unwrap();
    bench.pass(again);
    assert_eq!(bench.left, [2, 1, 3, 0]);
    assert!(bench.window.is_empty());
}

#[test]
fn too_many_rows_that_are_tried_again_hold_back_new_ones() {
    let mut bench = Bench::new(false);
    (0..6).for_each(|_| bench.push());
    for _ in 0..4 {
        let number = bench.call().unwrap();
        bench.retry(number, 1000);
    }
    assert_eq!(bench.call(), None);
    let (_, due) = bench.window.next_call(4).unwrap();
    assert_eq!(due, bench.now + Duration::from_secs(1));
    let rows = bench.window.drain();
    assert_eq!(bench.give_up(rows).len(), 6);
}

#[test]
fn nothing_behind_a_row_that_is_tried_again_is_called_before_it_is_through() {
    let mut bench = Bench::new(true);
    (0..4).for_each(|_| bench.push());
    let (first, second) = (bench.call().unwrap(), bench.call().unwrap());
    bench.retry(first, 100);
    assert_eq!(bench.call(), None);
    bench.retry(second, 50);
    bench.now = bench.now + Duration::from_millis(60);
    assert_eq!(bench.call(), None, "the first of them goes first");
    bench.now = bench.now + Duration::from_millis(60);
    assert_eq!(bench.call(), Some(first));
    assert_eq!(bench.call(), None, "alone");
    assert_eq!(bench.window.next_call(4), None);
    bench.retry(first, 100);
    bench.now = bench.now + Duration::from_millis(100);
    assert_eq!(bench.call(), Some(first));
    bench.pass(first);
    assert_eq!(bench.call(), Some(second));
    bench.pass(second);
    let rest: Vec<u64> = (0..2).map(|_| bench.call().unwrap()).collect();
    rest.into_iter().rev().for_each(|number| bench.pass(number));
    assert_eq!(bench.left, [0, 1, 2, 3]);
}

#[test]
fn a_cut_takes_what_is_tried_again_and_what_waits_behind_it() {
    let mut bench = Bench::new(true);
    (0..5).for_each(|_| bench.push());
    let calls: Vec<u64> = (0..4).map(|_| bench.call().unwrap()).collect();
    bench.pass(calls[2]);
    bench.retry(calls[1], 100);
    let (rows, called) = bench.window.cut();
    assert_eq!(bench.give_up(rows), [1, 2, 3, 4]);
    assert_eq!(called, [calls[3]]);
    assert!(bench.window.answered(calls[3]).is_none(), "its answer comes too late");
    bench.pass(calls[0]);
    assert_eq!(bench.left, [0]);
    assert!(bench.window.is_empty() && bench.window.fresh() == 0);

    let mut bench = Bench::new(false);
    (0..3).for_each(|_| bench.push());
    let calls: Vec<u64> = (0..2).map(|_| bench.call().unwrap()).collect();
    bench.retry(calls[0], 100);
    let (rows, called) = bench.window.cut();
    assert_eq!((bench.give_up(rows), called), (vec![0], Vec::new()));
    bench.pass(calls[1]);
    let last = bench.call().unwrap();
    bench.pass(last);
    assert_eq!(bench.left, [1, 2]);
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    Call,
    Pass(usize),
    Fail(usize),
    Retry(usize, u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Push),
        4 => Just(Step::Call),
        3 => (0..8_usize).prop_map(Step::Pass),
        1 => (0..8_usize).prop_map(Step::Fail),
        2 => (0..8_usize, 0..300_u64).prop_map(|(which, wait)| Step::Retry(which, wait)),
        1 => (0..200_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn every_row_leaves_once_and_in_order_where_order_is_kept(steps in steps(), ordered in any::<bool>()) {
        let mut bench = Bench::new(ordered);
        let mut called: Vec<u64> = Vec::new();
        for step in steps {
            match step {
                Step::Push => bench.push(),
                Step::Call => called.extend(bench.call()),
                Step::Wait(wait) => bench.now = bench.now + Duration::from_millis(wait),
                Step::Pass(which) if which < called.len() => {
                    let number = called.remove(which);
                    bench.pass(number);
                }
                Step::Fail(which) if which < called.len() => {
                    let number = called.remove(which);
                    bench.fail(number);
                }
                Step::Retry(which, wait) if which < called.len() => {
                    let number = called.remove(which);
                    bench.retry(number, wait);
                }
                Step::Pass(_) | Step::Fail(_) | Step::Retry(..) => {}
            }
            let here = bench.window.rows().count();
            prop_assert_eq!(here + bench.left.len(), bench.next as usize, "a row is somewhere, once");
            let fresh = bench.window.fresh();
            let waits = bench.window.rows().filter(|(row, _, _)| row.attempts == 0).count();
            prop_assert_eq!(fresh, waits);
        }
        for _ in 0..10_000 {
            if bench.window.is_empty() {
                break;
            }
            bench.now = bench.now + Duration::from_secs(1);
            called.extend(bench.call());
            if let Some(number) = called.pop() {
                bench.pass(number);
            }
        }
        prop_assert!(bench.window.is_empty());
        let all: BTreeSet<i64> = bench.left.iter().copied().collect();
        prop_assert_eq!(all.len(), bench.next as usize);
        if ordered {
            prop_assert!(bench.left.is_sorted(), "{:?}", bench.left);
        }
        prop_assert_eq!(bench.accounts.tracker(bench.partition).watermark().0, bench.next);
    }
}

fn one(bench: &mut Bench) -> Row {
    bench.push();
    bench.window.drain().pop().expect("it was just pushed")
}

/// A node that answers at once brings only what is late here.
#[test]
fn what_was_answered_at_once_waits_behind_what_is_tried_again() {
    let mut bench = Bench::new(true);
    let (first, second, third) = (one(&mut bench), one(&mut bench), one(&mut bench));
    let later = bench.now + Duration::from_millis(100);
    bench.window.push_again(Row { attempts: 1, ..first }, later, bench.now);
    let done = Leaving::Passed { row: second, to: Target::End(Ending::Drained) };
    bench.window.push_done(done, bench.now);
    bench.window.push(third, bench.now);
    assert_eq!(bench.window.call_together(10, bench.now), [0; 0], "not before it is due");
    bench.now = later;
    let again = bench.window.call_together(10, bench.now);
    assert_eq!(again.len(), 1, "it goes alone");
    assert_eq!(bench.window.unsettled(again[0]).map(|row| row.attempts), Some(2));
    bench.pass(again[0]);
    assert_eq!(bench.left, [0, 1], "the one that was never called still waits");
    let last = bench.window.call_together(10, bench.now);
    bench.pass(last[0]);
    assert_eq!(bench.left, [0, 1, 2]);
    assert!(bench.window.is_empty());
}

#[test]
fn rows_of_one_batch_go_together_and_those_that_were_not_tried_wait_as_before() {
    let mut bench = Bench::new(true);
    let batch = one(&mut bench);
    let same = |bench: &mut Bench| {
        let row = one(bench);
        Row { batch: batch.batch.clone(), ..row }
    };
    let rows: Vec<Row> = (0..3).map(|_| same(&mut bench)).collect();
    let other = one(&mut bench);
    for row in rows.into_iter().chain([other]) {
        bench.window.push(row, bench.now);
    }
    assert_eq!(bench.window.call_together(1, bench.now).len(), 1, "a probe is alone");
    bench.window.put_back(bench.window.first, bench.now);
    let together = bench.window.call_together(10, bench.now);
    assert_eq!(together.len(), 3);
    bench.pass(together[0]);
    for number in &together[1..] {
        bench.window.put_back(*number, bench.now);
        assert_eq!(bench.window.unsettled(*number).map(|row| row.attempts), Some(0));
    }
    assert_eq!(bench.window.call_together(10, bench.now), together[1..]);
    bench.pass(together[1]);
    bench.pass(together[2]);
    let last = bench.window.call_together(10, bench.now);
    bench.pass(last[0]);
    assert!(bench.window.is_empty());
    batch.token.give_up();
}

#[test]
fn a_row_that_is_tried_again_and_was_not_tried_keeps_its_turn_and_its_attempts() {
    let mut bench = Bench::new(true);
    let row = one(&mut bench);
    bench.window.push_again(Row { attempts: 3, ..row }, bench.now, bench.now);
    bench.push();
    let again = bench.window.call_together(10, bench.now);
    bench.window.put_back(again[0], bench.now);
    assert_eq!(bench.window.unsettled(again[0]).map(|row| row.attempts), Some(3));
    assert_eq!(bench.window.call_together(10, bench.now), again);
    bench.pass(again[0]);
    let last = bench.window.call_together(10, bench.now);
    bench.pass(last[0]);
    assert!(bench.window.is_empty());
}
