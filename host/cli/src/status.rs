//! How the process ends. Each command answers with one of these; nothing else decides an exit status.

use std::process::ExitCode;

use loom_flow::Domain;

/// An exit status. Of several that apply the lowest is taken: what has to be put right first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Done, also when the flow dropped records.
    Done,
    /// The flow, an interpolation, or a plugin file is wrong.
    Flow,
    /// The command line, or a variable of ours, is wrong.
    Usage,
    /// The flow's pairing with these plugins or grants is refused.
    Runtime,
    /// Failed while starting or running.
    Failed,
    /// Ended by a signal, after it was heard.
    Signal(u8),
}

impl Status {
    /// Nobody reads standard output any more: what a process has that SIGPIPE ends, as `head` ends what it reads from.
    pub const UNREAD: Status = Status::Signal(13);

    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Status::Done => 0,
            Status::Flow => 1,
            Status::Usage => 2,
            Status::Runtime => 3,
            Status::Failed => 4,
            Status::Signal(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// The lowest of several failures; done when there is none.
    pub fn of_several(statuses: impl IntoIterator<Item = Status>) -> Status {
        statuses.into_iter().filter(|status| *status != Status::Done).min().unwrap_or(Status::Done)
    }
}

impl From<Domain> for Status {
    fn from(blame: Domain) -> Status {
        match blame {
            Domain::Flow => Status::Flow,
            Domain::Runtime => Status::Runtime,
            Domain::Broker => Status::Failed,
        }
    }
}

impl From<loom_runtime::Status> for Status {
    fn from(status: loom_runtime::Status) -> Status {
        match status {
            loom_runtime::Status::Flow => Status::Flow,
            loom_runtime::Status::Runtime => Status::Runtime,
            loom_runtime::Status::Failed => Status::Failed,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status.number())
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn of_several_the_lowest_is_taken_and_done_is_none() {
        assert_eq!(Status::of_several([]), Status::Done);
        assert_eq!(Status::of_several([Status::Done, Status::Failed]), Status::Failed);
        assert_eq!(Status::of_several([Status::Failed, Status::Runtime, Status::Flow]), Status::Flow);
        assert_eq!(Status::of_several([Status::Failed, Status::Runtime]), Status::Runtime);
    }

    #[test]
    fn a_signal_is_128_and_its_number() {
        assert_eq!(Status::Signal(2).number(), 130);
        assert_eq!(Status::Signal(15).number(), 143);
    }
}
