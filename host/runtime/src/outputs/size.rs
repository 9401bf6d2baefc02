//! How large a row is to a broker: the batch that it would be alone, as Kafka writes it (message format 2).
//!
//! Clients put no more into a batch than the topic takes, so a batch that is too large holds one row, and this is its
//! size.

use loom_types::Batch;

use super::codec::Codec;

/// The bytes of a batch beside its records.
const BATCH_OVERHEAD: usize = 61;

/// Attributes, and the differences of time and offset to the batch's first record: of that record, nothing.
const RECORD_FIXED: usize = 3;

/// The longest a length can be as Kafka writes it.
const LONGEST_LENGTH: usize = 5;

/// A number that no batch of one row of this batch exceeds, uncompressed.
pub(super) fn upper_bound(batch: &Batch) -> usize {
    let key = batch.key_column().map_or(0, |key| key.data().values().len());
    let headers = batch.header_column().map_or(0, |headers| {
        let headers = headers.data();
        let (names, values) = (headers.names(), headers.values());
        names.values().len() + values.values().len() + 2 * LONGEST_LENGTH * names.len()
    });
    let payload = batch.payload_column().data().values().len();
    BATCH_OVERHEAD + RECORD_FIXED + 4 * LONGEST_LENGTH + payload + key + headers
}

/// The size of a row as a batch of its own, uncompressed.
pub(super) fn of_row(batch: &Batch, row: u32) -> usize {
    let body = body(batch, row);
    BATCH_OVERHEAD + length(Some(body)) + body
}

fn body(batch: &Batch, row: u32) -> usize {
    let bytes = |bytes: Option<&[u8]>| {
        let size = bytes.map(<[u8]>::len);
        length(size) + size.unwrap_or(0)
    };
    let headers = batch.headers(row);
    let mut size =
        RECORD_FIXED + bytes(batch.key(row)) + bytes(batch.payload(row)) + length(Some(headers.len()));
    for (name, value) in headers {
        size += bytes(Some(name)) + bytes(value);
    }
    size
}

/// The bytes of a length: zigzag, seven bits a byte; that of nothing is -1.
fn length(size: Option<usize>) -> usize {
    let zigzag = size.map_or(1, |size| (size as u64) << 1);
    (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
}

/// About the size of a row as a batch of its own that a client compressed; clients send what does not shrink as it is.
pub(super) fn compressed(batch: &Batch, row: u32, codec: Codec) -> usize {
    let plain = of_row(batch, row);
    let mut record = Vec::with_capacity(plain);
    record.extend_from_slice(batch.key(row).unwrap_or_default());
    record.extend_from_slice(batch.payload(row).unwrap_or_default());
    for (name, value) in batch.headers(row) {
        record.extend_from_slice(name);
        record.extend_from_slice(value.unwrap_or_default());
    }
    // Lengths and counts compress too, and are few.
    let around = plain - record.len();
    plain.min(around + codec.size(&record))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

    use super::{compressed, length, of_row, upper_bound};
    use crate::outputs::codec::Codec;

    fn row(key: Option<&[u8]>, payload: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        headers.iter().for_each(|(name, value)| builder.header(name, *value));
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(0),
                timestamp_ms: None,
                key,
                payload,
                row: "",
            })
            .unwrap();
        builder.finish()
    }

    #[test]
    fn lengths_are_as_long_as_kafka_writes_them() {
        let all = [(None, 1), (Some(0), 1), (Some(63), 1), (Some(64), 2), (Some(8191), 2), (Some(8192), 3)];
        for (size, bytes) in all {
            assert_eq!(length(size), bytes, "{size:?}");
        }
    }

    /// Counted by hand, from the definition of the format.
    #[test]
    fn a_row_is_as_large_as_its_batch_in_the_log() {
        assert_eq!(of_row(&row(None, Some(b"hello"), &[]), 0), 73);
        assert_eq!(of_row(&row(Some(b"k"), Some(b"hello"), &[(b"h", Some(b"v"))]), 0), 78);
        assert_eq!(of_row(&row(Some(b"k"), None, &[(b"h", None)]), 0), 72);
    }

    #[test]
    fn the_bound_holds() {
        let large = vec![7; 100_000];
        for batch in [
            row(None, None, &[]),
            row(Some(&large), Some(&large), &[(&large, Some(&large)), (b"", None)]),
            row(None, Some(b"x"), &[(b"n", Some(b"")), (b"n", None), (b"m", Some(&large))]),
        ] {
            assert!(of_row(&batch, 0) <= upper_bound(&batch));
        }
    }

    #[test]
    fn one_letter_compresses_and_noise_does_not() {
        let letters = vec![b'A'; 1_500_000];
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u8> = (0..200_000).map(|_| random.u8(..)).collect();
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            assert!(compressed(&row(None, Some(&letters), &[]), 0, codec) < 100_000, "{codec:?}");
            let batch = row(None, Some(&noise), &[]);
            let size = compressed(&batch, 0, codec);
            assert!(size <= of_row(&batch, 0) && size > 199_000, "{codec:?}: {size}");
        }
    }
}
