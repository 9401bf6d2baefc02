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

/// Writes records to one topic, in order.
pub struct Pen {
    producer: ThreadedProducer<Acks>,
    topic: String,
    written: usize,
}

impl Pen {
    /// Hands a record to the client; [`Pen::finish`] says whether the broker took it.
    ///
    /// # Errors
    /// If the client refuses it.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: value.as_ref() })
        });
        let mut message =
            BaseRecord::<[u8], [u8], usize>::with_opaque_to(&self.topic, self.written).headers(headers);
        message.partition = record.partition;
        message.key = record.key.as_deref();
        message.payload = record.payload.as_deref();
        message.timestamp = record.timestamp_ms;
        while let Err((error, back)) = self.producer.send(message) {
            let full = matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
            if !full {
                return Err(error)
                    .with_context(|| format!("{}: cannot write record {}", self.topic, self.written));
            }
            message = back;
            self.producer.flush(REQUEST)?;
        }
        self.written += 1;
        Ok(())
    }

    /// Waits for the acknowledgements of all records since the last call. Returns partition and offset of each.
    ///
    /// # Errors
    /// The first refusal, or that some were not answered in time.
    pub fn finish(&mut self) -> Result<Vec<(i32, i64)>> {
        let (topic, written) = (&self.topic, std::mem::take(&mut self.written));
        self.producer
            .flush(PATIENCE)
            .with_context(|| format!("{topic}: not all records were acknowledged"))?;
        let acks = self.producer.context().acks.lock().map(|mut acks| std::mem::take(&mut *acks));
        let acks = acks.map_err(|_| anyhow!("a callback of the client panicked"))?;
        ensure!(acks.len() == written, "{topic}: {} of {written} records were acknowledged", acks.len());
        let mut places = vec![(-1, -1); written];
        for (index, ack) in acks {
            match ack {
                Ok(place) => places[index] = place,
                Err(error) => bail!("{topic}: record {index} was refused: {error}"),
            }
        }
        Ok(places)
    }
}

impl Broker {
    /// Writes records in order and waits until the broker has them all. Returns partition and offset of each.
    ///
    /// # Errors
    /// The first refusal.
    pub fn write(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> Result<Vec<(i32, i64)>> {
        let mut pen = self.pen(topic)?;
        records.into_iter().try_for_each(|record| pen.write(&record))?;
        pen.finish()
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
        let mut pen = self.pen_with(topic, &[("transactional.id", &format!("{topic}-writer"))])?;
        pen.producer.init_transactions(PATIENCE).context("cannot begin with transactions")?;
        pen.producer.begin_transaction()?;
        records.into_iter().try_for_each(|record| pen.write(&record))?;
        let places = pen.finish()?;
        match outcome {
            Outcome::Commit => pen.producer.commit_transaction(PATIENCE)?,
            Outcome::Abort => pen.producer.abort_transaction(PATIENCE)?,
        }
        Ok(places)
    }

    /// Writes records into one partition as one batch, packed. Returns when the broker has it.
    ///
    /// # Errors
    /// The first refusal.
    pub fn write_as_one_batch(
        &self,
        topic: &str,
        compression: &str,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<()> {
        let mut records: Vec<Record> = records.into_iter().collect();
        let count = records.len().to_string();
        // It is sent once it is full, and it is full with the last record.
        let mut pen = self.pen_with(
            topic,
            &[
                ("compression.type", compression),
                ("batch.num.messages", &count),
                ("batch.size", "1000000000"),
                ("message.max.bytes", "1000000000"),
                ("queue.buffering.max.kbytes", "2000000"),
                ("linger.ms", "60000"),
            ],
        )?;
        for record in &mut records {
            record.partition = Some(0);
            pen.write(record)?;
        }
        pen.finish()?;
        Ok(())
    }

    /// For writing a topic little by little.
    ///
    /// # Errors
    /// If no client can be made.
    pub fn pen(&self, topic: &str) -> Result<Pen> {
        self.pen_with(topic, &[])
    }

    fn pen_with(&self, topic: &str, more: &[(&str, &str)]) -> Result<Pen> {
        let mut config: ClientConfig = self.client();
        config
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            // A broker that is killed and started again is an outage, not a failure.
            .set("message.timeout.ms", "0")
            // The largest record of a test is judged by the broker, not by the client.
            .set("message.max.bytes", "20000000")
            .set("partitioner", "murmur2_random");
        for (key, value) in more {
            config.set(*key, *value);
        }
        let producer = config.create_with_context(Acks::default()).context("cannot make a producer")?;
        Ok(Pen { producer, topic: topic.to_owned(), written: 0 })
    }
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
