//! The end of a run for people: what the line `stopped` says in a few lines.

use std::fmt::Write as _;

use loom_runtime::Summary;
use loom_types::{Ending, ErrorKind, printable};

use super::table::{count, number};

/// What a run did. What did not happen is left out, but for what everyone looks for.
pub fn human(summary: &Summary) -> String {
    let (ledger, counters) = (&summary.ledger, &summary.counters);
    let mut out = String::new();
    if counters.dropped > 0 {
        let kinds = ErrorKind::ALL.iter().filter_map(|kind| {
            let rows = ledger.ended(Ending::Dropped(*kind));
            (rows > 0).then(|| format!("{kind} {}", count(rows)))
        });
        let kinds: Vec<String> = kinds.collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        let rows = if counters.dropped == 1 { "row" } else { "rows" };
        let _ =
            writeln!(out, "{} {rows} dropped: no route takes their errors{kinds}", count(counters.dropped));
    }
    let _ = writeln!(
        out,
        "stopped {}: {} records read, {} resolved, {} open, {} tombstones skipped",
        printable(&summary.flow),
        count(ledger.registered),
        count(ledger.resolved),
        count(ledger.outstanding),
        count(ledger.skipped)
    );
    let ended = Ending::ALL.iter().filter(|ending| ledger.ended(**ending) > 0);
    let ended: Vec<String> =
        ended.map(|ending| format!("{} {}", ending.name(), count(ledger.ended(*ending)))).collect();
    if !ended.is_empty() {
        let _ = writeln!(out, "  rows ended: {}", ended.join(", "));
    }
    for ((node, kind), rows) in &counters.errors {
        let _ = writeln!(out, "  {} failed at {}: {kind}", count(*rows), printable(node));
    }
    for partition in &summary.partitions {
        let name = partition.partition.to_string();
        let committed = partition.committed.map_or_else(
            || "nothing committed".to_owned(),
            |offset| format!("committed {}", number(offset.0)),
        );
        let open = match partition.outstanding {
            0 => String::new(),
            open => format!(", {} open", count(open)),
        };
        let position = number(partition.position.0);
        let _ = writeln!(out, "  {}: {committed}, position {position}{open}", printable(&name));
    }
    for (place, rows) in &summary.held {
        let _ = writeln!(out, "  {} rows waited at {}", count(*rows as u64), printable(place));
    }
    let others = [
        ("retries", counters.retries),
        ("commits that failed", counters.commit_failures),
        ("partitions added", counters.partitions_added),
        ("violations of sinks", counters.violations),
        ("restarts in place", counters.restarts),
        ("tokens lost", summary.lost_tokens),
    ];
    let others: Vec<String> = (others.iter().filter(|(_, times)| *times > 0))
        .map(|(what, times)| format!("{what} {}", count(*times)))
        .collect();
    if !others.is_empty() {
        let _ = writeln!(out, "  {}", others.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_runtime::{Counters, PartitionSummary, Summary};
    use loom_types::{CommitOffset, ErrorKind, TopicPartition};

    use super::human;

    #[test]
    fn a_run_is_a_few_lines_and_what_was_dropped_comes_first() {
        let partition = PartitionSummary {
            partition: TopicPartition::new("in", 0),
            position: CommitOffset(1400),
            committed: Some(CommitOffset(1399)),
            outstanding: 1,
            oldest: None,
            ledger: Default::default(),
        };
        let mut counters = Counters { retries: 3, dropped: 1200, ..Counters::default() };
        counters.errors.insert((Arc::from("process[0]"), ErrorKind::Task), 1200);
        let summary = Summary {
            flow: "orders".into(),
            partitions: vec![partition],
            held: vec![("process[0] (plugin s)".to_owned(), 1)],
            counters,
            ..Summary::default()
        };
        assert_eq!(
            human(&summary),
            "1,200 rows dropped: no route takes their errors
stopped orders: 0 records read, 0 resolved, 0 open, 0 tombstones skipped
  1,200 failed at process[0]: task
  in/0: committed 1,399, position 1,400, 1 open
  1 rows waited at process[0] (plugin s)
  retries 3
"
        );
    }
}
