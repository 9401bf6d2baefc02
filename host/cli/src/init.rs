//! `init`: a folder with a flow that passes `check` and runs with `dev`, as it is and without a network; with `--lang rust`
//! a first plugin too, which is built before.
//!
//! No file that is there is ever changed: all names are looked at before the first file is written, and each file is made
//! only where there is none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use loom_types::printable;

use crate::args::{InitArgs, Lang};
use crate::show;
use crate::status::Status;
use crate::terminal;

const RECORDS: &str = include_str!("init/records.jsonl");

/// The files of a flow of expressions.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("flow.yaml", include_str!("init/flow.yaml")),
    ("records.jsonl", RECORDS),
    ("flow.test.yaml", include_str!("init/flow.test.yaml")),
    ("README.md", include_str!("init/README.md")),
];

/// The same with a plugin in Rust, and the contract that it is compiled against.
const RUST: &[(&str, &str)] = &[
    ("flow.yaml", include_str!("init/rust/flow.yaml")),
    ("records.jsonl", RECORDS),
    ("flow.test.yaml", include_str!("init/rust/flow.test.yaml")),
    ("README.md", include_str!("init/rust/README.md")),
    (".gitignore", "target/\n"),
    ("plugins/total/Cargo.toml", include_str!("init/rust/Cargo.toml.txt")),
    ("plugins/total/src/lib.rs", include_str!("init/rust/lib.rs.txt")),
    ("plugins/total/wit/columns.wit", include_str!("../../../wit/columns.wit")),
    ("plugins/total/wit/host.wit", include_str!("../../../wit/host.wit")),
    ("plugins/total/wit/roles.wit", include_str!("../../../wit/roles.wit")),
    ("plugins/total/wit/types.wit", include_str!("../../../wit/types.wit")),
    ("plugins/total/wit/worlds.wit", include_str!("../../../wit/worlds.wit")),
];

/// What stands for the flow's name in the files.
const NAME: &str = "my-flow";

/// Kafka's limit for a topic, less what follows the name in one.
const LONGEST_NAME: usize = 200;

/// Makes the folder and says what to do next.
pub fn init(args: &InitArgs) -> Status {
    match try_init(args) {
        Ok(said) => show::print(&said),
        Err((status, message)) => {
            terminal::print_error(&format!("error: {}\n", printable(&message)));
            status
        }
    }
}

fn try_init(args: &InitArgs) -> Result<String, (Status, String)> {
    let name = name(args).map_err(|message| (Status::Usage, message))?;
    let failed = |what: &Path, error: &io::Error| {
        (Status::Failed, format!("cannot write {}: {error}", what.display()))
    };
    let template = match args.lang {
        None => EXPRESSIONS,
        Some(Lang::Rust) => RUST,
    };
    let schemas = [
        ("flow.schema.json", format!("{:#}\n", loom_flow::schema())),
        ("test.schema.json", format!("{:#}\n", loom_flow::case_schema())),
    ];
    let files = template.iter().map(|(file, text)| (*file, text.replace(NAME, &name))).chain(schemas);
    let files: Vec<(PathBuf, String)> = files.map(|(file, text)| (args.dir.join(file), text)).collect();
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
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        let made = OpenOptions::new().write(true).create_new(true).open(file);
        made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| failed(file, &error))?;
    }
    let shown = |path: &Path| printable(&path.display().to_string()).into_owned();
    let names: Vec<String> = files.iter().map(|(file, _)| format!("  {}\n", shown(file))).collect();
    let build = match args.lang {
        None => String::new(),
        Some(Lang::Rust) => {
            let manifest = args.dir.join("plugins/total/Cargo.toml");
            format!("  cargo build --release --target wasm32-wasip2 --manifest-path {}\n", shown(&manifest))
        }
    };
    let (flow, records, dir) = (shown(&files[0].0), shown(&files[1].0), shown(&args.dir));
    Ok(format!(
        "made\n{}try\n{build}  loom-host check {flow}\n  loom-host graph {flow}\n  loom-host dev {flow} --input {records}\n  \
         loom-host test {dir}\n",
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
