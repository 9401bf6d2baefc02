//! The accounts of one worker: its partitions' trackers and its groups. The only place where tokens are minted, split,
//! grouped and redeemed, and where the ledger is written.

use std::time::Duration;

use loom_types::{CommitOffset, Ending, Histogram, Moment, PartitionId, RecordOffset};

use crate::groups::{Groups, Share};
use crate::ledger::Ledger;
use crate::mutations::{Mutation, mutated};
use crate::token::{FULL_WEIGHT, Scope, Token};
use crate::tracker::{Made, TICK, Tracker, ticks};

/// See the module's description.
#[derive(Debug)]
pub struct Accounts {
    tracked: bool,
    trackers: Vec<Tracker>,
    groups: Groups,
    /// The present moment, in ticks.
    now: u32,
    /// How long records took from being registered until they were resolved.
    resolution: Histogram,
}

/// What those times are told apart by.
static BOUNDS: [Duration; 13] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1800),
    Duration::from_secs(3600),
];

impl Accounts {
    /// Under at least once: every record is tracked until it is resolved.
    #[must_use]
    pub fn tracked() -> Self {
        Accounts::new(true)
    }

    /// Under at most once: rows are counted, and nothing is tracked; a partition's watermark is its position.
    #[must_use]
    pub fn untracked() -> Self {
        Accounts::new(false)
    }

    fn new(tracked: bool) -> Self {
        let resolution = Histogram::new(&BOUNDS);
        Accounts { tracked, trackers: Vec::new(), groups: Groups::default(), now: 0, resolution }
    }

    /// What is redeemed from now on is so at this moment: it tells how long records took, and decides nothing.
    pub fn redeem_at(&mut self, now: Moment) {
        self.now = ticks(now);
    }

    /// How long records took from being registered until they were resolved, to a hundredth of a second.
    #[must_use]
    pub fn resolution(&self) -> &Histogram {
        &self.resolution
    }

    /// Whether records are tracked.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// Adds a partition that is read from `start`; nothing below `floor` is ever committed for it.
    pub fn add_partition(&mut self, start: CommitOffset, floor: Option<CommitOffset>) -> PartitionId {
        let id =
            PartitionId(u32::try_from(self.trackers.len()).expect("a worker owns less than 2^32 partitions"));
        self.trackers.push(Tracker::new(start, floor));
        id
    }

    /// A partition's tracker. Panics for a partition that was not added.
    #[must_use]
    pub fn tracker(&self, partition: PartitionId) -> &Tracker {
        &self.trackers[partition.index()]
    }

    /// All partitions, in the order they were added.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Tracker)> {
        self.trackers.iter().enumerate().map(|(index, tracker)| (PartitionId(index as u32), tracker))
    }

    /// Records of this partition that follow are registered at this moment: it tells their age, and decides nothing.
    pub fn set_now(&mut self, partition: PartitionId, now: Moment) {
        self.trackers[partition.index()].set_now(now);
    }

    /// Whether a record is to be registered: its offset is new. Clients have had faults by which records came twice, and a
    /// second one would stand for what is resolved, or committed, already. It is counted, and to be ignored.
    pub fn admit(&mut self, partition: PartitionId, offset: RecordOffset) -> bool {
        let tracker = &mut self.trackers[partition.index()];
        let new = tracker.position() <= CommitOffset::at(offset);
        tracker.ledger.repeated += u64::from(!new);
        new
    }

    /// Registers a record that was [admitted](Self::admit), before it is emitted. `bytes`: what it counts towards the partition's bound.
    pub fn register(&mut self, partition: PartitionId, offset: RecordOffset, bytes: u32) -> Token {
        let tracker = &mut self.trackers[partition.index()];
        tracker.ledger.minted += 1;
        tracker.ledger.live += 1;
        if !self.tracked {
            tracker.advance(offset.next());
            tracker.ledger.registered += 1;
            tracker.ledger.resolved += 1;
            return Token::mint(partition, Scope::Untracked, offset.0 as u64, FULL_WEIGHT);
        }
        let sequence = tracker.register(offset, bytes);
        Token::mint(partition, Scope::Record, sequence, FULL_WEIGHT)
    }

    /// Reading moved on to `to`; what lies below it and was not registered is a gap. `tombstones` of it were skipped.
    pub fn advance(&mut self, partition: PartitionId, to: CommitOffset, tombstones: u64) {
        let tracker = &mut self.trackers[partition.index()];
        tracker.advance(to);
        tracker.ledger.skipped += tombstones;
    }

    /// The partition ends at `end`, as far as it can be read: what lies below it and was not registered is a gap. A floor
    /// above the end of the log falls to the watermark, since the log that it stood for was cut; where one did, it is given
    /// back.
    pub fn ended(
        &mut self,
        partition: PartitionId,
        end: CommitOffset,
        log_end: Option<CommitOffset>,
    ) -> Option<CommitOffset> {
        self.trackers[partition.index()].ended(end, log_end)
    }

    /// Records below the floor were found to be others than those that it stood for: it falls to the watermark, and is given
    /// back where it was above that.
    pub fn lose_floor(&mut self, partition: PartitionId) -> Option<CommitOffset> {
        self.trackers[partition.index()].lose_floor()
    }

    /// The partition's log was cut, and reading goes on at its new end; a floor above that is lowered to it. Only while
    /// nothing of the partition is outstanding.
    pub fn cut(&mut self, partition: PartitionId, end: CommitOffset) {
        self.trackers[partition.index()].cut(end);
    }

    /// Counts what a node made of a token's row against the bounds of its record's partition, until that record is resolved;
    /// of a group, its first parent's.
    pub fn count_made(&mut self, token: &Token, made: Made) {
        if let Some((partition, sequence)) = self.record(token) {
            self.trackers[partition.index()].made_of(sequence, made);
        }
    }

    /// Divides a token exactly among the `rows` rows that a node made of its row, and hands each its share. None at all
    /// redeems it at once.
    pub fn split(&mut self, token: Token, rows: usize, mut each: impl FnMut(usize, Token)) {
        match rows {
            0 => return self.redeem(token, Ending::NoOutput),
            1 => return each(0, token),
            _ => {}
        }
        let wanted = rows as u64;
        let token = if token.scope() != Scope::Untracked && token.weight() < wanted {
            self.group_of(vec![token])
        } else {
            token
        };
        let ledger = &mut self.trackers[token.partition().index()].ledger;
        ledger.consumed += 1;
        ledger.minted += wanted;
        ledger.live += wanted - 1;
        let (partition, scope, sequence, weight) = token.spend();
        if scope == Scope::Untracked {
            for row in 0..rows {
                each(row, Token::mint(partition, scope, sequence, FULL_WEIGHT));
            }
            return;
        }
        let (share, rest) = (weight / wanted, weight % wanted);
        let rest = if mutated(Mutation::RestIsLost) { 0 } else { rest };
        for row in 0..rows {
            each(row, Token::mint(partition, scope, sequence, share + u64::from((row as u64) < rest)));
        }
    }

    /// One token for a row that stands for all these; none when there are none. Its redemption redeems them.
    pub fn group(&mut self, parents: Vec<Token>) -> Option<Token> {
        (!parents.is_empty()).then(|| self.group_of(parents))
    }

    fn group_of(&mut self, parents: Vec<Token>) -> Token {
        let partition = parents[0].partition();
        let untracked = parents[0].scope() == Scope::Untracked;
        for parent in &parents {
            let ledger = &mut self.trackers[parent.partition().index()].ledger;
            ledger.consumed += 1;
            ledger.live -= 1;
        }
        let ledger = &mut self.trackers[partition.index()].ledger;
        ledger.minted += 1;
        ledger.live += 1;
        let shares: Vec<Share> = parents.into_iter().map(Token::spend).collect();
        if untracked {
            return Token::mint(partition, Scope::Untracked, shares[0].2, FULL_WEIGHT);
        }
        Token::mint(partition, Scope::Group, self.groups.open(shares), FULL_WEIGHT)
    }

    /// Redeems a row's token, after the durable write that it stood for, or whatever else ended it.
    pub fn redeem(&mut self, token: Token, ending: Ending) {
        let ledger = &mut self.trackers[token.partition().index()].ledger;
        ledger.ended[ending.index()] += 1;
        ledger.live -= 1;
        let (partition, scope, sequence, weight) = token.spend();
        match scope {
            Scope::Record => self.redeem_record(partition, sequence, weight),
            Scope::Group => self.redeem_group(sequence, weight),
            Scope::Untracked => {}
        }
    }

    fn redeem_record(&mut self, partition: PartitionId, sequence: u64, weight: u64) {
        if let Some(since) = self.trackers[partition.index()].redeem(sequence, weight) {
            self.resolution.observe(TICK * self.now.saturating_sub(since));
        }
    }

    fn redeem_group(&mut self, sequence: u64, weight: u64) {
        let mut shares = self.groups.redeem(sequence, weight).unwrap_or_default();
        while let Some((partition, scope, sequence, weight)) = shares.pop() {
            match scope {
                Scope::Record => self.redeem_record(partition, sequence, weight),
                Scope::Group => shares.extend(self.groups.redeem(sequence, weight).unwrap_or_default()),
                Scope::Untracked => {}
            }
        }
    }

    /// The offset of the record that a token stands for; of a group, its first parent's.
    #[must_use]
    pub fn offset(&self, token: &Token) -> Option<RecordOffset> {
        if token.scope() == Scope::Untracked {
            return Some(RecordOffset(token.sequence() as i64));
        }
        let (partition, sequence) = self.record(token)?;
        self.trackers[partition.index()].offset(sequence)
    }

    /// The tracked record that a token stands for; of a group, its first parent's.
    fn record(&self, token: &Token) -> Option<(PartitionId, u64)> {
        let (mut partition, mut scope, mut sequence) = (token.partition(), token.scope(), token.sequence());
        loop {
            match scope {
                Scope::Record => return Some((partition, sequence)),
                Scope::Untracked => return None,
                Scope::Group => (partition, scope, sequence, _) = self.groups.first_parent(sequence)?,
            }
        }
    }

    /// Whether a token stands for more than one record, or for rows that may.
    #[must_use]
    pub fn stands_for_several(&self, token: &Token) -> bool {
        let (mut scope, mut sequence) = (token.scope(), token.sequence());
        while scope == Scope::Group {
            match self.groups.only_parent(sequence) {
                Some(parent) => (_, scope, sequence, _) = parent,
                None => return true,
            }
        }
        false
    }

    /// The number of the group that a token is a share of; rows with one number stand for the same records.
    #[must_use]
    pub fn group_number(&self, token: &Token) -> Option<u64> {
        (token.scope() == Scope::Group).then(|| token.sequence())
    }

    /// Every record that a token stands for; one may come more than once. Under at most once it stands for none.
    pub fn each_record(&self, token: &Token, mut each: impl FnMut(PartitionId, RecordOffset)) {
        let mut shares = vec![(token.partition(), token.scope(), token.sequence(), token.weight())];
        while let Some((partition, scope, sequence, _)) = shares.pop() {
            match scope {
                Scope::Record => {
                    if let Some(offset) = self.trackers[partition.index()].offset(sequence) {
                        each(partition, offset);
                    }
                }
                Scope::Group => shares.extend(self.groups.parents(sequence)),
                Scope::Untracked => {}
            }
        }
    }

    /// Whether a record that a token stands for is the oldest unresolved one of its partition: all else of that partition waits
    /// for it.
    #[must_use]
    pub fn holds_oldest(&self, token: &Token) -> bool {
        let is_oldest = |partition: PartitionId, offset| self.tracker(partition).oldest() == Some(offset);
        if token.scope() != Scope::Group {
            return self.offset(token).is_some_and(|offset| is_oldest(token.partition(), offset));
        }
        let mut found = false;
        self.each_record(token, |partition, offset| found |= is_oldest(partition, offset));
        found
    }

    /// All partitions' counts, added up.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let mut sum = Ledger::default();
        for tracker in &self.trackers {
            sum.add(&tracker.ledger);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::{CommitOffset, Ending, Moment, RecordOffset};

    use super::Accounts;
    use crate::tracker::Made;

    #[test]
    fn what_was_made_of_a_record_counts_until_the_whole_record_is_resolved() {
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let made = |accounts: &Accounts| accounts.tracker(partition).made();
        let one = accounts.register(partition, RecordOffset(0), 10);
        let other = accounts.register(partition, RecordOffset(1), 10);
        accounts.count_made(&one, Made { rows: 2, bytes: 30 });
        accounts.count_made(&other, Made { rows: 1, bytes: u64::MAX });
        assert_eq!(made(&accounts), Made { rows: 3, bytes: 30 + u64::from(u32::MAX) });
        // A row that stands for both counts for the first.
        let group = accounts.group(vec![one, other]).unwrap();
        accounts.count_made(&group, Made { rows: 5, bytes: 0 });
        let mut shares = Vec::new();
        accounts.split(group, 2, |_, share| shares.push(share));
        accounts.redeem(shares.remove(0), Ending::Topic);
        assert_eq!(made(&accounts).rows, 8);
        accounts.redeem(shares.remove(0), Ending::Topic);
        assert_eq!(made(&accounts), Made::default());
        assert_eq!(accounts.tracker(partition).outstanding().bytes, 0);
    }

    #[test]
    fn a_record_that_comes_again_is_not_admitted_and_counted() {
        for mut accounts in [Accounts::tracked(), Accounts::untracked()] {
            let partition = accounts.add_partition(CommitOffset(3), None);
            assert!(accounts.admit(partition, RecordOffset(5)), "a gap is no repetition");
            let token = accounts.register(partition, RecordOffset(5), 1);
            for again in [0, 3, 5] {
                assert!(!accounts.admit(partition, RecordOffset(again)), "{again}");
            }
            accounts.redeem(token, Ending::Topic);
            assert!(!accounts.admit(partition, RecordOffset(5)), "resolved or not");
            assert!(accounts.admit(partition, RecordOffset(6)));
            let ledger = accounts.tracker(partition).ledger();
            assert_eq!((ledger.repeated, ledger.registered), (4, 1));
            assert!(ledger.balances());
            // The log was cut: what stands there now is new.
            accounts.cut(partition, CommitOffset(4));
            assert!(accounts.admit(partition, RecordOffset(4)));
        }
    }

    #[test]
    fn the_time_until_a_record_is_resolved_is_counted_once() {
        let at = |ms| Moment(Duration::from_millis(ms));
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        accounts.set_now(partition, at(1000));
        let one = accounts.register(partition, RecordOffset(0), 10);
        let other = accounts.register(partition, RecordOffset(1), 10);
        let mut shares = Vec::new();
        accounts.split(one, 2, |_, share| shares.push(share));
        accounts.redeem_at(at(1200));
        accounts.redeem(shares.remove(0), Ending::Topic);
        assert_eq!(accounts.resolution().count(), 0, "half of it is under way");
        accounts.redeem_at(at(3000));
        accounts.redeem(shares.remove(0), Ending::Topic);
        let group = accounts.group(vec![other]).unwrap();
        accounts.redeem_at(at(1000));
        accounts.redeem(group, Ending::Topic);
        assert_eq!((accounts.resolution().count(), accounts.resolution().sum()), (2, Duration::from_secs(2)));
    }

    #[test]
    fn at_most_once_nothing_is_counted_of_what_was_made() {
        let mut accounts = Accounts::untracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let token = accounts.register(partition, RecordOffset(0), 10);
        accounts.count_made(&token, Made { rows: 2, bytes: 30 });
        assert_eq!(accounts.tracker(partition).made(), Made::default());
        accounts.redeem(token, Ending::Topic);
    }
}
