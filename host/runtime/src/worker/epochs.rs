//! Which leader's epoch a partition's records were read from: it is committed beside the offset, so that a log that was
//! cut by an election can be told.

use std::collections::VecDeque;

use loom_types::CommitOffset;

/// The epochs of what is read and not yet committed; nearly always one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    /// From which offset on which epoch, in rising order.
    from: VecDeque<(CommitOffset, i32)>,
}

impl Epochs {
    /// Of a partition that is read from `start`, committed with `epoch`.
    pub fn from_start(start: CommitOffset, epoch: Option<i32>) -> Self {
        let first = epoch.map(|epoch| (CommitOffset(start.0.saturating_sub(1)), epoch));
        Epochs { from: first.into_iter().collect() }
    }

    /// Records from `before` on were read in this epoch.
    pub fn read(&mut self, before: CommitOffset, epoch: i32) {
        if self.from.back().is_none_or(|(_, last)| *last != epoch) {
            self.from.push_back((before, epoch));
        }
    }

    /// The epoch of the record before a committed offset; epochs below it are forgotten.
    pub fn at(&mut self, committed: CommitOffset) -> Option<i32> {
        while self.from.get(1).is_some_and(|(next, _)| *next < committed) {
            self.from.pop_front();
        }
        self.from.front().filter(|(from, _)| *from < committed).map(|(_, epoch)| *epoch)
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
        assert_eq!(epochs.at(CommitOffset(20)), Some(1));
        assert_eq!(epochs.at(CommitOffset(21)), Some(3));
        epochs.cut(CommitOffset(25));
        assert_eq!(epochs.at(CommitOffset(25)), Some(3));
        assert_eq!(Epochs::default().at(CommitOffset(5)), None);
    }
}
