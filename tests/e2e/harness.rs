//! The harness itself: what the other tests believe without asking.

use anyhow::{Result, ensure};
use loom_tests::kafka::{Broker, Outcome, Record, shared};

#[test]
fn records_come_back_as_they_were_written() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let topic = space.topic("in", 2)?;
    let record = Record::new([0, 255, 7])
        .key("k")
        .partition(1)
        .timestamp_ms(1_700_000_000_123)
        .header("a", Some(b"1"))
        .header("a", None)
        .header("b", Some(b""))
        .header("a", Some(&[0xff]));
    let places = broker
        .write(&topic, [record.clone(), Record::tombstone("k").partition(1), Record::new("").partition(0)])?;
    assert_eq!(places, [(1, 0), (1, 1), (0, 0)]);

    let rows = broker.read_all(&topic)?;
    assert_eq!(rows.len(), 3);
    assert_eq!((rows[0].key.clone(), rows[0].payload.clone()), (None, Some(vec![])));
    assert_eq!(rows[1].headers, record.headers);
    assert_eq!(rows[1].timestamp_ms, record.timestamp_ms);
    assert_eq!((rows[1].key.clone(), rows[1].payload.clone()), (record.key, record.payload));
    assert_eq!((rows[2].key_text().as_deref(), rows[2].payload.as_ref()), (Some("k"), None));
    Ok(())
}

#[test]
fn a_transaction_leaves_a_control_record_and_an_aborted_one_no_more_than_that() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let topic = space.topic("in", 1)?;
    broker.write_in_transaction(&topic, [Record::new("kept")], Outcome::Commit)?;
    broker.write_in_transaction(&topic, [Record::new("gone")], Outcome::Abort)?;
    let rows = broker.read_all(&topic)?;
    assert_eq!(rows.iter().map(|row| row.text()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(broker.ends(&topic)?[&0], 4);
    Ok(())
}

#[test]
fn committed_offsets_are_seen_by_us_and_by_kafkas_own_tool() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (topic, group) = (space.topic("in", 2)?, space.group("g"));
    broker.write(&topic, (0..5).map(|i| Record::new(format!("r{i}")).partition(0)))?;
    assert!(broker.committed(&group, &topic)?.is_empty());
    broker.commit(&group, &topic, 0, 3)?;
    broker.await_committed(&group, &topic, &[(0, 3)])?;

    let rows = broker.describe_group(&group)?;
    let row = rows.iter().find(|row| row.partition == 0).expect("partition 0 has an offset");
    assert_eq!((row.committed, row.end, row.lag, row.member.as_deref()), (Some(3), Some(5), Some(2), None));
    Ok(())
}

#[test]
fn what_a_test_made_is_removed_with_its_space() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let topic = space.topic("in", 1)?;
    ensure!(space.topics()?.contains(&topic));
    space.delete_topic(&topic)?;
    ensure!(!space.topics()?.contains(&topic));
    Ok(())
}

#[test]
fn a_killed_broker_comes_back_with_its_data() -> Result<()> {
    let Some(broker) = Broker::own()? else { return Ok(()) };
    let space = broker.space();
    let topic = space.topic("in", 1)?;
    broker.write(&topic, [Record::new("before")])?;
    let mut reader = broker.reader(&topic)?;
    assert_eq!(reader.take(1)?[0].text(), "before");

    broker.kill()?;
    broker.resume()?;
    broker.write(&topic, [Record::new("after")])?;
    assert_eq!(reader.take(1)?[0].text(), "after");
    assert_eq!(broker.read_all(&topic)?.len(), 2);
    Ok(())
}
