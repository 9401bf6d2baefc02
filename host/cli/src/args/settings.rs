//! Settings that several verbs take: of the process that runs a flow, and of the flow itself.
//!
//! A flag goes before its variable, a variable before the overlays, and those before the flow's file. What a flag or
//! variable sets of a flow is laid over it as one more overlay, so there is one way in which a setting changes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use loom_flow::SourceFile;
use loom_runtime::StartFrom;
use serde_json::{Value, json};

use crate::admin::Address;

/// More workers than this are a typing mistake, not a machine.
pub(super) const MAX_WORKERS: i64 = 1024;

/// What `run` takes beside the flow.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Where to read from, instead of where the group stands: `committed`, `beginning`, `end`, or a time (RFC 3339,
    /// milliseconds since 1970, or how long ago: `2h`). Nothing below the committed offsets is committed
    #[arg(long, value_name = "PLACE", value_parser = crate::from::from)]
    pub from: Option<StartFrom>,
    /// Take the group's partitions over from a host that runs, which then stops
    #[arg(long)]
    pub take_over: bool,
    #[command(flatten)]
    pub process: ProcessArgs,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Where the admin server listens: an address with a port, a port alone, or `off` [default: 127.0.0.1:7878, or a free
    /// port where that is taken]
    #[arg(long, value_name = "ADDR|off", value_parser = Address::parse)]
    #[arg(env = "LOOM_ADMIN_ADDRESS", hide_env_values = true)]
    pub admin: Option<Address>,
}

/// What both ways of running a flow take.
#[derive(Args, Debug)]
pub struct ProcessArgs {
    /// Worker threads; each owns its share of the partitions
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS))]
    #[arg(env = "LOOM_WORKERS_PER_PROCESS", hide_env_values = true)]
    pub workers_per_process: u16,
    /// Where compiled plugins are kept [default: loom-host in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "LOOM_CACHE_DIR", hide_env_values = true)]
    pub cache_dir: Option<PathBuf>,
}

/// What changes a flow from outside of its file.
#[derive(Args, Debug, Default)]
pub struct SettingsArgs {
    /// A file to lay over the flow: mappings merge by key, lists are replaced, `null` deletes. May be given several times,
    /// the later over the earlier
    #[arg(long = "overlay", value_name = "FILE")]
    pub overlays: Vec<PathBuf>,
    /// The consumer that the flow reads, before `source`
    #[arg(long, value_name = "NAME", env = "LOOM_SOURCE", hide_env_values = true)]
    pub source: Option<String>,
    /// How long to try to reach the brokers, before `runtime.startup_timeout`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[arg(env = "LOOM_STARTUP_TIMEOUT", hide_env_values = true)]
    pub startup_timeout: Option<Duration>,
    /// How long a graceful stop may take, before `runtime.shutdown_timeout`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[arg(env = "LOOM_SHUTDOWN_TIMEOUT", hide_env_values = true)]
    pub shutdown_timeout: Option<Duration>,
}

impl SettingsArgs {
    /// What flags and variables set of a flow, each as an overlay with a name that issues can point at.
    pub fn layers(&self) -> Vec<SourceFile> {
        let time = |time: &Duration| json!(humantime::format_duration(*time).to_string());
        let runtime = |key: &str, value: Value| json!({ "runtime": { key: value } });
        let settings = [
            ("--source or LOOM_SOURCE", self.source.as_ref().map(|name| json!({ "source": name }))),
            (
                "--startup-timeout or LOOM_STARTUP_TIMEOUT",
                self.startup_timeout.as_ref().map(|value| runtime("startup_timeout", time(value))),
            ),
            (
                "--shutdown-timeout or LOOM_SHUTDOWN_TIMEOUT",
                self.shutdown_timeout.as_ref().map(|value| runtime("shutdown_timeout", time(value))),
            ),
        ];
        let layer = |(name, value): (&str, Option<Value>)| {
            // JSON is YAML.
            let bytes = value?.to_string().into_bytes();
            Some(SourceFile { name: name.to_owned(), bytes, dir: PathBuf::new() })
        };
        settings.into_iter().filter_map(layer).collect()
    }
}

/// A length of time as the flow language writes it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 500ms, 30s or 2m"))?;
    if time.is_zero() { Err("it must be above zero".to_owned()) } else { Ok(time) }
}
