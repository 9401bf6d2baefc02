//! The loop that anyone would write with rdkafka's safe API: read a record, write it, commit what was delivered.
//!
//! It has the host's settings, idempotence too, and keeps what the host keeps of a record: key, headers and time. It
//! ends at the end of its input, and prints the CPU seconds that it used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use super::measure::cpu_time;
use super::transform::transform;

const PATIENCE: Duration = Duration::from_secs(60);

/// As the host's `commit_interval_ms`.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

/// `nop|json BROKER GROUP INPUT OUTPUT`.
pub fn run(arguments: &[String]) -> Result<()> {
    let [what, broker, group, input, output] = arguments else { bail!("five arguments are needed") };
    let json = what == "json";
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("fetch.queue.backoff.ms", "10")
        .create()?;
    let producer: BaseProducer<Delivery> = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "0")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("partitioner", "murmur2_random")
        .create_with_context(Delivery)?;
    let partitions = assign(&consumer, input)?;

    let mut changed = Vec::new();
    let mut next = vec![0; partitions];
    let mut ended = 0;
    // What is committed was read an interval ago; that it is delivered by then is good enough for a bench.
    let mut due = next.clone();
    let mut committed = Instant::now();
    while ended < partitions {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                next[message.partition() as usize] = message.offset() + 1;
                hand_on(&message, &producer, output, json.then_some(&mut changed))?;
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => return Err(error).context("cannot read"),
            None => {}
        }
        producer.poll(Duration::ZERO);
        if committed.elapsed() > COMMIT_INTERVAL {
            commit(&consumer, input, &due, CommitMode::Async)?;
            due.clone_from(&next);
            committed = Instant::now();
        }
    }
    producer.flush(PATIENCE)?;
    commit(&consumer, input, &next, CommitMode::Sync)?;
    println!("{}", cpu_time(std::process::id())?.as_secs_f64());
    Ok(())
}

fn commit(consumer: &BaseConsumer, topic: &str, offsets: &[i64], mode: CommitMode) -> Result<()> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in (0..).zip(offsets) {
        list.add_partition_offset(topic, partition, Offset::Offset(*offset))?;
    }
    consumer.commit(&list, mode).context("cannot commit")
}

/// Assigns every partition from its beginning; returns how many there are.
fn assign(consumer: &BaseConsumer, topic: &str) -> Result<usize> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
    let found = metadata.topics().first().context("there is no such topic")?;
    let mut list = TopicPartitionList::new();
    for partition in found.partitions() {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(found.partitions().len())
}

fn hand_on(
    message: &BorrowedMessage<'_>,
    producer: &BaseProducer<Delivery>,
    output: &str,
    changed: Option<&mut Vec<u8>>,
) -> Result<()> {
    let mut record = BaseRecord::<[u8], [u8]>::to(output);
    record.key = message.key();
    record.timestamp = message.timestamp().to_millis();
    record.headers = message.headers().filter(|headers| headers.count() > 0).map(|headers| headers.detach());
    record.payload = match (message.payload(), changed) {
        (Some(payload), Some(changed)) => {
            changed.clear();
            transform(payload, changed)?;
            Some(changed)
        }
        (payload, _) => payload,
    };
    while let Err((error, back)) = producer.send(record) {
        if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
            return Err(error).context("cannot write");
        }
        record = back;
        producer.poll(Duration::from_millis(10));
    }
    Ok(())
}

/// Counts nothing: a refusal ends the process, because the loop is only comparable if it delivered everything.
struct Delivery;

impl ClientContext for Delivery {}

impl ProducerContext for Delivery {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            eprintln!("a record was refused: {error}");
            std::process::exit(1);
        }
    }
}
