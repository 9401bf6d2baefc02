//! Whether a process that left its number is the one that has it now.
//!
//! A number alone says little: it is given again, to a process or to a thread of one, and stays taken until the parent of
//! a process that ended has looked after it. Where the system has `/proc`, its state and its start tell.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, test_kill_process};

/// Whether this process lives. `started`: what [`started`] said of it then.
pub fn lives(pid: i32, started: Option<u64>) -> bool {
    let Some(raw) = (pid > 0).then(|| Pid::from_raw(pid)).flatten() else { return false };
    // Someone else's process means that the number was given again.
    if test_kill_process(raw).is_err() {
        return false;
    }
    if !Path::new("/proc/self/stat").exists() {
        return true;
    }
    let Some(now) = stat(pid) else { return false };
    let is_same = started.is_none_or(|started| now.started == Some(started));
    !matches!(now.state, 'Z' | 'X' | 'x') && is_same && leads_its_threads(pid)
}

/// When a process started, in ticks since the machine's start; none where the system does not say.
pub fn started(pid: i32) -> Option<u64> {
    stat(pid)?.started
}

struct Stat {
    state: char,
    started: Option<u64>,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state …`, and the name may hold anything. Of what follows it the start is the twentieth.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(Stat { state, started: fields.nth(18).and_then(|ticks| ticks.parse().ok()) })
}

/// Threads have numbers, too, that are found in `/proc` and take signals.
fn leads_its_threads(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let leader = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    leader.is_some_and(|leader| leader.trim().parse() == Ok(pid))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

    use super::{lives, started};

    fn me() -> i32 {
        getpid().as_raw_nonzero().get()
    }

    #[test]
    fn a_process_lives_under_its_number_and_its_start() {
        let start = started(me());
        assert!(start.is_some_and(|ticks| ticks > 0));
        assert!(lives(me(), start) && lives(me(), None));
        assert!(!lives(me(), start.map(|ticks| ticks - 1)), "the number was given again");
        assert!(!lives(0, None) && !lives(-1, None));
    }

    #[test]
    fn a_thread_that_has_the_number_is_no_process() {
        let (sender, receiver) = mpsc::channel();
        let (done, wait) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            // `PROCESS/task/THREAD`
            let itself = fs::read_link("/proc/thread-self").unwrap();
            sender.send(itself.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            let _ = wait.recv();
        });
        let number: i32 = receiver.recv().unwrap();
        assert!(!lives(number, None));
        assert!(!lives(number, started(number)));
        drop(done);
        thread.join().unwrap();
    }

    #[test]
    fn one_that_has_ended_and_that_nobody_looked_after_does_not_live() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_raw(pid).unwrap()), options).unwrap();
        assert!(!lives(pid, None));
        child.wait().unwrap();
        assert!(!lives(pid, None));
    }
}
