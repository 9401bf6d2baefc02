//! `run`: a flow against Kafka, until it is told to stop or cannot go on.

use std::sync::Arc;

use loom_flow::Mode;
use loom_kafka::Broker;
use loom_kafka::librdkafka::KafkaBroker;
use loom_runtime::{Board, End, Options, Stop, assemble, consumer_settings};

use crate::admin::Address;
use crate::args::RunArgs;
use crate::signals::Signals;
use crate::start::{self, Refusal};
use crate::status::Status;

/// Runs the flow; the status says how it ended.
pub fn run(args: &RunArgs) -> Status {
    try_run(args).unwrap_or_else(Refusal::tell)
}

fn try_run(args: &RunArgs) -> Result<Status, Refusal> {
    let plan = Arc::new(start::plan(&args.flow, Mode::Run)?);
    let stop = Stop::new();
    // To be told to stop before anything ran is a graceful stop too.
    let signals = Signals::listen(|_| Status::Done).map_err(start::no_signals)?;
    let board = Board::new();
    board.names(&plan.name, &plan.consumer.group_id);
    let address = args.admin.unwrap_or(Address::Default);
    let _admin = start::admin(&address, &plan.name, &board)?;
    let plugins = start::plugin_host(&args.process)?;
    let broker = KafkaBroker::new(consumer_settings(&plan)).map_err(|error| start::no_client(&error))?;
    let broker: Arc<dyn Broker> = Arc::new(broker);
    let options = Options {
        workers: usize::from(args.process.workers_per_process),
        end: End::Never,
        board: Some(board),
        from: args.from.unwrap_or_default(),
        take_over: args.take_over,
        ..Options::default()
    };
    let assembled = assemble(plan, broker, &plugins, options, &stop).map_err(Refusal::Assembly)?;
    let outcome = start::run_until_stopped(assembled, &stop, &signals);
    outcome.summary.log();
    Ok(start::status_of(&outcome))
}
