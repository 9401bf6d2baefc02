//! Running other programs, and naming the ones that are missing.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::libraries::of_this_machine;

/// Where a program of this name lies, if it is on the path.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// cargo, in the given folder: the very one that runs this task, building for this machine.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    of_this_machine(&mut command);
    command
}

/// Runs a command with the terminal as its own; an exit status other than 0 is an error that repeats the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| not_started(command, e))?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a command, takes what it prints, and puts both streams into the error if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(|e| not_started(command, e))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    if !status.success() {
        bail!("`{}` failed ({status})\n{text}{}", line(command), String::from_utf8_lossy(&stderr));
    }
    Ok(text)
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

fn not_started(command: &Command, error: std::io::Error) -> anyhow::Error {
    let program = command.get_program().to_string_lossy().into_owned();
    if error.kind() == ErrorKind::NotFound {
        return anyhow::anyhow!("`{program}` is not installed, or not on the path");
    }
    anyhow::Error::new(error).context(format!("cannot start `{program}`"))
}

/// Writes a file whole or not at all, and leaves one that already has this content untouched, so that nothing which
/// looks at its time believes that it changed. Says whether it was written.
pub fn write_if_changed(path: &Path, content: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&temporary, content).with_context(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}
