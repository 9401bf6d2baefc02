//! How much may wait in producers' clients: a writer's figure, divided among its clients.
//!
//! librdkafka bounds its queue by the bytes of payloads only. Writers count keys and headers too, and what a record takes beside
//! them, so that the figure is what it says; the client's own bound is left to `extra`.

use loom_types::Batch;

/// What a row takes in a client beside its bytes.
pub const QUEUED_ROW: usize = 512;

/// What each of its headers takes.
const HEADER_OVERHEAD: usize = 64;

/// What waits in one client's queue. One row always finds room in an empty one.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: usize,
    room: usize,
}

impl Queued {
    /// Nothing, of one of so many clients that share this room.
    pub(crate) fn one_of(clients: usize, room: usize) -> Self {
        Queued { bytes: 0, room: room / clients.max(1) }
    }

    /// Counts a row, where there is room for it; what it counts as.
    pub(crate) fn take(&mut self, batch: &Batch, row: u32) -> Option<usize> {
        let bytes = batch.row_bytes(row) + QUEUED_ROW + HEADER_OVERHEAD * batch.headers(row).len();
        let fits = self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.room;
        fits.then(|| {
            self.bytes += bytes;
            bytes
        })
    }

    /// A row has left that counted so much.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

    use super::Queued;

    /// Rows with payloads and headers of these sizes.
    fn rows(sizes: &[(usize, usize)]) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (payload, header) in sizes {
            let (payload, header) = (vec![0; *payload], vec![0; *header]);
            builder.header(b"h", Some(&header));
            let offset = RecordOffset(0);
            let (key, payload) = (None, Some(&payload[..]));
            let record =
                RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key, payload, row: "" };
            builder.push(record).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn a_queue_takes_its_share_and_an_empty_one_takes_every_row() {
        let share = 100_000;
        let mut queue = Queued::one_of(4, 4 * share);
        let batch = rows(&[(share * 2, 0), (10, 0), (10, share / 2), (10, share / 2)]);
        let large = queue.take(&batch, 0).expect("it is empty");
        assert!(large > share * 2);
        assert_eq!(queue.take(&batch, 1), None);
        queue.left(large);
        let small = queue.take(&batch, 1).unwrap();
        assert!((522..700).contains(&small), "{small}");
        assert!(queue.take(&batch, 2).is_some());
        assert_eq!(queue.take(&batch, 3), None, "headers count");
    }

    #[test]
    fn small_rows_are_bounded_too() {
        let mut queue = Queued::one_of(1, 128 << 20);
        let batch = rows(&[(0, 0)]);
        let taken = (0..).take_while(|_| queue.take(&batch, 0).is_some()).count();
        assert!((100_000..300_000).contains(&taken), "{taken}");
    }
}
