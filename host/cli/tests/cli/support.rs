//! A folder with a flow in it, and the command run there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// A flow that needs no plugin and no variable, and has nothing to warn of.
pub const SOUND: &str = "\
name: small
kafka:
  consumer:
    brokers: [\"localhost:9092\"]
    group_id: small
    topics: [in]
    delivery: at_least_once
  producer: { brokers: [\"localhost:9092\"] }
process:
  - filter: payload.total > 10
  - into_topic: out
errors:
  default: [ { into_topic: failed } ]
";

/// A flow whose only step is the component at this path.
pub fn flow_with_step(component: &str) -> String {
    let step = format!("plugins:\n  x: {{ component: {component:?} }}\nprocess:\n  - step: x\n");
    SOUND.replace("process:\n  - filter: payload.total > 10\n", &step)
}

/// The same with a probe as the step, and more about it, such as `config: { … }`.
pub fn flow_with_probe(options: &str) -> String {
    let probe = format!("{{ component: {:?}, {options} }}", guest("probe-step"));
    flow_with_step("probe.wasm").replace("{ component: \"probe.wasm\" }", &probe)
}

/// A flow whose broker is not there, and that waits for it no longer than a second.
pub fn without_broker(flow: &str) -> String {
    flow.replace("localhost:9092", "127.0.0.1:1")
        .replace("process:\n", "runtime: { startup_timeout: 1s }\nprocess:\n")
}

/// A folder of its own, removed at the end.
pub struct Folder(TempDir);

impl Folder {
    /// With these files.
    pub fn with(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("a file");
        }
        folder
    }

    /// With this flow as `flow.yaml`.
    pub fn with_flow(flow: &str) -> Folder {
        Folder::with(&[("flow.yaml", flow.as_bytes())])
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command in this folder, with nothing of the developer's environment that it reads.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_loom-host"), arguments)
    }

    /// Another program in this folder, as [`Folder::command`] starts the command.
    pub fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).args(arguments).timeout(Duration::from_secs(60));
        command.env_remove("LOOM_LOG").env_remove("NO_COLOR").env("RUST_BACKTRACE", "0");
        // Compiled code of tests stays out of the user's own cache, and is shared among them.
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        // Files of running flows are found in the test's own folder only.
        command.env("XDG_RUNTIME_DIR", self.path()).env_remove("LOOM_ADMIN");
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().expect("the command starts"))
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: &Output) -> Ended {
        Ended {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Lines of standard error, which are JSON wherever it is no terminal.
    pub fn log(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stderr.lines().map(parse).collect()
    }

    /// The messages of the log's errors, or of the plain ones of a verb that keeps no log.
    pub fn errors(&self) -> Vec<String> {
        if !self.stderr.starts_with('{') {
            let plain = self.stderr.lines().filter(|line| line.starts_with("error"));
            return plain.map(str::to_owned).collect();
        }
        let errors = self.log().into_iter().filter(|line| line["level"] == "ERROR");
        errors.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Makes sure of the status; what was printed is in the failure.
    #[track_caller]
    pub fn expect_status(&self, status: i32) -> &Ended {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// Makes sure that there is exactly one error in the log, and that it has these words in it.
    #[track_caller]
    pub fn expect_one_error(&self, words: &[&str]) -> &Ended {
        let errors = self.errors();
        assert_eq!(errors.len(), 1, "{self:#?}");
        words.iter().for_each(|word| assert!(errors[0].contains(word), "{word:?} is not in {:?}", errors[0]));
        self
    }
}

/// A component that `cargo xtask guests` built.
pub fn guest(name: &str) -> String {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/guests").join(format!("{name}.wasm"));
    let shown = file.display();
    file.canonicalize()
        .unwrap_or_else(|error| panic!("{shown}: {error}: build the guests with `cargo xtask guests`"))
        .display()
        .to_string()
}

/// A core module, as `wasm-ld` would write an empty one.
pub const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
