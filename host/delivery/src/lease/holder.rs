//! Who holds the lease, as a text beside the beat's number.
//!
//! `loom1 run=ID host=NAME process=PID place=PLACE start=MILLISECONDS`, with the words `takeover` and `released` where they
//! hold.

use std::fmt;

use crate::mark::{RunId, words};

/// One host, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The machine's name.
    pub host: String,
    /// The process's id there.
    pub process: u32,
    /// What tells process ids of one machine from those of another of the same name (a container, the machine after a
    /// restart); empty = not known, and then no process is taken for gone.
    pub place: String,
    /// When it started, in milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// It took over, or means to.
    pub take_over: bool,
    /// It stopped cleanly: nobody owns the group.
    pub released: bool,
}

impl Holder {
    /// Reads a text; none when it is not of this format.
    #[must_use]
    pub fn parse(text: &str) -> Option<Holder> {
        let (mut run, mut host, mut process, mut place, mut started_ms) = (None, None, 0, String::new(), 0);
        let (mut take_over, mut released) = (false, false);
        for (name, value) in words(text)? {
            match name {
                "run" => run = value.parse().ok(),
                "host" => host = Some(value.to_owned()),
                "process" => process = value.parse().unwrap_or_default(),
                "place" => value.clone_into(&mut place),
                "start" => started_ms = value.parse().unwrap_or_default(),
                "takeover" => take_over = true,
                "released" => released = true,
                _ => {}
            }
        }
        Some(Holder { run: run?, host: host?, process, place, started_ms, take_over, released })
    }

    /// Whether it is a process of the very machine that `self` runs on, so that its id can be looked up there.
    #[must_use]
    pub fn is_neighbour(&self, other: &Holder) -> bool {
        !self.place.is_empty() && self.place == other.place && self.host == other.host
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_word = |text: &str| text.replace(|c: char| c.is_whitespace(), "-");
        write!(f, "loom1 run={} host={} process={}", self.run, one_word(&self.host), self.process)?;
        if !self.place.is_empty() {
            write!(f, " place={}", one_word(&self.place))?;
        }
        write!(f, " start={}", self.started_ms)?;
        f.write_str(if self.take_over { " takeover" } else { "" })?;
        f.write_str(if self.released { " released" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::Holder;
    use crate::mark::RunId;

    #[test]
    fn what_was_written_is_read() {
        let mut holder = Holder {
            run: RunId(255),
            host: "pod-7".to_owned(),
            process: 42,
            place: "4026531836-1a2b".to_owned(),
            started_ms: 1_700_000_000_123,
            take_over: false,
            released: false,
        };
        let text = holder.to_string();
        assert_eq!(
            text,
            "loom1 run=00000000000000ff host=pod-7 process=42 place=4026531836-1a2b start=1700000000123"
        );
        assert_eq!(Holder::parse(&text), Some(holder.clone()));
        (holder.take_over, holder.released, holder.place) = (true, true, String::new());
        assert_eq!(Holder::parse(&holder.to_string()), Some(holder.clone()));
        assert_eq!(Holder::parse(&format!("{holder} later=1")), Some(holder));
        for text in
            ["", "loom1", "loom1 run=00000000000000ff", "loom1 host=a", "loom9 run=00000000000000ff host=a"]
        {
            assert_eq!(Holder::parse(text), None, "{text}");
        }
    }

    #[test]
    fn processes_are_compared_only_on_one_machine() {
        let here = Holder::parse("loom1 run=0000000000000001 host=a place=x").unwrap();
        let of = |host: &str, place: &str| Holder { host: host.into(), place: place.into(), ..here.clone() };
        assert!(here.is_neighbour(&of("a", "x")));
        assert!(!here.is_neighbour(&of("a", "y")) && !here.is_neighbour(&of("b", "x")));
        assert!(!of("a", "").is_neighbour(&of("a", "")), "an unknown place is nobody's");
    }
}
