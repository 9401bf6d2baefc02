//! One kind of answer at a time, and what it means for the rows.

use std::collections::BTreeSet;
use std::time::Duration;

use loom_flow::plan::FlushBounds;
use loom_plugin::Cause;
use loom_types::{ErrorKind, PartitionId};

use super::bench::{BOUNDS, Bench, Call, Says, fails, good};

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

#[test]
fn a_row_that_was_left_open_is_sent_once_more_also_where_it_asked_for_another_attempt_between() {
    let mut writes = 0;
    let mut bench = Bench::new(BOUNDS, move |call, _, _| {
        writes += u32::from(call == Call::Write);
        if call == Call::Write && writes % 2 == 0 { fails(Cause::Retry) } else { Says::default() }
    });
    bench.arrive(&[0]);
    bench.drain();
    assert_eq!(bench.kinds(), [ErrorKind::Delivery]);
    let writes = bench.calls().iter().filter(|(call, _)| *call == Call::Write).count();
    assert_eq!(writes, 3, "left open, answered `retry`, left open again");
    bench.all_ended();
}

#[test]
fn counted_retries_end_a_row_that_is_refused_for_now_and_let_the_others_pass() {
    let mut bench = Bench::new(BOUNDS, |call, own, held| {
        if call == Call::Write && own.contains(&(1, 0)) { fails(Cause::Retry) } else { good(call, own, held) }
    });
    bench.sink.bounds.retries = Some(2);
    bench.arrive(&[0, 1, 1, 2]);
    bench.drain();
    assert_eq!(bench.ended[&(1, 0)], Some(ErrorKind::Delivery), "it alone, whatever was written with it");
    assert_eq!(bench.kinds().len(), 1);
    bench.all_ended();
}

#[test]
fn a_flush_that_asks_too_often_fails_all_that_the_sink_holds() {
    let mut bench =
        Bench::new(
            BOUNDS,
            |call, _, _| if call == Call::Flush { fails(Cause::Retry) } else { Says::default() },
        );
    bench.sink.bounds.retries = Some(2);
    bench.arrive(&[0, 1, 2]);
    bench.drain();
    assert_eq!(bench.kinds(), [ErrorKind::Delivery; 3]);
    let flushes = bench.calls().iter().filter(|(call, _)| *call == Call::Flush).count();
    assert_eq!(flushes, 3);
    bench.all_ended();
}

#[test]
fn retries_of_a_flush_are_counted_from_its_last_success_on() {
    let mut tries = 0;
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        if call == Call::Flush {
            tries += 1;
            if tries % 3 != 0 {
                return fails(Cause::Retry);
            }
        }
        good(call, own, held)
    });
    bench.sink.bounds.retries = Some(2);
    for _ in 0..5 {
        bench.arrive(&[0, 1]);
        bench.drain();
    }
    assert_eq!((bench.kinds(), bench.sink.flushes), (vec![], 5));
    bench.all_ended();
}

#[test]
fn a_sink_that_is_closed_has_nothing_due_whatever_it_held() {
    let mut bench =
        Bench::new(
            BOUNDS,
            |call, own, held| {
                if call == Call::Close { fails(Cause::Fail) } else { good(call, own, held) }
            },
        );
    bench.arrive(&[0, 0]);
    bench.sink.ask_flush();
    assert!(bench.sink.next_due().is_some());
    let mut events = Vec::new();
    assert!(bench.sink.close(&mut events).is_err());
    assert!(events.is_empty());
    assert_eq!(bench.sink.next_due(), None, "a worker that commits last would never sleep");
}

#[test]
fn a_row_that_the_sink_gives_back_late_waits_before_rows_that_it_was_not_given() {
    let mut asked = BTreeSet::new();
    let mut bench = Bench::new(BOUNDS, move |call, own, held| {
        let row = if call == Call::Write { (0, 0) } else { (0, 1) };
        if held.contains(&row) && asked.insert(row) {
            return Says { verdicts: vec![(row, Cause::Retry)], ..Says::default() };
        }
        good(call, own, held)
    });
    bench.arrive(&[0, 0, 0]);
    // The first row waits, so these wait behind it; then the sink gives the second one back too.
    bench.arrive(&[0, 0]);
    bench.sink.ask_flush();
    bench.progress();
    bench.drain();
    bench.all_ended();
    let given: Vec<i64> = bench
        .calls()
        .into_iter()
        .filter(|(call, _)| *call == Call::Write)
        .flat_map(|(_, own)| own.into_iter().map(|(_, offset)| offset))
        .collect();
    // The third one, of which that flush said nothing, is sent once more by itself.
    assert_eq!(given, [0, 1, 2, 0, 1, 3, 4, 2]);
}

#[test]
fn a_call_that_a_stop_ended_books_nothing_and_its_rows_are_given_up() {
    for ended in [Call::Write, Call::Flush] {
        let mut bench = Bench::new(BOUNDS, move |call, own, held| {
            if call == ended && held.contains(&(0, 2)) {
                // What it completed before counts all the same.
                return Says { completes: vec![(0, 0)], ..fails(Cause::Stopped) };
            }
            Says { completes: vec![], ..good(call, own, held) }
        });
        bench.arrive(&[0, 1]);
        bench.arrive(&[0, 0]);
        bench.sink.ask_flush();
        bench.progress();
        assert_eq!(bench.ended.iter().collect::<Vec<_>>(), [(&(0, 0), &None)], "{ended:?}");
        assert!(bench.sink.is_quiet() && bench.sink.next_due().is_none());
        assert_eq!(bench.world.lock().unwrap().starts, 0, "no other instance is started for a stop");
        assert_eq!(bench.accounts.ledger().outstanding, 3);
        assert_eq!(bench.sink.close(&mut Vec::new()), Ok(()));
    }
}
