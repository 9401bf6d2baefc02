//! Which leader's epoch a partition's records were read from: it is committed beside the offset, so that a log that was
//! cut by an election can be told.

use std::collections::VecDeque;

use loom_types::CommitOffset;

/// The epochs of what is read and not yet committed; nearly always one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    /// From which offset on which epoch, in rising order; none behind the last record, where an epoch is not told.
    from: VecDeque<(CommitOffset, Option<i32>)>,
}

impl Epochs {
    /// Of a partition that is read from `start`, committed with `epoch`.
    pub fn from_start(start: CommitOffset, epoch: Option<i32>) -> Self {
        let first = epoch.map(|epoch| (CommitOffset(start.0.saturating_sub(1)), Some(epoch)));
        Epochs { from: first.into_iter().collect() }
    }

    /// Records from `before` on were read in this epoch.
    pub fn read(&mut self, before: CommitOffset, epoch: i32) {
        self.on(before, Some(epoch));
    }

    /// What lies from `before` on and is no record, such as a transaction's end, may be of a later epoch. The one before
    /// it would have that end taken for a log that was cut.
    pub fn passed(&mut self, before: CommitOffset) {
        self.on(before, None);
    }

    fn on(&mut self, before: CommitOffset, epoch: Option<i32>) {
        if self.from.back().is_none_or(|(_, last)| *last != epoch) {
            self.from.push_back((before, epoch));
        }
    }

    /// The epoch of the record before a committed offset; epochs below it are forgotten.
    pub fn at(&mut self, committed: CommitOffset) -> Option<i32> {
        while self.from.get(1).is_some_and(|(next, _)| *next < committed) {
            self.from.pop_front();
        }
        self.from.front().filter(|(from, _)| *from < committed).and_then(|(_, epoch)| *epoch)
    }

    /// The epoch of the record before an offset, as [`Epochs::at`] says it; nothing is forgotten.
    pub fn before(&self, offset: CommitOffset) -> Option<i32> {
        self.from.iter().rev().find(|(from, _)| *from < offset).and_then(|(_, epoch)| *epoch)
    }

    /// The log was cut: what was read above its new end is no more.
    pub fn cut(&mut self, end: CommitOffset) {
        self.from.retain(|(from, _)| *from < end);
    }
}

#[cfg(test)]
mod tests {
    use loom_types::CommitOffset;

    use super::Epochs;

    #[test]
    fn a_committed_offset_has_the_epoch_of_the_record_before_it() {
        let mut epochs = Epochs::from_start(CommitOffset(10), Some(1));
        assert_eq!(epochs.at(CommitOffset(10)), Some(1));
        epochs.read(CommitOffset(10), 1);
        epochs.read(CommitOffset(20), 3);
        epochs.read(CommitOffset(30), 4);
        assert_eq!(epochs.before(CommitOffset(35)), Some(4));
        assert_eq!(epochs.before(CommitOffset(21)), Some(3));
        assert_eq!(epochs.before(CommitOffset(20)), Some(1));
        assert_eq!(epochs.before(CommitOffset(9)), None);
        assert_eq!(epochs.at(CommitOffset(20)), Some(1));
        assert_eq!(epochs.at(CommitOffset(21)), Some(3));
        epochs.cut(CommitOffset(25));
        assert_eq!(epochs.at(CommitOffset(25)), Some(3));
        assert_eq!(Epochs::default().at(CommitOffset(5)), None);
    }

    #[test]
    fn an_offset_behind_what_is_no_record_has_no_epoch() {
        let mut epochs = Epochs::default();
        epochs.read(CommitOffset(0), 1);
        epochs.passed(CommitOffset(7));
        assert_eq!(epochs.before(CommitOffset(8)), None);
        assert_eq!(epochs.at(CommitOffset(7)), Some(1));
        assert_eq!(epochs.at(CommitOffset(8)), None);
        epochs.read(CommitOffset(8), 2);
        assert_eq!(epochs.at(CommitOffset(9)), Some(2));
    }
}
