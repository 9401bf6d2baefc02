//! Writing records: exactly these bytes, headers and times, each acknowledged.

use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::{Broker, REQUEST};
use crate::PATIENCE;

/// A record to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// None = as the key says.
    pub partition: Option<i32>,
    /// None = no key.
    pub key: Option<Vec<u8>>,
    /// None = a tombstone.
    pub payload: Option<Vec<u8>>,
    /// In order; names may repeat, values may be absent.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970; None = now.
    pub timestamp_ms: Option<i64>,
}

impl Record {
    /// A record with this payload and nothing else.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: Some(payload.into()), ..Self::default() }
    }

    /// A record with a key and no value.
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// The same with a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The same for this partition.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The same with this time.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its records are there.
    Commit,
    /// Its records are not, but their offsets are used up.
    Abort,
}

impl Broker {
    /// Writes records in order and waits until the broker has them all. Returns partition and offset of each.
    ///
    /// # Errors
    /// The first refusal.
    pub fn write(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> Result<Vec<(i32, i64)>> {
        let producer = self.producer(&[])?;
        let places = send_all(&producer, topic, records)?;
        Ok(places)
    }

    /// Writes records in one transaction, which leaves a control record behind in each partition that it touched.
    ///
    /// # Errors
    /// The first refusal, or what the transaction coordinator answers.
    pub fn write_in_transaction(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record>,
        outcome: Outcome,
    ) -> Result<Vec<(i32, i64)>> {
        let producer = self.producer(&[("transactional.id", &format!("{topic}-writer"))])?;
        producer.init_transactions(PATIENCE).context("cannot begin with transactions")?;
        producer.begin_transaction()?;
        let places = send_all(&producer, topic, records)?;
        match outcome {
            Outcome::Commit => producer.commit_transaction(PATIENCE)?,
            Outcome::Abort => producer.abort_transaction(PATIENCE)?,
        }
        Ok(places)
    }

    fn producer(&self, more: &[(&str, &str)]) -> Result<ThreadedProducer<Acks>> {
        let mut config: ClientConfig = self.client();
        config
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            // The largest record of a test is judged by the broker, not by the client.
            .set("message.max.bytes", "20000000")
            .set("partitioner", "murmur2_random");
        for (key, value) in more {
            config.set(*key, *value);
        }
        config.create_with_context(Acks::default()).context("cannot make a producer")
    }
}

/// Sends all and waits for the acknowledgements. (partition, offset) in the order of the records.
fn send_all(
    producer: &ThreadedProducer<Acks>,
    topic: &str,
    records: impl IntoIterator<Item = Record>,
) -> Result<Vec<(i32, i64)>> {
    let mut count = 0;
    for record in records {
        let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: value.as_ref() })
        });
        let mut message = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, count).headers(headers);
        message.partition = record.partition;
        message.key = record.key.as_deref();
        message.payload = record.payload.as_deref();
        message.timestamp = record.timestamp_ms;
        loop {
            match producer.send(message) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    message = back;
                    producer.flush(REQUEST)?;
                }
                Err((error, _)) => return Err(error).with_context(|| format!("cannot write record {count}")),
            }
        }
        count += 1;
    }
    producer.flush(PATIENCE).with_context(|| format!("{topic}: not all records were acknowledged"))?;
    let acks =
        std::mem::take(&mut *producer.context().acks.lock().map_err(|_| anyhow!("a callback panicked"))?);
    ensure!(acks.len() == count, "{topic}: {} of {count} records were acknowledged", acks.len());
    let mut places = vec![(-1, -1); count];
    for (index, ack) in acks {
        match ack {
            Ok(place) => places[index] = place,
            Err(error) => bail!("{topic}: record {index} was refused: {error}"),
        }
    }
    Ok(places)
}

/// The broker's answer for the record of an index: its place, or the refusal.
type Answer = (usize, Result<(i32, i64), KafkaError>);

#[derive(Default)]
struct Acks {
    acks: Mutex<Vec<Answer>>,
}

impl ClientContext for Acks {}

impl ProducerContext for Acks {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        let answer = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        if let Ok(mut acks) = self.acks.lock() {
            acks.push((index, answer));
        }
    }
}
