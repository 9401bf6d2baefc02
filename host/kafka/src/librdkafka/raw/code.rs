//! Error codes as numbers: a newer broker may answer one that this client has no name for, which a Rust enum cannot
//! hold.

use std::ffi::CStr;

use rdkafka::bindings as c;
use rdkafka::helpers::rd_kafka_resp_err_t_to_rdkafka_error;
use rdkafka::types::RDKafkaErrorCode;

use super::calls;

/// A code of Kafka (from 0) or of librdkafka (below 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::librdkafka) struct Code(pub i32);

impl Code {
    /// No error.
    pub const NONE: Code = Code(0);
    /// No answer in time.
    pub const TIMED_OUT: Code = Code(-185);
    /// The right to the cluster is missing.
    pub const CLUSTER_AUTHORIZATION_FAILED: Code = Code(31);
    /// An answer that makes no sense.
    pub const BAD_MESSAGE: Code = Code(-199);
    /// No topic can have this name.
    pub const INVALID_TOPIC: Code = Code(17);
    /// A record's time is none that can be written.
    pub const INVALID_TIMESTAMP: Code = Code(32);
    /// The answer comes later.
    pub const IN_PROGRESS: Code = Code(-178);

    /// Whether it is an error at all.
    pub fn is_error(self) -> bool {
        self != Code::NONE
    }

    fn native(self) -> Option<c::rd_kafka_resp_err_t> {
        c::rd_kafka_resp_err_t::try_from(self.0).ok()
    }

    /// The code, where this client knows it.
    pub fn known(self) -> Option<RDKafkaErrorCode> {
        self.native().map(rd_kafka_resp_err_t_to_rdkafka_error)
    }

    /// Its name, such as `NOT_COORDINATOR`.
    pub fn name(self) -> &'static str {
        let Some(native) = self.native() else { return "UNKNOWN_CODE" };
        // SAFETY: for every code of the enum the answer points into a static table of NUL-terminated names.
        let name = unsafe { CStr::from_ptr(c::rd_kafka_err2name(native)) };
        name.to_str().unwrap_or("UNKNOWN_CODE")
    }

    /// What it says, for people.
    pub fn text(self) -> &'static str {
        let Some(native) = self.native() else { return "a code that this client does not know" };
        // SAFETY: as for the name.
        let text = unsafe { CStr::from_ptr(c::rd_kafka_err2str(native)) };
        text.to_str().unwrap_or("an error without a readable text")
    }
}

/// Takes over an error object that a call returned; null is success.
///
/// # Safety
/// `error` is null or an error object that nothing else owns.
pub(super) unsafe fn take_error(error: *mut c::rd_kafka_error_t) -> Result<(), Code> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, and ours by the contract above; it is not used after it is destroyed.
    let code = unsafe {
        let code = calls::rd_kafka_error_code(error);
        c::rd_kafka_error_destroy(error);
        code
    };
    Err(Code(code))
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_have_the_names_that_kafka_gives_them() {
        assert_eq!(Code(16).name(), "NOT_COORDINATOR");
        assert_eq!(Code(-140).name(), "_AUTO_OFFSET_RESET");
        assert!(Code(16).is_error() && !Code::NONE.is_error());
    }

    #[test]
    fn a_code_that_no_client_knows_is_still_a_value() {
        assert_eq!(Code(31_999).known(), None);
        assert_eq!(Code(31_999).name(), "UNKNOWN_CODE");
    }
}
