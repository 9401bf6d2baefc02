//! Consumed messages: read in batches from a partition's queue into an array that is used again, and freed one by one.

use std::borrow::Cow;
use std::ffi::c_int;
use std::ptr::NonNull;

use rdkafka::bindings as c;

use super::calls;
use super::code::Code;
use super::list::text;
use super::queue::Queue;

/// What a record says of its time that carries none.
const NO_TIME: c_int = c::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE as c_int;

/// An array that batches of messages are read into.
pub(in crate::librdkafka) struct Messages {
    slots: Vec<*mut c::rd_kafka_message_t>,
    next: usize,
    filled: usize,
}

impl Messages {
    /// Without room yet; it grows to the largest batch that is asked for.
    pub fn new() -> Self {
        Messages { slots: Vec::new(), next: 0, filled: 0 }
    }

    /// Reads what a partition's queue holds, up to `most`, without waiting; says how many. What was left of the last
    /// batch is freed. Only for queues of partitions: librdkafka aborts when it finds anything but messages.
    pub fn read(&mut self, queue: &Queue, most: usize) -> usize {
        while self.next().is_some() {}
        if self.slots.len() < most {
            self.slots.resize(most, std::ptr::null_mut());
        }
        // SAFETY: the queue is alive and there is room for `most` pointers; each message that is written is ours.
        let read = unsafe { c::rd_kafka_consume_batch_queue(queue.ptr(), 0, self.slots.as_mut_ptr(), most) };
        self.next = 0;
        self.filled = usize::try_from(read).unwrap_or(0);
        self.filled
    }

    /// The next message of the batch.
    pub fn next(&mut self) -> Option<Message> {
        if self.next == self.filled {
            return None;
        }
        self.next += 1;
        NonNull::new(self.slots[self.next - 1]).map(Message)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

/// One message: a record, or something else that came in the queue's order. It pins the fetch that it came with, so it
/// is dropped at once.
pub(in crate::librdkafka) struct Message(NonNull<c::rd_kafka_message_t>);

impl Message {
    /// None for a record.
    pub fn code(&self) -> Code {
        // SAFETY: alive; read as a number, since a broker's code may be none of the enum's.
        Code(unsafe { std::ptr::addr_of!((*self.0.as_ptr()).err).cast::<i32>().read() })
    }

    /// A record's offset; the event's own offset otherwise.
    pub fn offset(&self) -> i64 {
        // SAFETY: alive as long as this value, here and below. (No reference to the whole is made, since its code may
        // be none of the enum's.)
        unsafe { (*self.0.as_ptr()).offset }
    }

    /// A record's payload; none is a tombstone, which an empty one is not.
    pub fn payload(&self) -> Option<&[u8]> {
        // SAFETY: alive; the bytes live with the message.
        unsafe { bytes((*self.0.as_ptr()).payload, (*self.0.as_ptr()).len) }
    }

    /// A record's key.
    pub fn key(&self) -> Option<&[u8]> {
        // SAFETY: as above.
        unsafe { bytes((*self.0.as_ptr()).key, (*self.0.as_ptr()).key_len) }
    }

    /// What an event that is no record says.
    pub fn text(&self) -> Cow<'_, str> {
        // SAFETY: alive; for an error the answer is its own text, which lives with it, or a static one.
        unsafe { text(c::rd_kafka_message_errstr(self.0.as_ptr())) }
    }

    /// Milliseconds since 1970, where the record carries a time.
    pub fn timestamp(&self) -> Option<i64> {
        let mut kind = NO_TIME;
        // SAFETY: alive, and `kind` is there to be written to.
        let time = unsafe { calls::rd_kafka_message_timestamp(self.0.as_ptr(), &mut kind) };
        (kind != NO_TIME && time >= 0).then_some(time)
    }

    /// The epoch of the leader that the record was read from, where the broker says.
    pub fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: alive.
        let epoch = unsafe { c::rd_kafka_message_leader_epoch(self.0.as_ptr()) };
        (epoch >= 0).then_some(epoch)
    }

    /// Each header in order. A name ends at its first NUL byte: librdkafka hands out no length.
    pub fn headers(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut headers = std::ptr::null_mut();
        // SAFETY: alive; the headers that come back belong to the message.
        let code = Code(unsafe { calls::rd_kafka_message_headers(self.0.as_ptr(), &mut headers) });
        if code.is_error() || headers.is_null() {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (std::ptr::null(), std::ptr::null(), 0);
            // SAFETY: the headers are alive; beyond the last index the call answers an error and writes nothing.
            let code = Code(unsafe {
                calls::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size)
            });
            if code.is_error() {
                return;
            }
            // SAFETY: the name is NUL-terminated; the value has the size that came with it; both live with the message.
            unsafe { each(std::ffi::CStr::from_ptr(name).to_bytes(), bytes(value.cast_mut(), size)) };
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { c::rd_kafka_message_destroy(self.0.as_ptr()) };
    }
}

/// Bytes of a message; null is none.
///
/// # Safety
/// `start` is null, or there are `size` bytes from it that live and do not change through `'a`.
unsafe fn bytes<'a>(start: *mut std::ffi::c_void, size: usize) -> Option<&'a [u8]> {
    // SAFETY: by the contract above.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) })
}
