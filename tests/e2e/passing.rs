//! What comes in goes out: bytes, keys, headers, times and order, and the offsets say so.

use anyhow::{Result, ensure};
use loom_tests::guests::component;
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Outcome, Record, Space, shared};

/// A flow from one topic to another through a step of a guest.
fn flow(space: &Space<'_>, group: &str, input: &str, output: &str, step: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    let component = component(step)?;
    let text = format!(
        r#"
name: passing
kafka:
  consumer: {{ brokers: ["{brokers}"], group_id: {group}, topics: [{input}], delivery: at_least_once, auto_offset_reset: earliest, tombstones: forward }}
  producer: {{ brokers: ["{brokers}"] }}
plugins:
  step: {{ component: {} }}
process:
  - step: step
  - into_topic: {output}
"#,
        component.display()
    );
    folder.write("flow.yaml", text)?;
    Ok(folder)
}

#[test]
fn records_pass_through_a_step_untouched_and_in_order() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for step in ["nop-step", "nop-column-step"] {
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        let records = [
            Record::new([0, 255, 7]).key("k").timestamp_ms(1_700_000_000_123),
            Record::new("").key("").header("a", Some(b"1")).header("b", None).header("a", Some(b"")),
            Record::tombstone("gone").header("bad", Some(&[0xff, 0xfe])),
            Record::new(vec![b'x'; 900_000]),
            Record::new("last").timestamp_ms(1),
        ];
        broker.write(&input, records.clone())?;

        let folder = flow(&space, &group, &input, &output, step)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        let rows = broker.reader(&output)?.take(records.len());
        let Ok(rows) = rows else { anyhow::bail!("{rows:?}\n{}", host.log_text()) };
        broker.await_committed(&group, &input, &[(0, 5)])?;
        let ended = host.stop()?;
        ended.expect_status(0)?;
        let stopped = ended.stopped()?;
        stopped.balances()?;
        assert_eq!(stopped.ended("topic"), 5, "{stopped:?}");

        let before = broker.read_all(&input)?;
        for (row, before) in rows.iter().zip(&before) {
            assert_eq!((&row.key, &row.payload), (&before.key, &before.payload));
            assert_eq!((&row.headers, row.timestamp_ms), (&before.headers, before.timestamp_ms));
        }
    }
    Ok(())
}

#[test]
fn a_topic_whose_tail_is_control_records_has_no_lag_and_its_group_no_member() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
    broker.write_in_transaction(&input, (0..10).map(|i| Record::new(format!("r{i}"))), Outcome::Commit)?;
    let folder = flow(&space, &group, &input, &output, "nop-column-step")?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    if let Err(error) = broker.await_committed(&group, &input, &[(0, 11)]) {
        anyhow::bail!("{error:#}\n{}", host.log_text());
    }
    let rows = broker.describe_group(&group)?;
    ensure!(rows.len() == 1, "{rows:?}");
    assert_eq!(
        (rows[0].committed, rows[0].end, rows[0].lag, rows[0].member.as_deref()),
        (Some(11), Some(11), Some(0), None)
    );
    host.stop()?.expect_status(0)?;
    Ok(())
}
