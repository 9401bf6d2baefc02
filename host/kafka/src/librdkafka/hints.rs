//! What librdkafka knows of a connection that failed, and says nowhere but in passing: why a certificate did not hold, and
//! that a broker closes connections. Errors that would not name a cause are explained with it.
//!
//! It is kept for the process, by the broker's address, since it comes on threads that know no more than that.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many brokers are remembered.
const BROKERS: usize = 1000;

/// The last thing that happened to a connection with a broker.
static HINTS: Mutex<BTreeMap<String, Hint>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Hint {
    /// When it closed a connection, and the line about that.
    closed: Option<(Instant, String)>,
    /// Why its certificate did not hold.
    certificate: Option<&'static str>,
}

fn hints() -> MutexGuard<'static, BTreeMap<String, Hint>> {
    HINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(broker: &str, change: impl FnOnce(&mut Hint)) {
    let mut hints = hints();
    if hints.len() >= BROKERS && !hints.contains_key(broker) {
        hints.clear();
    }
    change(hints.entry(broker.to_owned()).or_default());
}

/// Notes a line of the client's log, `[thrd:…]: <broker>/<id>: Disconnected…`, if it is about a connection that was closed
/// in good order. Says whether it is.
pub(super) fn closed(facility: &str, text: &str) -> bool {
    let closed = facility == "FAIL" && text.contains(": Disconnected");
    if closed && let Some(broker) = text.split(' ').nth(1).and_then(|name| name.split('/').rev().nth(1)) {
        change(broker, |hint| hint.closed = Some((Instant::now(), text.to_owned())));
    }
    closed
}

/// Why brokers of these addresses may give no answer, where they have closed connections since then: a listener does so
/// that speaks another protocol than the client.
pub(super) fn why_no_answer(brokers: &[String], since: Instant) -> Option<String> {
    let hints = hints();
    let closed = brokers.iter().find_map(|broker| {
        hints.get(broker.trim())?.closed.as_ref().filter(|(at, _)| *at >= since).map(|(_, text)| text)
    })?;
    Some(format!(
        "{closed}: the broker closes the connection. Does this listener speak what `security.protocol` says, or TLS or SASL?"
    ))
}

/// Notes that a broker's certificate did not hold, with OpenSSL's number of the reason. Returns it in words.
pub(super) fn certificate(broker: &str, number: i32) -> &'static str {
    let why = match number {
        9 => "it is not valid yet",
        10 => "it has expired",
        18 => "it is signed by itself and not trusted",
        19..=21 => "no trusted authority has signed it",
        23 => "it is revoked",
        62 => "it is for another host name",
        64 => "it is for another address",
        _ => "it does not hold",
    };
    change(broker, |hint| hint.certificate = Some(why));
    why
}

/// Why the certificate of the broker that an error's text names did not hold.
pub(super) fn why_not_trusted(text: &str) -> Option<&'static str> {
    let hints = hints();
    hints.iter().find_map(|(broker, hint)| hint.certificate.filter(|_| text.contains(broker.as_str())))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{certificate, closed, why_no_answer, why_not_trusted};

    #[test]
    fn a_connection_that_is_closed_hints_at_the_protocol_of_its_broker_alone() {
        let start = Instant::now();
        assert!(!closed("FAIL", "[thrd:hinted:1/bootstrap]: hinted:1/bootstrap: Connect failed"));
        assert!(!closed("ELSE", "[thrd:hinted:1/bootstrap]: hinted:1/bootstrap: Disconnected"));
        let hinted = ["hinted:1".to_owned()];
        assert_eq!(why_no_answer(&hinted, start), None);
        for name in ["hinted:1/bootstrap", "sasl_plaintext://hinted:1/2"] {
            let begun = Instant::now();
            let line = format!("[thrd:{name}]: {name}: Disconnected: closed by peer (after 3ms in state UP)");
            assert!(closed("FAIL", &line));
            let hint = why_no_answer(&hinted, begun).unwrap();
            assert!(hint.contains(&line) && hint.contains("security.protocol"), "{hint}");
        }
        assert_eq!(why_no_answer(&["other:1".into()], start), None);
        assert_eq!(why_no_answer(&hinted, start + Duration::from_secs(60)), None);
    }

    #[test]
    fn why_a_certificate_did_not_hold_is_known_by_the_broker() {
        assert_eq!(certificate("trusted:1", 10), "it has expired");
        assert_eq!(
            why_not_trusted("ssl://trusted:1/bootstrap: SSL handshake failed"),
            Some("it has expired")
        );
        assert_eq!(why_not_trusted("ssl://other:1/bootstrap: SSL handshake failed"), None);
    }
}
