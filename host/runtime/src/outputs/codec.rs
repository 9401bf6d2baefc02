//! How small bytes become: with the codecs of Kafka's clients, to judge rows that are too large as they are.
//!
//! The client compresses with libraries and settings of its own, so a size is near the truth and not the truth; who uses
//! it leaves room.

use std::io::Write;

/// A codec of Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    /// By its name in `compression`; none for `none`, and for what the client would have refused.
    pub(super) fn named(name: &str) -> Option<Codec> {
        match name {
            "gzip" => Some(Codec::Gzip),
            "snappy" => Some(Codec::Snappy),
            "lz4" => Some(Codec::Lz4),
            "zstd" => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The size of these bytes when they are compressed.
    pub(super) fn size(self, bytes: &[u8]) -> usize {
        match self {
            Codec::Gzip => {
                let mut counted = flate2::write::GzEncoder::new(Count(0), flate2::Compression::default());
                counted.write_all(bytes).and_then(|()| counted.finish()).expect("counting takes every byte").0
            }
            Codec::Snappy => {
                let mut out = vec![0; snap::raw::max_compress_len(bytes.len())];
                // The only failure is a row beyond what the format holds, which no client could send either.
                snap::raw::Encoder::new().compress(bytes, &mut out).unwrap_or(bytes.len())
            }
            Codec::Lz4 => lz4_flex::block::compress(bytes).len(),
            Codec::Zstd => {
                let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
                zstd_safe::compress(&mut out[..], bytes, 0).unwrap_or(bytes.len())
            }
        }
    }
}

/// Takes bytes and keeps their number.
struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
