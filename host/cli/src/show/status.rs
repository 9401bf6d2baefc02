//! `status`: how a running flow stands, once or again and again.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::Duration;

use loom_runtime::FlowStatus;
use loom_runtime::status::{NodeStatus, PartitionStatus, WORKER_SILENT_MS, label, long};
use loom_types::{Ending, ErrorKind, printable, printable_lines};

use super::table::{Side, count, known, number, table};
use super::{print_exact, print_on, stale, tell};
use crate::admin::client;
use crate::args::{Format, StatusArgs};
use crate::progress::per_second;
use crate::status::Status;

/// How often a status that is watched is asked for.
const EVERY: Duration = Duration::from_secs(2);

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Prints the status; with `--watch` until it is interrupted, or the flow is gone.
pub fn status(args: &StatusArgs) -> Status {
    let flow = args.flow.as_deref().or(args.named.as_deref());
    let meant = match client::find(flow, args.url.as_deref()) {
        Ok(meant) => meant,
        Err(unanswered) => return tell(&unanswered),
    };
    loop {
        let (document, json) = match client::status(&meant) {
            Ok(answer) => answer,
            Err(unanswered) => return tell(&unanswered),
        };
        let text = match args.format {
            Format::Json => json,
            Format::Human => printable_lines(&human(&document)).into_owned(),
        };
        let clear = args.watch && args.format == Format::Human && std::io::stdout().is_terminal();
        if !args.watch {
            return print_exact(&text);
        }
        if let Err(ended) = print_on(&if clear { format!("{CLEAR}{text}") } else { text }) {
            return ended;
        }
        std::thread::sleep(EVERY);
    }
}

/// The status for people.
pub fn human(status: &FlowStatus) -> String {
    let mut out = String::new();
    let ready = if status.ready { "ready" } else { "not ready" };
    if status.dropped.rows > 0 {
        out.push_str(&dropped(status));
    }
    let _ = writeln!(
        out,
        "{} · group {} · {} for {} · {ready}",
        printable(&status.flow),
        printable(&status.group),
        status.phase,
        long(status.uptime_ms)
    );
    for reason in &status.reasons {
        let _ = writeln!(out, "  {}: {}", printable(&reason.kind), printable(&reason.text));
    }
    for (kind, note) in &status.notes {
        let _ = writeln!(out, "  {}: {}", printable(kind), printable(note));
    }
    for worker in &status.workers {
        // From ten seconds on it is a reason, above.
        if let Some(why) = stale(worker).filter(|_| worker.age_ms < WORKER_SILENT_MS) {
            let _ = writeln!(out, "  worker {} {}", worker.worker, printable(&why));
        }
    }
    if let Some(error) = status.client_errors.first() {
        let _ = writeln!(out, "  last client error, {} ago: {}", long(error.age_ms), printable(&error.text));
    }
    section(&mut out, &partitions(status));
    section(&mut out, &nodes(status));
    section(&mut out, &outputs(status));
    section(&mut out, &plugins(status));
    section(&mut out, &counts(status));
    out
}

/// How many rows were dropped, and of which kinds.
fn dropped(status: &FlowStatus) -> String {
    let kinds = ErrorKind::ALL.iter().filter_map(|kind| {
        let rows = *status.ledger.ended.get(Ending::Dropped(*kind).name())?;
        (rows > 0).then(|| format!("{kind} {}", count(rows)))
    });
    let kinds: Vec<String> = kinds.collect();
    let lately = match (status.dropped.lately, &status.dropped.bound) {
        (Some(lately), Some(bound)) => {
            format!("; {} of late, and `errors.max_dropped` allows {}", count(lately), printable(bound))
        }
        _ => String::new(),
    };
    let rows = if status.dropped.rows == 1 { "row" } else { "rows" };
    format!(
        "{} {rows} dropped: no route takes their errors ({}){lately}\n",
        count(status.dropped.rows),
        kinds.join(", ")
    )
}

fn section(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push('\n');
        out.push_str(text);
    }
}

fn partitions(status: &FlowStatus) -> String {
    let rows: Vec<Vec<String>> = status.partitions.iter().map(partition).collect();
    let headings = [
        ("PARTITION", Side::Left),
        ("POSITION", Side::Right),
        ("COMMITTED", Side::Right),
        ("END", Side::Right),
        ("LAG", Side::Right),
        ("OPEN", Side::Right),
        ("INTAKE", Side::Left),
        ("OLDEST UNRESOLVED", Side::Left),
    ];
    table(&headings, &rows)
}

fn partition(partition: &PartitionStatus) -> Vec<String> {
    let intake = if partition.stalled.is_some() { "STALLED" } else { partition.intake.name() };
    let oldest = partition.oldest.as_ref().map(|oldest| {
        let place = oldest.places.first().map_or_else(String::new, |place| {
            let attempt =
                if place.attempt > 1 { format!(", attempt {}", place.attempt) } else { String::new() };
            format!(" at {}{attempt}", label(&place.node, place.name.as_deref()))
        });
        format!("{} for {}{place}", oldest.offset, long(oldest.age_ms))
    });
    vec![
        format!("{}/{}", partition.topic, partition.partition),
        number(partition.position),
        known(partition.committed),
        known(partition.end),
        known(partition.lag),
        count(partition.outstanding_records),
        intake.to_owned(),
        oldest.unwrap_or_default(),
    ]
}

fn nodes(status: &FlowStatus) -> String {
    let rows: Vec<Vec<String>> = status.nodes.iter().map(node).collect();
    let headings = [
        ("NODE", Side::Left),
        ("PLUGIN", Side::Left),
        ("ROWS", Side::Right),
        ("FAILED", Side::Right),
        ("RETRIES", Side::Right),
        ("WAITING", Side::Right),
        ("", Side::Left),
    ];
    table(&headings, &rows)
}

fn node(node: &NodeStatus) -> Vec<String> {
    let plugin = node.plugin.as_ref().map_or_else(|| node.kind.clone(), |plugin| plugin.name.clone());
    let mut remarks = Vec::new();
    if node.breaker.is_some_and(|breaker| breaker.open > 0) {
        remarks.push("breaker open".to_owned());
    }
    if let Some(sink) = node.sink.filter(|sink| sink.open > 0) {
        remarks.push(format!("{} rows not completed", count(sink.open)));
    }
    vec![
        label(&node.node, node.name.as_deref()),
        plugin,
        count(node.rows),
        count(node.errors.values().sum()),
        count(node.retries),
        count(node.waiting),
        remarks.join(", "),
    ]
}

fn outputs(status: &FlowStatus) -> String {
    let rows: Vec<Vec<String>> = status
        .outputs
        .iter()
        .map(|output| {
            let waits = output.waiting_ms.map(|ms| format!("no answer for {}", long(ms)));
            let old = (output.past_retention > 0)
                .then(|| format!("{} older than the topic keeps", count(output.past_retention)));
            vec![
                output.topic.clone(),
                count(output.acknowledged),
                count(output.in_flight),
                count(output.pending),
                count(output.refused),
                count(output.resent),
                waits.into_iter().chain(old).collect::<Vec<_>>().join(", "),
            ]
        })
        .collect();
    let headings = [
        ("TOPIC", Side::Left),
        ("WRITTEN", Side::Right),
        ("IN FLIGHT", Side::Right),
        ("PENDING", Side::Right),
        ("REFUSED", Side::Right),
        ("AGAIN", Side::Right),
        ("", Side::Left),
    ];
    table(&headings, &rows)
}

fn plugins(status: &FlowStatus) -> String {
    let rows: Vec<Vec<String>> = status
        .plugins
        .iter()
        .map(|plugin| vec![plugin.name.clone(), short(&plugin.digest), plugin.file.clone()])
        .collect();
    table(&[("PLUGIN", Side::Left), ("SHA-256", Side::Left), ("FILE", Side::Left)], &rows)
}

fn counts(status: &FlowStatus) -> String {
    let ledger = &status.ledger;
    let ended: Vec<String> = (ledger.ended.iter())
        .filter(|(_, rows)| **rows > 0)
        .map(|(ending, rows)| format!("{} {}", printable(ending), count(*rows)))
        .collect();
    let mut out = format!(
        "records: {} read, {} resolved, {} open, {} tombstones skipped\n",
        count(ledger.registered),
        count(ledger.resolved),
        count(ledger.outstanding),
        count(ledger.skipped)
    );
    if let Some(rates) = &status.rates {
        let (read, resolved) = (per_second(rates.read), per_second(rates.resolved));
        let _ = writeln!(
            out,
            "rates: {read} records/s read, {resolved}/s resolved, over the last {}",
            long(rates.over_ms)
        );
    }
    let ended = if ended.is_empty() { "none yet".to_owned() } else { ended.join(", ") };
    let _ = writeln!(out, "rows ended: {ended}");
    let commits = &status.commits;
    let failing = match (commits.failing_ms, &commits.last_error) {
        (Some(ms), Some(error)) => format!(", failing for {}: {}", long(ms), printable(error)),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "commits: {} sent, {} failed{failing}",
        count(commits.requests),
        count(commits.failures)
    );
    out
}

/// The first characters of a digest: enough to tell two apart.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
