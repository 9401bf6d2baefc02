//! `dev --watch`: the flow runs, and runs again when a file of it has changed: the flow, its overlays, a component, the
//! input.
//!
//! Files are looked at by their time and size, a few times a second, which works on every file system and in every
//! container. A change counts when it has settled, so that a file which is still being written is not read halfway; one
//! that comes during a run ends it first, gracefully.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use loom_runtime::Stop;

use crate::signals::Signals;
use crate::start::Refusal;
use crate::status::Status;

/// Between two looks at the files.
const EVERY: Duration = Duration::from_millis(250);

/// Time and size of each file; none where it is not there.
type Seen = Vec<Option<(SystemTime, u64)>>;

/// Files that a run depends on.
#[derive(Debug, Default)]
pub struct Watched {
    files: Vec<PathBuf>,
    /// As they were before the run read them.
    before: Seen,
}

impl Watched {
    /// Adds files that are not known yet, as they are now: before they are read.
    pub fn note<'p>(&mut self, more: impl IntoIterator<Item = &'p PathBuf>) {
        for file in more {
            if !self.files.contains(file) {
                self.before.extend(look(std::slice::from_ref(file)));
                self.files.push(file.clone());
            }
        }
    }
}

fn look(files: &[PathBuf]) -> Seen {
    let look = |file: &PathBuf| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(look).collect()
}

/// Runs, and runs again after each change, until a signal comes; its status then, or that of what no change can mend.
pub fn again_and_again(
    signals: &Signals,
    mut run: impl FnMut(&Stop, &mut Watched) -> Status,
) -> Result<Status, Refusal> {
    let mut watched = Watched::default();
    loop {
        let stop = Stop::new();
        let request = stop.clone();
        signals.running(move || request.request());
        watched.before = look(&watched.files);
        let (known, before) = (watched.files.clone(), watched.before.clone());
        let over = AtomicBool::new(false);
        let status = thread::scope(|scope| {
            let watching = thread::Builder::new().name("watch".to_owned()).spawn_scoped(scope, || {
                let mut last = before.clone();
                while !over.load(Ordering::Acquire) {
                    thread::park_timeout(EVERY);
                    let now = look(&known);
                    if now != before && now == last {
                        stop.request();
                        return;
                    }
                    last = now;
                }
            });
            let watching = watching.map_err(|error| {
                Refusal::Other(Status::Failed, format!("no thread to watch files with: {error}"))
            })?;
            let status = run(&stop, &mut watched);
            over.store(true, Ordering::Release);
            watching.thread().unpark();
            Ok::<_, Refusal>(status)
        })?;
        if signals.heard().is_some() || status == Status::UNREAD {
            return Ok(status);
        }
        tracing::info!(files = watched.files.len(), "waiting for a change");
        if !changed(&watched, signals) {
            return Ok(signals.heard().map_or(Status::Done, Status::Signal));
        }
        tracing::info!("a file has changed: running again");
    }
}

/// Waits for a change that has settled; false when a signal comes first.
fn changed(Watched { files, before }: &Watched, signals: &Signals) -> bool {
    let waiting = thread::current();
    signals.running(move || waiting.unpark());
    let mut last = before.clone();
    while signals.heard().is_none() {
        let now = look(files);
        if now != *before && now == last {
            return true;
        }
        last = now;
        thread::park_timeout(EVERY);
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Watched, look};

    #[test]
    fn a_file_that_comes_changes_or_goes_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("flow.yaml");
        let mut watched = Watched::default();
        watched.note([&file, &file]);
        assert_eq!((watched.files.len(), &*watched.before), (1, &[None][..]));
        fs::write(&file, "a").expect("a file");
        watched.note([&file]);
        assert_eq!(watched.before, [None], "a change since it was noted counts");
        let there = look(&watched.files);
        fs::write(&file, "ab").expect("a file");
        let longer = look(&watched.files);
        fs::remove_file(&file).expect("it is there");
        assert!(watched.before != there && there != longer && look(&watched.files) == watched.before);
    }
}
