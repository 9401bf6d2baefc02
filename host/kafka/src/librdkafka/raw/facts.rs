//! Questions to the cluster; each call waits for its answer, up to the time that is given.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as c;

use super::calls;
use super::client::{Client, millis, ok};
use super::code::Code;
use super::list::{List, Name, text};
use super::produce::Topic;

/// Metadata that a client answered.
struct Metadata(*const c::rd_kafka_metadata);

impl Metadata {
    /// Of one topic, or of all.
    fn fetch(client: &Client, topic: Option<&Topic>, timeout: Duration) -> Result<Metadata, Code> {
        let mut answer = std::ptr::null();
        let only = topic.map_or(std::ptr::null_mut(), Topic::ptr);
        // SAFETY: client and topic are alive; what is written to `answer` is ours.
        ok(unsafe {
            calls::rd_kafka_metadata(
                client.ptr(),
                i32::from(topic.is_none()),
                only,
                &mut answer,
                millis(timeout),
            )
        })?;
        Ok(Metadata(answer))
    }

    /// A broker of the cluster by its id: the one that answered, where it is known by it, else the first.
    fn broker(&self) -> Option<i32> {
        // SAFETY: alive as long as this value; there are `broker_cnt` brokers.
        unsafe {
            let first = ((*self.0).broker_cnt > 0).then(|| (*(*self.0).brokers).id);
            Some((*self.0).orig_broker_id).filter(|id| *id >= 0).or(first)
        }
    }

    /// Its topics. Behind pointers, since a reference to one whose code is none of the enum's must not be made.
    fn topics(&self) -> impl Iterator<Item = *const c::rd_kafka_metadata_topic> {
        // SAFETY: alive as long as this value.
        let (first, count) = unsafe { ((*self.0).topics, (*self.0).topic_cnt) };
        // SAFETY: there are `count` topics.
        (0..usize::try_from(count).unwrap_or(0)).map(move |index| unsafe { first.add(index) }.cast_const())
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { c::rd_kafka_metadata_destroy(self.0) };
    }
}

/// How many partitions a topic has, and a broker to ask more; the inner error is the topic's own. Does not create it, since clients here are
/// configured with `allow.auto.create.topics=false`.
pub(in crate::librdkafka) fn topic_facts(
    client: &Arc<Client>,
    name: &Name,
    timeout: Duration,
) -> Result<Result<(i32, Option<i32>), Code>, Code> {
    let Some(topic) = Topic::new(client, name) else {
        return Ok(Err(Code::INVALID_TOPIC));
    };
    let metadata = Metadata::fetch(client, Some(&topic), timeout)?;
    let Some(facts) = metadata.topics().next() else {
        return Ok(Err(Code::BAD_MESSAGE));
    };
    // SAFETY: within the metadata, which is alive; the code is read as a number, since a broker's may be none of the enum's.
    let (code, partitions) =
        unsafe { (Code(std::ptr::addr_of!((*facts).err).cast::<i32>().read()), (*facts).partition_cnt) };
    Ok(if code.is_error() { Err(code) } else { Ok((partitions, metadata.broker())) })
}

/// The names of all topics that may be seen.
pub(in crate::librdkafka) fn all_topics(client: &Client, timeout: Duration) -> Result<Vec<String>, Code> {
    let metadata = Metadata::fetch(client, None, timeout)?;
    // SAFETY: names are NUL-terminated and live with the metadata.
    Ok(metadata.topics().map(|topic| unsafe { text((*topic).topic) }.into_owned()).collect())
}

/// Fills in the group's committed offsets, with an error for each partition that has one.
pub(in crate::librdkafka) fn committed(
    client: &Client,
    partitions: &mut List,
    timeout: Duration,
) -> Result<(), Code> {
    // SAFETY: client and list are alive, and the list is this caller's alone.
    ok(unsafe { calls::rd_kafka_committed(client.ptr(), partitions.ptr(), millis(timeout)) })
}

/// Replaces each partition's offset, a time in milliseconds, by the first offset at or after that time; below 0 there is
/// none. An error of a partition stands in its place.
pub(in crate::librdkafka) fn offsets_at(
    client: &Client,
    partitions: &mut List,
    timeout: Duration,
) -> Result<(), Code> {
    // SAFETY: client and list are alive, and the list is this caller's alone.
    ok(unsafe { calls::rd_kafka_offsets_for_times(client.ptr(), partitions.ptr(), millis(timeout)) })
}

/// A partition's first offset, and the one after the last that can be read.
pub(in crate::librdkafka) fn bounds(
    client: &Client,
    topic: &Name,
    partition: i32,
    timeout: Duration,
) -> Result<(i64, i64), Code> {
    let (mut low, mut high) = (0, 0);
    // SAFETY: the client is alive, the name is NUL-terminated, and both numbers are there to be written to.
    ok(unsafe {
        calls::rd_kafka_query_watermark_offsets(
            client.ptr(),
            topic.as_ptr(),
            partition,
            &mut low,
            &mut high,
            millis(timeout),
        )
    })?;
    Ok((low, high))
}
