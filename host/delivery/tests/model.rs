//! The delivery core in lockstep with a naive model.
//!
//! The model knows nothing of weights, rings, sequence numbers or slots: it keeps a map of offsets, and beside each
//! token the set of records that the token stands for. A record is unresolved while a token that stands for it is
//! neither redeemed nor spent on others that do. After every step both must agree on everything that can be seen:
//! watermark, commit offset, what is outstanding, and the ledger with its two equations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loom_delivery::start::{Facts, GroupOffset, Reset, choose};
use loom_delivery::{ANSWER_WITHIN, Accounts, CommitSchedule, Due, Entry, Ledger, Stand, Token, TokenTable};
use loom_types::{CommitOffset, Ending, Moment, PartitionId, RecordOffset};
use proptest::prelude::*;
use proptest::sample::Index;

const PARTITIONS: usize = 3;

/// A record of one incarnation of the host.
type Record = (usize, i64);

/// One thing that happens. An index picks among what is there; where nothing is, nothing happens.
#[derive(Clone, Debug)]
enum Step {
    /// The next record of the log is read; where the log is at its end, one is written first, after a gap.
    Register { partition: usize, gap: i64 },
    /// The tail holds nothing that is registered: tombstones, or the control records of a transaction.
    SkipTail { partition: usize, offsets: i64 },
    /// One row becomes so many.
    Split { pick: Index, rows: usize },
    /// A row becomes many, one of these again, until the weight is used up several times over.
    Drill { pick: Index, rows: usize, rounds: usize },
    /// One row comes to stand for several.
    Group { picks: Vec<Index> },
    /// A row ends, with success or not.
    Redeem { pick: Index, ending: usize },
    /// A sink is given a row.
    Write { pick: Index },
    /// A sink completes a row, and says so twice.
    Complete { pick: Index },
    /// A stop takes a row out without a verdict.
    GiveUp { pick: Index },
    /// Offsets are committed.
    Commit { answer: Answer },
    /// The process dies; another starts from the broker's offsets, or some behind them.
    Crash { replay: i64 },
}

/// What becomes of a commit.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Applied,
    Refused,
    /// The broker has it, and its answer was an error.
    AppliedAndReportedFailed,
    /// Only even partitions.
    Partly,
}

/// What outlives the host.
#[derive(Clone, Debug, Default)]
struct Log {
    records: BTreeSet<i64>,
    /// The offset after the last.
    high: i64,
    committed: Option<i64>,
    /// How far a replay below it had come, as its mark says.
    replay: Option<i64>,
    /// Records that were resolved in some life of the host.
    done: BTreeSet<i64>,
}

/// What the model knows of a partition in this life of the host.
#[derive(Clone, Debug, Default)]
struct Known {
    position: i64,
    floor: Option<i64>,
    /// Registered records by offset: their bytes.
    registered: BTreeMap<i64, u32>,
    minted: u64,
    consumed: u64,
    skipped: u64,
    ended: [u64; Ending::COUNT],
}

/// A token and the records that it stands for, the first parent's first.
struct Held {
    token: Token,
    first: Record,
    stands_for: BTreeSet<Record>,
}

/// The core and the model, side by side.
struct Pair {
    accounts: Accounts,
    commits: CommitSchedule,
    now: Moment,
    log: Vec<Log>,
    known: Vec<Known>,
    rows: Vec<Held>,
    sink: TokenTable<Held>,
    /// What the rows in the sink's table stand for, by number.
    written: BTreeMap<u32, BTreeSet<Record>>,
    /// Every number that the sink was given, spent ones too: it may repeat any of them at any time.
    numbers: Vec<u32>,
    /// What given-up tokens stood for.
    abandoned: BTreeSet<Record>,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Pair {
            accounts: Accounts::tracked(),
            commits: CommitSchedule::new(Duration::ZERO),
            now: Moment::START,
            log: vec![Log::default(); PARTITIONS],
            known: Vec::new(),
            rows: Vec::new(),
            sink: TokenTable::default(),
            written: BTreeMap::new(),
            numbers: Vec::new(),
            abandoned: BTreeSet::new(),
        };
        pair.start(0);
        pair
    }

    /// A new life from what outlived the last one.
    fn start(&mut self, replay: i64) {
        self.accounts = Accounts::tracked();
        self.commits = CommitSchedule::new(Duration::ZERO);
        self.known.clear();
        self.abandoned.clear();
        self.numbers.clear();
        self.written.clear();
        for log in &self.log {
            let resume = log
                .committed
                .filter(|_| replay > 0)
                .map(|committed| CommitOffset((committed - replay).max(0)));
            let committed = log.committed.map(|offset| GroupOffset {
                replay: log.replay.map(CommitOffset),
                ..GroupOffset::plain(CommitOffset(offset))
            });
            let start = choose(&Facts {
                asked: None,
                resume,
                committed,
                siblings_committed: false,
                topic: None,
                low: CommitOffset(0),
                high: CommitOffset(log.high),
                log_end: CommitOffset(log.high),
                reset: Reset::Earliest,
                refuse_out_of_range: false,
            })
            .expect("nothing is refused");
            let lost: Vec<_> =
                log.records.range(..start.position.0).filter(|at| !log.done.contains(at)).collect();
            assert!(lost.is_empty(), "a restart passes over {lost:?}");
            self.accounts.add_partition(start.position, start.floor);
            let replay = log.replay.map(CommitOffset);
            self.commits
                .add_partition(log.committed.map(|offset| Stand { offset: CommitOffset(offset), replay }));
            self.known.push(Known {
                position: start.position.0,
                floor: start.floor.map(|floor| floor.0),
                ..Known::default()
            });
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Register { partition, gap } => self.register(partition, gap),
            Step::SkipTail { partition, offsets } => self.skip_tail(partition, offsets),
            Step::Split { pick, rows } => {
                if let Some(held) = self.pick(pick) {
                    self.split(held, rows);
                }
            }
            Step::Drill { pick, rows, rounds } => {
                for _ in 0..rounds {
                    let Some(held) = self.pick(pick) else { break };
                    let before = self.rows.len();
                    self.split(held, rows);
                    for held in self.rows.split_off(before + 1) {
                        self.redeem(held, Ending::Topic);
                    }
                    // The one that is left is the one that is picked next.
                    let last = self.rows.len() - 1;
                    self.rows.swap(pick.index(last + 1), last);
                }
            }
            Step::Group { picks } => {
                let mut parents = Vec::new();
                for pick in picks {
                    parents.extend(self.pick(pick));
                }
                self.group(parents);
            }
            Step::Redeem { pick, ending } => {
                if let Some(held) = self.pick(pick) {
                    self.redeem(held, Ending::ALL[ending]);
                }
            }
            Step::Write { pick } => {
                if let Some(held) = self.pick(pick) {
                    let stands_for = held.stands_for.clone();
                    let number = self.sink.insert(held).ok().expect("the table has room");
                    assert!(
                        self.written.insert(number, stands_for).is_none(),
                        "an open number is given again"
                    );
                    self.numbers.push(number);
                }
            }
            Step::Complete { pick } => {
                if self.numbers.is_empty() {
                    return;
                }
                let number = self.numbers[pick.index(self.numbers.len())];
                let taken = self.sink.take(number);
                assert_eq!(
                    taken.is_some(),
                    self.written.remove(&number).is_some(),
                    "only an open number is taken"
                );
                if let Some(held) = taken {
                    self.redeem(held, Ending::Sink);
                }
                assert!(self.sink.take(number).is_none(), "a number is taken once");
            }
            Step::GiveUp { pick } => {
                if let Some(held) = self.pick(pick) {
                    self.abandoned.extend(held.stands_for);
                    held.token.give_up();
                }
            }
            Step::Commit { answer } => self.commit(answer),
            Step::Crash { replay } => {
                self.drop_all();
                self.start(replay);
            }
        }
    }

    fn pick(&mut self, pick: Index) -> Option<Held> {
        (!self.rows.is_empty()).then(|| self.rows.swap_remove(pick.index(self.rows.len())))
    }

    fn register(&mut self, partition: usize, gap: i64) {
        let (log, known) = (&mut self.log[partition], &mut self.known[partition]);
        let offset = match log.records.range(known.position..).next() {
            Some(offset) => *offset,
            None => {
                let offset = log.high.max(known.position) + gap;
                log.records.insert(offset);
                log.high = offset + 1;
                offset
            }
        };
        let bytes = (offset % 97) as u32;
        known.registered.insert(offset, bytes);
        known.position = offset + 1;
        known.minted += 1;
        let token = self.accounts.register(PartitionId(partition as u32), RecordOffset(offset), bytes);
        let record = (partition, offset);
        self.rows.push(Held { token, first: record, stands_for: BTreeSet::from([record]) });
    }

    fn skip_tail(&mut self, partition: usize, offsets: i64) {
        let (log, known) = (&mut self.log[partition], &mut self.known[partition]);
        if log.records.range(known.position..).next().is_some() {
            return;
        }
        log.high = log.high.max(known.position) + offsets;
        known.position = log.high;
        known.skipped += offsets as u64;
        self.accounts.advance(PartitionId(partition as u32), CommitOffset(log.high), offsets as u64);
        // What a late end-of-partition says is behind the position, and moves nothing.
        self.accounts.advance(PartitionId(partition as u32), CommitOffset(log.high - offsets), 0);
    }

    fn split(&mut self, held: Held, rows: usize) {
        let known = &mut self.known[held.first.0];
        match rows {
            0 => known.ended[Ending::NoOutput.index()] += 1,
            1 => {}
            rows => {
                known.consumed += 1;
                known.minted += rows as u64;
            }
        }
        let partition = held.token.partition();
        let mut children = Vec::new();
        self.accounts.split(held.token, rows, |row, token| {
            assert_eq!(row, children.len(), "children come in order");
            children.push(token);
        });
        assert_eq!(children.len(), rows);
        for token in children {
            assert_eq!(token.partition(), partition);
            self.rows.push(Held { token, first: held.first, stands_for: held.stands_for.clone() });
        }
    }

    fn group(&mut self, parents: Vec<Held>) {
        let mut stands_for = BTreeSet::new();
        let mut tokens = Vec::new();
        let first = parents.first().map(|parent| parent.first);
        for parent in parents {
            self.known[parent.first.0].consumed += 1;
            stands_for.extend(parent.stands_for);
            tokens.push(parent.token);
        }
        match (self.accounts.group(tokens), first) {
            (Some(token), Some(first)) => {
                self.known[first.0].minted += 1;
                self.rows.push(Held { token, first, stands_for });
            }
            (None, None) => {}
            (token, first) => panic!("a group of {first:?} is {token:?}"),
        }
    }

    fn redeem(&mut self, held: Held, ending: Ending) {
        self.known[held.first.0].ended[ending.index()] += 1;
        self.accounts.redeem(held.token, ending);
    }

    fn commit(&mut self, answer: Answer) {
        self.now = self.now + Duration::from_secs(60);
        let Due::Commit(entries) = self.commits.due(self.now, &self.accounts, |_| true) else { return };
        self.commits.sent(self.now, 1, entries.clone());
        let due = self.commits.due(self.now, &self.accounts, |_| true);
        assert_eq!(due, Due::Wait(Some(self.now + ANSWER_WITHIN)), "one in flight");
        type Which = fn(PartitionId) -> bool;
        let (applied, reported): (Which, Which) = match answer {
            Answer::Applied => (|_| true, |_| true),
            Answer::Refused => (|_| false, |_| false),
            Answer::AppliedAndReportedFailed => (|_| true, |_| false),
            Answer::Partly => (|partition| partition.0 % 2 == 0, |partition| partition.0 % 2 == 0),
        };
        for &Entry { partition, stand: Stand { offset, replay } } in &entries {
            let (log, known) = (&mut self.log[partition.index()], &self.known[partition.index()]);
            if applied(partition) {
                assert!(known.floor.is_none_or(|floor| offset.0 >= floor), "{offset} is below the floor");
                assert!(
                    log.committed.is_none_or(|committed| offset.0 >= committed),
                    "a commit fell to {offset}"
                );
                assert!(replay.is_none_or(|replay| replay < offset && Some(offset.0) == known.floor));
                log.committed = Some(offset.0);
                log.replay = replay.map(|offset| offset.0);
            }
        }
        self.commits.answered(self.now, 1, reported);
        let still: Vec<_> = entries.into_iter().filter(|entry| !reported(entry.partition)).collect();
        let expected = if still.is_empty() { Due::Wait(None) } else { Due::Commit(still) };
        // Longer than any wait between two attempts.
        let later = self.now + Duration::from_secs(10);
        assert_eq!(
            self.commits.due(later, &self.accounts, |_| true),
            expected,
            "due again is what was not reported"
        );
    }

    /// All tokens leave the world, as at the end of a process.
    fn drop_all(&mut self) {
        for held in self.rows.drain(..).chain(self.sink.drain()) {
            held.token.give_up();
        }
    }

    /// Records that some row still stands for, or that nobody will resolve any more.
    fn unresolved(&self) -> BTreeSet<Record> {
        let mut unresolved = self.abandoned.clone();
        let rows = self.rows.iter().map(|held| &held.stands_for);
        for stands_for in rows.chain(self.written.values()) {
            unresolved.extend(stands_for);
        }
        unresolved
    }

    fn check(&mut self) {
        let unresolved = self.unresolved();
        let mut sum = Ledger::default();
        for partition in 0..PARTITIONS {
            let known = &self.known[partition];
            let open: BTreeMap<i64, u32> = known
                .registered
                .iter()
                .filter(|(offset, _)| unresolved.contains(&(partition, **offset)))
                .map(|(offset, bytes)| (*offset, *bytes))
                .collect();
            let oldest = open.keys().next().copied();
            let watermark = oldest.unwrap_or(known.position);
            self.log[partition]
                .done
                .extend(known.registered.keys().filter(|offset| !open.contains_key(offset)));

            let tracker = self.accounts.tracker(PartitionId(partition as u32));
            assert_eq!(tracker.watermark(), CommitOffset(watermark));
            assert_eq!(tracker.position(), CommitOffset(known.position));
            assert_eq!(tracker.oldest(), oldest.map(RecordOffset));
            assert_eq!(tracker.floor(), known.floor.map(CommitOffset));
            let commit =
                known.floor.is_none_or(|floor| watermark >= floor).then_some(CommitOffset(watermark));
            assert_eq!(tracker.commit_offset(), commit);
            let stand = tracker.stand();
            assert_eq!(stand.offset.0, known.floor.map_or(watermark, |floor| watermark.max(floor)));
            assert_eq!(stand.replay.is_some(), commit.is_none());
            let outstanding = tracker.outstanding();
            assert_eq!(outstanding.records, known.registered.range(watermark..).count());
            assert_eq!(outstanding.bytes, open.values().map(|bytes| u64::from(*bytes)).sum::<u64>());

            let live = known.minted - known.consumed - known.ended.iter().sum::<u64>();
            let expected = Ledger {
                registered: known.registered.len() as u64,
                resolved: (known.registered.len() - open.len()) as u64,
                outstanding: open.len() as u64,
                minted: known.minted,
                consumed: known.consumed,
                live,
                skipped: known.skipped,
                repeated: 0,
                ended: known.ended,
            };
            let ledger = tracker.ledger();
            // A weight that is used up is grouped within a split: one token more is minted and consumed.
            let regrouped = ledger.minted - expected.minted;
            let expected = Ledger {
                minted: expected.minted + regrouped,
                consumed: expected.consumed + regrouped,
                ..expected
            };
            assert_eq!(*ledger, expected);
            assert!(ledger.balances());
            sum.add(ledger);
        }
        assert_eq!(self.accounts.ledger(), sum);
        for held in &self.rows {
            assert_eq!(held.token.partition().index(), held.first.0);
            assert_eq!(self.accounts.offset(&held.token), Some(RecordOffset(held.first.1)));
        }
        assert_eq!(self.rows.len() + self.sink.len() + self.given_up(), sum.live as usize);
    }

    /// Tokens that were given up stay live in the ledger: their records are outstanding.
    fn given_up(&self) -> usize {
        let live: u64 = self.known.iter().map(|k| k.minted - k.consumed - k.ended.iter().sum::<u64>()).sum();
        live as usize - self.rows.len() - self.sink.len()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    let pick = any::<Index>;
    let answer = prop::sample::select(vec![
        Answer::Applied,
        Answer::Applied,
        Answer::Refused,
        Answer::AppliedAndReportedFailed,
        Answer::Partly,
    ]);
    prop_oneof![
        8 => (partition.clone(), 0..4_i64).prop_map(|(partition, gap)| Step::Register { partition, gap }),
        1 => (partition, 1..4_i64).prop_map(|(partition, offsets)| Step::SkipTail { partition, offsets }),
        3 => (pick(), 0..5_usize).prop_map(|(pick, rows)| Step::Split { pick, rows }),
        1 => (pick(), 2..9_usize, 1..60_usize).prop_map(|(pick, rows, rounds)| Step::Drill { pick, rows, rounds }),
        2 => proptest::collection::vec(pick(), 0..5).prop_map(|picks| Step::Group { picks }),
        8 => (pick(), 0..Ending::COUNT).prop_map(|(pick, ending)| Step::Redeem { pick, ending }),
        2 => pick().prop_map(|pick| Step::Write { pick }),
        3 => pick().prop_map(|pick| Step::Complete { pick }),
        1 => pick().prop_map(|pick| Step::GiveUp { pick }),
        3 => answer.prop_map(|answer| Step::Commit { answer }),
        1 => (0..6_i64).prop_map(|replay| Step::Crash { replay }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_core_agrees_with_a_map_of_offsets(
        steps in proptest::collection::vec(step(), 0..120),
        order in any::<u64>(),
    ) {
        let mut pair = Pair::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for step in steps {
                pair.step(step);
                pair.check();
            }
            finish(&mut pair, order);
        }));
        // A failed run must not drop tokens, or the report would be about those.
        pair.drop_all();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }

    #[test]
    fn shares_of_one_record_resolve_it_in_any_order(
        rows in 1..200_usize,
        nested in 1..20_usize,
        order in Just((0..4000_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let token = accounts.register(partition, RecordOffset(0), 10);
        let mut outer = Vec::new();
        accounts.split(token, rows, |_, token| outer.push(token));
        let mut leaves = Vec::new();
        for token in outer {
            accounts.split(token, nested, |_, token| leaves.push(Some(token)));
        }
        let mut left = leaves.len();
        for at in order.into_iter().filter(|at| *at < rows * nested) {
            prop_assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(0));
            accounts.redeem(leaves[at].take().expect("each index comes once"), Ending::Topic);
            left -= 1;
        }
        prop_assert_eq!(left, 0);
        prop_assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(1));
        prop_assert!(accounts.ledger().balances());
    }

    #[test]
    fn under_at_most_once_rows_are_counted_and_nothing_is_held(
        steps in proptest::collection::vec((0..4_usize, any::<Index>()), 0..80)
    ) {
        let mut accounts = Accounts::untracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let mut rows: Vec<Token> = Vec::new();
        let mut next = 0;
        for (kind, pick) in steps {
            match kind {
                0 => {
                    rows.push(accounts.register(partition, RecordOffset(next), 10));
                    next += 2;
                }
                _ if rows.is_empty() => {}
                1 => {
                    let token = rows.swap_remove(pick.index(rows.len()));
                    accounts.split(token, 3, |_, token| rows.push(token));
                }
                2 => {
                    let parents = rows.split_off(pick.index(rows.len()));
                    rows.extend(accounts.group(parents));
                }
                _ => {
                    let token = rows.swap_remove(pick.index(rows.len()));
                    accounts.redeem(token, Ending::Topic);
                }
            }
            let tracker = accounts.tracker(partition);
            let ledger = tracker.ledger();
            let seen = (ledger.balances(), ledger.outstanding, ledger.live as usize, tracker.outstanding().records);
            if seen != (true, 0, rows.len(), 0) {
                rows.drain(..).for_each(Token::give_up);
                prop_assert_eq!(seen, (true, 0, 0, 0));
            }
        }
        rows.into_iter().for_each(Token::give_up);
    }
}

/// Whatever is left ends, in some order; then nothing that was not given up is outstanding.
fn finish(pair: &mut Pair, mut order: u64) {
    let written: Vec<Held> = pair.sink.drain().collect();
    pair.written.clear();
    pair.rows.extend(written);
    while !pair.rows.is_empty() {
        order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (order >> 33) as usize % pair.rows.len();
        let held = pair.rows.swap_remove(at);
        pair.redeem(held, Ending::Drained);
    }
    pair.check();
    if pair.abandoned.is_empty() {
        for (_, tracker) in pair.accounts.partitions() {
            assert_eq!(tracker.watermark(), tracker.position());
            assert_eq!(tracker.outstanding().records, 0);
        }
    }
}

#[test]
fn a_weight_that_is_used_up_is_grouped_and_still_resolves_exactly() {
    let mut accounts = Accounts::tracked();
    let partition = accounts.add_partition(CommitOffset(7), None);
    let mut token = accounts.register(partition, RecordOffset(7), 10);
    for _ in 0..500 {
        let mut children = Vec::new();
        accounts.split(token, 1000, |_, token| children.push(token));
        token = children.pop().expect("a thousand children");
        for child in children {
            accounts.redeem(child, Ending::Topic);
        }
        assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(7));
        assert!(accounts.ledger().balances());
    }
    accounts.redeem(token, Ending::Topic);
    assert_eq!(accounts.tracker(partition).watermark(), CommitOffset(8));
    assert_eq!(accounts.ledger().live, 0);
}
