//! `offsets`: what the group has at the broker for each partition, and moving it on purpose.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use loom_flow::{Mode, Plan};
use loom_kafka::librdkafka::KafkaBroker;
use loom_runtime::offsets::{self, GroupOffset, Move, MoveTo};
use loom_runtime::{AssemblyError, StartFrom, Stop, consumer_settings};
use loom_types::{CommitOffset, printable};
use serde_json::{Value, json};

use crate::args::{Format, OffsetsArgs, OffsetsVerb, ResetArgs, SettingsArgs};
use crate::from::{IN_THE_FUTURE, from};
use crate::show::table::{Side, known, number, table};
use crate::show::{print, print_exact};
use crate::signals::Signals;
use crate::start::{self, Refusal};
use crate::status::Status;
use crate::terminal;

/// Shows or moves; the status says how it ended.
pub fn offsets(args: &OffsetsArgs) -> Status {
    let done = match &args.verb {
        Some(OffsetsVerb::Reset(args)) => reset(args),
        None => shown(args),
    };
    done.unwrap_or_else(Refusal::tell)
}

/// The flow, and a client for its consumer.
fn opened(flow: &Path, settings: &SettingsArgs) -> Result<(Plan, KafkaBroker, Stop), Refusal> {
    let plan = start::plan_quietly(flow, settings, Mode::Run)?;
    let stop = Stop::new();
    // Nothing is under way that a signal would have to wait for.
    Signals::listen(Status::Signal).map_err(start::no_signals)?;
    let broker = KafkaBroker::new(consumer_settings(&plan)).map_err(|error| start::no_client(&error))?;
    Ok((plan, broker, stop))
}

fn shown(args: &OffsetsArgs) -> Result<Status, Refusal> {
    // The arguments are read so that one of both is there.
    let flow = args.flow.as_deref().unwrap_or(Path::new(""));
    let (plan, broker, stop) = opened(flow, &args.settings)?;
    let found = offsets::read(&plan, &broker, &stop).map_err(Refusal::Assembly)?;
    Ok(match args.format {
        Format::Human => print(&human(&found)),
        Format::Json => print_exact(&(json_of(&plan, &found).to_string() + "\n")),
    })
}

fn human(found: &[GroupOffset]) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|one| {
            vec![
                one.partition.to_string(),
                known(one.committed.as_ref().map(|committed| committed.offset.0)),
                number(one.bounds.low.0),
                number(one.bounds.high.0),
                known(one.lag()),
                known(one.there()),
                written_by(one),
            ]
        })
        .collect();
    let headings = [
        ("PARTITION", Side::Left),
        ("COMMITTED", Side::Right),
        ("BEGINNING", Side::Right),
        ("END", Side::Right),
        ("LAG", Side::Right),
        ("THERE", Side::Right),
        ("WRITTEN BY", Side::Left),
    ];
    table(&headings, &rows) + &replays(found)
}

/// Replays that are not over, and what becomes of them.
fn replays(found: &[GroupOffset]) -> String {
    let mut out = String::new();
    for one in found {
        if let (Some(at), Some(committed)) = (one.replay(), &one.committed) {
            let (at, floor) = (number(at.0), number(committed.offset.0));
            let partition = one.partition.to_string();
            let partition = printable(&partition);
            let _ = writeln!(out, "{partition}: a replay has come to {at}; {floor} is its floor");
        }
    }
    if !out.is_empty() {
        out.insert(0, '\n');
        out.push_str("A replay that was cut goes on at the next `run`; `run --from committed` leaves it.\n");
    }
    out
}

/// Who wrote the offset, as far as the text beside it says.
fn written_by(one: &GroupOffset) -> String {
    let Some(committed) = &one.committed else { return "nobody: nothing is committed".to_owned() };
    let by = match one.mark() {
        Some(mark) => match mark.run {
            Some(run) => format!("run {run}"),
            None => "offsets reset".to_owned(),
        },
        None if committed.metadata.is_empty() => "another tool".to_owned(),
        None => format!("another tool: {:?}", committed.metadata),
    };
    if one.is_of_another_topic() { format!("{by}, for a topic of this name that is gone") } else { by }
}

fn json_of(plan: &Plan, found: &[GroupOffset]) -> Value {
    let partitions: Vec<Value> = found
        .iter()
        .map(|one| {
            json!({
                "topic": *one.partition.topic,
                "partition": one.partition.partition,
                "committed": one.committed.as_ref().map(|committed| committed.offset.0),
                "metadata": one.committed.as_ref().map(|committed| committed.metadata.as_str()),
                "beginning": one.bounds.low.0,
                "end": one.bounds.high.0,
                "lag": one.lag(),
                "there": one.there(),
                "replay": one.replay().map(|at| at.0),
            })
        })
        .collect();
    json!({ "version": 1, "flow": *plan.name, "group": plan.consumer.group_id, "partitions": partitions })
}

fn reset(args: &ResetArgs) -> Result<Status, Refusal> {
    let (plan, broker, stop) = opened(&args.flow, &args.settings)?;
    let usage = |message: String| Refusal::Other(Status::Usage, message);
    if let Some(topic) = &args.topic
        && !plan.consumer.topics.iter().any(|known| **known == **topic)
    {
        let topics = plan.consumer.topics.join(", ");
        return Err(usage(format!("the flow does not read topic {topic}; it reads {topics}")));
    }
    let found = offsets::read(&plan, &broker, &stop).map_err(Refusal::Assembly)?;
    let chosen: Vec<GroupOffset> = found.into_iter().filter(|one| is_chosen(args, one)).collect();
    if chosen.is_empty() {
        return Err(usage("no topic of the flow has such a partition".to_owned()));
    }
    let moves = offsets::moves(&plan, &broker, chosen, args.to, &stop).map_err(Refusal::Assembly)?;
    let text = planned(&moves);
    if args.dry_run {
        return Ok(print(&text));
    }
    if !args.yes {
        if !(io::stdin().is_terminal() && terminal::stderr_is_terminal()) {
            return Err(usage(
                "say --yes to move the offsets, or --dry-run to see what would be done".to_owned(),
            ));
        }
        terminal::print_error(&format!(
            "{text}Move these offsets of group {}? [y/N] ",
            printable(&plan.consumer.group_id)
        ));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        if read.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(Refusal::Other(Status::Failed, "nothing was moved".to_owned()));
        }
    }
    let one = |error: AssemblyError| Refusal::Assembly(vec![error]);
    offsets::unowned(&plan, &broker, &stop, |wait| {
        tracing::info!(seconds = wait.as_secs_f64(), "another host's lease is watched: whether it moves");
        pause(wait, &stop);
    })
    .map_err(one)?;
    offsets::commit(&plan, &broker, &moves, &stop).map_err(Refusal::Assembly)?;
    Ok(print(&text))
}

fn is_chosen(args: &ResetArgs, one: &GroupOffset) -> bool {
    let topic = args.topic.as_ref().is_none_or(|topic| *topic == *one.partition.topic);
    topic && args.partition.is_none_or(|partition| partition == one.partition.partition)
}

/// The moves, for people.
fn planned(moves: &[Move]) -> String {
    let rows: Vec<Vec<String>> = moves
        .iter()
        .map(|one| {
            let from = one.from.committed.as_ref().map(|committed| committed.offset.0);
            let meaning = match from.map(|from| one.to.0 - from) {
                None => "nothing was committed".to_owned(),
                Some(0) => "as it is".to_owned(),
                Some(by @ 1..) => format!("{} skipped", offsets_of(by)),
                Some(by) => format!("{} again", offsets_of(-by)),
            };
            vec![one.from.partition.to_string(), known(from), number(one.to.0), meaning]
        })
        .collect();
    let headings = [("PARTITION", Side::Left), ("FROM", Side::Right), ("TO", Side::Right), ("", Side::Left)];
    table(&headings, &rows)
}

fn offsets_of(count: i64) -> String {
    if count == 1 { "1 offset".to_owned() } else { format!("{} offsets", number(count)) }
}

/// Waits, in pieces, so that a stop is not kept waiting.
fn pause(wait: Duration, stop: &Stop) {
    let until = Instant::now() + wait;
    while !stop.is_requested() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Reads `--to`.
pub fn move_to(text: &str) -> Result<MoveTo, String> {
    match text {
        "beginning" => return Ok(MoveTo::Beginning),
        "end" => return Ok(MoveTo::End),
        _ => {}
    }
    if let Ok(offset) = text.parse::<i64>() {
        return if offset >= 0 { Ok(MoveTo::Offset(CommitOffset(offset))) } else { Err(wrong()) };
    }
    match from(text) {
        Ok(StartFrom::Time(time)) => Ok(MoveTo::Time(time)),
        Err(why) if why.contains(IN_THE_FUTURE) => Err(why),
        _ => Err(wrong()),
    }
}

fn wrong() -> String {
    "write `beginning`, `end`, an offset, a time such as 2026-03-01T12:00:00Z, or how long ago, such as 2h"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use loom_kafka::{Bounds, Committed};
    use loom_runtime::offsets::{GroupOffset, Move, MoveTo};
    use loom_types::{CommitOffset, TopicPartition};

    use super::{human, move_to, planned};

    fn offset(partition: i32, committed: Option<(i64, &str)>) -> GroupOffset {
        GroupOffset {
            partition: TopicPartition::new("in", partition),
            topic: None,
            committed: committed.map(|(offset, metadata)| Committed {
                offset: CommitOffset(offset),
                metadata: metadata.to_owned(),
                leader_epoch: None,
            }),
            bounds: Bounds { low: CommitOffset(0), high: CommitOffset(2000) },
        }
    }

    #[test]
    fn places_are_read_and_others_explained() {
        assert_eq!(move_to("beginning"), Ok(MoveTo::Beginning));
        assert_eq!(move_to("end"), Ok(MoveTo::End));
        assert_eq!(move_to("17"), Ok(MoveTo::Offset(CommitOffset(17))));
        assert_eq!(move_to("1970-01-02T00:00:00Z"), Ok(MoveTo::Time(86_400_000)));
        assert!(matches!(move_to("2h"), Ok(MoveTo::Time(_))));
        assert!(move_to("2999-01-01T00:00:00Z").is_err_and(|why| why.contains("in the future")));
        for wrong in ["", "start", "-1", "yesterday", "committed"] {
            assert!(move_to(wrong).is_err_and(|why| why.contains("beginning")), "{wrong}");
        }
    }

    #[test]
    fn offsets_are_shown_with_lag_and_writer() {
        let run = "loom1 run=00000000000000ff";
        let text = human(&[offset(0, Some((1500, run))), offset(1, None), offset(2, Some((7, "mine")))]);
        assert_eq!(
            text,
            "PARTITION  COMMITTED  BEGINNING    END    LAG  THERE  WRITTEN BY
in/0           1,500          0  2,000    500    500  run 00000000000000ff
in/1               -          0  2,000      -      -  nobody: nothing is committed
in/2               7          0  2,000  1,993  1,993  another tool: \"mine\"
"
        );
    }

    #[test]
    fn of_a_lag_whose_records_were_purged_it_is_shown_how_many_are_still_there() {
        let purged = |low| GroupOffset {
            bounds: Bounds { low: CommitOffset(low), high: CommitOffset(2000) },
            ..offset(0, Some((100, "")))
        };
        let there = [0, 100, 1700, 2000].map(|low| (purged(low).lag(), purged(low).there()));
        assert_eq!(there, [1900, 1900, 300, 0].map(|there| (Some(1900), Some(there))));
        let text = human(&[purged(1700)]);
        assert!(text.contains("  1,900    300  "), "{text}");
    }

    #[test]
    fn a_replay_that_was_cut_is_shown_with_its_place_and_its_floor() {
        let cut = offset(0, Some((1500, "loom1 run=00000000000000ff replay=1400")));
        let text = human(&[cut, offset(1, Some((7, "mine")))]);
        let (_, replays) = text.split_once("\n\n").unwrap();
        assert_eq!(
            replays,
            "in/0: a replay has come to 1,400; 1,500 is its floor
A replay that was cut goes on at the next `run`; `run --from committed` leaves it.
"
        );
        // One that has reached its floor is over, whatever the mark still says.
        for over in ["loom1 replay=1500", "loom1 replay=1600", "replay=3", "loom1"] {
            assert!(!human(&[offset(0, Some((1500, over)))]).contains("replay has"), "{over}");
        }
    }

    #[test]
    fn a_move_says_what_is_skipped_and_what_comes_again() {
        let to = |from, to| Move { from, to: CommitOffset(to) };
        let text = planned(&[
            to(offset(0, Some((1500, ""))), 0),
            to(offset(1, Some((1999, ""))), 2000),
            to(offset(2, Some((5, ""))), 5),
            to(offset(3, None), 0),
        ]);
        assert_eq!(
            text,
            "PARTITION   FROM     TO
in/0       1,500      0  1,500 offsets again
in/1       1,999  2,000  1 offset skipped
in/2           5      5  as it is
in/3           -      0  nothing was committed
"
        );
    }
}
