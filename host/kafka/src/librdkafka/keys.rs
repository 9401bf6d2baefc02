//! Every key of the linked librdkafka, and whether a flow's `extra` may set it.
//!
//! A key that carries a promise of the host (what is committed, in which order records are written, whether an outage is
//! waited out, what is read of a transaction) is the host's. Invariant: each key of the client is in [`GROUPS`], for
//! each side that has it; a test reads the client's own list, so that a new version cannot bring a key that nobody has
//! thought about. A key that is not there is refused.

mod table;

use self::table::GROUPS;
use super::config::ClientKind;
use super::raw::Conf;
use Rule::{Between, Free, Managed, Refused};
use Side::{Both, Consumer, Producer};

/// What `extra` may do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Take any value that the client takes.
    Free,
    /// Nothing: a field of the flow sets it, or the host.
    Managed,
    /// Take a number from the first to the second.
    Between(i64, i64),
    /// Nothing: it would break a promise, or does nothing here.
    Refused,
}

/// Which clients a group is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Consumer,
    Producer,
}

/// Keys that are alike.
struct Group {
    side: Side,
    rule: Rule,
    /// The reason, as the end of a sentence about a key.
    why: &'static str,
    /// Their names, with blanks between.
    keys: &'static str,
}

impl Group {
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.keys.split_whitespace()
    }

    fn has(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }
}

/// Why a flow may not set a key to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The client has no such key.
    Unknown,
    /// A field of the flow sets it, or the host; the reason.
    Managed(&'static str),
    /// It would break a promise, or do nothing; the reason.
    Forbidden(&'static str),
    /// The value is one that the client takes and the host does not; why.
    OutOfBounds(String),
    /// The client refuses it; its own words.
    ByClient(String),
}

/// Whether a flow may set a key of a client to a value.
///
/// # Errors
/// Why it may not.
pub fn check_key(client: ClientKind, key: &str, value: &str) -> Result<(), KeyRefusal> {
    let of = |side: Side| GROUPS.iter().find(|group| group.side == side && group.has(key));
    let (this, that) = match client {
        ClientKind::Consumer => (Consumer, Producer),
        ClientKind::Producer => (Producer, Consumer),
    };
    let Some(group) = of(this).or_else(|| of(Both)).or_else(|| of(that)) else {
        return match Conf::new().set(key, value) {
            Err(why) if why.starts_with(UNKNOWN) => Err(KeyRefusal::Unknown),
            _ => Err(KeyRefusal::Forbidden("the host does not know what it does")),
        };
    };
    match group.rule {
        Managed => return Err(KeyRefusal::Managed(group.why)),
        Refused => return Err(KeyRefusal::Forbidden(group.why)),
        Free | Between(..) => {}
    }
    if group.side == that {
        let (this, that) = (this.name(), that.name());
        let why = format!("`{key}` is a setting of a {that}; a {this} ignores it");
        return Err(KeyRefusal::ByClient(why));
    }
    if value.trim().is_empty() {
        return Err(KeyRefusal::OutOfBounds("it is empty, which the client takes for not set".to_owned()));
    }
    let mut conf = Conf::new();
    conf.set(key, value).map_err(KeyRefusal::ByClient)?;
    let read = conf.get(key).unwrap_or_default();
    if value.trim() != read
        && let Ok(number) = read.parse::<f64>()
        && !same_number(value, number)
    {
        return Err(KeyRefusal::OutOfBounds(format!("the client reads {read} in it; write a plain number")));
    }
    if let Between(least, most) = group.rule
        && !read.parse().is_ok_and(|number| (least..=most).contains(&number))
    {
        let why = format!("it is a number from {least} to {most}, since {}", group.why);
        return Err(KeyRefusal::OutOfBounds(why));
    }
    Ok(())
}

/// How librdkafka begins what it says of a key that it does not have.
const UNKNOWN: &str = "No such configuration property";

/// Whether a text is the number that the client has read in it. It takes the digits at the beginning and drops the rest,
/// so that `30s` would be 30 ms, and lets numbers wrap that are too large; what it tells has six digits of a fraction.
fn same_number(written: &str, read: f64) -> bool {
    written.trim().parse::<f64>().is_ok_and(|number| (number - read).abs() <= read.abs() * 1e-5)
}

/// Every key that a flow may set at a client, for suggestions.
pub fn settable_keys() -> Vec<&'static str> {
    let open = GROUPS.iter().filter(|group| matches!(group.rule, Free | Between(..)));
    open.flat_map(Group::keys).collect()
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Both => "client",
            Consumer => "consumer",
            Producer => "producer",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ClientKind, Conf, GROUPS, Group, KeyRefusal, Rule, Side, UNKNOWN, check_key};
    use crate::librdkafka::raw::listing;

    fn sides(key: &str) -> Vec<Side> {
        GROUPS.iter().filter(|group| group.has(key)).map(|group| group.side).collect()
    }

    #[test]
    fn every_key_of_the_linked_version_is_in_the_table_for_its_clients() {
        let documented = listing::documented();
        assert!(documented.len() > 150, "{documented:?}");
        for (key, side) in &documented {
            let (here, needs) = (sides(key), |side| sides(key).contains(&side));
            let fits = match side {
                'C' => needs(Side::Consumer) || needs(Side::Both),
                'P' => needs(Side::Producer) || needs(Side::Both),
                _ => needs(Side::Both) || needs(Side::Consumer) && needs(Side::Producer),
            };
            assert!(fits, "`{key}` is new or for other clients ({side}): {here:?}");
        }
        let held = listing::held();
        assert!(held.iter().any(|key| key == "test.mock.num.brokers"), "{held:?}");
        assert!(held.iter().all(|key| !sides(key).is_empty()), "one of these is new: {held:?}");
        // What the client no longer has goes from the table too.
        for key in GROUPS.iter().flat_map(Group::keys) {
            let answer = Conf::new().set(key, "1");
            assert!(!answer.is_err_and(|why| why.starts_with(UNKNOWN)), "`{key}` is not there any more");
        }
    }

    #[test]
    fn a_key_stands_in_the_table_once_for_a_client() {
        for key in GROUPS.iter().flat_map(Group::keys) {
            let here = sides(key);
            let alone = here.len() == 1;
            let split = here.len() == 2 && here.contains(&Side::Consumer) && here.contains(&Side::Producer);
            assert!(alone || split, "{key}: {here:?}");
        }
    }

    #[test]
    fn what_would_break_a_promise_is_refused_for_a_reason() {
        let (consumer, producer) = (ClientKind::Consumer, ClientKind::Producer);
        for (client, key, value) in [
            (producer, "delivery.report.only.error", "true"),
            (consumer, "isolation.level", "read_uncommitted"),
            (producer, "message.send.max.retries", "0"),
            (producer, "acks", "1"),
            (consumer, "enable.auto.commit", "true"),
            (consumer, "enabled_events", "0"),
        ] {
            assert!(matches!(check_key(client, key, value), Err(KeyRefusal::Managed(_))), "{key}");
        }
        for (client, key, value) in [
            (producer, "queuing.strategy", "lifo"),
            (producer, "test.mock.num.brokers", "3"),
            (consumer, "api.version.request", "false"),
            (consumer, "max.poll.interval.ms", "600000"),
            (consumer, "plugin.library.paths", "x"),
            (consumer, "error_cb", "x"),
        ] {
            assert!(matches!(check_key(client, key, value), Err(KeyRefusal::Forbidden(_))), "{key}");
        }
        for (client, key, value) in [
            (producer, "queue.buffering.max.kbytes", "1"),
            (producer, "queue.buffering.max.messages", "0"),
            (producer, "max.in.flight", "6"),
            (producer, "max.in.flight.requests.per.connection", "1000"),
            (producer, "message.max.bytes", "1000"),
            (consumer, "receive.message.max.bytes", "1000000"),
            (consumer, "fetch.wait.max.ms", "0"),
            (consumer, "topic.metadata.refresh.interval.ms", "-1"),
            (consumer, "client.rack", " "),
        ] {
            assert!(matches!(check_key(client, key, value), Err(KeyRefusal::OutOfBounds(_))), "{key}");
        }
    }

    #[test]
    fn keys_values_and_sides_are_told_apart() {
        let by_client = |client, key, value| match check_key(client, key, value) {
            Err(KeyRefusal::ByClient(why)) => why,
            other => panic!("{key}: {other:?}"),
        };
        let (consumer, producer) = (ClientKind::Consumer, ClientKind::Producer);
        assert_eq!(check_key(consumer, "fetch.min.bytes", "1"), Ok(()));
        assert_eq!(check_key(producer, "socket.timeout.ms", "1000"), Ok(()));
        assert_eq!(check_key(producer, "linger.ms", "60000"), Ok(()));
        assert_eq!(check_key(producer, "max.in.flight", "5"), Ok(()));
        assert_eq!(check_key(consumer, "check.crcs", "True"), Ok(()));
        assert_eq!(check_key(consumer, "fetch.min.byte", "1"), Err(KeyRefusal::Unknown));
        assert_eq!(check_key(consumer, "Fetch.Min.Bytes", "1"), Err(KeyRefusal::Unknown));
        assert!(by_client(consumer, "fetch.min.bytes", "many").contains("fetch.min.bytes"));
        assert!(by_client(producer, "fetch.min.bytes", "1").contains("consumer"));
        assert!(by_client(consumer, "linger.ms", "1").contains("producer"));
    }

    #[test]
    fn a_number_that_the_client_reads_otherwise_is_refused() {
        let check = |key, value| check_key(ClientKind::Producer, key, value);
        for value in ["5", " 5", "5.5", "0.25", "1e2", "1234.5678"] {
            assert_eq!(check("linger.ms", value), Ok(()), "{value}");
        }
        for (key, value) in [
            ("socket.timeout.ms", "30000ms"),
            ("socket.timeout.ms", "0x7530"),
            ("batch.size", "1_000"),
            ("batch.size", "4295967296"),
            ("linger.ms", "5 ms"),
        ] {
            assert!(matches!(check(key, value), Err(KeyRefusal::OutOfBounds(_))), "{key}: {value}");
        }
    }

    /// The page that users read is the table. `BLESS=1` writes it anew.
    #[test]
    fn the_page_is_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kafka-settings.md");
        let page = page();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &page).expect("the page is written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page, "{} is stale: BLESS=1 writes it anew", path.display());
    }

    fn page() -> String {
        let mut page = String::from(
            "# Settings of the Kafka client\n\nWhat `extra` of a consumer or producer may set, of all that the linked \
             librdkafka has; this page is made from\nthe host's own table. What a key means is said in librdkafka's \
             [CONFIGURATION.md](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). A key without a\n\
             side is for both clients.\n\n`check` refuses a key that is managed or refused, a number outside its bounds, an empty \
             value, a number with anything behind it\n(`30s`), and settings with which the client would not start. \
             These too are tried by the client itself: it is started\nwithout an address, and ended at once.\n",
        );
        for (title, of) in [
            ("Free", Rule::Free),
            ("Bounded", Rule::Between(0, 0)),
            ("Managed: the host or a field of the flow sets them", Rule::Managed),
            ("Refused", Rule::Refused),
        ] {
            page.push_str(&format!("\n## {title}\n"));
            let alike = |rule: Rule| std::mem::discriminant(&rule) == std::mem::discriminant(&of);
            for group in GROUPS.iter().filter(|group| alike(group.rule)) {
                let keys: Vec<String> = group.keys().map(|key| format!("`{key}`")).collect();
                let side = match group.side {
                    Side::Both => String::new(),
                    side => format!(" ({})", side.name()),
                };
                let bounds = match group.rule {
                    Rule::Between(least, most) => format!("{least} to {most}; "),
                    _ => String::new(),
                };
                page.push_str(&format!("- {}{side}: {bounds}{}.\n", keys.join(", "), group.why));
            }
        }
        page
    }
}
