//! Reading the flow file and its overlays. What the compiler cannot say, because there is no text to point into, is said
//! here: no such file, a folder, no right to read, too large.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use loom_flow::{Code, CompileOptions, Compiled, Issue, Mode, Severity, SourceFile, Stretch, compile_with};

use crate::answers::{ClientKeys, KeysAlone, PluginFiles, ProcessEnvironment};
use crate::args::SettingsArgs;

/// No flow is larger; it bounds what an endless file can take.
const MAX_BYTES: u64 = 16 << 20;

/// A flow with what is laid over it, in this order: overlays, variables and flags.
pub struct Layers {
    pub flow: SourceFile,
    pub over: Vec<SourceFile>,
}

impl Layers {
    /// Compiles them, as this process answers what the compiler asks.
    pub fn compile(&self, options: CompileOptions) -> Compiled {
        compile_with(&self.flow, &self.over, &ProcessEnvironment, &PluginFiles, &ClientKeys, options)
    }

    /// Compiles them to be looked at: what is not on this machine is no error.
    pub fn compile_to_show(&self) -> Compiled {
        let options = CompileOptions { mode: Mode::Check, require_env: false, plugins: false };
        compile_with(&self.flow, &self.over, &ProcessEnvironment, &PluginFiles, &KeysAlone, options)
    }
}

/// Reads a flow and its overlays.
///
/// # Errors
/// An issue for the whole of the first file that cannot be read.
pub fn layers(path: &Path, settings: &SettingsArgs) -> Result<Layers, Box<Issue>> {
    Ok(Layers { flow: read(path)?, over: overlays(settings)? })
}

/// Reads what is laid over a flow: overlays, and what flags and variables say.
///
/// # Errors
/// An issue for the whole of the first file that cannot be read.
pub fn overlays(settings: &SettingsArgs) -> Result<Vec<SourceFile>, Box<Issue>> {
    let read = settings.overlays.iter().map(|overlay| read_as("the overlay", overlay));
    let mut over = read.collect::<Result<Vec<_>, _>>()?;
    over.extend(settings.layers());
    Ok(over)
}

/// Reads a flow. Relative paths in it are beside the file.
///
/// # Errors
/// An issue for the whole file.
pub fn read(path: &Path) -> Result<SourceFile, Box<Issue>> {
    read_as("the flow", path)
}

/// Reads a file, called `what` where it cannot be read.
///
/// # Errors
/// An issue for the whole file.
pub fn read_as(what: &str, path: &Path) -> Result<SourceFile, Box<Issue>> {
    let name = path.display().to_string();
    let bytes = read_bytes(path)
        .map_err(|(message, hint)| issue(&name, format!("cannot read {what} {name}: {message}"), hint))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
    Ok(SourceFile { name, bytes, dir })
}

/// The YAML files that a folder stands for, in it and below, by name; none if it is no folder. Hidden files and folders
/// are left out, and so are cases of `loom-host test` (`*.test.yaml`) and folders of build outputs.
///
/// # Errors
/// An issue for the whole folder: it cannot be read, or there is no YAML file.
pub fn flows(path: &Path) -> Result<Option<Vec<PathBuf>>, Box<Issue>> {
    let hint = "a flow's file ends with `.yaml` or `.yml`";
    files_in(path, ("flow", hint), |file, name| is_yaml(file) && !is_case(name))
}

/// The test files (`*.test.yaml`) that a folder stands for, as [`flows`].
///
/// # Errors
/// An issue for the whole folder: it cannot be read, or there is no test file.
pub fn cases(path: &Path) -> Result<Option<Vec<PathBuf>>, Box<Issue>> {
    let hint = "a test file's name ends with `.test.yaml`";
    files_in(path, ("test file", hint), |_, name| is_case(name))
}

/// The wanted files of a folder, in it and below, by name; none if it is no folder.
fn files_in(
    path: &Path,
    (what, how): (&str, &str),
    is_wanted: impl Fn(&Path, &str) -> bool,
) -> Result<Option<Vec<PathBuf>>, Box<Issue>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error: io::Error| {
            issue(&name, format!("cannot read the folder {}: {}", folder.display(), words(&error)), None)
        };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file_name = entry.file_name().to_string_lossy().into_owned();
            if file_name.starts_with('.') {
                continue;
            }
            // A link to a folder is not followed: it may lead back up.
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if is_folder && !OUTPUTS.contains(&file_name.as_str()) {
                folders.push(entry.path());
            } else if !is_folder && is_wanted(&entry.path(), &file_name) {
                files.push(entry.path());
            }
        }
        if files.len() > MOST_FILES {
            let message = format!("{name} holds more than {MOST_FILES} YAML files");
            return Err(issue(&name, message, Some("name a folder with flows only".to_owned())));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(issue(&name, format!("there is no {what} in the folder {name}"), Some(how.to_owned())));
    }
    Ok(Some(files))
}

/// Folders that tools fill.
const OUTPUTS: [&str; 2] = ["target", "node_modules"];

/// More files than this in a folder are not all flows.
const MOST_FILES: usize = 10_000;

fn is_case(name: &str) -> bool {
    name.ends_with(".test.yaml") || name.ends_with(".test.yml")
}

/// Whether a file found in a folder means to be a flow: it has a `process` at the top, or is so broken that nobody can
/// tell.
pub fn is_flow(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return true };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return text.contains("process");
    }
    text.lines().any(|line| line.trim_start_matches(['"', '\'']).starts_with("process"))
}

/// A problem of a whole file or folder.
fn issue(name: &str, message: String, hint: Option<String>) -> Box<Issue> {
    Box::new(Issue {
        severity: Severity::Error,
        code: Code::FileInvalid,
        message,
        file: name.to_owned(),
        at: Stretch { line: 1, column: 1, offset: 0, len: 0 },
        related: None,
        path: String::new(),
        hint,
    })
}

/// The bytes, or what is wrong and what to do.
fn read_bytes(path: &Path) -> Result<Vec<u8>, (String, Option<String>)> {
    let failed = |error: io::Error| (words(&error), nearest_hint(path, &error, is_yaml));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        let inside = files_of(path, is_yaml);
        let hint = match inside.as_slice() {
            [] => "name the YAML file itself".to_owned(),
            some => format!("name the YAML file itself, such as {}", some[0].display()),
        };
        return Err(("it is a folder".to_owned(), Some(hint)));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err((format!("it is larger than {} MiB", MAX_BYTES >> 20), None));
    }
    Ok(bytes)
}

/// An error of the file system in plain words.
pub fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is no folder".to_owned(),
        _ => error.to_string(),
    }
}

/// For a file that is not there: the one in its folder whose name is nearest, of those that may be meant.
pub fn nearest_hint(path: &Path, error: &io::Error, may_be_meant: fn(&Path) -> bool) -> Option<String> {
    if error.kind() != ErrorKind::NotFound {
        return None;
    }
    if let Some(target) = dangling(path) {
        return Some(format!("{} is a link to {}, which is not there", path.display(), target.display()));
    }
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some(format!("the folder {} is not there", folder.display()));
    }
    let wanted = path.file_name()?.to_string_lossy().into_owned();
    let near = files_of(folder, may_be_meant)
        .into_iter()
        .filter_map(|file| {
            let name = file.file_name()?.to_string_lossy().into_owned();
            Some((strsim::jaro_winkler(&wanted, &name), file))
        })
        .filter(|(similar, _)| *similar > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("did you mean {}?", near.1.display()))
}

/// What a link leads to whose end is not there; none if it is no such link.
pub fn dangling(path: &Path) -> Option<PathBuf> {
    let target = fs::read_link(path).ok().filter(|_| !path.exists())?;
    Some(path.parent().unwrap_or(Path::new("")).join(target))
}

/// Such files of a folder, by name; empty if it cannot be read.
fn files_of(folder: &Path, wanted: fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| wanted(path) && path.exists());
    let mut files: Vec<PathBuf> = paths.take(1000).collect();
    files.sort();
    files
}

fn is_yaml(path: &Path) -> bool {
    matches!(path.extension().and_then(OsStr::to_str), Some("yaml" | "yml"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{is_flow, read};

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("flow.yaml"), "name: x").expect("a file");
        let issue = read(&folder.path().join("flwo.yaml")).expect_err("it is not there");
        assert!(issue.message.ends_with("flwo.yaml: no such file"), "{}", issue.message);
        assert!(issue.hint.is_some_and(|hint| hint.contains("flow.yaml")));
        let folder_issue = read(folder.path()).expect_err("it is a folder");
        assert!(folder_issue.message.ends_with("it is a folder"), "{}", folder_issue.message);
        let absent = read(&folder.path().join("no/flow.yaml")).expect_err("no folder");
        assert!(absent.hint.is_some_and(|hint| hint.contains("is not there")));
    }

    #[test]
    fn a_file_with_a_process_at_the_top_means_to_be_a_flow() {
        for (text, flow) in [
            ("name: x\nprocess: []\n", true),
            ("{ process: [] }", true),
            ("{\n  \"process\": []\n}", true),
            ("\"process\": []", true),
            ("\u{feff}process:\n  - x\n", true),
            ("name: x\nkafka: { consumer: { topics: [process] } }\n", false),
            ("a:\n  process: []\n", false),
            ("", false),
        ] {
            assert_eq!(is_flow(text.as_bytes()), flow, "{text}");
        }
        assert!(is_flow(b"\xff\xfen\0"));
    }

    #[test]
    fn paths_are_beside_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("flow.yaml");
        fs::write(&file, "name: x").expect("a file");
        let source = read(&file).expect("readable");
        assert_eq!((source.dir.as_path(), source.bytes.as_slice()), (folder.path(), &b"name: x"[..]));
        assert_eq!(source.name, file.display().to_string());
        assert!(read(Path::new("/dev/zero")).is_err_and(|issue| issue.message.contains("larger")));
    }
}
