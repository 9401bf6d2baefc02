//! A client setting under `extra` that is the flow language's or the host's to make, or that
//! the client does not know or refuses.
//!
//! A value is shown only in the client's own words, and then without what came from outside or sounds like a secret.

use crate::ask::{ClientKind, KafkaKeys, KeyRefusal};
use crate::checks::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{ExtraSpec, nearest};

/// Settings that are managed, with what to write instead. A name that ends with `.` stands for all that start so.
const MANAGED: [(&str, &str); 19] = [
    ("bootstrap.servers", "the field `brokers` sets it"),
    ("metadata.broker.list", "the field `brokers` sets it"),
    ("group.", "the field `group_id` sets the group, and the host is no member of it"),
    ("enable.auto.", "the field `delivery` decides when offsets are committed"),
    (
        "auto.commit.interval.ms",
        "`runtime.commit_interval_ms` is the time between two commits, in both modes",
    ),
    ("auto.commit.enable", "the field `delivery` decides when offsets are committed"),
    ("auto.offset.reset", "the field `auto_offset_reset` sets it"),
    ("enable.partition.eof", "the host needs it as it is"),
    ("security.protocol", "the field `security.protocol` sets it"),
    ("sasl.", "the fields under `security` set it"),
    ("enable.idempotence", "the field `idempotence` sets it"),
    ("message.timeout.ms", "the host waits for an outage to end"),
    ("delivery.timeout.ms", "the host waits for an outage to end"),
    ("acks", "the host needs every acknowledgement"),
    ("request.required.acks", "the host needs every acknowledgement"),
    ("partitioner", "the host partitions as Kafka's Java clients do"),
    ("partitioner_cb", "the host partitions as Kafka's Java clients do"),
    ("compression.", "the field `compression` sets it"),
    ("transactional.id", "the host does not use transactions"),
];

pub(super) fn check(checks: &mut Checks<'_>, keys: &dyn KafkaKeys) {
    let Some(kafka) = &checks.flow.kafka else { return };
    for consumer in &kafka.consumers {
        settings(checks, keys, ClientKind::Consumer, &consumer.extra);
    }
    for producer in kafka.producer.iter().chain(&kafka.producers) {
        settings(checks, keys, ClientKind::Producer, &producer.extra);
    }
}

fn settings(checks: &mut Checks<'_>, keys: &dyn KafkaKeys, client: ClientKind, extra: &[ExtraSpec]) {
    for setting in extra {
        let key = setting.key.as_str();
        let managed = MANAGED
            .iter()
            .find(|(name, _)| if name.ends_with('.') { key.starts_with(name) } else { key == *name });
        if let Some((_, instead)) = managed {
            let message = format!("`{key}` is managed: {instead}");
            let problem = Problem::error(Code::KafkaConfigInvalid, message).hint("remove it from `extra`");
            checks.report.push(&setting.key_place, problem);
            continue;
        }
        let problem = match keys.check(client, key, &setting.value.value) {
            Ok(()) => continue,
            Err(KeyRefusal::Unknown) => {
                let near = nearest(key, keys.known()).map(|near| format!("did you mean `{near}`?"));
                Problem::error(Code::KafkaConfigInvalid, format!("the Kafka client knows no setting `{key}`"))
                    .maybe_hint(near)
            }
            // Whether a value fits is not known as long as it is a reference without one.
            Err(KeyRefusal::Refused(_)) if setting.value.open => continue,
            Err(KeyRefusal::Refused(why)) => {
                let why = checks.outside.redact(&why);
                let message = format!("the Kafka client refuses `{key}` for a {}: {why}", client.name());
                Problem::error(Code::KafkaConfigInvalid, message)
            }
        };
        checks.report.push(&setting.key_place, problem);
    }
}
