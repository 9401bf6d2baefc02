use proptest::prelude::*;
use proptest::sample::Index;

use super::{Holder, Lease, Seen, Step, Stop};
use crate::mark::RunId;

fn holder(run: u64) -> Holder {
    Holder {
        run: RunId(run),
        host: format!("h{run}"),
        process: 1,
        place: "p".to_owned(),
        started_ms: 0,
        take_over: false,
        released: false,
        layout: None,
    }
}

fn entry(run: u64, beat: i64) -> Option<Seen> {
    Some(Seen { beat, holder: Some(holder(run)) })
}

fn alive(_: &Holder) -> bool {
    false
}

#[test]
fn an_entry_that_nobody_holds_is_taken_at_once() {
    let released = Seen { beat: 9, holder: Some(Holder { released: true, ..holder(1) }) };
    for seen in [None, Some(released), Some(Seen { beat: 9, holder: None })] {
        let mut lease = Lease::new(holder(2));
        assert!(matches!(lease.read(seen, alive), Step::Write(_)));
        assert!(lease.is_owner() && !lease.holds_commits());
    }
    let mut lease = Lease::new(holder(2));
    assert_eq!(lease.read(entry(1, 9), |other| other.host == "h1"), Step::Write(10), "its process is gone");
    assert!(!lease.holds_commits());
}

#[test]
fn an_entry_that_moves_is_a_live_owner_s_and_one_that_does_not_is_taken_after_two_intervals() {
    let mut late = Lease::new(holder(2));
    assert_eq!(late.read(entry(1, 9), alive), Step::Watch);
    assert!(late.holds_commits() && !late.is_owner());
    assert_eq!(late.watched(), Some(&holder(1)));
    assert_eq!(late.read(entry(1, 9), alive), Step::Watch);
    let mut taken = late.clone();
    assert_eq!(late.read(entry(1, 10), alive), Step::Stop(Stop::Live(holder(1))));
    assert_eq!(late.release(), None, "who was refused leaves the owner's entry alone");
    assert_eq!(taken.read(entry(1, 9), alive), Step::Write(10));
    assert!(!taken.holds_commits() && taken.is_owner());
}

#[test]
fn a_newcomer_that_stays_commits_nothing_before_the_one_that_took_the_entry_first_has_read_its_own() {
    let mut lease = Lease::new(holder(2));
    assert_eq!(lease.read(entry(1, 7), alive), Step::Watch);
    // Run 3 watched the same entry for longer, took it, and commits by now.
    assert_eq!(lease.read(entry(3, 8), alive), Step::Write(9));
    assert!(lease.is_owner() && lease.holds_commits());
    assert_eq!(lease.read(entry(2, 9), alive), Step::Write(10));
    assert!(lease.holds_commits());
    assert_eq!(lease.read(entry(2, 10), alive), Step::Write(11));
    assert!(!lease.holds_commits());
}

#[test]
fn a_watch_ends_when_the_process_that_is_watched_does() {
    let mut lease = Lease::new(holder(2));
    assert_eq!(lease.read(entry(1, 9), alive), Step::Watch);
    assert_eq!(lease.read(entry(1, 9), |other| other.host == "h1"), Step::Write(10));
    assert!(lease.is_owner() && !lease.holds_commits());
}

#[test]
fn an_owner_that_reads_another_s_entry_stops_and_so_does_a_claimer_whose_watched_owner_wakes() {
    let mut owner = Lease::new(holder(1));
    assert_eq!(owner.read(None, alive), Step::Write(1));
    for beat in 1..9 {
        assert_eq!(owner.read(entry(1, beat), alive), Step::Write(beat + 1));
    }
    assert_eq!(owner.clone().read(entry(2, 9), alive), Step::Stop(Stop::Deposed(holder(2))));
    let last = owner.release().unwrap();
    assert!(last.1.released && last.0 > 9);

    let mut claimer = Lease::new(holder(2));
    for _ in 0..3 {
        claimer.read(entry(7, 9), alive);
    }
    assert!(claimer.is_owner());
    assert_eq!(claimer.read(entry(7, 10), alive), Step::Stop(Stop::Live(holder(7))));
}

#[test]
fn who_takes_over_writes_at_once_and_commits_after_two_intervals() {
    let me = Holder { take_over: true, ..holder(9) };
    let mine = |beat| Some(Seen { beat, holder: Some(me.clone()) });
    let mut lease = Lease::new(me.clone());
    assert_eq!(lease.read(entry(1, 5), alive), Step::Write(6));
    assert!(lease.holds_commits());
    // The owner's beat crossed it, although its run id is the lower one.
    assert_eq!(lease.read(entry(1, 6), alive), Step::Write(7));
    assert_eq!(lease.read(mine(7), alive), Step::Write(8));
    assert!(lease.holds_commits());
    assert_eq!(lease.read(mine(8), alive), Step::Write(9));
    assert!(!lease.holds_commits());
}

#[test]
fn a_first_entry_that_was_lost_is_written_again_and_the_old_one_is_nobody_s() {
    // Run ids above and below: which is lower says nothing here.
    for run in [3, 70] {
        let mut lease = Lease::new(holder(run));
        assert_eq!(lease.read(entry(50, 9), |_| true), Step::Write(10));
        assert_eq!(lease.read(entry(50, 9), alive), Step::Write(11));
        assert_eq!(lease.read(entry(run, 11), alive), Step::Write(12));
        assert_eq!(
            lease.read(entry(50, 10), alive),
            Step::Stop(Stop::Live(holder(50))),
            "it lives after all"
        );
    }
}

/// Each reads before either writes, and the higher run id writes last: it never reads the other's entry.
#[test]
fn of_two_newcomers_that_beat_in_step_one_goes() {
    let mut entry = Some(Seen { beat: 3, holder: Some(holder(99)) });
    let mut hosts = [Host::new(11, true), Host::new(17, true)];
    for _ in 0..8 {
        for reads in [true, false] {
            hosts.iter_mut().for_each(|host| host.half_a_beat(&mut entry, reads));
        }
    }
    assert_eq!(hosts.map(|host| host.stopped), [true, false]);
}

/// Whose entry is read over and over never reads its own; who reads that in between is heard.
#[test]
fn a_newcomer_that_stays_goes_only_where_its_own_entry_is_not_read_so_often_in_a_row() {
    let reads = |own_every: Option<usize>| {
        let mut lease = Lease::new(holder(2));
        assert!(matches!(lease.read(None, alive), Step::Write(_)));
        let mut reads = Vec::new();
        for read in 0..6_usize {
            let own = own_every == Some(read);
            let seen = entry(if own { 2 } else { 9 }, 10 + read as i64);
            reads.push(matches!(lease.read(seen, alive), Step::Write(_)));
            if reads.last() == Some(&false) {
                break;
            }
        }
        reads
    };
    assert_eq!(reads(None), [true, true, true, false], "the fourth in a row");
    assert_eq!(reads(Some(3)), [true; 6], "three, its own, and two more");
    assert_eq!(reads(Some(1)), [true, true, true, true, true, false], "one, its own, and four");
}

/// A host's beat has two halves that others may come between.
struct Host {
    lease: Lease,
    to_write: Option<i64>,
    stopped: bool,
}

impl Host {
    fn new(run: u64, take_over: bool) -> Host {
        Host { lease: Lease::new(Holder { take_over, ..holder(run) }), to_write: None, stopped: false }
    }

    fn half_a_beat(&mut self, entry: &mut Option<Seen>, reads: bool) {
        if self.stopped {
            return;
        }
        if reads {
            match self.lease.read(entry.clone(), alive) {
                Step::Write(beat) => self.to_write = Some(beat),
                Step::Watch => {}
                Step::Stop(_) => self.stopped = true,
            }
        } else if let Some(beat) = self.to_write.take() {
            *entry = Some(Seen { beat, holder: Some(self.lease.entry().clone()) });
        }
    }
}

/// An order of the halves of one round of beats: each host reads before it writes.
fn order(hosts: usize, picks: &[Index]) -> Vec<(usize, bool)> {
    let mut left: Vec<(usize, bool)> = (0..hosts).map(|host| (host, true)).collect();
    let mut order = Vec::new();
    for pick in picks.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (host, reads) = left.remove(pick.index(left.len()));
        order.push((host, reads));
        if reads {
            left.push((host, false));
        }
    }
    order
}

proptest! {
    /// Hosts come at any time and beat in any order: in the end exactly one is left; an owner that nobody takes over from
    /// is never the one that goes.
    #[test]
    fn of_several_hosts_one_is_left(
        coming in proptest::collection::vec((0_usize..6, any::<bool>()), 1..4),
        runs in Just([11_u64, 5, 17, 2]).prop_shuffle(),
        owner in any::<bool>(),
        picks in proptest::collection::vec(any::<Index>(), 16..64),
        rounds in Just(14_usize),
    ) {
        let mut entry = if owner { None } else { Some(Seen { beat: 3, holder: Some(holder(99)) }) };
        let mut hosts = Vec::new();
        if owner {
            let mut first = Host::new(runs[3], false);
            for _ in 0..4 {
                first.half_a_beat(&mut entry, true);
                first.half_a_beat(&mut entry, false);
            }
            hosts.push(first);
        }
        let any_take_over = coming.iter().any(|(_, take_over)| *take_over);
        for round in 0..rounds {
            for (at, (when, take_over)) in coming.iter().enumerate() {
                if *when == round {
                    hosts.push(Host::new(runs[at], *take_over));
                }
            }
            let skip = round.min(picks.len() - 1);
            for (host, reads) in order(hosts.len(), &picks[skip..]) {
                let before = entry.clone();
                hosts[host].half_a_beat(&mut entry, reads);
                // Whoever is held back or refused has not written over the owner, unless it takes over.
                if entry != before {
                    prop_assert!(!hosts[host].stopped);
                }
            }
        }
        let left: Vec<u64> =
            hosts.iter().filter(|host| !host.stopped).map(|host| host.lease.entry().run.0).collect();
        prop_assert_eq!(left.len(), 1, "left: {:?}", left);
        if owner && !any_take_over {
            prop_assert_eq!(left[0], runs[3]);
        }
        let last = hosts.iter().find(|host| !host.stopped).unwrap();
        prop_assert!(!last.lease.holds_commits());
    }
}
