//! Where each row of a batch came from.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::ids::RecordOffset;

/// The origin of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The source topic.
    pub topic: &'a Arc<str>,
    /// The source partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: RecordOffset,
    /// Milliseconds since 1970-01-01 UTC, where the record carries a time.
    pub timestamp_ms: Option<i64>,
    /// Empty for a record as Kafka has it; else its place among the rows made from that record, such as `2.0`.
    pub row: &'a str,
}

/// The order of two rows of one record by their [`Source::row`]: that in which they were made, each of them in the place of
/// the row that it was made of.
#[must_use]
pub fn compare_rows(one: &str, other: &str) -> Ordering {
    // Numbers without leading zeros: the longer one is the larger.
    fn places(row: &str) -> impl Iterator<Item = (usize, &str)> {
        row.split('.').map(|place| (place.len(), place))
    }
    places(one).cmp(places(other))
}

/// What a row takes: topic, partition, offset and time.
const ROW_MEMORY: usize = 2 + 4 + 8 + 16;

/// The records that many rows came from. Which of a record's rows each is, is a column of its own: rows that are made from
/// a record share its entry here.
#[derive(Clone, Debug)]
pub struct SourceColumn {
    topics: Arc<[Arc<str>]>,
    topic: Vec<u16>,
    partition: Vec<i32>,
    offset: Vec<i64>,
    timestamp_ms: Vec<Option<i64>>,
}

impl SourceColumn {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offset.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
    }

    /// The record that a row came from, as Kafka has it. Panics when there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> Source<'_> {
        Source {
            topic: &self.topics[usize::from(self.topic[row])],
            partition: self.partition[row],
            offset: RecordOffset(self.offset[row]),
            timestamp_ms: self.timestamp_ms[row],
            row: "",
        }
    }

    /// The table that a row's topic index points into.
    #[must_use]
    pub fn topics(&self) -> &Arc<[Arc<str>]> {
        &self.topics
    }

    /// The sources of rows of these columns, each named by the place of its column and its row there.
    pub(crate) fn gathered(
        columns: &[&SourceColumn],
        rows: impl Iterator<Item = (usize, usize)>,
    ) -> SourceColumn {
        let one = columns.first().map(|first| &first.topics);
        let one = one.filter(|one| columns.iter().all(|column| Arc::ptr_eq(&column.topics, one)));
        // What each column's indexes become in one table, where they have not one already.
        let mut topics: Vec<Arc<str>> = Vec::new();
        let mut index_of = |topic: &Arc<str>| {
            let known = topics.iter().position(|known| known == topic);
            known.unwrap_or_else(|| {
                topics.push(topic.clone());
                topics.len() - 1
            })
        };
        let indexes: Vec<Vec<usize>> = match one {
            Some(_) => Vec::new(),
            None => columns.iter().map(|column| column.topics.iter().map(&mut index_of).collect()).collect(),
        };
        let mut gathered = SourceBuilder::new(one.map_or_else(|| topics.into(), Arc::clone));
        for (part, row) in rows {
            let column = columns[part];
            let topic = usize::from(column.topic[row]);
            let topic = indexes.get(part).map_or(topic, |index| index[topic]);
            let topic = u16::try_from(topic).expect("a flow reads less than 2^16 topics");
            let (partition, offset) = (column.partition[row], RecordOffset(column.offset[row]));
            gathered.push(topic, partition, offset, column.timestamp_ms[row]);
        }
        gathered.finish()
    }

    /// The bytes that it takes in memory.
    pub(crate) fn memory(&self) -> usize {
        ROW_MEMORY * self.offset.capacity()
    }

    /// A row's index into [`SourceColumn::topics`]. Panics when there is no such row.
    #[must_use]
    pub fn topic_index(&self, row: usize) -> u16 {
        self.topic[row]
    }
}

/// Builds a [`SourceColumn`].
#[derive(Debug)]
pub struct SourceBuilder {
    topics: Arc<[Arc<str>]>,
    topic: Vec<u16>,
    partition: Vec<i32>,
    offset: Vec<i64>,
    timestamp_ms: Vec<Option<i64>>,
}

impl SourceBuilder {
    /// For rows of these topics.
    #[must_use]
    pub fn new(topics: Arc<[Arc<str>]>) -> Self {
        SourceBuilder {
            topics,
            topic: Vec::new(),
            partition: Vec::new(),
            offset: Vec::new(),
            timestamp_ms: Vec::new(),
        }
    }

    /// The number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offset.len()
    }

    /// Whether there is no row yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
    }

    /// Appends a row; `topic` is an index into the topics that the builder was made with.
    pub fn push(&mut self, topic: u16, partition: i32, offset: RecordOffset, timestamp_ms: Option<i64>) {
        debug_assert!(usize::from(topic) < self.topics.len());
        self.topic.push(topic);
        self.partition.push(partition);
        self.offset.push(offset.0);
        self.timestamp_ms.push(timestamp_ms);
    }

    /// The bytes that were allocated for it.
    pub(crate) fn capacity(&self) -> usize {
        ROW_MEMORY * self.offset.capacity()
    }

    /// The offset of a row. Panics when there is no such row.
    #[must_use]
    pub fn offset(&self, row: usize) -> RecordOffset {
        RecordOffset(self.offset[row])
    }

    /// The column so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> SourceColumn {
        SourceColumn {
            topics: self.topics.clone(),
            topic: std::mem::take(&mut self.topic),
            partition: std::mem::take(&mut self.partition),
            offset: std::mem::take(&mut self.offset),
            timestamp_ms: std::mem::take(&mut self.timestamp_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compare_rows;

    #[test]
    fn rows_are_in_the_order_in_which_they_were_made() {
        let made = ["", "0", "0.0", "0.10", "2", "2.0", "2.0.7", "2.1", "10", "10.9"];
        for (place, one) in made.iter().enumerate() {
            for (other_place, other) in made.iter().enumerate() {
                assert_eq!(compare_rows(one, other), place.cmp(&other_place), "{one:?} and {other:?}");
            }
        }
    }
}
