//! What `run` and `dev` share: from a file to a plan, the plugin host, the run under signals, and how every way of
//! failing is told. On a terminal problems of the flow are shown with its lines; elsewhere each is a line of the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom_flow::{CompileOptions, Mode, Plan};
use loom_kafka::KafkaError;
use loom_plugin::{CacheDir, HostError, HostOptions, PluginHost};
use loom_runtime::{Assembled, AssemblyError, Board, Outcome, Stop, Summary};

use crate::admin::{Address, Admin};
use crate::args::{ProcessArgs, SettingsArgs};
use crate::report;
use crate::show::stopped;
use crate::signals::Signals;
use crate::status::Status;
use crate::{flow_file, hidden, terminal};

/// Why nothing ran.
pub enum Refusal {
    /// The flow is wrong; its problems were told.
    Flow(Status),
    /// It does not fit here, or the broker cannot be had: all reasons.
    Assembly(Vec<AssemblyError>),
    /// One other reason.
    Other(Status, String),
}

impl Refusal {
    /// Says why, and the status.
    pub fn tell(self) -> Status {
        match self {
            Refusal::Flow(status) => status,
            Refusal::Assembly(errors) => {
                report::at_start(&errors);
                Status::of_several(errors.iter().map(|error| error.status.into()))
            }
            Refusal::Other(status, message) => {
                report::refusal(None, &message);
                status
            }
        }
    }

    /// The same of a flow whose start had begun: it is told to have stopped, as after a run.
    pub fn tell_stopped(self, flow: &Arc<str>) -> Status {
        let status = self.tell();
        tell_end(&Summary::not_started(flow.clone()));
        status
    }
}

/// Compiles the flow that is to run and tells its problems, warnings too.
///
/// # Errors
/// It has errors.
pub fn plan(path: &Path, settings: &SettingsArgs, mode: Mode) -> Result<Plan, Refusal> {
    compiled(path, settings, mode, true)
}

/// Compiles a flow that is asked about, not run: nobody wants its warnings now.
///
/// # Errors
/// It has errors; they are told.
pub fn plan_quietly(path: &Path, settings: &SettingsArgs, mode: Mode) -> Result<Plan, Refusal> {
    compiled(path, settings, mode, false)
}

fn compiled(path: &Path, settings: &SettingsArgs, mode: Mode, warns: bool) -> Result<Plan, Refusal> {
    let layers = match flow_file::layers(path, settings) {
        Ok(layers) => layers,
        Err(issue) => {
            report::unreadable(&issue);
            return Err(Refusal::Flow(Status::Flow));
        }
    };
    let options = CompileOptions { mode, require_env: true, plugins: true };
    let mut compiled = layers.compile(options);
    if warns || compiled.plan.is_none() {
        report::issues(&compiled);
    }
    let blame = compiled.blame().map_or(Status::Flow, Status::from);
    let plan = compiled.plan.take();
    hidden::remember(compiled);
    plan.ok_or(Refusal::Flow(blame))
}

/// The engine that runs plugins.
///
/// # Errors
/// It cannot be built here.
pub fn plugin_host(args: &ProcessArgs) -> Result<PluginHost, Refusal> {
    plugin_host_at(args.cache_dir.clone())
}

/// The same with the folder of compiled plugins alone.
///
/// # Errors
/// It cannot be built here.
pub fn plugin_host_at(cache_dir: Option<PathBuf>) -> Result<PluginHost, Refusal> {
    let cache_dir = cache_dir.map_or(CacheDir::Default, CacheDir::At);
    PluginHost::new(HostOptions { cache_dir })
        .map_err(|error: HostError| Refusal::Other(Status::Failed, error.to_string()))
}

/// The server that lets the flow be looked at, where it is wanted; it ends with what is returned.
///
/// # Errors
/// It cannot listen where it should.
pub fn admin(address: &Address, flow: &str, board: &Board) -> Result<Option<Admin>, Refusal> {
    Admin::start(address, flow, board.clone()).map_err(|message| Refusal::Other(Status::Failed, message))
}

/// The system takes no signal handlers from us.
pub fn no_signals(error: io::Error) -> Refusal {
    Refusal::Other(Status::Failed, format!("cannot listen to signals: {error}"))
}

/// The Kafka client cannot be built.
pub fn no_client(error: &KafkaError) -> Refusal {
    Refusal::Other(Status::Failed, format!("the Kafka client cannot be built: {error}"))
}

/// Runs to the end; the first signal asks for the graceful stop. Failures are told.
pub fn run_until_stopped(assembled: Assembled, stop: &Stop, signals: &Signals) -> Outcome {
    let request = stop.clone();
    signals.running(move || request.request());
    let outcome = assembled.run();
    for failure in &outcome.failures {
        tracing::error!("{}", failure.message);
    }
    outcome
}

/// Tells what the run did: on a terminal in a few lines, elsewhere in the log's last line.
pub fn tell_end(summary: &Summary) {
    if !terminal::stderr_is_terminal() {
        summary.log();
    } else if tracing::enabled!(tracing::Level::INFO) {
        terminal::print_error(&stopped::human(summary));
    }
}

/// The status of a run that ended.
pub fn status_of(outcome: &Outcome) -> Status {
    Status::of_several(outcome.failures.iter().map(|failure| failure.status.into()))
}
