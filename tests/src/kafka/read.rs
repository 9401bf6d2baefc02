//! Reading topics and offsets, without being a member of any group.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::space::is_settling;
use super::{Broker, REQUEST};
use crate::PATIENCE;

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// None = no key.
    pub key: Option<Vec<u8>>,
    /// None = a tombstone.
    pub payload: Option<Vec<u8>>,
    /// In order, with duplicates and absent values.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Row {
    /// The payload as text; a tombstone is the empty text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.payload.as_deref().unwrap_or_default()).into_owned()
    }

    /// The key as text, if there is one.
    pub fn key_text(&self) -> Option<String> {
        self.key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned())
    }

    /// The payload as JSON.
    ///
    /// # Errors
    /// If it is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        let payload = self.payload.as_deref().unwrap_or_default();
        serde_json::from_slice(payload).with_context(|| format!("not JSON: {}", self.text()))
    }

    /// The last value of a header, as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rev().find(|(found, _)| found == name)?;
        value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

impl From<&BorrowedMessage<'_>> for Row {
    fn from(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers
                .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

/// Follows one topic from its beginning.
pub struct Reader {
    consumer: BaseConsumer,
    topic: String,
    partitions: usize,
}

impl Reader {
    /// The next record, or None if none comes within so long.
    ///
    /// # Errors
    /// What the client reports; an outage of the broker is waited out, not reported.
    pub fn next(&mut self, within: Duration) -> Result<Option<Row>> {
        let deadline = Instant::now() + within;
        loop {
            match self.consumer.poll(deadline.saturating_duration_since(Instant::now())) {
                Some(Ok(message)) => return Ok(Some(Row::from(&message))),
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(KafkaError::MessageConsumption(code))) if is_settling(code) => {}
                Some(Err(error)) => return Err(error).with_context(|| format!("cannot read {}", self.topic)),
                None if Instant::now() >= deadline => return Ok(None),
                None => {}
            }
        }
    }

    /// So many records, waiting for them as long as they keep coming.
    ///
    /// # Errors
    /// If no further record comes within [`PATIENCE`]; says what had come.
    pub fn take(&mut self, count: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(count);
        while rows.len() < count {
            match self.next(PATIENCE)? {
                Some(row) => rows.push(row),
                None => bail!(
                    "{}: {} of {count} records came; the last: {:?}",
                    self.topic,
                    rows.len(),
                    rows.last()
                ),
            }
        }
        Ok(rows)
    }

    /// All records up to where every partition ends now. Must be the first that is asked of a reader.
    ///
    /// # Errors
    /// If the ends are not reached in time.
    fn until_end(&mut self) -> Result<Vec<Row>> {
        let deadline = Instant::now() + PATIENCE;
        let mut open = self.partitions;
        let mut rows = Vec::new();
        while open > 0 {
            match self.consumer.poll(deadline.saturating_duration_since(Instant::now())) {
                Some(Ok(message)) => rows.push(Row::from(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(KafkaError::MessageConsumption(code))) if is_settling(code) => {}
                Some(Err(error)) => return Err(error).with_context(|| format!("cannot read {}", self.topic)),
                None => bail!(
                    "{}: the end of {open} partitions was not reached; {} records",
                    self.topic,
                    rows.len()
                ),
            }
        }
        Ok(rows)
    }
}

impl Broker {
    /// Everything in a topic now, by partition and offset. Records of aborted transactions are not in it.
    ///
    /// # Errors
    /// If it cannot be read to its end in time.
    pub fn read_all(&self, topic: &str) -> Result<Vec<Row>> {
        let mut rows = self.reader(topic)?.until_end()?;
        rows.sort_by_key(|row| (row.partition, row.offset));
        Ok(rows)
    }

    /// A reader that stands at the beginning of every partition of a topic.
    ///
    /// # Errors
    /// If the topic is not there.
    pub fn reader(&self, topic: &str) -> Result<Reader> {
        let mut config = self.client();
        config
            .set("group.id", "loom-tests-reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50")
            .set("fetch.message.max.bytes", "20000000")
            .set("receive.message.max.bytes", "100000000");
        let consumer: BaseConsumer = config.create()?;
        let partitions = partitions(&consumer, topic)?;
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            list.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        Ok(Reader { consumer, topic: topic.to_owned(), partitions: partitions.len() })
    }

    /// The end of each partition: the offset that the next record would get.
    ///
    /// # Errors
    /// If the topic is not there.
    pub fn ends(&self, topic: &str) -> Result<BTreeMap<i32, i64>> {
        let consumer: BaseConsumer = self.client().create()?;
        let partitions = partitions(&consumer, topic)?;
        let end = |partition| {
            let (_, end) = retry(|| consumer.fetch_watermarks(topic, partition, REQUEST))?;
            Ok((partition, end))
        };
        partitions.into_iter().map(end).collect()
    }

    /// The same for these partitions only.
    ///
    /// # Errors
    /// If the topic is not there, or nobody leads one of them.
    pub fn ends_of(&self, topic: &str, partitions: Range<i32>) -> Result<BTreeMap<i32, i64>> {
        let consumer: BaseConsumer = self.client().create()?;
        let end = |partition| {
            let (_, end) = retry(|| consumer.fetch_watermarks(topic, partition, REQUEST))?;
            Ok((partition, end))
        };
        partitions.map(end).collect()
    }

    /// A group's committed offsets for a topic; partitions without one are left out.
    ///
    /// # Errors
    /// If the coordinator does not answer in time, or answers with an error for a partition.
    pub fn committed(&self, group: &str, topic: &str) -> Result<BTreeMap<i32, i64>> {
        committed(&self.member(group)?, topic).with_context(|| format!("cannot fetch the offsets of {group}"))
    }

    /// Commits an offset for a group, as an earlier run of a flow would have done.
    ///
    /// # Errors
    /// What the coordinator answers.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
        self.commit_marked(group, topic, partition, offset, "")
    }

    /// The same, with a text beside the offset.
    ///
    /// # Errors
    /// As for `commit`.
    pub fn commit_marked(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        text: &str,
    ) -> Result<()> {
        let consumer = self.member(group)?;
        let mut list = TopicPartitionList::new();
        let mut entry = list.add_partition(topic, partition);
        entry.set_offset(Offset::Offset(offset))?;
        entry.set_metadata(text);
        retry(|| consumer.commit(&list, CommitMode::Sync))
            .with_context(|| format!("cannot commit for {group}"))
    }

    /// The text beside a group's committed offset.
    ///
    /// # Errors
    /// As for `committed`, and if there is no offset.
    pub fn mark(&self, group: &str, topic: &str, partition: i32) -> Result<String> {
        let consumer = self.member(group)?;
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let found = retry(|| consumer.committed_offsets(list.clone(), REQUEST))?;
        let entry = found.find_partition(topic, partition).context("the partition was not answered")?;
        anyhow::ensure!(entry.offset().to_raw().is_some_and(|offset| offset >= 0), "{group} has no offset");
        Ok(entry.metadata().to_owned())
    }

    /// Waits until a group has some offset for a topic.
    ///
    /// # Errors
    /// If it has none in time.
    pub fn await_some_offset(&self, group: &str, topic: &str) -> Result<()> {
        let start = Instant::now();
        while self.committed(group, topic)?.is_empty() {
            anyhow::ensure!(start.elapsed() < PATIENCE, "{group} has no offset for {topic}");
            // A coordinator tells nobody of a commit.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Waits until a group's committed offsets for a topic are these.
    ///
    /// # Errors
    /// If they are not in time; says what they are.
    pub fn await_committed(&self, group: &str, topic: &str, offsets: &[(i32, i64)]) -> Result<()> {
        self.await_committed_within(group, topic, offsets, PATIENCE)
    }

    /// The same, for work that takes longer.
    ///
    /// # Errors
    /// As for `await_committed`.
    pub fn await_committed_within(
        &self,
        group: &str,
        topic: &str,
        offsets: &[(i32, i64)],
        within: Duration,
    ) -> Result<()> {
        let consumer = self.member(group)?;
        let wanted = offsets.iter().copied().collect();
        let start = Instant::now();
        loop {
            let committed = committed(&consumer, topic).with_context(|| format!("the offsets of {group}"))?;
            if committed == wanted {
                return Ok(());
            }
            if start.elapsed() > within {
                bail!("{group} has committed {committed:?} of {topic}, not {wanted:?}");
            }
            // A coordinator tells nobody of a commit.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A client that can ask for a group's offsets without joining it.
    fn member(&self, group: &str) -> Result<BaseConsumer> {
        let mut config = self.client();
        Ok(config.set("group.id", group).set("enable.auto.commit", "false").create()?)
    }
}

fn committed(consumer: &BaseConsumer, topic: &str) -> Result<BTreeMap<i32, i64>> {
    let mut list = TopicPartitionList::new();
    for partition in partitions(consumer, topic)? {
        list.add_partition(topic, partition);
    }
    let answer = retry(|| {
        let answer = consumer.committed_offsets(list.clone(), REQUEST)?;
        match answer.elements().into_iter().find_map(|element| element.error().err()) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    })?;
    let elements = answer.elements();
    let offsets = elements.iter().filter_map(|element| match element.offset() {
        Offset::Offset(offset) => Some((element.partition(), offset)),
        _ => None,
    });
    Ok(offsets.collect())
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<Vec<i32>> {
    // All topics are asked for: asking for one would make it, where the broker makes topics by itself.
    let metadata = retry(|| consumer.fetch_metadata(None, REQUEST))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let found = found.ok_or_else(|| anyhow!("there is no topic {topic}"))?;
    Ok(found.partitions().iter().map(|partition| partition.id()).collect())
}

/// Tries again while the coordinator of a group is only being made or loaded, or brokers come and go.
pub(super) fn retry<T>(mut attempt: impl FnMut() -> Result<T, KafkaError>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if error.rdkafka_error_code().is_some_and(is_settling) && start.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return Ok(other?),
        }
    }
}
