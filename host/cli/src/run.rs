//! `run`: a flow against Kafka, until it is told to stop or cannot go on.

use std::sync::Arc;

use loom_flow::Mode;
use loom_kafka::Broker;
use loom_kafka::librdkafka::KafkaBroker;
use loom_runtime::{Board, End, Options, Stop, assemble, consumer_settings};

use crate::admin::Address;
use crate::args::RunArgs;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::start::{self, Refusal};
use crate::status::Status;

/// Runs the flow; the status says how it ended.
pub fn run(args: &RunArgs) -> Status {
    try_run(args).unwrap_or_else(Refusal::tell)
}

fn try_run(args: &RunArgs) -> Result<Status, Refusal> {
    let options = &args.options;
    let plan = Arc::new(start::plan(&args.flow, &options.settings, Mode::Run)?);
    let stop = Stop::new();
    // To be told to stop before anything ran is a graceful stop too.
    let signals = Signals::listen(|_| Status::Done).map_err(start::no_signals)?;
    let board = Board::new();
    board.names(&plan.name, &plan.consumer.group_id);
    let address = options.admin.unwrap_or(Address::Default);
    let _admin = start::admin(&address, &plan.name, &board)?;
    let plugins = start::plugin_host(&options.process)?;
    let broker = KafkaBroker::new(consumer_settings(&plan)).map_err(|error| start::no_client(&error))?;
    let broker: Arc<dyn Broker> = Arc::new(broker);
    let shown = board.clone();
    let run = Options {
        workers: usize::from(options.process.workers_per_process),
        end: End::Never,
        board: Some(board),
        from: options.from.unwrap_or_default(),
        take_over: options.take_over,
        ..Options::default()
    };
    let assembled = assemble(plan, broker, &plugins, run, &stop).map_err(Refusal::Assembly)?;
    let progress = Progress::start(&shown);
    let outcome = start::run_until_stopped(assembled, &stop, &signals);
    drop(progress);
    start::tell_end(&outcome);
    Ok(start::status_of(&outcome))
}
