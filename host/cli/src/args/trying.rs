//! Arguments of the verbs that try a flow without Kafka.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::SettingsArgs;
use super::settings::MAX_WORKERS;

pub const TEST_HELP: &str = "\
A test file is named NAME.test.yaml and holds cases. Each is run on a broker in memory, with the flow's own plugins and the \
runtime of `run`. Status 0 when all pass, 1 otherwise. A folder stands for the test files in it and below.

Examples:
  loom-host test
  loom-host test orders/ payments.test.yaml
  loom-host test --filter \"large orders\" -w 4
  loom-host test --write
  loom-host test --format junit > results.xml";

#[derive(Args, Debug)]
pub struct TestArgs {
    /// Test files, and folders of test files
    #[arg(value_name = "FILE|DIR", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// Play only the cases that have this in their name
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Write what came out into the expectations that are empty or differ, to be read and committed
    #[arg(long)]
    pub write: bool,
    /// How to print what came of them
    #[arg(long, value_enum, default_value_t = Report::Human)]
    pub format: Report,
    /// Worker threads, whatever a case says
    #[arg(short, long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS))]
    pub workers_per_process: Option<u16>,
    /// Where compiled plugins are kept [default: loom-host in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "LOOM_CACHE_DIR", hide_env_values = true)]
    pub cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// How the outcome of cases is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Report {
    /// For people
    Human,
    /// JUnit's XML
    Junit,
    /// The Test Anything Protocol
    Tap,
}
