//! Who this run is, for others that read what it wrote: a run's id, and the process behind it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use loom_delivery::RunId;
use loom_delivery::lease::Holder;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// One run of a host. Made once; a flow that begins anew in place stays the same run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random.
    pub run: RunId,
    /// The machine's name.
    pub host: String,
    /// The process's id.
    pub process: u32,
    /// What tells this machine's process ids from those of others of its name; empty when that is not known.
    pub place: String,
    /// When it started, in milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
}

impl Identity {
    /// This process, as a run of its own.
    #[must_use]
    pub fn of_this_process() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Identity {
            run: RunId(fastrand::u64(..)),
            host: host_name(),
            process: std::process::id(),
            place: place(),
            started_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        }
    }

    pub(crate) fn holder(&self, take_over: bool) -> Holder {
        Holder {
            run: self.run,
            host: self.host.clone(),
            process: self.process,
            place: self.place.clone(),
            started_ms: self.started_ms,
            take_over,
            released: false,
            layout: None,
        }
    }
}

fn host_name() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    read("/proc/sys/kernel/hostname")
        .or_else(|| std::env::var("HOSTNAME").ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The boot of the machine and the namespace of process ids: the same id means the same process only within both.
fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let (Ok(boot), Ok(namespace)) = (boot, namespace) else { return String::new() };
    let digits: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{digits}", boot.trim().split('-').next().unwrap_or_default())
}

/// Whether another holder's process was one of this machine and is no more. What cannot be known is not gone.
pub(crate) fn is_gone(me: &Holder, other: &Holder) -> bool {
    // The id is this process's own by now, as in a container that was started again: the other has ended.
    me.is_neighbour(other) && (other.process == me.process || !is_alive(other.process))
}

fn is_alive(process: u32) -> bool {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return true };
    match test_kill_process(pid) {
        Err(Errno::SRCH) => false,
        // A process that was killed and that its parent has not looked after yet does nothing any more.
        Ok(()) | Err(_) => !is_zombie(Path::new(&format!("/proc/{process}/stat"))),
    }
}

fn is_zombie(stat: &Path) -> bool {
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    // `pid (name) state …`, and the name may hold anything.
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Identity, is_gone};

    #[test]
    fn a_process_of_this_machine_is_gone_when_it_was_killed_and_not_before() {
        let me = Identity::of_this_process().holder(false);
        assert!(!me.place.is_empty() && !me.host.is_empty());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut other = Identity { process: child.id(), ..Identity::of_this_process() }.holder(false);
        assert!(!is_gone(&me, &other));
        child.kill().unwrap();
        // It is a zombie until it is waited for, and no process at all afterwards.
        child.wait().unwrap();
        assert!(is_gone(&me, &other));
        other.host = "elsewhere".to_owned();
        assert!(!is_gone(&me, &other), "process ids of another machine say nothing");
    }

    #[test]
    fn one_that_has_this_process_s_id_is_gone() {
        let me = Identity::of_this_process().holder(false);
        let other = Identity::of_this_process().holder(false);
        assert_ne!(me.run, other.run);
        assert!(is_gone(&me, &other));
    }
}
