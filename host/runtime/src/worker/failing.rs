//! What is said of commits that fail: a line for each cause, with how often, and again only now and then. A broker that
//! refuses one commit mostly refuses all of them, for every partition and at every try.

use std::collections::BTreeMap;
use std::time::Duration;

use loom_types::Moment;

/// A cause that goes on is told again after so long.
const TELL_AGAIN: Duration = Duration::from_secs(30);

/// The causes for which commits fail at present, by the broker's code.
#[derive(Debug, Default)]
pub(crate) struct FailingCommits {
    causes: BTreeMap<&'static str, Cause>,
}

#[derive(Debug)]
struct Cause {
    told: Moment,
    untold: u64,
}

impl FailingCommits {
    /// Counts failures with this code. How many there were since it was last told, when it is to be told now.
    pub fn count(&mut self, code: &'static str, failures: u64, now: Moment) -> Option<u64> {
        match self.causes.get_mut(code) {
            None => {
                self.causes.insert(code, Cause { told: now, untold: 0 });
                Some(failures)
            }
            Some(cause) => {
                cause.untold += failures;
                (now.since(cause.told) >= TELL_AGAIN).then(|| {
                    cause.told = now;
                    std::mem::take(&mut cause.untold)
                })
            }
        }
    }

    /// Commits succeed. Whether that is news.
    pub fn over(&mut self) -> bool {
        !std::mem::take(&mut self.causes).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::Moment;

    use super::FailingCommits;

    #[test]
    fn a_cause_is_told_once_and_again_now_and_then_with_a_count() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let mut failing = FailingCommits::default();
        assert_eq!(failing.count("REQUEST_TIMED_OUT", 100, at(1)), Some(100));
        assert_eq!(failing.count("REQUEST_TIMED_OUT", 100, at(2)), None);
        assert_eq!(failing.count("UNKNOWN_MEMBER_ID", 1, at(3)), Some(1), "another cause");
        assert_eq!(failing.count("REQUEST_TIMED_OUT", 100, at(31)), Some(200));
        assert_eq!(failing.count("REQUEST_TIMED_OUT", 7, at(32)), None);
        assert!(failing.over() && !failing.over());
        assert_eq!(failing.count("REQUEST_TIMED_OUT", 1, at(33)), Some(1), "it begins anew");
    }
}
