//! The command line: verbs, flags and their help. What a value means is decided here, once; the commands get it parsed.
//!
//! A mistyped verb or flag is answered by clap with the nearest one that exists, status 2.

mod settings;
mod tools;
mod trying;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use settings::{ProcessArgs, RunOptions, SettingsArgs};
pub use tools::{CompletionsArgs, Drawing, GraphArgs, InitArgs, Lang, ManArgs, SchemaArgs, SchemaOf};
pub use trying::{Report, TestArgs};

use crate::admin::Address;
use crate::show::why::Asked;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use loom_runtime::offsets::MoveTo;

/// More partitions than this are a typing mistake: each costs a queue.
const MAX_PARTITIONS: i64 = 100_000;

const AFTER_HELP: &str = "\
Exit statuses:
  0  done
  1  the flow, or a file that it names, is wrong; a case of `test` failed
  2  usage: a flag or verb that there is not
  3  the flow is right, and its pairing with these plugins or grants is not, or another host or consumer has its group
  4  failed while starting or running
  128 + N  ended by signal N (130 is Ctrl-C)

LOOM_LOG sets what is logged, on standard error: `info` is the default, `plugin=warn,info` lets plugins say less.

Examples:
  loom-host check flow.yaml
  loom-host dev flow.yaml --input orders.jsonl
  loom-host test
  loom-host run flow.yaml -w 4";

const RUN_HELP: &str = "\
The first SIGTERM or SIGINT stops the flow gracefully: intake ends, what is in flight is written, offsets are \
committed, status 0. A second one ends the process at once.

Examples:
  loom-host run flow.yaml
  loom-host run flow.yaml -w 4
  loom-host run flow.yaml --admin 0.0.0.0:7878
  loom-host run flow.yaml --overlay staging.yaml --shutdown-timeout 10s
  loom-host run flow.yaml --from beginning
  loom-host run flow.yaml --from 2026-03-01T12:00:00Z
  KAFKA_BROKERS=kafka:9092 LOOM_LOG=debug loom-host run flow.yaml";

const DEV_HELP: &str = "\
Records go to the flow's first topic. Standard output gets a JSON object for each output record, and in the last \
line the final offsets and the ledger; on a terminal a short line for each, and what the run did. Logs go to standard \
error.

Examples:
  loom-host dev flow.yaml --input orders.jsonl
  head -3 orders.jsonl | loom-host dev flow.yaml --input -
  echo '{\"key\":\"c-1\",\"payload\":{\"total\":12}}' | loom-host dev flow.yaml --input - --envelope
  loom-host dev flow.yaml --input orders.jsonl --partitions 4 -w 2 > outputs.jsonl
  loom-host dev flow.yaml --input orders.jsonl --dry-run | jq 'select(.sink)'
  loom-host dev flow.yaml --input orders.jsonl --watch";

const STATUS_HELP: &str = "\
The flow is asked over HTTP, at its admin server: at --url, at the address in LOOM_ADMIN, or at the one that its file in \
the user's runtime folder names. FLOW is its name, or its YAML file; it may be left out where one flow runs.

Examples:
  loom-host status
  loom-host status orders --watch
  loom-host status flow.yaml
  loom-host status --url http://10.0.0.7:7878 --format json | jq .partitions";

const WHY_HELP: &str = "\
An offset is committed when every record below it is resolved. This names the oldest one that is not: where it is, since \
when, at which attempt, in which plugin, and what would release it. Without a partition it does so of all that are held. \
FLOW is taken as `status` takes it, and may be left out where one flow runs.

Examples:
  loom-host why
  loom-host why orders
  loom-host why orders.in/3
  loom-host why orders orders.in/0 orders.in/1
  loom-host why orders.in/3 --url http://10.0.0.7:7878 --format json";

const OFFSETS_HELP: &str = "\
What the group has at the broker, whether a flow runs or not: the committed offset, the partition's beginning and end, the \
lag, how much of it is still there to be read, who wrote the offset, and how far a replay has come that is not over.

Examples:
  loom-host offsets flow.yaml
  loom-host offsets flow.yaml --format json | jq '.partitions[].lag'
  loom-host offsets reset flow.yaml --to beginning --dry-run";

const RESET_HELP: &str = "\
Moves the group's committed offsets, so that the flow goes on there at its next start. It is refused while a host holds \
the group's lease, or another consumer is in the group.

Examples:
  loom-host offsets reset flow.yaml --to beginning --dry-run
  loom-host offsets reset flow.yaml --to end --yes
  loom-host offsets reset flow.yaml --to 1204 --topic orders.in --partition 3 --yes
  loom-host offsets reset flow.yaml --to 2026-03-01T12:00:00Z --yes";

const CHECK_HELP: &str = "\
Prints every problem at once, with its place and what to do. Status 0 when there are none, or warnings only; 1 otherwise. \
`loom-host explain CODE` says more about a code. A folder stands for the flows in it and below.

Examples:
  loom-host check flow.yaml
  loom-host check flows/ other.yaml --deny-warnings
  loom-host check flow.yaml --require-env
  loom-host check flow.yaml --broker --startup-timeout 5s
  loom-host check flow.yaml --overlay staging.yaml --plan
  loom-host check flow.yaml --no-plugins --format json | jq '.issues[].code'";

const EXPLAIN_HELP: &str = "\
Examples:
  loom-host explain SHAPE_MISMATCH
  loom-host explain --list";

const PLUGIN_HELP: &str = "\
Examples:
  loom-host plugin inspect plugins/enrich.wasm";

const INSPECT_HELP: &str = "\
The component is read, not compiled and not run.

Examples:
  loom-host plugin inspect plugins/enrich.wasm
  loom-host plugin inspect plugins/*.wasm";

/// Runs Kafka flows declared in YAML, with steps in WebAssembly.
#[derive(Debug, Parser)]
#[command(name = "loom-host", version, about, after_help = AFTER_HELP, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// Reads the command line.
///
/// # Errors
/// What is wrong, with the nearest that there is: what is far from what was written is somebody's risk, not help.
pub fn parse() -> Result<Cli, clap::Error> {
    parse_from(std::env::args_os()).map_err(|error| {
        // The error shows what was written, which may have come from anywhere, such as a file's name.
        let line: Vec<String> =
            std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        if !line.iter().any(|argument| argument.contains(loom_types::is_acting)) {
            return error;
        }
        let shown = line.iter().map(|argument| loom_types::printable(argument).into_owned());
        parse_from(shown).err().unwrap_or(error)
    })
}

fn parse_from(line: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line).map_err(|mut error| {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.trim_start_matches('-')),
            _ => None,
        };
        let near = text(ContextKind::InvalidArg).zip(text(ContextKind::SuggestedArg));
        if near.is_some_and(|(written, suggested)| !is_slip(written, suggested)) {
            error.remove(ContextKind::SuggestedArg);
            // It has what was suggested in it.
            error.remove(ContextKind::Usage);
        }
        error
    })
}

/// Whether one is the other with a few letters wrong, or its beginning.
fn is_slip(written: &str, meant: &str) -> bool {
    let slips = strsim::damerau_levenshtein(written, meant);
    slips <= (meant.chars().count() / 3).max(1) || (written.len() > 2 && meant.starts_with(written))
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a flow against Kafka until it is told to stop
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Run a flow on a file of records, without Kafka
    #[command(after_help = DEV_HELP)]
    Dev(DevArgs),
    /// Play cases of a flow: records in, what must come out, and what goes wrong on the way
    #[command(after_help = trying::TEST_HELP)]
    Test(TestArgs),
    /// Say all that is wrong with a flow
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Say what the code of a problem means, with a flow that has it and the flow repaired
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Show what the group has committed, from the broker, or move it
    #[command(after_help = OFFSETS_HELP)]
    Offsets(OffsetsArgs),
    /// Show how a running flow stands
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Say which record holds a partition's offset, and what would release it
    #[command(after_help = WHY_HELP)]
    Why(WhyArgs),
    /// Draw a flow
    #[command(after_help = tools::GRAPH_HELP)]
    Graph(GraphArgs),
    /// Make a folder with a first flow, its tests, and records to try it on
    #[command(after_help = tools::INIT_HELP)]
    Init(InitArgs),
    /// Print the JSON Schema of flow files, or of test files, for editors
    #[command(after_help = tools::SCHEMA_HELP)]
    Schema(SchemaArgs),
    /// Print what completes the command in a shell
    #[command(after_help = tools::COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Print the manual, or write a page for each verb
    #[command(after_help = tools::MAN_HELP)]
    Man(ManArgs),
    /// Look at plugins
    #[command(after_help = PLUGIN_HELP, subcommand_required = true, arg_required_else_help = true)]
    #[command(disable_help_subcommand = true)]
    Plugin {
        #[command(subcommand)]
        verb: PluginVerb,
    },
}

#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// Show a component's roles, imports, size and digest
    #[command(after_help = INSPECT_HELP)]
    Inspect(InspectArgs),
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub flow: PathBuf,
    #[command(flatten)]
    pub options: RunOptions,
}

#[derive(Args, Debug)]
pub struct DevArgs {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub flow: PathBuf,
    /// The records, one a line; `-` is standard input
    #[arg(short, long, value_name = "FILE|-")]
    pub input: PathBuf,
    /// A line is an object with topic, partition, key, headers, timestamp_ms and payload, not a payload alone
    #[arg(long)]
    pub envelope: bool,
    /// Partitions of each input topic; records go there by key, else in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MAX_PARTITIONS))]
    pub partitions: u32,
    /// How long to wait at the end of the input for records that are not resolved
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = settings::duration)]
    pub timeout: Duration,
    /// Run again whenever the flow, an overlay, a component or the input has changed, until it is interrupted
    #[arg(long)]
    pub watch: bool,
    /// Print what sinks would write, as lines with `sink`, and write nothing; plugins reach no network and write to no folder
    #[arg(long)]
    pub dry_run: bool,
    /// In a dry run, let plugins have what the flow grants them; sinks write nothing all the same
    #[arg(long, requires = "dry_run")]
    pub allow_effects: bool,
    #[command(flatten)]
    pub process: ProcessArgs,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Let the run be looked at, as `run` does: an address with a port, a port alone, or `off`
    #[arg(long, value_name = "ADDR|off", value_parser = Address::parse, default_value = "off")]
    pub admin: Address,
}

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct OffsetsArgs {
    /// The flow
    #[arg(value_name = "FLOW", required = true)]
    pub flow: Option<PathBuf>,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
    #[command(subcommand)]
    pub verb: Option<OffsetsVerb>,
}

#[derive(Debug, Subcommand)]
pub enum OffsetsVerb {
    /// Move the group's committed offsets
    #[command(after_help = RESET_HELP)]
    Reset(ResetArgs),
}

#[derive(Args, Debug)]
pub struct ResetArgs {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub flow: PathBuf,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Where to: `beginning`, `end`, an offset, a time, or how long ago
    #[arg(long, value_name = "PLACE", value_parser = crate::offsets::move_to, allow_hyphen_values = true)]
    pub to: MoveTo,
    /// This topic only [default: all of the flow's]
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// This partition only
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    pub partition: Option<i32>,
    /// Show what would be moved, and move nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Move without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The flow: its name, or its file
    #[arg(value_name = "FLOW")]
    pub flow: Option<String>,
    /// The flow, as well
    #[arg(long = "flow", value_name = "FLOW", conflicts_with = "flow")]
    pub named: Option<String>,
    /// Its admin server
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Keep it on screen, until it is interrupted
    #[arg(long)]
    pub watch: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct WhyArgs {
    /// The flow: its name, or its file; and partitions [default: all that are held]
    #[arg(value_name = "FLOW|TOPIC/PARTITION")]
    pub asked: Vec<Asked>,
    /// The flow, as well
    #[arg(long, value_name = "FLOW")]
    pub flow: Option<String>,
    /// Its admin server
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Flows, and folders of flows
    #[arg(value_name = "FLOW|DIR", required = true)]
    pub flows: Vec<PathBuf>,
    /// A variable that the flow names and that is not set is an error, as it is for `run`
    #[arg(long)]
    pub require_env: bool,
    /// Do not look into the plugins' files
    #[arg(long)]
    pub no_plugins: bool,
    /// Ask the brokers too: whether topics are there, rights are as the flow needs them, and nobody else is in its group.
    /// Variables must be set
    #[arg(long)]
    pub broker: bool,
    /// Let warnings be status 1 too
    #[arg(long)]
    pub deny_warnings: bool,
    /// Print the plan, as YAML: every name resolved, every default filled in, secrets out. Problems go to standard error
    #[arg(long, conflicts_with = "format")]
    pub plan: bool,
    /// How to print the problems
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
    // So that one command line serves both; what concerns the process alone is read for its form.
    #[command(flatten, next_help_heading = "Options of `run`")]
    pub options: RunOptions,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// Codes, as `check` prints them
    #[arg(value_name = "CODE", required_unless_present = "list")]
    pub codes: Vec<String>,
    /// List every code
    #[arg(long, conflicts_with = "codes")]
    pub list: bool,
}

#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Components
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Human,
    /// JSON on standard output
    Json,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{CommandFactory, Parser};

    use super::settings::duration;
    use super::{Cli, Verb};

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_has_examples() {
        fn visit(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            assert!(help.contains("Examples:"), "{} has none:\n{help}", command.get_name());
            command.get_subcommands_mut().for_each(visit);
        }
        visit(&mut Cli::command());
    }

    #[test]
    fn examples_of_the_help_parse() {
        fn examples(command: &clap::Command, out: &mut Vec<String>) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let listed = help.split("Examples:").nth(1).unwrap_or_default().lines();
            out.extend(listed.filter(|line| line.contains("loom-host")).map(str::to_owned));
            command.get_subcommands().for_each(|inner| examples(inner, out));
        }
        let mut all = Vec::new();
        examples(&Cli::command(), &mut all);
        assert!(all.len() > 8, "{all:?}");
        for line in all {
            let words = line.split("loom-host ").nth(1).unwrap_or_default();
            let words = words.split(['|', '>']).next().unwrap_or_default().split_whitespace();
            let parsed = Cli::try_parse_from(std::iter::once("loom-host").chain(words));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn every_variable_is_in_the_documentation() {
        fn variables(command: &clap::Command, out: &mut Vec<String>) {
            let named = command.get_arguments().filter_map(|argument| argument.get_env());
            out.extend(named.map(|name| name.to_string_lossy().into_owned()));
            command.get_subcommands().for_each(|inner| variables(inner, out));
        }
        let mut all = Vec::new();
        variables(&Cli::command(), &mut all);
        assert!(all.len() > 5, "{all:?}");
        let page = include_str!("../../../docs/operations.md");
        for name in all {
            assert!(page.contains(&format!("| `{name}` |")), "{name} has no row in the table of settings");
        }
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let parse = |words: &[&str]| Cli::try_parse_from(words).map(|cli| cli.verb);
        let Ok(Verb::Dev(dev)) = parse(&["loom-host", "dev", "f.yaml", "--input", "-"]) else { panic!() };
        assert_eq!((dev.partitions, dev.timeout, dev.envelope), (1, Duration::from_secs(30), false));
        assert_eq!(dev.process.workers_per_process, 1);
        assert!(parse(&["loom-host", "dev", "f.yaml"]).is_err(), "an input is needed");
        assert!(parse(&["loom-host", "run", "f.yaml", "-w", "0"]).is_err());
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("30").is_err_and(|message| message.contains("30s")));
    }
}
