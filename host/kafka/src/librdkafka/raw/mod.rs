//! The only code that calls librdkafka's C interface; everything else in this crate is safe.
//!
//! rdkafka's own consumer and producer are not used: they can neither read a partition's queue in batches, nor answer
//! asynchronous commits, nor hand out delivery reports without a callback and an allocation a record.
//!
//! What keeps it sound:
//! - a pointer is owned by exactly one value here, which frees it once, on drop;
//! - queues, topics, messages and events hold the [`Client`] or borrow the queue they came from, so that a client
//!   outlives what was made from it;
//! - librdkafka's functions on a client, queue or topic may be called from any thread, which is what `Send` and `Sync`
//!   of those wrappers say; messages and events stay on one thread;
//! - a callback only calls a [`Waker`](crate::Waker), writes a log line or sets a time (`time`); one that points to
//!   something is switched off, under the lock that it runs under, before that is freed;
//! - what C calls an enum is read as a number (`calls`).

mod admin;
mod calls;
mod client;
mod code;
mod event;
mod facts;
mod list;
#[cfg(test)]
pub(super) mod listing;
mod message;
mod produce;
mod queue;
mod time;

pub(super) use admin::{
    GroupDescription, Operations, TopicValues, cluster_operations, describe_group, describe_topics, log_end,
    topic_configs,
};
pub(super) use client::{Client, Conf, Role};
pub(super) use code::Code;
pub(super) use event::{Event, EventKind};
pub(super) use facts::{all_topics, bounds, committed, offsets_at, topic_facts};
pub(super) use list::{List, Name};
pub(super) use message::{Message, Messages};
pub(super) use produce::{Outgoing, Topic};
pub(super) use queue::Queue;
