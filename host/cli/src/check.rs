//! `check`: everything that files tell of flows, without starting them.

use std::collections::BTreeSet;
use std::path::Path;

use loom_flow::{Code, CompileOptions, Compiled, Issue, Mode, Need, Severity, SourceFile};
use loom_kafka::librdkafka::KafkaBroker;
use loom_runtime::{check_workers, consumer_settings, preflight};
use loom_types::printable;

use crate::args::{CheckArgs, Format};
use crate::flow_file::{self, Layers};
use crate::report;
use crate::status::Status;
use crate::terminal;

/// What was found of one file.
enum Checked {
    Flow(String, Box<Compiled>),
    Unreadable(Box<Issue>),
    /// A file of a folder that is no flow, such as an overlay.
    LeftOut(String),
}

impl Checked {
    fn issues(&self) -> &[Issue] {
        match self {
            Checked::Flow(_, compiled) => &compiled.issues,
            Checked::Unreadable(issue) => std::slice::from_ref(&**issue),
            Checked::LeftOut(_) => &[],
        }
    }
}

/// Prints every problem of every file. Every error is status 1 here, whatever it is for `run`.
pub fn check(args: &CheckArgs) -> Status {
    let checked = all(args);
    let issues: Vec<Issue> = checked.iter().flat_map(Checked::issues).cloned().collect();
    let errors = issues.iter().filter(|issue| issue.severity == Severity::Error).count();
    let denied = args.deny_warnings && errors == 0 && !issues.is_empty();
    let text = match args.format {
        _ if args.plan => {
            terminal::print_error(&beside(&checked, errors, issues.len() - errors, denied));
            plans(&checked)
        }
        Format::Human => {
            human(&checked, errors, issues.len() - errors, denied, terminal::stdout_takes_colour())
        }
        Format::Json => report::json(&issues),
    };
    let exact = args.plan || args.format == Format::Json;
    let printed = if exact { terminal::print_exact(&text) } else { terminal::print(&text) };
    if let Err(error) = printed {
        terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
        return Status::Failed;
    }
    let open = args.plan && without_plan(&checked).count() > 0;
    if open {
        let names: Vec<_> = without_plan(&checked).map(printable).collect();
        let why = "what it is depends on a variable that is not set";
        terminal::print_error(&format!("no plan of {}: {why}\n", names.join(", ")));
    }
    if errors > 0 || denied || open { Status::Flow } else { Status::Done }
}

/// Checks what is named, in its order, and each file once.
fn all(args: &CheckArgs) -> Vec<Checked> {
    let over = match flow_file::overlays(&args.options.settings) {
        Ok(over) => over,
        Err(issue) => return vec![Checked::Unreadable(issue)],
    };
    let mut seen = BTreeSet::new();
    let mut checked = Vec::new();
    for path in &args.flows {
        let (files, in_folder) = match flow_file::flows(path) {
            Ok(Some(files)) => (files, true),
            Ok(None) => (vec![path.clone()], false),
            Err(issue) => {
                checked.push(Checked::Unreadable(issue));
                continue;
            }
        };
        for file in files {
            if seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                checked.push(one(args, &file, &over, in_folder));
            }
        }
    }
    checked
}

fn one(args: &CheckArgs, file: &Path, over: &[SourceFile], in_folder: bool) -> Checked {
    let source = match flow_file::read(file) {
        Ok(source) => source,
        Err(issue) => return Checked::Unreadable(issue),
    };
    if in_folder && !flow_file::is_flow(&source.bytes) {
        return Checked::LeftOut(source.name);
    }
    // Brokers are asked as `run` asks them: with everything resolved.
    let mode = if args.broker { Mode::Run } else { Mode::Check };
    let options = CompileOptions { mode, require_env: args.require_env, plugins: !args.no_plugins };
    let layers = Layers { flow: source, over: over.to_vec() };
    let mut compiled = layers.compile(options);
    suits_workers(&mut compiled, usize::from(args.options.process.workers_per_process));
    if args.broker {
        ask_brokers(&mut compiled);
    }
    Checked::Flow(layers.flow.name, Box::new(compiled))
}

/// Adds what cannot run on this number of workers.
fn suits_workers(compiled: &mut Compiled, workers: usize) {
    let refused = compiled.plan.as_ref().and_then(|plan| check_workers(plan, workers).err());
    for error in refused.into_iter().flatten() {
        let about = error.about.unwrap_or(Need::Group);
        compiled.add(&about, Code::NotAvailable, &error.message, None);
    }
}

/// Adds what the brokers have against a flow that is right by itself.
fn ask_brokers(compiled: &mut Compiled) {
    let Some(plan) = compiled.plan.take() else { return };
    match KafkaBroker::new(consumer_settings(&plan)) {
        Err(error) => {
            let message = format!("the Kafka client cannot be built: {error}");
            compiled.add(&Need::Brokers, Code::BrokerUnreachable, &message, None);
        }
        Ok(broker) => {
            for error in preflight(&plan, &broker) {
                let code = error.code.and_then(|code| Code::parse(code).ok());
                let about = error.about.unwrap_or(Need::Brokers);
                compiled.add(&about, code.unwrap_or(Code::BrokerUnreachable), &error.message, error.hint);
            }
        }
    }
    compiled.plan = Some(plan);
}

/// The files one after the other, and a sum where there are several.
fn human(checked: &[Checked], errors: usize, warnings: usize, denied: bool, colour: bool) -> String {
    let mut text = String::new();
    for (index, one) in checked.iter().enumerate() {
        // A file with problems is a paragraph of its own.
        let quiet = |checked: &Checked| checked.issues().is_empty();
        if index > 0 && !(quiet(one) && quiet(&checked[index - 1])) {
            text.push('\n');
        }
        match one {
            Checked::Flow(name, compiled) => text.push_str(&report::human(compiled, name, colour)),
            Checked::Unreadable(issue) => text.push_str(&report::plain(issue, colour)),
            Checked::LeftOut(name) => {
                let name = printable(name);
                text.push_str(&format!("{name}: left out, it has no `process` and so is no flow\n"));
            }
        }
    }
    let flows = checked.iter().filter(|one| !matches!(one, Checked::LeftOut(_))).count();
    if flows > 1 {
        text.push_str(&format!("\n{flows} files: {}\n", loom_flow::counts(errors, warnings)));
    }
    if denied {
        text.push_str("warnings are refused here (--deny-warnings)\n");
    }
    text
}

/// Flows whose plan is open though nothing is wrong with them.
fn without_plan(checked: &[Checked]) -> impl Iterator<Item = &str> {
    checked.iter().filter_map(|one| match one {
        Checked::Flow(name, compiled) if compiled.plan.is_none() && compiled.errors() == 0 => Some(&**name),
        _ => None,
    })
}

/// The plans of the flows that have one: YAML documents.
fn plans(checked: &[Checked]) -> String {
    let plans: Vec<String> = checked
        .iter()
        .filter_map(|one| match one {
            Checked::Flow(_, compiled) => compiled.plan_text(),
            Checked::Unreadable(_) | Checked::LeftOut(_) => None,
        })
        .collect();
    plans.join("---\n")
}

/// What is wrong, where the plan has standard output; nothing if nothing is.
fn beside(checked: &[Checked], errors: usize, warnings: usize, denied: bool) -> String {
    let colour = terminal::stderr_takes_colour();
    if errors + warnings == 0 { String::new() } else { human(checked, errors, warnings, denied, colour) }
}
