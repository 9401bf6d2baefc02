//! How the commands find a running flow: a small file in the user's runtime folder, named after the flow and the process,
//! that holds the address of its admin server.
//!
//! A process that was killed leaves its file behind; whoever reads it sees that the process is gone, and removes it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::process;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The flow's name.
    pub flow: String,
    /// Where its admin server is.
    pub url: String,
    /// The process.
    pub pid: i32,
    /// When the process started, as the system counts it; none where it does not say.
    #[serde(default)]
    pub started: Option<u64>,
}

/// The file of this process; removed when it is dropped.
pub struct RuntimeFile {
    path: PathBuf,
}

impl RuntimeFile {
    /// Leaves a file for this flow.
    ///
    /// # Errors
    /// There is no folder that is ours alone, or it cannot be written: a message for the user.
    pub fn leave(flow: &str, url: &str) -> Result<RuntimeFile, String> {
        RuntimeFile::leave_in(&folder(), flow, url)
    }

    fn leave_in(folder: &Path, flow: &str, url: &str) -> Result<RuntimeFile, String> {
        own(folder).map_err(|error| format!("the folder {} cannot be used: {error}", folder.display()))?;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let started = process::started(pid);
        let running = Running { flow: flow.to_owned(), url: url.to_owned(), pid, started };
        let path = folder.join(format!("{}.{pid}.json", file_name(flow)));
        write(&path, &running).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(RuntimeFile { path })
    }
}

impl Drop for RuntimeFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The flows that run on this machine for this user, by name; files of processes that are gone are removed.
pub fn running() -> Vec<Running> {
    running_in(&folder())
}

fn running_in(folder: &Path) -> Vec<Running> {
    if !is_ours(folder) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Ok(running) = serde_json::from_str::<Running>(&text) else { continue };
        if process::lives(running.pid, running.started) {
            found.push(running);
        } else {
            let _ = fs::remove_file(&path);
        }
    }
    found.sort_by(|one, two| (&one.flow, one.pid).cmp(&(&two.flow, two.pid)));
    found
}

/// `$XDG_RUNTIME_DIR/loom-host`, or a folder of the user's own among the temporary ones.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => PathBuf::from(dir).join("loom-host"),
        None => std::env::temp_dir().join(format!("loom-host-{}", geteuid().as_raw())),
    }
}

/// Makes the folder, for this user alone; one that is there must be so.
fn own(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_ours(folder) { Ok(()) } else { Err(io::Error::other("it is not this user's alone")) }
}

/// A folder that others could write to might lead anywhere.
fn is_ours(folder: &Path) -> bool {
    let found = fs::symlink_metadata(folder);
    found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
}

fn write(path: &Path, running: &Running) -> io::Result<()> {
    // Whole or not at all: a reader never sees half a file.
    let half = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    serde_json::to_writer(&mut file, running)?;
    file.write_all(b"\n")?;
    drop(file);
    fs::rename(&half, path)
}

/// A flow's name as a part of a file's name.
fn file_name(flow: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = flow.chars().map(|c| if safe(c) { c } else { '_' }).take(100).collect();
    name.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Running, RuntimeFile, file_name, running_in};

    #[test]
    fn a_file_is_found_while_its_flow_runs() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("loom-host");
        assert_eq!(running_in(&folder), []);
        let file = RuntimeFile::leave_in(&folder, "orders", "http://127.0.0.1:7878").unwrap();
        let found = running_in(&folder);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].flow.as_str(), found[0].url.as_str()), ("orders", "http://127.0.0.1:7878"));
        let mode = fs::metadata(&file.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(file);
        assert_eq!(running_in(&folder), []);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_process_that_is_gone_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("loom-host");
        drop(RuntimeFile::leave_in(&folder, "orders", "http://127.0.0.1:1").unwrap());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        let gone = Running { flow: "orders".to_owned(), url: String::new(), pid, started: None };
        let path = folder.join(format!("orders.{pid}.json"));
        super::write(&path, &gone).unwrap();
        assert_eq!(running_in(&folder), []);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("loom-host");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = RuntimeFile::leave_in(&folder, "orders", "http://127.0.0.1:1").err().unwrap();
        assert!(refused.contains("not this user's alone"), "{refused}");
        assert_eq!(running_in(&folder), []);
    }

    #[test]
    fn a_name_stays_within_its_folder() {
        assert_eq!(file_name("orders-1.eu"), "orders-1.eu");
        assert_eq!(file_name("../a b/ü"), "_a_b__");
    }
}
