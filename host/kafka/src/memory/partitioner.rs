//! Kafka's default partitioner for keyed records: the 32-bit murmur2 of the key, its sign bit cleared, modulo the
//! number of partitions. Java clients and librdkafka's `murmur2_random` place a key on the same partition.

const SEED: u32 = 0x9747_b28c;
const MIX: u32 = 0x5bd1_e995;

fn murmur2(data: &[u8]) -> u32 {
    // The length is mixed in as 32 bits by definition of the hash.
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(MIX);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MIX) ^ k.wrapping_mul(MIX);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

/// The partition of a key in a topic with that many partitions. Panics when there is none.
#[must_use]
pub fn partition_of_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    (murmur2(key) & 0x7fff_ffff) as i32 % partitions
}

#[cfg(test)]
mod tests {
    use super::{murmur2, partition_of_key};

    #[test]
    fn hashes_are_those_of_the_java_client() {
        // Values of org.apache.kafka.common.utils.Utils.murmur2, as its own unit test lists them.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn only_the_sign_is_cleared_before_the_partition_is_chosen() {
        // -973,932,308 without its sign bit is 1,173,551,340.
        assert_eq!(partition_of_key(b"21", 1000), 340);
        assert_eq!(partition_of_key(b"abc", 1000), 107);
    }

    #[test]
    fn an_empty_key_is_a_key() {
        let partition = partition_of_key(b"", 7);
        assert!((0..7).contains(&partition));
        assert_eq!(partition, partition_of_key(b"", 7));
    }
}
