//! Producers that a broker no longer knows, or no longer lets write, while the flow runs.

use anyhow::{Result, ensure};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Broker, Record, Space, shared};
use xtask::kafka::Options;

/// A broker that forgets producers within moments.
fn forgetful() -> Result<Option<Broker>> {
    let properties =
        [("producer.id.expiration.ms", "1500"), ("producer.id.expiration.check.interval.ms", "200")];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    Broker::own_with(1, &Options { properties, ..Options::default() })
}

fn folder(space: &Space<'_>, group: &str, input: &str, output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    folder.write(
        "flow.yaml",
        format!(
            "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\n\
             process: [ {{ into_topic: {output} }} ]\n"
        ),
    )?;
    Ok(folder)
}

/// A flow that runs, and what goes through it.
struct Running<'a> {
    space: &'a Space<'a>,
    input: String,
    output: String,
    group: String,
    host: Host,
    _folder: Folder,
}

impl<'a> Running<'a> {
    fn start(space: &'a Space<'a>) -> Result<Self> {
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        let folder = folder(space, &group, &input, &output)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        Ok(Running { space, input, output, group, host, _folder: folder })
    }

    /// Writes records, and waits until they are through.
    fn passes(&self, range: std::ops::Range<i64>) -> Result<()> {
        let (broker, end) = (self.space.broker(), range.end);
        broker.write(&self.input, range.map(|n| Record::new(n.to_string()).key("k")))?;
        let committed = broker.await_committed(&self.group, &self.input, &[(0, end)]);
        committed.map_err(|error| error.context(self.host.log_text()))
    }

    /// Stops. So many records are in the output, each once and in order, and the flow began anew so often.
    fn ends(self, records: i64, restarts: u64) -> Result<()> {
        let ended = self.host.stop()?;
        ended.expect_status(0)?;
        let stopped = ended.stopped()?;
        stopped.balances()?;
        let (found, log) = (stopped.counter("restarts"), ended.log_text());
        ensure!(found == restarts, "it began anew {found} times:\n{log}");
        ensure!(log.contains("begins anew") == (restarts > 0), "{log}");
        let texts: Vec<String> =
            self.space.broker().read_all(&self.output)?.iter().map(|row| row.text()).collect();
        let due: Vec<String> = (0..records).map(|n| n.to_string()).collect();
        assert_eq!(texts, due, "none of those that were committed was in doubt");
        Ok(())
    }
}

#[test]
fn an_idle_producer_that_the_broker_has_forgotten_goes_on_writing() -> Result<()> {
    let Some(broker) = forgetful()? else { return Ok(()) };
    let space = broker.space();
    let running = Running::start(&space)?;
    running.passes(0..10)?;
    broker.await_producers(&running.output, 0, |known| known.is_empty())?;
    // A broker takes a producer that it does not know for a new one, whatever it counts from.
    running.passes(10..20)?;
    running.ends(20, 0)
}

#[test]
fn a_producer_that_is_fenced_is_replaced_in_place_and_every_record_is_written_once() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let running = Running::start(&space)?;
    running.passes(0..10)?;
    // The marker of an aborted transaction of a later epoch, as Kafka's own tool writes it for who repairs one.
    let known = broker.await_producers(&running.output, 0, |known| known.len() == 1)?;
    broker.fence(&running.output, 0, known[0])?;
    running.passes(10..20)?;
    running.passes(20..30)?;
    running.ends(30, 1)
}
