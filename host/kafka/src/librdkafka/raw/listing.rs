//! What the linked librdkafka says of its own keys, for the test of the table that has them all.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use rdkafka::bindings as c;

unsafe extern "C" {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void;
    fn fclose(file: *mut c_void) -> c_int;
}

/// Every key that it documents, other names of one included, with the clients that it is for: `C`, `P` or `*`.
pub(in crate::librdkafka) fn documented() -> Vec<(String, char)> {
    let path = std::env::temp_dir().join(format!("loom-librdkafka-keys-{}", std::process::id()));
    let name = CString::new(path.to_str().expect("the folder's name is text")).expect("it has no NUL");
    // SAFETY: both names end with NUL; the file is closed once, after the last use.
    unsafe {
        let file = fopen(name.as_ptr(), c"w".as_ptr());
        assert!(!file.is_null(), "{} is made", path.display());
        c::rd_kafka_conf_properties_show(file.cast());
        fclose(file);
    }
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it was there");
    let row = |line: &str| {
        let mut cells = line.split(" | ");
        let key = cells.next()?.trim();
        let mut side = cells.next()?.trim().chars();
        match (side.next(), side.next()) {
            (Some(side @ ('C' | 'P' | '*')), None) => Some((key.to_owned(), side)),
            _ => None,
        }
    };
    text.lines().filter_map(row).collect()
}

/// Every key that has a value, those that it does not document included.
pub(in crate::librdkafka) fn held() -> Vec<String> {
    let (mut global, mut topic) = (0, 0);
    // SAFETY: the configurations are ours and freed once; each list holds as many names and values as it says.
    unsafe {
        let (conf, topics) = (c::rd_kafka_conf_new(), c::rd_kafka_topic_conf_new());
        let lists = [
            (c::rd_kafka_conf_dump(conf, &mut global), &global),
            (c::rd_kafka_topic_conf_dump(topics, &mut topic), &topic),
        ];
        let mut names = Vec::new();
        for (list, count) in lists {
            let name = |at: usize| CStr::from_ptr(*list.add(at)).to_string_lossy().into_owned();
            names.extend((0..*count).step_by(2).map(name));
            c::rd_kafka_conf_dump_free(list, *count);
        }
        c::rd_kafka_topic_conf_destroy(topics);
        c::rd_kafka_conf_destroy(conf);
        names
    }
}
