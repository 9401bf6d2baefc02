//! Events that queues hand out: answers to commits, delivery reports, errors.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ptr::NonNull;

use rdkafka::bindings as c;

use super::calls;
use super::code::Code;
use super::list::{Entry, entries, text};
use super::queue::Queue;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::librdkafka) enum EventKind {
    /// What became of records that were produced.
    Deliveries,
    /// The answer to a commit.
    Committed,
    /// An error of the client.
    Error,
    /// A record; only partitions' own queues should have any.
    Record,
    /// Anything else.
    Other,
}

/// An event of a queue. What it says lives as long as it.
pub(in crate::librdkafka) struct Event<'queue> {
    pointer: NonNull<c::rd_kafka_event_t>,
    queue: PhantomData<&'queue Queue>,
}

impl<'queue> Event<'queue> {
    /// Takes over an event that a queue gave out.
    pub(super) fn own(pointer: NonNull<c::rd_kafka_event_t>) -> Event<'queue> {
        Event { pointer, queue: PhantomData }
    }

    pub(super) fn ptr(&self) -> *mut c::rd_kafka_event_t {
        self.pointer.as_ptr()
    }

    /// What it is.
    pub fn kind(&self) -> EventKind {
        // SAFETY: the event is alive, here and below.
        match unsafe { c::rd_kafka_event_type(self.ptr()) } {
            c::RD_KAFKA_EVENT_DR => EventKind::Deliveries,
            c::RD_KAFKA_EVENT_OFFSET_COMMIT => EventKind::Committed,
            c::RD_KAFKA_EVENT_ERROR => EventKind::Error,
            c::RD_KAFKA_EVENT_FETCH => EventKind::Record,
            _ => EventKind::Other,
        }
    }

    /// The error of the event as a whole.
    pub fn code(&self) -> Code {
        // SAFETY: alive.
        Code(unsafe { calls::rd_kafka_event_error(self.ptr()) })
    }

    /// What it says.
    pub fn text(&self) -> Cow<'_, str> {
        // SAFETY: alive; the text lives with the event, or is static.
        unsafe { text(c::rd_kafka_event_error_string(self.ptr())) }
    }

    /// Whether the client can not go on after this error.
    pub fn is_fatal(&self) -> bool {
        // SAFETY: alive.
        unsafe { c::rd_kafka_event_error_is_fatal(self.ptr()) != 0 }
    }

    /// Which commit it answers.
    pub fn request(&self) -> u64 {
        // SAFETY: alive; the value is the number that the commit was given, never a pointer.
        unsafe { c::rd_kafka_event_opaque(self.ptr()) as usize as u64 }
    }

    /// The partitions of a commit, in librdkafka's order; tags tell which is which.
    pub fn partitions(&self) -> impl Iterator<Item = Entry<'_>> {
        // SAFETY: alive; the list belongs to the event, and is null for events without one.
        unsafe { entries(c::rd_kafka_event_topic_partition_list(self.ptr())) }
    }

    /// Each record of a delivery report: the number that it was sent with, its partition, and its error.
    pub fn deliveries(&self, mut each: impl FnMut(usize, i32, Code)) {
        loop {
            // SAFETY: alive; a message lives until the event is destroyed. The opaque value is the number that the
            // record was produced with. The code is read as a number, since a broker's may be none of the enum's.
            let (number, partition, code) = unsafe {
                let message = c::rd_kafka_event_message_next(self.ptr());
                if message.is_null() {
                    return;
                }
                let code = Code(std::ptr::addr_of!((*message).err).cast::<i32>().read());
                ((*message)._private as usize, (*message).partition, code)
            };
            each(number, partition, code);
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once; nothing that was borrowed from it is left.
        unsafe { c::rd_kafka_event_destroy(self.ptr()) };
    }
}
