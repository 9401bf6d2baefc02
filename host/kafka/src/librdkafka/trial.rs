//! Whether a client would start with its settings, asked of the client itself: what it refuses only as a whole (values
//! that contradict each other, a certificate that cannot be read) is found before a flow runs.
//!
//! A client is started as a flow would start it, but without an address, so that it speaks to nobody, and ended at once.

use std::collections::BTreeMap;

use super::config;
use super::raw::{Client, Conf, Role};
use crate::settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};

/// Whether a consumer would start.
///
/// # Errors
/// Why it would not, as a sentence that names the keys.
pub fn try_consumer(settings: &ConsumerSettings) -> Result<(), String> {
    tls(&settings.credentials, &settings.extra)?;
    let quiet = ConsumerSettings { brokers: Vec::new(), extra: quiet(&settings.extra), ..settings.clone() };
    let conf = config::consumer(&quiet, 1).map_err(|error| error.message)?;
    start(Role::Consumer, conf)
}

/// Whether a producer would start.
///
/// # Errors
/// Why it would not, as a sentence that names the keys.
pub fn try_producer(settings: &ProducerSettings) -> Result<(), String> {
    tls(&settings.credentials, &settings.extra)?;
    let quiet = ProducerSettings { brokers: Vec::new(), extra: quiet(&settings.extra), ..settings.clone() };
    let conf = config::producer(&quiet).map_err(|error| error.message)?;
    // What the client takes, and what would lose the order of records when it sends some of them again.
    let number = |key| conf.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    if !settings.idempotence && number("max.in.flight") != 1 {
        return Err(
            "`max.in.flight` must be 1 when `idempotence` is false, or records lose their order".to_owned()
        );
    }
    // A record that has no room in the empty queue never has.
    if number("queue.buffering.max.kbytes") << 10 < number("message.max.bytes") {
        return Err("`queue.buffering.max.kbytes` must have room for `message.max.bytes`".to_owned());
    }
    start(Role::Producer, conf)
}

fn start(role: Role, mut conf: Conf) -> Result<(), String> {
    // That there is no address is no news.
    conf.set("log_level", "0")?;
    Client::new(role, conf).map(drop)
}

/// Without what would make the client talk.
fn quiet(extra: &BTreeMap<String, Sensitive>) -> BTreeMap<String, Sensitive> {
    let mut extra = extra.clone();
    extra.remove("debug");
    extra
}

/// A client without TLS ignores what is set for it, and speaks in the clear.
fn tls(credentials: &CredentialSettings, extra: &BTreeMap<String, Sensitive>) -> Result<(), String> {
    let on =
        credentials.protocol.as_ref().is_some_and(|protocol| protocol.to_ascii_lowercase().ends_with("ssl"));
    let about = |key: &&String| key.starts_with("ssl.") || key.starts_with("enable.ssl.");
    if let Some(key) = extra.keys().find(about).filter(|_| !on) {
        return Err(format!("`{key}` would do nothing: `security.protocol` is not `SSL` or `SASL_SSL`"));
    }
    // OpenSSL has no words for a file that is not there.
    let files = extra.iter().filter(|(key, value)| key.ends_with(".location") && value.0 != "probe");
    for (key, Sensitive(file)) in files {
        if let Err(error) = std::fs::metadata(file) {
            return Err(format!("`{key}` names {file}, which cannot be read: {error}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn extra(keys: &[(&str, &str)]) -> BTreeMap<String, Sensitive> {
        keys.iter().map(|(key, value)| ((*key).to_owned(), Sensitive((*value).to_owned()))).collect()
    }

    fn login(protocol: &str, mechanism: &str) -> CredentialSettings {
        CredentialSettings {
            protocol: Some(protocol.into()),
            sasl_mechanism: Some(mechanism.into()),
            sasl_username: Some("u".into()),
            sasl_password: Some(Sensitive("p".into())),
        }
    }

    fn consumer(keys: &[(&str, &str)], credentials: CredentialSettings) -> Result<(), String> {
        try_consumer(&ConsumerSettings {
            brokers: vec!["127.0.0.1:1".into()],
            group_id: "g".into(),
            credentials,
            forward_tombstones: false,
            prefetch: 256 << 20,
            poll_backoff: Duration::from_millis(50),
            extra: extra(keys),
        })
    }

    fn producer(keys: &[(&str, &str)], idempotence: bool) -> Result<(), String> {
        try_producer(&ProducerSettings {
            brokers: vec!["127.0.0.1:1".into()],
            credentials: CredentialSettings::default(),
            compression: None,
            idempotence,
            largest_batch: None,
            extra: extra(keys),
        })
    }

    #[test]
    fn values_that_contradict_each_other_are_found() {
        let plain = CredentialSettings::default;
        assert_eq!(consumer(&[], plain()), Ok(()));
        assert_eq!(consumer(&[("message.max.bytes", "5000000")], plain()), Ok(()));
        for (keys, named) in [
            (&[("fetch.max.bytes", "1000")][..], "fetch.max.bytes"),
            (&[("fetch.max.bytes", "1500000000")], "receive.message.max.bytes"),
            (&[("message.max.bytes", "5000"), ("fetch.max.bytes", "4000")], "message.max.bytes"),
            (&[("max.poll.interval.ms", "1000")], "max.poll.interval.ms"),
            (&[("reconnect.backoff.ms", "5000")], "reconnect.backoff.ms"),
        ] {
            let why = consumer(keys, plain()).unwrap_err();
            assert!(why.contains(named), "{keys:?}: {why}");
        }
        for (keys, idempotence, named) in [
            (&[("max.in.flight", "6")][..], true, "max.in.flight"),
            (&[("max.in.flight.requests.per.connection", "2")], false, "max.in.flight"),
            (&[("retries", "0")], true, "retries"),
            (
                &[("message.max.bytes", "200000000"), ("queue.buffering.max.kbytes", "100000")],
                true,
                "queue.buffering.max.kbytes",
            ),
            (
                &[("queue.buffering.backpressure.threshold", "2")],
                true,
                "queue.buffering.backpressure.threshold",
            ),
        ] {
            let why = producer(keys, idempotence).unwrap_err();
            assert!(why.contains(named), "{keys:?}: {why}");
        }
        assert_eq!(producer(&[("max.in.flight", "5")], true), Ok(()));
        assert_eq!(producer(&[("max.in.flight", "1"), ("debug", "all")], false), Ok(()));
    }

    #[test]
    fn what_tls_and_logins_need_is_found() {
        let scram = login("SASL_PLAINTEXT", "SCRAM-SHA-512");
        assert_eq!(consumer(&[], scram.clone()), Ok(()));
        let nobody = CredentialSettings { sasl_username: None, ..scram };
        assert!(consumer(&[], nobody).unwrap_err().contains("sasl.username"));
        let tls = || login("SASL_SSL", "PLAIN");
        let missing = [("ssl.ca.location", "/no/such/authority.pem")];
        let why = consumer(&missing, tls()).unwrap_err();
        assert!(why.contains("`ssl.ca.location` names /no/such/authority.pem"), "{why}");
        let why = consumer(&missing, login("SASL_PLAINTEXT", "PLAIN")).unwrap_err();
        assert!(why.contains("ssl.ca.location` would do nothing"), "{why}");
        let why = consumer(&[("ssl.keystore.location", "/no/such.p12")], tls()).unwrap_err();
        assert!(why.contains("ssl.keystore"), "{why}");
    }
}
