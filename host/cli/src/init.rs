//! `init`: a folder with a flow that passes `check` and runs with `dev`, as it is and without a network.
//!
//! No file that is there is ever changed: all names are looked at before the first file is written, and each file is made
//! only where there is none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::args::InitArgs;
use crate::show;
use crate::status::Status;
use crate::terminal;

const FLOW: &str = include_str!("init/flow.yaml");
const README: &str = include_str!("init/README.md");
const RECORDS: &str = include_str!("init/records.jsonl");
const CASES: &str = include_str!("init/flow.test.yaml");

/// What stands for the flow's name in the files.
const NAME: &str = "my-flow";

/// Kafka's limit for a topic, less what follows the name in one.
const LONGEST_NAME: usize = 200;

/// Makes the folder and says what to do next.
pub fn init(args: &InitArgs) -> Status {
    match try_init(args) {
        Ok(said) => show::print(&said),
        Err((status, message)) => {
            terminal::print_error(&format!("error: {message}\n"));
            status
        }
    }
}

fn try_init(args: &InitArgs) -> Result<String, (Status, String)> {
    let name = name(args).map_err(|message| (Status::Usage, message))?;
    let failed = |what: &Path, error: &io::Error| {
        (Status::Failed, format!("cannot write {}: {error}", what.display()))
    };
    let files: Vec<(PathBuf, String)> = [
        ("flow.yaml", FLOW.replace(NAME, &name)),
        ("flow.schema.json", format!("{:#}\n", loom_flow::schema())),
        ("records.jsonl", RECORDS.to_owned()),
        ("flow.test.yaml", CASES.replace(NAME, &name)),
        ("test.schema.json", format!("{:#}\n", loom_flow::case_schema())),
        ("README.md", README.replace(NAME, &name)),
    ]
    .map(|(file, text)| (args.dir.join(file), text))
    .into();
    let there: Vec<String> = files
        .iter()
        .filter(|(file, _)| file.symlink_metadata().is_ok())
        .map(|(file, _)| file.display().to_string())
        .collect();
    if !there.is_empty() {
        let message = format!("{} would be overwritten; nothing was written", there.join(", "));
        return Err((Status::Failed, message));
    }
    fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, &error))?;
    for (file, text) in &files {
        let made = OpenOptions::new().write(true).create_new(true).open(file);
        made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| failed(file, &error))?;
    }
    let names: Vec<String> = files.iter().map(|(file, _)| format!("  {}\n", file.display())).collect();
    let (flow, records, dir) = (files[0].0.display(), files[2].0.display(), args.dir.display());
    Ok(format!(
        "made\n{}try\n  loom-host check {flow}\n  loom-host graph {flow}\n  loom-host dev {flow} --input {records}\n  loom-host test {dir}\n",
        names.concat()
    ))
}

/// The flow's name: topics begin with it, so it has the characters of a topic.
fn name(args: &InitArgs) -> Result<String, String> {
    let (name, of) = match &args.name {
        Some(name) => (name.clone(), "--name"),
        None => {
            // `.` and `..` have a name only where they are.
            let folder = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), "the folder")
        }
    };
    let is_topic = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if is_topic && starts && name.len() <= LONGEST_NAME {
        return Ok(name);
    }
    let why = "topics are named after it: letters, digits, `.`, `_` and `-`, a letter or digit first";
    Err(format!("`{name}`, from {of}, names no flow: {why}; give one with --name"))
}
