//! Accounting for every record of an output after the fact.
//!
//! Pure: sightings in, verdict out. What a host did is told from the numbers alone; see the head of the drills.

use anyhow::{Result, ensure};
use serde::Deserialize;

/// A source record as it was seen in an output: which partition it is of, and which of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Sighting {
    /// The source partition.
    #[serde(rename = "p")]
    pub partition: u32,
    /// Its offset there.
    #[serde(rename = "i")]
    pub offset: u64,
}

impl Sighting {
    /// From the payload that the writer gave it.
    pub(super) fn from_payload(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// From a line of the sink's file.
    pub(super) fn from_sink_line(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            partition: u32,
            offset: u64,
        }
        let Line { partition, offset } = serde_json::from_str(line).ok()?;
        Some(Self { partition, offset })
    }
}

/// What an output holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Source records that are there.
    pub records: u64,
    /// Sightings beyond the first.
    pub repeated: u64,
    /// How often a partition's numbers went back.
    pub setbacks: u64,
}

/// Where things stood when a host died; both by partition.
#[derive(Clone, Debug)]
pub struct Death {
    /// The committed offset.
    pub committed: Vec<u64>,
    /// How many of the partition's sightings there were: from here on they are the next host's.
    pub seen: Vec<usize>,
}

/// Checks an output: `written` has the number of source records a partition; `deaths` those of the hosts, in order.
///
/// # Errors
/// The first record that is missing, out of order, or repeated although it was committed.
pub fn account(sightings: &[Sighting], written: &[u64], deaths: &[Death]) -> Result<Account> {
    let mut account = Account::default();
    for (partition, count) in written.iter().enumerate() {
        let offsets =
            sightings.iter().filter(|seen| seen.partition as usize == partition).map(|seen| seen.offset);
        let offsets: Vec<u64> = offsets.collect();
        let (mut reached, mut begin) = (0, 0);
        // Each host's sightings, with the offset that it may go back to; the first may not go back.
        let lives = deaths.iter().map(|death| (death.seen[partition], death.committed[partition]));
        let ends = lives.clone().map(|(end, _)| end).chain([offsets.len()]);
        let floors = std::iter::once(0).chain(lives.map(|(_, committed)| committed));
        for (end, floor) in ends.zip(floors) {
            for (at, offset) in offsets.iter().enumerate().take(end).skip(begin) {
                let due = if at == begin {
                    (*offset).clamp(floor, reached.max(floor))
                } else {
                    offsets[at - 1] + 1
                };
                ensure!(
                    *offset == due,
                    "partition {partition}: record {offset} came where {due} was due; before it came {:?}; the host \
                     began at {floor} or above",
                    &offsets[at.saturating_sub(5)..at],
                );
                account.setbacks += u64::from(*offset < reached && at == begin);
                account.repeated += u64::from(*offset < reached);
                reached = reached.max(offset + 1);
            }
            begin = end;
        }
        ensure!(reached == *count, "partition {partition}: {count} records were written, {reached} came out");
        account.records += reached;
    }
    Ok(account)
}

/// How many sightings each partition has.
pub(super) fn count(sightings: &[Sighting], partitions: u32) -> Vec<usize> {
    (0..partitions)
        .map(|partition| sightings.iter().filter(|seen| seen.partition == partition).count())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Account, Death, Sighting, account};

    fn seen(offsets: &[u64]) -> Vec<Sighting> {
        offsets.iter().map(|offset| Sighting { partition: 0, offset: *offset }).collect()
    }

    fn died(seen: usize, committed: u64) -> Death {
        Death { committed: vec![committed], seen: vec![seen] }
    }

    fn error(offsets: &[u64], written: u64, deaths: &[Death]) -> String {
        account(&seen(offsets), &[written], deaths).unwrap_err().to_string()
    }

    #[test]
    fn a_repeat_of_what_was_not_committed_is_counted() {
        let found = account(&seen(&[0, 1, 2, 1, 2, 3]), &[4], &[died(3, 1)]).unwrap();
        assert_eq!(found, Account { records: 4, repeated: 2, setbacks: 1 });
    }

    #[test]
    fn a_death_without_a_repeat_or_without_an_output_is_fine() {
        assert!(
            account(&seen(&[0, 1, 2, 3, 3]), &[4], &[died(0, 0), died(2, 2), died(2, 2), died(4, 3)]).is_ok()
        );
    }

    #[test]
    fn a_repeat_of_what_was_committed_is_found() {
        let error = error(&[0, 1, 2, 1, 2], 3, &[died(3, 2)]);
        assert!(error.contains("record 1 came where 2 was due"), "{error}");
    }

    #[test]
    fn a_repeat_by_a_host_that_lives_is_found() {
        assert!(error(&[0, 1, 1], 2, &[]).contains("record 1 came where 2 was due"));
        assert!(error(&[0, 1, 2, 2, 1], 3, &[died(3, 1)]).contains("record 1 came where 3 was due"));
    }

    #[test]
    fn a_loss_is_found_at_the_beginning_in_the_middle_and_at_the_end() {
        assert!(error(&[1, 2], 3, &[]).contains("record 1 came where 0 was due"));
        assert!(error(&[0, 2], 3, &[]).contains("record 2 came where 1 was due"));
        assert!(error(&[0, 1, 3], 4, &[died(2, 1)]).contains("record 3 came where 2 was due"));
        assert!(error(&[0, 1], 3, &[]).contains("3 records were written, 2"));
        assert!(error(&[], 1, &[]).contains("1 records were written, 0"));
    }
}
