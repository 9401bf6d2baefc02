//! Lists of partitions with offsets, as librdkafka's calls take and answer them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::NonNull;

use rdkafka::bindings as c;

use super::code::Code;

/// A topic's name as C reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::librdkafka) struct Name(CString);

impl Name {
    /// None where the text holds a NUL byte, which no topic's name does.
    pub fn new(topic: &str) -> Option<Name> {
        CString::new(topic).ok().map(Name)
    }

    pub(super) fn is(&self, other: &CStr) -> bool {
        self.0.as_c_str() == other
    }

    pub(super) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr()
    }
}

/// A list of partitions.
pub(in crate::librdkafka) struct List(NonNull<c::rd_kafka_topic_partition_list_t>);

/// One partition of a list.
pub(in crate::librdkafka) struct Entry<'a> {
    /// The offset; below 0 there is none.
    pub offset: i64,
    /// What a call said about this partition.
    pub code: Code,
    /// What the list was given beside the partition.
    pub tag: usize,
    /// What is written beside a committed offset; empty if nothing.
    pub metadata: &'a [u8],
    /// The leader's epoch beside a committed offset.
    pub leader_epoch: Option<i32>,
}

impl List {
    /// With room for `size` partitions.
    pub fn new(size: usize) -> List {
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        // SAFETY: allocates, takes nothing.
        let list = unsafe { c::rd_kafka_topic_partition_list_new(size) };
        List(NonNull::new(list).expect("librdkafka allocates a list"))
    }

    pub(super) fn ptr(&self) -> *mut c::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }

    /// Appends a partition. `tag` is any number; it comes back in answers, whose order is librdkafka's own.
    pub fn push(&mut self, topic: &Name, partition: i32, offset: i64, tag: usize) {
        self.push_with(topic, partition, offset, tag, "", None);
    }

    /// The same with what is written beside a committed offset.
    pub fn push_with(
        &mut self,
        topic: &Name,
        partition: i32,
        offset: i64,
        tag: usize,
        metadata: &str,
        leader_epoch: Option<i32>,
    ) {
        // SAFETY: the list is alive and the name is NUL-terminated and copied; the entry that comes back stays where it
        // is until the next one is added. The metadata's memory comes from librdkafka's allocator, which frees it with
        // the list.
        unsafe {
            let entry = c::rd_kafka_topic_partition_list_add(self.ptr(), topic.as_ptr(), partition);
            (*entry).offset = offset;
            (*entry).opaque = tag as *mut c_void;
            if let Some(epoch) = leader_epoch {
                c::rd_kafka_topic_partition_set_leader_epoch(entry, epoch);
            }
            if !metadata.is_empty() {
                let copy = c::rd_kafka_mem_malloc(std::ptr::null_mut(), metadata.len());
                if !copy.is_null() {
                    std::ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast::<u8>(), metadata.len());
                    (*entry).metadata = copy;
                    (*entry).metadata_size = metadata.len();
                }
            }
        }
    }

    /// Its partitions, in the list's order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        // SAFETY: the list is alive and not changed while it is borrowed.
        unsafe { entries(self.ptr()) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { c::rd_kafka_topic_partition_list_destroy(self.ptr()) };
    }
}

/// The partitions of a list.
///
/// # Safety
/// `list` is null, or is alive and unchanged through `'a`.
pub(super) unsafe fn entries<'a>(
    list: *const c::rd_kafka_topic_partition_list_t,
) -> impl Iterator<Item = Entry<'a>> {
    let (first, count) = if list.is_null() {
        (std::ptr::null_mut(), 0)
    } else {
        // SAFETY: alive by the contract above.
        unsafe { ((*list).elems, (*list).cnt) }
    };
    (0..usize::try_from(count).unwrap_or(0)).map(move |index| {
        // SAFETY: there are `count` entries from `first`. The code is read as a number, since a broker's may be none
        // of the enum's; the metadata has the length that is given, and lives with the list.
        unsafe {
            let entry = first.add(index);
            let metadata = (*entry).metadata.cast_const().cast::<u8>();
            let metadata = match (*entry).metadata_size {
                0 => &[][..],
                _ if metadata.is_null() => &[][..],
                size => std::slice::from_raw_parts(metadata, size),
            };
            Entry {
                offset: (*entry).offset,
                code: Code(std::ptr::addr_of!((*entry).err).cast::<i32>().read()),
                tag: (*entry).opaque as usize,
                metadata,
                leader_epoch: Some(c::rd_kafka_topic_partition_get_leader_epoch(entry))
                    .filter(|epoch| *epoch >= 0),
            }
        }
    })
}

/// A C string of librdkafka's, or an empty one for null.
///
/// # Safety
/// `text` is null or NUL-terminated and alive through `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::{List, Name};

    #[test]
    fn a_list_gives_back_what_it_was_given() {
        let name = Name::new("in").unwrap();
        let mut list = List::new(1);
        for number in 0..40_usize {
            let (metadata, epoch) =
                if number % 2 == 0 { ("", None) } else { ("run ä", Some(number as i32)) };
            list.push_with(&name, number as i32, 7 + number as i64, number, metadata, epoch);
        }
        for (number, entry) in list.iter().enumerate() {
            assert_eq!((entry.offset, entry.tag), (7 + number as i64, number));
            assert_eq!(entry.metadata, if number % 2 == 0 { "" } else { "run ä" }.as_bytes());
            assert_eq!(entry.leader_epoch, (number % 2 == 1).then_some(number as i32));
            assert!(!entry.code.is_error());
        }
        assert_eq!(list.iter().count(), 40);
    }

    #[test]
    fn no_topic_has_a_nul_in_its_name() {
        assert_eq!(Name::new("a\0b"), None);
    }
}
