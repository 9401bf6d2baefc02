//! The commit tracker as a sink component sees it. It only queues: what a verdict means, and whether its handle is one
//! that the sink may still speak for, is the runtime's to judge.

use crate::answers::Cause;

/// How many verdicts may wait to be taken. The runtime takes them after every call, so only a plugin that has gone
/// wrong passes this.
const WAITING: usize = 1 << 20;

/// What stands behind the `commit-tracker` resource; all its state is in [`Verdicts`].
#[derive(Debug)]
pub struct Tracker;

/// What a sink said of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The row is durably written.
    Complete,
    /// The row could not be written: [`Cause::Reject`], [`Cause::Retry`] or [`Cause::Fail`], and the sink's reason.
    Fail(Cause, String),
}

/// Verdicts in the order the sink gave them, duplicates and foreign handles included.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    given: Vec<(u32, Verdict)>,
    dropped: bool,
}

/// Too many verdicts wait.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the sink gave more than {WAITING} verdicts in one call")]
pub(crate) struct TooManyVerdicts;

impl Verdicts {
    pub(crate) fn complete(&mut self, handles: Vec<u32>) -> Result<(), TooManyVerdicts> {
        if self.given.len() + handles.len() > WAITING {
            return Err(TooManyVerdicts);
        }
        self.given.extend(handles.into_iter().map(|handle| (handle, Verdict::Complete)));
        Ok(())
    }

    pub(crate) fn fail(&mut self, handle: u32, cause: Cause, reason: String) -> Result<(), TooManyVerdicts> {
        if self.given.len() >= WAITING {
            return Err(TooManyVerdicts);
        }
        self.given.push((handle, Verdict::Fail(cause, reason)));
        Ok(())
    }

    /// The guest let go of the tracker: it can give no further verdict.
    pub(crate) fn drop_tracker(&mut self) {
        self.dropped = true;
    }

    pub(crate) fn tracker_dropped(&self) -> bool {
        self.dropped
    }

    pub(crate) fn take(&mut self, out: &mut Vec<(u32, Verdict)>) {
        out.append(&mut self.given);
    }
}
