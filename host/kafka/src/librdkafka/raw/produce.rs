//! Producing: a topic's handle, and one record into the client's queue.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use loom_types::HeaderIter;
use rdkafka::bindings as c;

use super::calls;
use super::client::Client;
use super::code::{Code, take_error};
use super::list::Name;
use super::time;

/// A topic as one client knows it.
pub(in crate::librdkafka) struct Topic {
    pointer: NonNull<c::rd_kafka_topic_t>,
    /// Last, so that the topic is released first.
    client: Arc<Client>,
}

/// A record to produce.
pub(in crate::librdkafka) struct Outgoing<'a> {
    /// None is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// The key, which decides the partition.
    pub key: Option<&'a [u8]>,
    /// Milliseconds since 1970, not below 0; none is the client's clock.
    pub timestamp_ms: Option<i64>,
    /// Headers, in order.
    pub headers: HeaderIter<'a>,
    /// Comes back in the delivery report.
    pub number: usize,
}

impl Topic {
    /// None where the name is none that a topic can have.
    pub fn new(client: &Arc<Client>, name: &Name) -> Option<Topic> {
        // SAFETY: the client is alive, the name is NUL-terminated and copied; the reference is ours. Without a
        // configuration of its own the topic has the client's.
        let topic = unsafe { c::rd_kafka_topic_new(client.ptr(), name.as_ptr(), std::ptr::null_mut()) };
        Some(Topic { pointer: NonNull::new(topic)?, client: client.clone() })
    }

    pub(super) fn ptr(&self) -> *mut c::rd_kafka_topic_t {
        self.pointer.as_ptr()
    }

    /// Queues a copy of the record, without waiting. On an error nothing was queued, and no report will come.
    pub fn produce(&self, record: Outgoing<'_>) -> Result<(), Code> {
        use c::rd_kafka_vtype_t as Type;
        use c::rd_kafka_vu_s__bindgen_ty_1 as Value;
        let time = time::handed(record.timestamp_ms)?;
        let headers = headers(record.headers)?;
        let arguments = [
            c::rd_kafka_vu_t { vtype: Type::RD_KAFKA_VTYPE_RKT, u: Value { rkt: self.ptr() } },
            c::rd_kafka_vu_t { vtype: Type::RD_KAFKA_VTYPE_MSGFLAGS, u: Value { i: c::RD_KAFKA_MSG_F_COPY } },
            c::rd_kafka_vu_t { vtype: Type::RD_KAFKA_VTYPE_VALUE, u: Value { mem: memory(record.payload) } },
            c::rd_kafka_vu_t { vtype: Type::RD_KAFKA_VTYPE_KEY, u: Value { mem: memory(record.key) } },
            c::rd_kafka_vu_t {
                vtype: Type::RD_KAFKA_VTYPE_OPAQUE,
                u: Value { ptr: record.number as *mut c_void },
            },
            c::rd_kafka_vu_t { vtype: Type::RD_KAFKA_VTYPE_TIMESTAMP, u: Value { i64_: time } },
            c::rd_kafka_vu_t {
                vtype: Type::RD_KAFKA_VTYPE_HEADERS,
                u: Value { headers: headers.unwrap_or(std::ptr::null_mut()) },
            },
        ];
        let count = arguments.len() - usize::from(headers.is_none());
        // SAFETY: client and topic are alive; payload and key live through the call and are copied; the opaque value is
        // a number, never followed. The headers are the message's on success.
        let outcome =
            unsafe { take_error(c::rd_kafka_produceva(self.client.ptr(), arguments.as_ptr(), count)) };
        if let (Err(_), Some(headers)) = (&outcome, headers) {
            // SAFETY: after an error they are still ours.
            unsafe { c::rd_kafka_headers_destroy(headers) };
        }
        outcome
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and given back once.
        unsafe { c::rd_kafka_topic_destroy(self.ptr()) };
    }
}

/// A copy of a record's headers, owned by the caller; none when it has none.
fn headers(iter: HeaderIter<'_>) -> Result<Option<*mut c::rd_kafka_headers_t>, Code> {
    if iter.len() == 0 {
        return Ok(None);
    }
    // SAFETY: allocates, takes nothing.
    let headers = unsafe { c::rd_kafka_headers_new(iter.len()) };
    for (name, value) in iter {
        let value = memory(value);
        // SAFETY: the headers are alive; names and values have the lengths that are given, and are copied; a null value
        // is an absent one. (A slice is never longer than `isize::MAX`.)
        let code = Code(unsafe {
            calls::rd_kafka_header_add(
                headers,
                name.as_ptr().cast(),
                name.len() as isize,
                value.ptr,
                value.size as isize,
            )
        });
        if code.is_error() {
            // SAFETY: still ours.
            unsafe { c::rd_kafka_headers_destroy(headers) };
            return Err(code);
        }
    }
    Ok(Some(headers))
}

/// Bytes as librdkafka takes them: null is absent, which an empty slice is not.
fn memory(bytes: Option<&[u8]>) -> c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
    match bytes {
        Some(bytes) => c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
            ptr: bytes.as_ptr().cast_mut().cast(),
            size: bytes.len(),
        },
        None => c::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: std::ptr::null_mut(), size: 0 },
    }
}
