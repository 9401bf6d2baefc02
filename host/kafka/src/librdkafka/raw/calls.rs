//! librdkafka's functions that answer with one of C's enums, declared with what an enum is in C: a number.
//!
//! The generated bindings declare Rust enums there. A broker, or another version of the library, may answer with a number
//! that such an enum has no variant for, and to hold it would be undefined behaviour before anybody could look at it. So
//! these are called here, and never through the bindings; [`Code`](super::Code) says what a number means.

use std::ffi::{c_char, c_int, c_void};

use rdkafka::bindings as c;

/// C's answer to a call, or a code that something carries.
type Number = c_int;

/// What is called with the answer to a commit.
type OnCommit =
    unsafe extern "C" fn(*mut c::rd_kafka_t, Number, *mut c::rd_kafka_topic_partition_list_t, *mut c_void);

/// What judges a broker's certificate.
type OnCertificate = unsafe extern "C" fn(
    *mut c::rd_kafka_t,
    *const c_char,
    i32,
    *mut c_int,
    c_int,
    *const c_char,
    usize,
    *mut c_char,
    usize,
    *mut c_void,
) -> c_int;

/// What sees a record before it is queued.
type OnSend = unsafe extern "C" fn(*mut c::rd_kafka_t, *mut c::rd_kafka_message_t, *mut c_void) -> Number;

/// What sees a client before it starts.
type OnNew = unsafe extern "C" fn(
    *mut c::rd_kafka_t,
    *const c::rd_kafka_conf_t,
    *mut c_void,
    *mut c_char,
    usize,
) -> Number;

unsafe extern "C" {
    pub(super) fn rd_kafka_conf_set(
        conf: *mut c::rd_kafka_conf_t,
        name: *const c_char,
        value: *const c_char,
        why: *mut c_char,
        room: usize,
    ) -> Number;

    pub(super) fn rd_kafka_conf_get(
        conf: *const c::rd_kafka_conf_t,
        name: *const c_char,
        value: *mut c_char,
        room: *mut usize,
    ) -> Number;

    pub(super) fn rd_kafka_conf_set_ssl_cert_verify_cb(
        conf: *mut c::rd_kafka_conf_t,
        callback: Option<OnCertificate>,
    ) -> Number;

    pub(super) fn rd_kafka_conf_interceptor_add_on_new(
        conf: *mut c::rd_kafka_conf_t,
        name: *const c_char,
        on_new: Option<OnNew>,
        opaque: *mut c_void,
    ) -> Number;

    pub(super) fn rd_kafka_interceptor_add_on_send(
        client: *mut c::rd_kafka_t,
        name: *const c_char,
        on_send: Option<OnSend>,
        opaque: *mut c_void,
    ) -> Number;

    pub(super) fn rd_kafka_poll_set_consumer(client: *mut c::rd_kafka_t) -> Number;

    pub(super) fn rd_kafka_assign(
        client: *mut c::rd_kafka_t,
        partitions: *const c::rd_kafka_topic_partition_list_t,
    ) -> Number;

    pub(super) fn rd_kafka_commit_queue(
        client: *mut c::rd_kafka_t,
        offsets: *const c::rd_kafka_topic_partition_list_t,
        replies: *mut c::rd_kafka_queue_t,
        callback: Option<OnCommit>,
        opaque: *mut c_void,
    ) -> Number;

    pub(super) fn rd_kafka_committed(
        client: *mut c::rd_kafka_t,
        partitions: *mut c::rd_kafka_topic_partition_list_t,
        timeout_ms: c_int,
    ) -> Number;

    pub(super) fn rd_kafka_offsets_for_times(
        client: *mut c::rd_kafka_t,
        offsets: *mut c::rd_kafka_topic_partition_list_t,
        timeout_ms: c_int,
    ) -> Number;

    pub(super) fn rd_kafka_query_watermark_offsets(
        client: *mut c::rd_kafka_t,
        topic: *const c_char,
        partition: i32,
        low: *mut i64,
        high: *mut i64,
        timeout_ms: c_int,
    ) -> Number;

    pub(super) fn rd_kafka_metadata(
        client: *mut c::rd_kafka_t,
        all_topics: c_int,
        only: *mut c::rd_kafka_topic_t,
        answer: *mut *const c::rd_kafka_metadata,
        timeout_ms: c_int,
    ) -> Number;

    pub(super) fn rd_kafka_flush(client: *mut c::rd_kafka_t, timeout_ms: c_int) -> Number;

    pub(super) fn rd_kafka_purge(client: *mut c::rd_kafka_t, flags: c_int) -> Number;

    pub(super) fn rd_kafka_fatal_error(client: *mut c::rd_kafka_t, why: *mut c_char, room: usize) -> Number;

    pub(super) fn rd_kafka_error_code(error: *const c::rd_kafka_error_t) -> Number;

    pub(super) fn rd_kafka_event_error(event: *mut c::rd_kafka_event_t) -> Number;

    pub(super) fn rd_kafka_message_timestamp(message: *const c::rd_kafka_message_t, kind: *mut c_int) -> i64;

    pub(super) fn rd_kafka_message_headers(
        message: *const c::rd_kafka_message_t,
        headers: *mut *mut c::rd_kafka_headers_t,
    ) -> Number;

    pub(super) fn rd_kafka_header_get_all(
        headers: *const c::rd_kafka_headers_t,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        size: *mut usize,
    ) -> Number;

    pub(super) fn rd_kafka_header_add(
        headers: *mut c::rd_kafka_headers_t,
        name: *const c_char,
        name_size: isize,
        value: *const c_void,
        value_size: isize,
    ) -> Number;

    pub(super) fn rd_kafka_AdminOptions_set_request_timeout(
        options: *mut c::rd_kafka_AdminOptions_t,
        timeout_ms: c_int,
        why: *mut c_char,
        room: usize,
    ) -> Number;

    pub(super) fn rd_kafka_AdminOptions_set_broker(
        options: *mut c::rd_kafka_AdminOptions_t,
        broker: i32,
        why: *mut c_char,
        room: usize,
    ) -> Number;

    pub(super) fn rd_kafka_ConfigResource_error(resource: *const c::rd_kafka_ConfigResource_t) -> Number;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rdkafka::bindings as c;

    use crate::librdkafka::raw::{Client, Code, Conf, List, Name, Role, committed};

    /// A code that neither this client nor any broker of today knows.
    const FUTURE: i32 = 31_999;

    const OFFSET_FETCH: i16 = 9;

    #[test]
    fn none_of_these_functions_is_called_through_the_bindings() {
        let declared = include_str!("calls.rs").split("fn rd_kafka_").skip(1);
        let names: Vec<&str> =
            declared.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name).collect();
        assert!(names.len() > 20, "{names:?}");
        for source in [
            include_str!("admin.rs"),
            include_str!("client.rs"),
            include_str!("code.rs"),
            include_str!("event.rs"),
            include_str!("facts.rs"),
            include_str!("list.rs"),
            include_str!("message.rs"),
            include_str!("produce.rs"),
            include_str!("queue.rs"),
            include_str!("time.rs"),
        ] {
            for name in &names {
                assert!(!source.contains(&format!("c::rd_kafka_{name}(")), "rd_kafka_{name}");
            }
        }
    }

    #[test]
    fn a_code_that_the_enum_lacks_comes_through_as_a_number() {
        let mut conf = Conf::new();
        for (key, value) in [("test.mock.num.brokers", "1"), ("group.id", "g")] {
            conf.set(key, value).unwrap();
        }
        let client = Client::new(Role::Consumer, conf).unwrap();
        let codes = [FUTURE; 20];
        // SAFETY: the client is alive, and so is its mock cluster, which copies the numbers.
        unsafe {
            let cluster = c::rd_kafka_handle_mock_cluster(client.ptr());
            c::rd_kafka_mock_push_request_errors_array(
                cluster,
                OFFSET_FETCH,
                codes.len(),
                codes.as_ptr().cast(),
            );
        }
        let mut list = List::new(1);
        list.push(&Name::new("in").unwrap(), 0, -1, 0);
        let answer = committed(&client, &mut list, Duration::from_secs(30));
        assert_eq!(answer, Err(Code(FUTURE)));
        assert_eq!((Code(FUTURE).known(), Code(FUTURE).name()), (None, "UNKNOWN_CODE"));
    }
}
