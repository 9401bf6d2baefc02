//! Nodes that part records, make others of them, or gather them, on a real Kafka.

use anyhow::{Result, ensure};
use loom_tests::guests::component;
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Space, shared};

/// A folder with a flow from `input`: `rest` is what follows the `kafka` section.
pub(super) fn folder(space: &Space<'_>, group: &str, input: &str, rest: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    let text = format!(
        "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
         at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\n{rest}"
    );
    folder.write("flow.yaml", text)?;
    Ok(folder)
}

#[test]
fn every_row_of_every_record_is_written_though_the_host_is_killed_between_them() -> Result<()> {
    const RECORDS: usize = 2000;
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("in", 2)?, space.group("g"));
    let (orders, lines, rest) =
        (space.topic("orders", 1)?, space.topic("lines", 1)?, space.topic("rest", 1)?);
    for partition in 0..2 {
        let record = |n: usize| {
            let text = format!(
                "rows:b/{partition}-{n}-b0,a/{partition}-{n}-a0,b/{partition}-{n}-b1,c/{partition}-{n}-c0"
            );
            Record::new(text).partition(partition)
        };
        broker.write(&input, (0..RECORDS).map(record))?;
    }
    let text = format!(
        "plugins: {{ parts: {{ component: {} }} }}
runtime: {{ max_outstanding: {{ records: 400 }} }}
process:
  - expand_routes:
      plugin: parts
      routes: {{ a: [ {{ into_topic: {orders} }} ], b: [ {{ into_topic: {lines} }} ] }}
      default: [ {{ into_topic: {rest} }} ]
",
        component("probe-roles")?.display()
    );
    let folder = folder(&space, &group, &input, &text)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
    broker.reader(&orders)?.take(300)?;
    host.kill()?;
    let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
    broker.await_committed(&group, &input, &[(0, RECORDS as i64), (1, RECORDS as i64)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    let resolved = stopped.ledger["resolved"].as_u64().unwrap_or_default();
    assert_eq!(stopped.ended("topic"), 4 * resolved, "each record became four rows");
    for (topic, names) in [(&orders, &["a0"][..]), (&lines, &["b0", "b1"][..]), (&rest, &["c0"][..])] {
        let seen: Vec<String> = broker.read_all(topic)?.iter().map(|row| row.text()).collect();
        for partition in 0..2 {
            let of_record = |n: usize| names.iter().map(move |name| format!("{partition}-{n}-{name}"));
            let expected: Vec<String> = (0..RECORDS).flat_map(of_record).collect();
            let prefix = format!("{partition}-");
            let own: Vec<&String> = seen.iter().filter(|text| text.starts_with(&prefix)).collect();
            // The killed host wrote the first rows, in order; the other one those from what was committed on.
            let first = own.iter().zip(&expected).take_while(|(one, other)| **one == *other).count();
            let begun = (first + expected.len()).checked_sub(own.len());
            ensure!(
                begun.is_some_and(
                    |begun| begun <= first && own[first..].iter().copied().eq(&expected[begun..])
                ),
                "{topic}: behind its row {first} the rows of partition {partition} are not as they were made"
            );
        }
    }
    Ok(())
}

/// Each record makes a row that stands for its whole batch: what is written of one is the batch's partition and first offset,
/// and the row's place.
#[test]
fn batches_are_gathered_by_partition_and_committed_when_all_that_was_made_of_them_is_written() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 1)?, space.group("g"));
    broker.write(&input, (0..24).map(|n| Record::new(format!("all:{n}")).partition(n % 2)))?;
    let roles = component("probe-roles")?;
    let text = format!(
        "plugins: {{ b: {{ component: {0} }}, x: {{ component: {0} }} }}
process:
  - collect_batch: {{ max_records: 5, timeout_ms: 2000 }}
  - {{ batch_step: b, concurrency: 2 }}
  - batch_expand: x
  - map: '[msg.partition, msg.offset, int(msg.row)]'
  - into_topic: {output}
",
        roles.display()
    );
    let folder = folder(&space, &group, &input, &text)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    let rows = broker.reader(&output)?.take(24)?;
    broker.await_committed(&group, &input, &[(0, 12), (1, 12)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    assert_eq!(stopped.ended("topic"), 24);
    let mut seen: Vec<String> = rows.iter().map(|row| row.text().to_owned()).collect();
    seen.sort();
    let of = |partition| [(0, 5), (5, 5), (10, 2)].map(|(first, rows)| (partition, first, rows));
    let mut expected: Vec<String> = of(0)
        .into_iter()
        .chain(of(1))
        .flat_map(|(partition, first, rows)| (0..rows).map(move |row| format!("[{partition},{first},{row}]")))
        .collect();
    expected.sort();
    ensure!(seen == expected, "{seen:?}");
    Ok(())
}
