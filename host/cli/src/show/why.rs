//! `why`: which record holds a partition's watermark, where it is, since when, and what would release it.

use std::fmt::Write as _;
use std::str::FromStr;

use loom_runtime::FlowStatus;
use loom_runtime::status::{Intake, PartitionStatus, RunPhase, WorkerInfo, label, long};
use loom_types::printable;

use super::status::short;
use super::table::{count, number};
use super::{print, print_exact, stale, tell};
use crate::admin::client::{self, Unanswered};
use crate::args::{Format, WhyArgs};
use crate::status::Status;

/// A partition, as people write it: `TOPIC/PARTITION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionName {
    pub topic: String,
    pub partition: i32,
}

/// What `why` is asked about: a flow, as `status` takes it, or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Flow(String),
    Partition(PartitionName),
}

impl FromStr for Asked {
    type Err = String;

    /// What ends with a number behind a slash is a partition; all else is a flow, by its name or its file.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.rsplit_once('/').and_then(|(topic, partition)| {
            let partition = partition.parse().ok().filter(|number| *number >= 0)?;
            (!topic.is_empty()).then(|| PartitionName { topic: topic.to_owned(), partition })
        });
        match named {
            Some(name) => Ok(Asked::Partition(name)),
            None if text.is_empty() => Err("name a flow, or a partition such as orders.in/3".to_owned()),
            None => Ok(Asked::Flow(text.to_owned())),
        }
    }
}

/// The flow and the partitions that are meant.
fn meant(args: &WhyArgs) -> Result<(Option<&str>, Vec<&PartitionName>), Unanswered> {
    let (mut flow, mut partitions) = (args.flow.as_deref(), Vec::new());
    for asked in &args.asked {
        match asked {
            Asked::Partition(name) => partitions.push(name),
            Asked::Flow(name) if flow.is_none() => flow = Some(name),
            Asked::Flow(name) => {
                let flow = flow.unwrap_or_default();
                let message = format!(
                    "both {flow} and {name} stand for a flow, and one is asked; a partition is written TOPIC/PARTITION, \
                     such as orders.in/3"
                );
                return Err(Unanswered { status: Status::Usage, message });
            }
        }
    }
    Ok((flow, partitions))
}

/// A record that was read so long ago holds its partition; younger ones are on their way.
const HELD_MS: u64 = 1000;

/// Whether a partition does not go on as it should: it stands still, waits, or has a record that is old.
fn is_held(answer: &Answer) -> bool {
    let Answer { partition, worker } = answer;
    let waits = matches!(partition.intake, Intake::Held | Intake::Bounded | Intake::Starting);
    let old = partition.oldest.as_ref().is_some_and(|oldest| oldest.age_ms >= HELD_MS);
    waits || old || partition.stalled.is_some() || worker.as_ref().and_then(stale).is_some()
}

/// What is known of a partition, and of the worker that said so.
#[derive(serde::Serialize)]
struct Answer {
    #[serde(flatten)]
    partition: PartitionStatus,
    #[serde(rename = "said_by")]
    worker: Option<WorkerInfo>,
}

/// Prints why each of these partitions' offsets stand where they do; where none is named, of all that are held.
pub fn why(args: &WhyArgs) -> Status {
    let (document, found) = match answers(args) {
        Ok(found) => found,
        Err(unanswered) => return tell(&unanswered),
    };
    match args.format {
        Format::Human if found.is_empty() => print(&nothing_held(&document)),
        Format::Human => print(&found.iter().map(human).collect::<Vec<_>>().join("\n")),
        Format::Json => match serde_json::to_string(&found) {
            Ok(json) => print_exact(&(json + "\n")),
            Err(error) => tell(&Unanswered { status: Status::Failed, message: error.to_string() }),
        },
    }
}

fn answers(args: &WhyArgs) -> Result<(FlowStatus, Vec<Answer>), Unanswered> {
    let (flow, partitions) = meant(args)?;
    let mistaken = |unanswered: Unanswered| {
        let message = match (flow, &args.flow) {
            (Some(_), None) => {
                format!("{}; a partition is written TOPIC/PARTITION, such as orders.in/3", unanswered.message)
            }
            _ => unanswered.message,
        };
        Unanswered { message, ..unanswered }
    };
    let found = client::find(flow, args.url.as_deref()).map_err(mistaken)?;
    let (document, _) = client::status(&found)?;
    let answer = |partition: &PartitionStatus| {
        let worker = document.workers.iter().find(|worker| worker.worker == partition.worker).cloned();
        Answer { partition: partition.clone(), worker }
    };
    let found = if partitions.is_empty() {
        document.partitions.iter().map(answer).filter(is_held).collect()
    } else {
        let found = partitions.into_iter().map(|name| find(&document, name).map(answer));
        found.collect::<Result<Vec<_>, _>>()?
    };
    Ok((document, found))
}

/// Of a flow all of whose partitions go on.
fn nothing_held(document: &FlowStatus) -> String {
    let partitions = document.partitions.len();
    let all = match (document.phase, partitions) {
        (RunPhase::Running, 1) => "its partition goes on".to_owned(),
        (RunPhase::Running, _) => format!("all {partitions} partitions go on"),
        (phase, _) => format!("it is {phase}"),
    };
    format!("nothing is held in {}: {all}\n", printable(&document.flow))
}

fn find<'a>(status: &'a FlowStatus, name: &PartitionName) -> Result<&'a PartitionStatus, Unanswered> {
    let is_it =
        |partition: &&PartitionStatus| partition.topic == name.topic && partition.partition == name.partition;
    status.partitions.iter().find(is_it).ok_or_else(|| {
        let mut topics: Vec<(&str, usize)> = Vec::new();
        for partition in &status.partitions {
            match topics.last_mut().filter(|(topic, _)| *topic == partition.topic) {
                Some((_, partitions)) => *partitions += 1,
                None => topics.push((&partition.topic, 1)),
            }
        }
        let list: Vec<String> = topics
            .iter()
            .map(|(topic, partitions)| {
                let word = if *partitions == 1 { "partition" } else { "partitions" };
                format!("{topic} ({partitions} {word})")
            })
            .collect();
        let reads = if list.is_empty() { "nothing yet".to_owned() } else { list.join(", ") };
        Unanswered {
            status: Status::Usage,
            message: format!(
                "{} does not read {}/{} in this process; it reads {reads}",
                status.flow, name.topic, name.partition
            ),
        }
    })
}

/// For people. Of a worker that has not answered nobody knows more than it said last: a record that it took since is in
/// the call that keeps it, or behind it.
fn human(answer: &Answer) -> String {
    let Answer { partition, worker } = answer;
    let place = format!("{}/{}", printable(&partition.topic), partition.partition);
    let mut out = String::new();
    let silent = worker.as_ref().and_then(|worker| Some((worker, stale(worker)?)));
    if let Some((worker, why)) = &silent {
        let age = long(worker.age_ms);
        let _ = writeln!(out, "{place}: its worker {} {}", worker.worker, printable(why));
        let _ = writeln!(out, "  what holds the offset may be in that call; {age} ago it stood so:");
    }
    if let Some(stalled) = &partition.stalled {
        let since = long(stalled.for_ms);
        let cause = printable(&stalled.cause);
        let _ = writeln!(out, "{place} is stalled at offset {} for {since}: {cause}", stalled.offset);
    }
    match &partition.oldest {
        None => {
            let upto = number(partition.position);
            let (holds, is) = if silent.is_some() { ("held", "was") } else { ("holds", "is") };
            let _ = writeln!(
                out,
                "{place}: nothing {holds} the watermark; every record below {upto} {is} resolved"
            );
        }
        Some(oldest) => {
            let _ = writeln!(
                out,
                "{place}: offset {} holds the watermark; it was read {} {}",
                oldest.offset,
                long(oldest.age_ms),
                if silent.is_some() { "before that" } else { "ago" }
            );
            for place in &oldest.places {
                let plugin = place.plugin.as_ref().map_or_else(String::new, |plugin| {
                    format!(
                        " (plugin {}, sha256 {})",
                        printable(&plugin.name),
                        printable(&short(&plugin.digest))
                    )
                });
                let rows =
                    if place.rows == 1 { String::new() } else { format!("{} rows ", count(place.rows)) };
                let node = label(&place.node, place.name.as_deref());
                let node = printable(&node);
                let _ = writeln!(out, "  {rows}at {node}{plugin}, attempt {}", place.attempt);
                if let Some(answer) = &place.answer {
                    let _ = writeln!(out, "  why it waits: {}", printable(answer));
                }
                let _ = writeln!(out, "  what releases it: {}", printable(&place.release.to_string()));
            }
            if oldest.places.is_empty() {
                let _ = writeln!(out, "  it is being processed at this moment");
            }
        }
    }
    let committed = partition
        .committed
        .map_or_else(|| "nothing is committed".to_owned(), |offset| format!("committed {}", number(offset)));
    let lag = partition.lag.map_or_else(String::new, |lag| format!(", lag {}", number(lag)));
    let _ = writeln!(
        out,
        "  {committed}, position {}{lag}; {} open records; {}",
        number(partition.position),
        count(partition.outstanding_records),
        intake(partition.intake)
    );
    out
}

fn intake(intake: Intake) -> &'static str {
    match intake {
        Intake::Open => "it is read as records come",
        Intake::AtEnd => "it was read to its end",
        Intake::Held => "nothing more is read from it while rows of it wait",
        Intake::Bounded => {
            "nothing more is read from it: so much of it is open as `runtime.max_outstanding` allows"
        }
        Intake::Starting => "nothing is read from it before its first offset is committed",
        Intake::Closed => "nothing more is read: the flow stops",
    }
}

#[cfg(test)]
mod tests {
    use loom_runtime::status::{
        Call, Intake, Oldest, PartitionStatus, Place, PluginRef, Release, Stalled, WorkerInfo,
    };
    use serde_json::json;

    use super::{Answer, Asked, PartitionName, human};

    fn partition() -> PartitionStatus {
        let ledger = json!({
            "registered": 2, "resolved": 2, "outstanding": 0, "skipped": 0, "minted": 2, "consumed": 0, "live": 0, "ended": {},
        });
        serde_json::from_value(json!({
            "topic": "in", "partition": 0, "worker": 0, "position": 2, "committed": 2, "floor": null, "end": 4, "lag": 2,
            "intake": "at_end", "outstanding_records": 0, "outstanding_bytes": 0, "oldest": null, "stalled": null,
            "ledger": ledger,
        }))
        .unwrap()
    }

    fn worker(age_ms: u64, call: Option<Call>) -> Option<WorkerInfo> {
        Some(WorkerInfo { worker: 0, age_ms, ended: false, call })
    }

    #[test]
    fn an_answer_that_is_old_says_so_and_what_keeps_its_worker() {
        let fresh = human(&Answer { partition: partition(), worker: worker(40, None) });
        assert!(fresh.starts_with("in/0: nothing holds the watermark; every record below 2 is"), "{fresh}");
        let plugin = Some(PluginRef { name: "s".to_owned(), digest: "ab".repeat(32) });
        let call = Call { node: "process[0]".to_owned(), name: None, plugin, for_ms: 12_300 };
        let old = human(&Answer { partition: partition(), worker: worker(12_500, Some(call)) });
        assert!(
            old.starts_with(
                "in/0: its worker 0 has not answered for 12.5 s: it has been in a call of process[0] (plugin s) for 12.3 s
  what holds the offset may be in that call; 12.5 s ago it stood so:
in/0: nothing held the watermark; every record below 2 was resolved
"
            ),
            "{old}"
        );
        let unknown = human(&Answer { partition: partition(), worker: worker(12_500, None) });
        assert!(unknown.contains("for 12.5 s: a step of it takes that long\n"), "{unknown}");
    }

    #[test]
    fn json_says_who_said_it_and_how_long_ago() {
        let answer = Answer { partition: partition(), worker: worker(12_500, None) };
        let value = serde_json::to_value(answer).unwrap();
        assert_eq!((&value["topic"], &value["said_by"]["age_ms"]), (&"in".into(), &12_500.into()));
    }

    #[test]
    fn what_holds_a_partition_is_told_with_why_it_waits_and_what_releases_it() {
        let place = Place {
            node: "process[1]".to_owned(),
            name: Some("score".to_owned()),
            plugin: None,
            attempt: 4,
            rows: 1,
            answer: Some("the service is away".to_owned()),
            release: Release::Retry { in_ms: 3200 },
        };
        let partition = PartitionStatus {
            partition: 3,
            position: 1300,
            committed: Some(1204),
            end: Some(6324),
            lag: Some(5120),
            intake: Intake::Held,
            outstanding_records: 96,
            oldest: Some(Oldest { offset: 1204, age_ms: 12_300, places: vec![place] }),
            ..partition()
        };
        assert_eq!(
            human(&Answer { partition, worker: worker(40, None) }),
            "in/3: offset 1204 holds the watermark; it was read 12.3 s ago
  at score (process[1]), attempt 4
  why it waits: the service is away
  what releases it: its next attempt, in 3.2 s
  committed 1,204, position 1,300, lag 5,120; 96 open records; nothing more is read from it while rows of it wait
"
        );
    }

    #[test]
    fn what_ends_with_a_number_is_a_partition_and_all_else_a_flow() {
        let name = |topic: &str, partition| {
            Ok(Asked::Partition(PartitionName { topic: topic.to_owned(), partition }))
        };
        assert_eq!("orders.in/3".parse(), name("orders.in", 3));
        for flow in
            ["orders", "flow.yaml", "flows/orders.yaml", "orders.in/", "/3", "orders.in/-1", "orders.in/x"]
        {
            assert_eq!(flow.parse(), Ok(Asked::Flow(flow.to_owned())), "{flow}");
        }
        assert!("".parse::<Asked>().is_err());
    }

    #[test]
    fn a_partition_is_held_when_it_waits_or_has_an_old_record() {
        let held = |partition| super::is_held(&Answer { partition, worker: worker(40, None) });
        assert!(!held(partition()));
        for intake in [Intake::Held, Intake::Bounded, Intake::Starting] {
            assert!(held(PartitionStatus { intake, ..partition() }), "{intake:?}");
        }
        let oldest = |age_ms| Some(Oldest { offset: 1, age_ms, places: Vec::new() });
        assert!(!held(PartitionStatus { oldest: oldest(999), ..partition() }));
        assert!(held(PartitionStatus { oldest: oldest(1000), ..partition() }));
        let stalled = Some(Stalled { offset: 1, for_ms: 1, cause: String::new() });
        assert!(held(PartitionStatus { stalled, ..partition() }));
        assert!(super::is_held(&Answer { partition: partition(), worker: worker(12_500, None) }));
    }
}
