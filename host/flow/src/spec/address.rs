//! What is an address of a broker.
//!
//! The client takes almost any text: of one with a scheme that is not its protocol it leaves out that address and all
//! behind it, a port that is too large it takes modulo 65536, and brackets and quotes become part of a name.

use std::net::Ipv6Addr;

const FORM: &str = "an address is `host:port`, with a port from 1 to 65535; without one it is 9092";

const SCHEME: &str =
    "write `host:port` without a scheme: how to speak to the brokers is said by `security.protocol`";

const PRINTED: &str = "it looks like a list that was printed into one text: write `brokers: [\"host:port\"]`, or several \
                       addresses in one text with commas between";

/// What is wrong with an address, as a hint. Of one that is not known, since a reference in it has no value (`open`), only
/// what stands before the reference is judged.
pub(crate) fn address_fault(text: &str, open: bool) -> Option<&'static str> {
    let known = match text.find("${").filter(|_| open) {
        Some(at) => &text[..at],
        None => text,
    };
    if known.contains("://") {
        return Some(SCHEME);
    }
    if known.contains(['"', '\'', '{', '}', '(', ')'])
        || known.starts_with('[') && known.find(']').is_none() && !open
    {
        return Some(PRINTED);
    }
    if open && known.len() < text.len() {
        return None;
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, rest)) => {
            // With a zone, as a link-local address needs it.
            let address = inside.split_once('%').map_or(inside, |(address, _)| address);
            if address.parse::<Ipv6Addr>().is_err() {
                return Some(PRINTED);
            }
            match rest.strip_prefix(':') {
                Some(port) => (inside, Some(port)),
                None if rest.is_empty() => (inside, None),
                None => return Some(FORM),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let bracketed = text.starts_with('[');
    let is_name = |host: &str| host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0)
    };
    let fits = !host.is_empty() && (bracketed || is_name(host)) && port.is_none_or(is_port);
    if fits {
        None
    } else if text.ends_with(']') {
        Some(PRINTED)
    } else {
        Some(FORM)
    }
}

/// An address as it is compared: in lower case, and with its port.
pub(crate) fn canonical(address: &str) -> String {
    let address = address.trim().to_lowercase();
    let bare = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.is_empty(),
        None => !address.contains(':'),
    };
    if bare { format!("{address}:9092") } else { address }
}

#[cfg(test)]
mod tests {
    use super::{FORM, PRINTED, SCHEME, address_fault, canonical};

    #[test]
    fn an_address_is_a_host_and_a_port_that_exists() {
        for good in [
            "h",
            "h:9092",
            "10.0.0.1:1",
            "[::1]:9092",
            "[::1]",
            "[fe80::1%eth0]:9092",
            "a.b-c_d",
            "kafka.:65535",
        ] {
            assert_eq!(address_fault(good, false), None, "{good}");
        }
        for bad in [
            "h:0",
            "h:65536",
            "h:99999",
            "h:-1",
            "h:+1",
            "h:",
            ":9092",
            "h:9092:1",
            "a b:1",
            "::1:9092",
            "[::1]9092",
            "h:9092/",
            "h/x",
            "u@h:9092",
            "h;i",
            "h:9092 i:9092",
        ] {
            assert_eq!(address_fault(bad, false), Some(FORM), "{bad}");
        }
        for bad in ["http://x:9092", "ssl://h:65535", "PLAINTEXT://h:9092", "://h"] {
            assert_eq!(address_fault(bad, false), Some(SCHEME), "{bad}");
        }
        for bad in [
            "['h:9092']",
            "[h:9092]",
            "[\"h:9092\"",
            "[h:9092",
            "i:9092]",
            "'h:9092'",
            "{h:9092}",
            "[]",
            "(h",
        ] {
            assert_eq!(address_fault(bad, false), Some(PRINTED), "{bad}");
        }
    }

    #[test]
    fn what_is_not_known_is_judged_as_far_as_it_is() {
        for open in ["${B}", "${B}:9092", "h-${N}:9092", "[${IPV6}]:9092"] {
            assert_eq!(address_fault(open, true), None, "{open}");
        }
        assert_eq!(address_fault("ssl://${B}", true), Some(SCHEME));
        assert_eq!(address_fault("['${B}']", true), Some(PRINTED));
        assert_eq!(address_fault("h:0", true), Some(FORM));
        // A literal reference is no name.
        assert!(address_fault("${B}:9092", false).is_some());
    }

    #[test]
    fn addresses_are_compared_with_their_ports() {
        assert_eq!(canonical("Kafka-1"), "kafka-1:9092");
        assert_eq!(canonical("kafka-1:9092"), "kafka-1:9092");
        assert_eq!(canonical("[::1]"), "[::1]:9092");
        assert_eq!(canonical("[::1]:9093"), "[::1]:9093");
    }
}
