//! What others do to a topic or a group while a flow reads it, or before: members of either protocol, topics that are
//! deleted, records that are removed before they were read.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use loom_tests::host::{Folder, Host, Signal};
use loom_tests::kafka::{Record, Space, shared};

fn folder(space: &Space<'_>, group: &str, inputs: &[&str], output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let (brokers, inputs) = (space.broker().address(), inputs.join(", "));
    folder.write(
        "flow.yaml",
        format!(
            "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{inputs}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\nruntime: {{ \
             lease_interval: 500ms }}\nprocess: [ {{ into_topic: {output} }} ]\n"
        ),
    )?;
    Ok(folder)
}

fn numbered(range: std::ops::Range<i64>) -> impl Iterator<Item = Record> {
    range.map(|n| Record::new(n.to_string()))
}

#[test]
fn members_of_either_protocol_are_named_at_the_start_and_nothing_is_committed() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for protocol in ["classic", "consumer"] {
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        let folder = folder(&space, &group, &[&input], &output)?;
        let member = broker.join(&group, &input, "a-stranger", protocol)?;
        broker.await_member(&group, "a-stranger")?;
        let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
        ended.expect_status(3).with_context(|| format!("with a member of the {protocol} protocol"))?;
        let log = ended.log_text();
        ensure!(log.contains("a-stranger") && log.contains("has live members"), "{protocol}: {log}");
        ensure!(broker.committed(&group, &input)?.is_empty(), "{protocol}: an offset was committed");
        drop(member);

        // Once they have left, the group is as good as any.
        broker.write(&input, numbered(0..3))?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        if let Err(error) = broker.await_committed(&group, &input, &[(0, 3)]) {
            anyhow::bail!("after a member of the {protocol} protocol: {error:#}\n{}", host.log_text());
        }
        host.stop()?.expect_status(0)?;
    }
    Ok(())
}

#[test]
fn an_input_topic_that_is_deleted_is_named_and_stops_the_flow_and_the_others_are_committed() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (gone, stays) = (space.topic("gone", 2)?, space.topic("stays", 1)?);
    let (output, group) = (space.topic("out", 1)?, space.group("g"));
    let folder = folder(&space, &group, &[&gone, &stays], &output)?;
    broker.write(&gone, numbered(0..10))?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.reader(&output)?.take(10)?;
    space.delete_topic(&gone)?;
    host.wait_for("that a topic is gone", |line| {
        line.message().contains("do not know the input topic") && line.text.contains(&gone)
    })?;
    broker.write(&stays, numbered(0..5))?;
    let ended = host.wait()?;
    ended.expect_status(4)?;
    ended.stopped()?.balances()?;
    let log = ended.log_text();
    let told = ended.logged(|line| line.level() == "ERROR" && line.text.contains(&gone));
    ensure!(told.iter().any(|line| line.text.contains("was deleted")), "{log}");
    broker.await_committed(&group, &stays, &[(0, 5)])?;
    assert_eq!(broker.read_all(&output)?.len(), 15);

    // It is not forgotten in silence: without it the flow does not start.
    let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
    ended.expect_status(4)?;
    ensure!(ended.log_text().contains("does not exist"), "{}", ended.log_text());
    Ok(())
}

#[test]
fn records_that_are_removed_before_they_were_read_are_counted_in_a_warning_and_reading_goes_on() -> Result<()>
{
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 2)?, space.group("g"));
    let folder = folder(&space, &group, &[&input], &output)?;
    broker.write(&input, numbered(0..10).map(|record| record.partition(0)))?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.await_committed(&group, &input, &[(0, 10), (1, 0)])?;

    // While it sleeps, retention overtakes it. What it had asked for before is answered by then, with nothing.
    host.signal(Signal::STOP)?;
    std::thread::sleep(Duration::from_secs(1));
    broker.write(&input, numbered(10..500).map(|record| record.partition(0)))?;
    broker.write(&input, numbered(0..20).map(|record| record.partition(1)))?;
    space.delete_before(&input, 0, 400)?;
    host.signal(Signal::CONT)?;

    let warned =
        host.wait_for("what retention removed", |line| line.message().contains("retention removed"))?;
    assert_eq!((warned.number("position"), warned.number("gone")), (Some(10), Some(390)), "{}", warned.text);
    broker.await_committed(&group, &input, &[(0, 500), (1, 20)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    assert_eq!(broker.read_all(&output)?.len(), 10 + 100 + 20);
    Ok(())
}
