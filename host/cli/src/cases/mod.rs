//! `test`: cases of flows, played on the memory broker with the production runtime, and what came of them held against
//! what was expected.
//!
//! A case is real but for the broker: the flow is compiled as `run` does, its plugins are the components themselves, and
//! workers, commits and error routes are those of production. What goes wrong is scripted from outside: in the broker that
//! the flow sees, and around the calls of plugins. What a flow logs is kept back, and shown where its case fails.

mod align;
mod broker;
mod compare;
mod error_row;
mod fill;
mod fits;
mod life;
mod named;
mod output;
mod records;
mod stage;
mod yaml;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loom_flow::cases::{self, Case, CaseFile, ReadCases};
use loom_flow::plan::OffsetReset;
use loom_flow::{CompileOptions, Issue, Mode, Plan, SourceFile};
use loom_plugin::PluginHost;
use loom_types::printable;

use crate::args::{Report, SettingsArgs, TestArgs};
use crate::flow_file;
use crate::start::{self, Refusal};
use crate::status::Status;
use crate::{hidden, logs, report, terminal};

use output::{Failure, FileOutcome, Outcome};
use stage::Played;

/// Plays the cases and says what came of them. A case that fails is status 1.
pub fn test(args: &TestArgs) -> Status {
    try_test(args).unwrap_or_else(Refusal::tell)
}

fn try_test(args: &TestArgs) -> Result<Status, Refusal> {
    let files = files(&args.paths)?;
    let mut plugins = None;
    let mut played = Vec::new();
    for file in &files {
        let outcome = of_file(args, file, &mut plugins)?;
        // A file whose cases are all left out is not spoken of.
        if !outcome.cases.is_empty() {
            played.push(outcome);
        }
    }
    if played.is_empty() {
        let filter = args.filter.as_deref().unwrap_or_default();
        let message = format!("no case has `{filter}` in its name, of {} files", files.len());
        return Err(Refusal::Other(Status::Flow, message));
    }
    let text = match args.format {
        Report::Human => output::human(&played, terminal::stdout_takes_colour()),
        Report::Junit => output::junit(&played),
        Report::Tap => output::tap(&played),
    };
    let printed = match args.format {
        Report::Human | Report::Tap => terminal::print(&text),
        Report::Junit => terminal::print_exact(&text),
    };
    printed.map_err(|error| {
        Refusal::Other(Status::Failed, format!("cannot write to standard output: {error}"))
    })?;
    let failed = played.iter().flat_map(|file| &file.cases).any(|case| case.failure.is_some());
    Ok(if failed { Status::Flow } else { Status::Done })
}

/// The test files that are named, and those in folders that are.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let told = |issue: Box<Issue>| {
        report::unreadable(&issue);
        Refusal::Flow(Status::Flow)
    };
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths {
        match flow_file::cases(path).map_err(told)? {
            Some(files) => all.extend(files),
            None => all.push(path.clone()),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|file| seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    Ok(all)
}

fn of_file(args: &TestArgs, path: &Path, plugins: &mut Option<PluginHost>) -> Result<FileOutcome, Refusal> {
    let name = path.display().to_string();
    let style = report::style(terminal::stdout_takes_colour());
    let wrong = |text: String| {
        let failure = Some(Failure::Unplayed(text));
        let whole = Outcome { name: "the file".to_owned(), failure, written: false, took: Duration::ZERO };
        FileOutcome { file: path.display().to_string(), cases: vec![whole] }
    };
    let source = match flow_file::read_as("the test file", path) {
        Ok(source) => source,
        Err(issue) => return Ok(wrong(report::plain(&issue, false))),
    };
    let read = if args.write { cases::read_to_fill(&source) } else { cases::read(&source) };
    let Some(file) = &read.file else { return Ok(wrong(read.render(&read.issues, style))) };
    let wanted: Vec<&Case> = file.cases.iter().filter(|case| is_wanted(args, case)).collect();
    if wanted.is_empty() {
        return Ok(FileOutcome { file: name, cases: Vec::new() });
    }
    let plan = match plan(path, file, &read, &args.settings) {
        Ok(plan) => plan,
        Err(text) => return Ok(wrong(text)),
    };
    let plugins = match plugins {
        Some(host) => host,
        None => plugins.insert(start::plugin_host_at(args.cache_dir.clone())?),
    };
    let mut played: Vec<PlayedCase<'_>> = Vec::new();
    for case in wanted {
        played.push(of_case(args, case, &plan, plugins));
    }
    if args.write
        && let Err(text) = write(path, &source, &read, &mut played, &plan)
    {
        return Ok(wrong(text));
    }
    let told = |played: PlayedCase<'_>| {
        if played.outcome.failure.is_some() && !played.logged.is_empty() {
            let PlayedCase { outcome: Outcome { name, .. }, logged, .. } = &played;
            let name = printable(name);
            terminal::print_error(&format!("what the flow logged in `{name}`:\n{logged}"));
        }
        played.outcome
    };
    Ok(FileOutcome { file: name, cases: played.into_iter().map(told).collect() })
}

/// A case with what came of it.
struct PlayedCase<'c> {
    case: &'c Case,
    /// None where it could not be played.
    played: Option<Played>,
    outcome: Outcome,
    logged: String,
}

/// Writes the expectations of those cases that are other than what came of them, and takes what was written for their
/// outcome. The error is what to tell instead of it all.
fn write(
    path: &Path,
    source: &SourceFile,
    read: &ReadCases,
    cases: &mut [PlayedCase<'_>],
    plan: &Plan,
) -> Result<(), String> {
    let wants = |one: &PlayedCase<'_>| one.case.expect.unfilled || one.outcome.failure.is_some();
    let filled = |one: &PlayedCase<'_>| {
        wants(one) && one.played.as_ref().is_some_and(|played| fill::can_be_filled(read, one.case, played))
    };
    let chosen: Vec<(&Case, &Played)> = cases
        .iter()
        .filter(|one| filled(one))
        .filter_map(|one| Some((one.case, one.played.as_ref()?)))
        .collect();
    let Some(text) = fill::filled(read, &chosen, plan) else { return Ok(()) };
    let as_written = SourceFile { bytes: text.clone().into_bytes(), ..source.clone() };
    let again = cases::read(&as_written);
    let unwritten =
        format!("{}: what came of the cases cannot be written; the file is as it was", source.name);
    let style = report::style(terminal::stdout_takes_colour());
    let Some(file) = &again.file else {
        return Err(format!("{unwritten}\n{}", again.render(&again.issues, style)));
    };
    let mark = if source.bytes.starts_with(b"\xef\xbb\xbf") { "\u{feff}" } else { "" };
    std::fs::write(path, format!("{mark}{text}"))
        .map_err(|error| format!("{unwritten}: {}", flow_file::words(&error)))?;
    for one in cases.iter_mut() {
        let now = file.cases.iter().find(|case| case.name.value == one.case.name.value);
        let (Some(now), Some(played)) = (now, &one.played) else { continue };
        one.outcome.written = filled(one);
        // Places in the file have moved.
        one.outcome.failure = differs(&named::with_paths(now, plan), played);
    }
    Ok(())
}

fn differs(case: &Case, played: &Played) -> Option<Failure> {
    let found = compare::compare(case, played);
    (!found.is_empty()).then_some(Failure::Differs(found))
}

fn is_wanted(args: &TestArgs, case: &Case) -> bool {
    args.filter.as_ref().is_none_or(|filter| case.name.value.contains(filter))
}

fn of_case<'c>(args: &TestArgs, case: &'c Case, plan: &Plan, plugins: &PluginHost) -> PlayedCase<'c> {
    let begun = Instant::now();
    let by_path = named::with_paths(case, plan);
    let workers = args.workers_per_process.map(usize::from).or(case.workers).unwrap_or(1);
    logs::keep_back();
    let played = stage::play(&by_path, plan, plugins, workers);
    let logged = logs::kept_back();
    let (played, failure) = match played {
        Ok(played) => {
            let failure = differs(&by_path, &played);
            (Some(played), failure)
        }
        Err(error) => {
            let text = format!("there is no folder for the case's plugins: {error}");
            (None, Some(Failure::Unplayed(text)))
        }
    };
    let outcome = Outcome { name: case.name.value.clone(), failure, written: false, took: begun.elapsed() };
    PlayedCase { case, played, outcome, logged }
}

/// The flow that a test file is about; an error is what to tell instead.
fn plan(path: &Path, file: &CaseFile, read: &ReadCases, settings: &SettingsArgs) -> Result<Plan, String> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flow = match &file.flow {
        Some(named) => dir.join(&named.value),
        None => flow_beside(path, dir),
    };
    let overlays = file.overlays.iter().map(|overlay| dir.join(&overlay.value));
    let settings = SettingsArgs {
        overlays: overlays.chain(settings.overlays.iter().cloned()).collect(),
        source: settings.source.clone(),
        startup_timeout: settings.startup_timeout,
        shutdown_timeout: settings.shutdown_timeout,
    };
    let layers = flow_file::layers(&flow, &settings).map_err(|issue| report::plain(&issue, false))?;
    let mut compiled = layers.compile(CompileOptions { mode: Mode::Dev, require_env: true, plugins: true });
    let plan = compiled.plan.take();
    let shown = if plan.is_some() {
        String::new()
    } else {
        compiled.render(report::style(terminal::stdout_takes_colour()))
    };
    hidden::remember(compiled);
    let mut plan = plan.ok_or(shown)?;
    // No group has been here before, and all of a case's records are meant.
    plan.consumer.auto_offset_reset = OffsetReset::Earliest;
    let issues = fits::issues(read, file, &plan);
    if issues.is_empty() {
        Ok(plan)
    } else {
        Err(read.render(&issues, report::style(terminal::stdout_takes_colour())))
    }
}

/// `orders.test.yaml` is about `orders.yaml`, or else about `flow.yaml`.
fn flow_beside(path: &Path, dir: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = [".test.yaml", ".test.yml"].iter().find_map(|end| {
        let stem = name.strip_suffix(end)?;
        ["yaml", "yml"].map(|kind| dir.join(format!("{stem}.{kind}"))).into_iter().find(|file| file.is_file())
    });
    own.unwrap_or_else(|| dir.join("flow.yaml"))
}
