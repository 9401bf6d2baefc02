//! The drills at small scale; `cargo xtask soak` holds them at full scale.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use loom_tests::drill::{BrokerKills, HostKills};
use loom_tests::kafka::{Broker, shared};

#[test]
fn a_host_killed_at_random_moments_loses_nothing_and_repeats_only_what_was_not_committed() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let report = HostKills::default().hold(broker, |_| ())?;
    ensure!(report.topic.records > 0, "nothing was written: {report:?}");
    ensure!(report.topic.records == report.sink.records, "{report:?}");
    // The goal is a second, which `soak` shows on a quiet machine; here other tests run beside it.
    let median = report.percentile(50).context("no host lived to its first output")?;
    ensure!(median < Duration::from_secs(10), "{median:?} from restart to first output");
    Ok(())
}

#[test]
fn a_broker_killed_under_load_is_waited_for_and_nothing_is_lost_or_repeated() -> Result<()> {
    let Some(broker) = Broker::own()? else { return Ok(()) };
    let report = BrokerKills::default().hold(&broker, |_| ())?;
    ensure!(report.topic.records > 0, "nothing was written: {report:?}");
    ensure!(report.topic.records == report.sink.records, "{report:?}");
    Ok(())
}

#[test]
fn a_broker_that_is_away_for_twenty_seconds_is_waited_for_and_nothing_is_lost_or_repeated() -> Result<()> {
    let Some(broker) = Broker::own()? else { return Ok(()) };
    // Longer than a request or a connection may take, so that clients and commits give up on theirs meanwhile.
    let drill =
        BrokerKills { kills: 1, rate: 500, outage: Duration::from_secs(20), ..BrokerKills::default() };
    let report = drill.hold(&broker, |_| ())?;
    ensure!(report.topic.records > 0, "nothing was written: {report:?}");
    ensure!(report.topic.records == report.sink.records, "{report:?}");
    Ok(())
}
