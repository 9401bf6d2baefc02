//! What a topic's configuration says of records that are written to it: which it refuses, and how long it keeps them.

use std::time::Duration;

use crate::facts::DEFAULT_MAX_MESSAGE_BYTES;

/// See the module's description, and [`OutputInfo`](crate::OutputInfo) for the fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub max_message_bytes: usize,
    pub compacted: bool,
    pub keeps: Option<Duration>,
}

impl Limits {
    /// What is assumed where it is not told.
    pub const ASSUMED: Limits =
        Limits { max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES, compacted: false, keeps: None };

    /// What is asked for.
    pub const KEYS: [&'static str; 4] =
        ["max.message.bytes", "cleanup.policy", "retention.ms", "message.timestamp.type"];

    /// From the values of the keys; none where it is not told what a record is refused for.
    pub fn read(values: &[Option<String>]) -> Option<Limits> {
        let [bytes, policy, retention, time] = values else { return None };
        let policy = policy.as_deref()?;
        let retention = retention.as_deref().and_then(|milliseconds| milliseconds.trim().parse().ok());
        let of_the_record = time.as_deref() != Some("LogAppendTime");
        Some(Limits {
            max_message_bytes: bytes.as_deref()?.trim().parse().ok()?,
            compacted: policy.contains("compact"),
            keeps: retention
                .filter(|_| of_the_record && policy.contains("delete"))
                .map(Duration::from_millis),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Limits;

    #[test]
    fn what_a_topic_keeps_by_the_time_of_its_records_is_what_its_values_say() {
        let keeps = |policy: &str, retention: Option<&str>, time: Option<&str>| {
            let some = |value: &str| Some(value.to_owned());
            let values = [some("2000"), some(policy), retention.and_then(some), time.and_then(some)];
            Limits::read(&values).unwrap().keeps
        };
        let week = Some("604800000");
        assert_eq!(keeps("delete", week, Some("CreateTime")), Some(Duration::from_secs(7 * 24 * 3600)));
        assert_eq!(keeps("compact,delete", week, None), Some(Duration::from_secs(7 * 24 * 3600)));
        for (policy, retention, time) in [
            ("delete", Some("-1"), Some("CreateTime")),
            ("delete", week, Some("LogAppendTime")),
            ("compact", week, Some("CreateTime")),
            ("delete", None, Some("CreateTime")),
        ] {
            assert_eq!(keeps(policy, retention, time), None, "{policy} {retention:?} {time:?}");
        }
        let without = |at: usize| {
            let mut values = ["2000", "delete", "1", "CreateTime"].map(|value| Some(value.to_owned()));
            values[at] = None;
            Limits::read(&values)
        };
        assert!(without(0).is_none() && without(1).is_none(), "what records are refused for is not guessed");
        assert!(without(2).is_some() && without(3).is_some());
    }
}
