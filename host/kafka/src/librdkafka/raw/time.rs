//! A record's time of 0.
//!
//! librdkafka takes a time of 0 for "now" and has no other way to say 0. It does let interceptors change a record before it
//! is queued, so such a record is handed over with a stand-in for its time, and an interceptor of ours replaces that. The
//! time stands in a part of the message that is librdkafka's own. Its place is the one of a version that was looked at
//! ([`can_be_zero`]; with others such a record is refused), and is written to only where the stand-in was found.

use std::ffi::{CStr, c_char, c_int, c_void};

use rdkafka::bindings as c;

use super::calls;
use super::code::Code;

/// librdkafka 2.12.1, whose `rd_kafka_msg_t` begins as [`Begin`] does.
const KNOWN: c_int = 0x020c_01ff;

/// Stands for a time of 0. No record carries it: times below 0 are none.
const STAND_IN: i64 = i64::MIN;

const NAME: &CStr = c"loom-time";

/// How librdkafka's message begins that the application sees the first part of.
#[repr(C)]
struct Begin {
    seen: c::rd_kafka_message_t,
    link: [*mut c_void; 2],
    flags: c_int,
    kind_of_time: c_int,
    time: i64,
}

/// Whether a time of 0 can be written.
pub(super) fn can_be_zero() -> bool {
    // SAFETY: takes nothing, answers a number.
    (unsafe { c::rd_kafka_version() }) == KNOWN
}

/// What is handed to librdkafka for a record's time; none is the client's clock.
pub(super) fn handed(time: Option<i64>) -> Result<i64, Code> {
    match time {
        None => Ok(0),
        Some(0) if can_be_zero() => Ok(STAND_IN),
        Some(time) if time > 0 => Ok(time),
        Some(_) => Err(Code::INVALID_TIMESTAMP),
    }
}

/// Has the clients of a configuration write a time of 0.
pub(super) fn intercept(conf: *mut c::rd_kafka_conf_t) {
    if !can_be_zero() {
        return;
    }
    // SAFETY: the caller's configuration is alive; name and callback are static. It fails only where the same was added.
    unsafe {
        calls::rd_kafka_conf_interceptor_add_on_new(conf, NAME.as_ptr(), Some(on_new), std::ptr::null_mut());
    }
}

/// # Safety
/// Called by librdkafka with a client that is being made.
unsafe extern "C" fn on_new(
    client: *mut c::rd_kafka_t,
    _: *const c::rd_kafka_conf_t,
    _: *mut c_void,
    _: *mut c_char,
    _: usize,
) -> c_int {
    // SAFETY: by the contract above; name and callback are static.
    unsafe {
        calls::rd_kafka_interceptor_add_on_send(client, NAME.as_ptr(), Some(on_send), std::ptr::null_mut())
    }
}

/// # Safety
/// Called by librdkafka, in the thread that produces, with a message that is not queued yet and nobody else's.
unsafe extern "C" fn on_send(
    _: *mut c::rd_kafka_t,
    message: *mut c::rd_kafka_message_t,
    _: *mut c_void,
) -> c_int {
    let mut kind = 0;
    // SAFETY: the message is alive, and `kind` is there to be written to.
    if unsafe { calls::rd_kafka_message_timestamp(message, &mut kind) } == STAND_IN {
        // SAFETY: it is the message of a version that begins so, by `intercept`.
        unsafe {
            let time = std::ptr::addr_of_mut!((*message.cast::<Begin>()).time);
            if *time == STAND_IN {
                *time = 0;
            }
        }
    }
    Code::NONE.0
}

#[cfg(test)]
mod tests {
    use super::{STAND_IN, can_be_zero, handed};

    #[test]
    fn the_linked_version_is_one_whose_messages_were_looked_at() {
        assert!(can_be_zero(), "look at `rd_kafka_msg_t` of the new version, and name it here");
    }

    #[test]
    fn every_time_that_a_record_can_carry_is_handed_over() {
        assert_eq!(handed(None), Ok(0));
        assert_eq!(handed(Some(0)), Ok(STAND_IN));
        assert_eq!(handed(Some(1)), Ok(1));
        assert_eq!(handed(Some(i64::MAX)), Ok(i64::MAX));
        assert!(handed(Some(-1)).is_err());
    }
}
