//! `run`: a flow against Kafka, until it is told to stop or cannot go on.

use std::sync::Arc;

use loom_flow::{Mode, Plan};
use loom_kafka::Broker;
use loom_kafka::librdkafka::KafkaBroker;
use loom_runtime::{Board, End, Options, Stop, Summary, assemble, consumer_settings};

use crate::admin::Address;
use crate::args::RunArgs;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::start::{self, Refusal};
use crate::status::Status;

/// Runs the flow; the status says how it ended.
pub fn run(args: &RunArgs) -> Status {
    match start::plan(&args.flow, &args.options.settings, Mode::Run) {
        Ok(plan) => {
            let flow = plan.name.clone();
            try_run(args, Arc::new(plan)).unwrap_or_else(|refusal| refusal.tell_stopped(&flow))
        }
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: &RunArgs, plan: Arc<Plan>) -> Result<Status, Refusal> {
    let options = &args.options;
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
    let (flow, request) = (plan.name.clone(), stop.clone());
    signals.starting(move || request.request());
    let assembled = match assemble(plan, broker, &plugins, run, &stop) {
        Ok(assembled) => assembled,
        // Told to stop while it was starting: that is no failure.
        Err(_) if signals.heard().is_some() => {
            start::tell_end(&Summary::not_started(flow));
            return Ok(Status::Done);
        }
        Err(errors) => return Err(Refusal::Assembly(errors)),
    };
    let progress = Progress::start(&shown);
    let outcome = start::run_until_stopped(assembled, &stop, &signals);
    drop(progress);
    start::tell_end(&outcome.summary);
    Ok(start::status_of(&outcome))
}
