//! `dev`: the same flow, the same runtime, the memory broker: no Kafka is needed.
//!
//! Standard output holds each output record as a JSON object and, last, offsets and ledger; on a terminal a short line for each,
//! and what the run did. The run ends by itself when the input ended and every record is resolved; it ends early when it is
//! told to, or when nobody reads the output. With `--watch` a run is followed by another whenever a file of it has changed.

mod dry;
mod input;
mod origins;
mod output;
mod watch;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use loom_flow::plan::OffsetReset;
use loom_flow::{Mode, Plan};
use loom_kafka::Broker;
use loom_kafka::memory::{MemoryBroker, system_clock};
use loom_plugin::PluginHost;
use loom_runtime::{Board, End, Options, Stop, Summary, assemble, consumer_settings};

use crate::args::DevArgs;
use crate::show::stopped;
use crate::signals::Signals;
use crate::start::{self, Refusal};
use crate::status::Status;
use crate::terminal;
use input::{Input, Target};
use origins::Traced;
use output::{Printer, Rows};
use watch::Watched;

/// Partitions of an output topic: its records are seen in the order they were written.
const OUTPUT_PARTITIONS: i32 = 1;

/// The last line on standard output, for programs.
fn last_line(summary: &Summary) -> String {
    format!("{{\"offsets\":{},\"ledger\":{}}}", summary.offsets(), summary.ledger())
}

/// Runs the flow on the input; the status says how it ended.
pub fn dev(args: &DevArgs) -> Status {
    try_dev(args).unwrap_or_else(Refusal::tell)
}

fn try_dev(args: &DevArgs) -> Result<Status, Refusal> {
    let signals = Signals::listen(Status::Signal).map_err(start::no_signals)?;
    let plugins = start::plugin_host(&args.process)?;
    if !args.watch {
        return run(args, &signals, &plugins, &Stop::new(), &mut Watched::default());
    }
    if args.input == Path::new("-") {
        let message = "--watch reads its input again: it needs a file, not standard input";
        return Err(Refusal::Other(Status::Usage, message.to_owned()));
    }
    watch::again_and_again(&signals, |stop, watched| {
        run(args, &signals, &plugins, stop, watched).unwrap_or_else(Refusal::tell)
    })
}

/// One run. `watched` gets to know what it depends on, as far as that was found out.
fn run(
    args: &DevArgs,
    signals: &Signals,
    plugins: &PluginHost,
    stop: &Stop,
    watched: &mut Watched,
) -> Result<Status, Refusal> {
    watched.note([&args.flow, &args.input].into_iter().chain(&args.settings.overlays));
    let plan = start::plan(&args.flow, &args.settings, Mode::Dev)?;
    watched.note(plan.plugins.iter().map(|plugin| &plugin.component));
    let flow = plan.name.clone();
    Ok(run_plan(plan, args, signals, plugins, stop).unwrap_or_else(|refusal| refusal.tell_stopped(&flow)))
}

fn run_plan(
    mut plan: Plan,
    args: &DevArgs,
    signals: &Signals,
    plugins: &PluginHost,
    stop: &Stop,
) -> Result<Status, Refusal> {
    // No group has been here before, and all of the input is meant.
    plan.consumer.auto_offset_reset = OffsetReset::Earliest;
    // Held until the run is over.
    let _empty_folders = if args.dry_run && !args.allow_effects {
        dry::without_effects(&mut plan).map_err(|error| {
            Refusal::Other(Status::Failed, format!("there is no folder for the plugins: {error}"))
        })?
    } else {
        Vec::new()
    };
    let board = Board::new();
    board.names(&plan.name, &plan.consumer.group_id);
    let admin = start::admin(&args.admin, &plan.name, &board)?;
    let input = open(args, &plan)?;

    let unread = Arc::new(AtomicBool::new(false));
    let gone = {
        let (unread, stop) = (unread.clone(), stop.clone());
        move || {
            unread.store(true, Ordering::Release);
            stop.request();
        }
    };
    let short = terminal::stdout_is_terminal();
    let rows = if short { Rows::Short { width: terminal::width() } } else { Rows::Json };
    let printer = Printer::start(rows, io::stdout(), gone)
        .map_err(|error| Refusal::Other(Status::Failed, format!("cannot print outputs: {error}")))?;
    let broker = broker(args, &plan, input, &printer);
    let client = broker.as_broker(consumer_settings(&plan));
    let client: Arc<dyn Broker> = if short { Arc::new(Traced(client)) } else { Arc::new(client) };
    let options = Options {
        workers: usize::from(args.process.workers_per_process),
        end: End::AtEndOfInput { timeout: args.timeout },
        board: admin.is_some().then_some(board),
        probe: args.dry_run.then(|| dry::probe(printer.sink_lines())),
        ..Options::default()
    };
    let assembled = assemble(Arc::new(plan), client, plugins, options, stop).map_err(Refusal::Assembly)?;
    let outcome = start::run_until_stopped(assembled, stop, signals);

    let mut statuses = vec![start::status_of(&outcome)];
    let end =
        if short { stopped::human(&outcome.summary) } else { format!("{}\n", last_line(&outcome.summary)) };
    if let Err(error) = printer.finish(&end) {
        tracing::error!("cannot write to standard output: {error}");
        statuses.push(Status::Failed);
    } else if unread.load(Ordering::Acquire) {
        statuses.push(Status::UNREAD);
    }
    // A terminal that has read it once need not read it again.
    if !(short && terminal::stderr_is_terminal()) {
        start::tell_end(&outcome.summary);
    }
    statuses.extend(signals.heard().map(Status::Signal));
    Ok(Status::of_several(statuses))
}

/// The input, for the flow's topics.
fn open(args: &DevArgs, plan: &Plan) -> Result<Input, Refusal> {
    let targets = plan.consumer.topics.iter();
    let targets = targets.map(|topic| Target { topic: topic.to_string(), partitions: partitions(args) });
    Input::open(&args.input, args.envelope, targets.collect())
        .map_err(|error| Refusal::Other(Status::Failed, error.to_string()))
}

/// A broker that has all topics of the flow: the inputs are fed, the outputs printed.
fn broker(args: &DevArgs, plan: &Plan, input: Input, printer: &Printer) -> MemoryBroker {
    let broker = MemoryBroker::new(system_clock());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    broker.started_at_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    broker.keep_commits(false);
    let topics: Vec<(&str, i32)> =
        plan.consumer.topics.iter().map(|topic| (&**topic, partitions(args))).collect();
    broker.stream_topics(&topics, Box::new(input));
    let outputs: BTreeSet<&str> = plan.outputs.iter().map(|output| &*output.topic).collect();
    for topic in outputs {
        broker.observe_topic(topic, OUTPUT_PARTITIONS, printer.observer());
    }
    broker
}

fn partitions(args: &DevArgs) -> i32 {
    // The argument's range is checked where it is parsed.
    i32::try_from(args.partitions).unwrap_or(i32::MAX)
}
