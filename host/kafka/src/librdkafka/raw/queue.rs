//! Queues of a client, and who is woken by them.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as c;

use super::client::{Client, millis};
use super::event::Event;
use super::list::Name;
use crate::contract::Waker;

/// A queue of a client: of one partition, of the consumer, of the producer, or one of our own for answers.
pub(in crate::librdkafka) struct Queue {
    pointer: NonNull<c::rd_kafka_queue_t>,
    /// Boxed twice, since the callback gets one thin pointer.
    waker: Option<Box<Waker>>,
    /// Last, so that the queue is released first.
    client: Arc<Client>,
}

// SAFETY: librdkafka's queues have locks of their own; the waker is `Send` and `Sync`.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    fn own(pointer: *mut c::rd_kafka_queue_t, client: &Arc<Client>) -> Option<Queue> {
        Some(Queue { pointer: NonNull::new(pointer)?, waker: None, client: client.clone() })
    }

    /// A new queue, for answers.
    pub fn new(client: &Arc<Client>) -> Queue {
        // SAFETY: the client is alive; the reference that comes back is ours.
        let pointer = unsafe { c::rd_kafka_queue_new(client.ptr()) };
        Queue::own(pointer, client).expect("librdkafka allocates a queue")
    }

    /// A producer's own queue: delivery reports and errors.
    pub fn main(client: &Arc<Client>) -> Queue {
        // SAFETY: as above.
        let pointer = unsafe { c::rd_kafka_queue_get_main(client.ptr()) };
        Queue::own(pointer, client).expect("every client has a main queue")
    }

    /// A consumer's own queue: errors.
    pub fn consumer(client: &Arc<Client>) -> Queue {
        // SAFETY: as above; none for a producer.
        let pointer = unsafe { c::rd_kafka_queue_get_consumer(client.ptr()) };
        Queue::own(pointer, client).expect("every consumer has a queue")
    }

    /// A partition's queue, detached from the consumer's. To be taken before the partition is assigned: what is fetched
    /// before it would go to the consumer's queue.
    pub fn partition(client: &Arc<Client>, topic: &Name, partition: i32) -> Option<Queue> {
        // SAFETY: the client is alive and the name is NUL-terminated; the reference is ours. Forwarding to null makes
        // the queue keep what it gets.
        unsafe {
            let queue =
                Queue::own(c::rd_kafka_queue_get_partition(client.ptr(), topic.as_ptr(), partition), client)?;
            c::rd_kafka_queue_forward(queue.ptr(), std::ptr::null_mut());
            Some(queue)
        }
    }

    pub(super) fn ptr(&self) -> *mut c::rd_kafka_queue_t {
        self.pointer.as_ptr()
    }

    /// Has `waker` called when the queue stops being empty, and once now for what is in it already.
    pub fn wake(&mut self, waker: &Waker) {
        let boxed = Box::new(waker.clone());
        let opaque = std::ptr::from_ref::<Waker>(boxed.as_ref()).cast_mut().cast::<c_void>();
        // SAFETY: the box is kept until the callback is switched off in `drop`, or replaced here: the call takes the
        // queue's lock, and callbacks run under it, so none still uses the old one afterwards.
        unsafe { c::rd_kafka_queue_cb_event_enable(self.ptr(), Some(on_event), opaque) };
        self.waker = Some(boxed);
        waker();
    }

    /// The next event, waited for up to `timeout`.
    pub fn poll(&self, timeout: Duration) -> Option<Event<'_>> {
        // SAFETY: the queue is alive; the event that comes back is ours.
        let event = unsafe { c::rd_kafka_queue_poll(self.ptr(), millis(timeout)) };
        NonNull::new(event).map(Event::own)
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: switching the callback off takes the lock that it runs under, so that the waker is not in use when
        // its box is dropped. The queue's reference is ours, and given back once.
        unsafe {
            c::rd_kafka_queue_cb_event_enable(self.ptr(), None, std::ptr::null_mut());
            c::rd_kafka_queue_destroy(self.ptr());
        }
    }
}

/// Runs under the queue's lock, on any thread: it only wakes.
unsafe extern "C" fn on_event(_: *mut c::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the queue's owner keeps the waker alive as long as the callback is set.
    let waker = unsafe { &*opaque.cast_const().cast::<Waker>() };
    waker();
}
