//! Who holds the lease, as a text beside a committed offset.
//!
//! `loom1 run=ID host=NAME process=PID place=PLACE start=MILLISECONDS`, with the words `takeover` and `released` where they
//! hold, then how the work is laid out, as in `processes=1 workers=4 partitions=12,3`, and `beat=NUMBER`. The offset itself
//! says nothing: it lies at the partition's end, where tools that watch groups see no work left.

use std::fmt;

use loom_types::CommitOffset;

use super::Seen;
use crate::mark::{RunId, words};

/// Brokers take some 4000 bytes beside an offset. A longer list of partitions is left out.
const LONGEST_LIST: usize = 2000;

/// How the work of a flow is laid out over processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Processes, each with an entry of its own.
    pub processes: u32,
    /// Workers of this one.
    pub workers: u32,
    /// How many partitions each input topic has, in the flow's order; empty where that is not told.
    pub partitions: Vec<i32>,
}

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
    /// How its work is laid out; none where it does not say.
    pub layout: Option<Layout>,
}

impl Seen {
    /// Reads an entry. One without a beat's number has it as its offset, as earlier hosts wrote it.
    #[must_use]
    pub fn parse(offset: CommitOffset, text: &str) -> Seen {
        let beat = words(text).and_then(|mut words| words.find(|(name, _)| *name == "beat"));
        let beat = beat.and_then(|(_, number)| number.parse().ok()).unwrap_or(offset.0);
        Seen { beat, holder: Holder::parse(text) }
    }
}

impl Holder {
    /// Reads a text; none when it is not of this format.
    #[must_use]
    pub fn parse(text: &str) -> Option<Holder> {
        let (mut run, mut host, mut process, mut place, mut started_ms) = (None, None, 0, String::new(), 0);
        let (mut take_over, mut released) = (false, false);
        let (mut processes, mut workers, mut partitions) = (None, None, Vec::new());
        for (name, value) in words(text)? {
            match name {
                "run" => run = value.parse().ok(),
                "host" => host = Some(value.to_owned()),
                "process" => process = value.parse().unwrap_or_default(),
                "place" => value.clone_into(&mut place),
                "start" => started_ms = value.parse().unwrap_or_default(),
                "takeover" => take_over = true,
                "released" => released = true,
                "processes" => processes = value.parse().ok(),
                "workers" => workers = value.parse().ok(),
                "partitions" => {
                    partitions = value.split(',').filter_map(|count| count.parse().ok()).collect()
                }
                _ => {}
            }
        }
        let layout = processes.zip(workers);
        let layout = layout.map(|(processes, workers)| Layout { processes, workers, partitions });
        Some(Holder { run: run?, host: host?, process, place, started_ms, take_over, released, layout })
    }

    /// The text of its entry at a beat.
    #[must_use]
    pub fn entry(&self, beat: i64) -> String {
        format!("{self} beat={beat}")
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
        f.write_str(if self.released { " released" } else { "" })?;
        let Some(Layout { processes, workers, partitions }) = &self.layout else { return Ok(()) };
        write!(f, " processes={processes} workers={workers}")?;
        let counts: Vec<String> = partitions.iter().map(i32::to_string).collect();
        let list = counts.join(",");
        if list.is_empty() || list.len() > LONGEST_LIST { Ok(()) } else { write!(f, " partitions={list}") }
    }
}

#[cfg(test)]
mod tests {
    use loom_types::CommitOffset;

    use super::{Holder, Layout, Seen};
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
            layout: None,
        };
        let text = holder.to_string();
        assert_eq!(
            text,
            "loom1 run=00000000000000ff host=pod-7 process=42 place=4026531836-1a2b start=1700000000123"
        );
        assert_eq!(Holder::parse(&text), Some(holder.clone()));
        (holder.take_over, holder.released, holder.place) = (true, true, String::new());
        assert_eq!(Holder::parse(&holder.to_string()), Some(holder.clone()));
        assert_eq!(Holder::parse(&format!("{holder} later=1")), Some(holder.clone()));
        let layout = |partitions| Some(Layout { processes: 1, workers: 4, partitions });
        holder.layout = layout(vec![12, 3]);
        let entry = holder.entry(41);
        assert!(
            entry.ends_with(" takeover released processes=1 workers=4 partitions=12,3 beat=41"),
            "{entry}"
        );
        let seen = Seen::parse(CommitOffset(7), &entry);
        assert_eq!(seen, Seen { beat: 41, holder: Some(holder.clone()) });
        // What is too long for a broker is left out.
        let many = Holder { layout: layout(vec![100; 1000]), ..holder.clone() };
        assert!(many.entry(1).len() < 1000);
        assert_eq!(Holder::parse(&many.entry(1)).unwrap().layout, layout(Vec::new()));
        // An earlier host's entry has its number as the offset, and somebody else's text is no holder's.
        assert_eq!(Seen::parse(CommitOffset(7), &text).beat, 7);
        assert_eq!(Seen::parse(CommitOffset(7), "beat=9"), Seen { beat: 7, holder: None });
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
