//! Configuration and client handles.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rdkafka::bindings as c;

use super::calls;
use super::code::{Code, take_error};
use super::list::List;
use super::queue::Queue;
use super::time;
use crate::librdkafka::files::Files;
use crate::librdkafka::{hints, log};

/// How long the release of a client is waited for: a broker or a name server that does not answer can hold its threads
/// longer, and a stop has a deadline.
const RELEASE: Duration = Duration::from_secs(1);

/// What a call answers that took a setting.
const CONF_OK: c_int = c::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK as c_int;

/// Room for librdkafka's explanations.
const TEXT: usize = 512;

/// Which side of Kafka a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::librdkafka) enum Role {
    /// Reads and commits, the latter only when it is told.
    Consumer,
    /// Writes.
    Producer,
}

/// A configuration under construction.
pub(in crate::librdkafka) struct Conf {
    native: NonNull<c::rd_kafka_conf_t>,
    /// The keys that name files of TLS, which the client reads when it starts.
    files: Vec<(String, String)>,
}

impl Conf {
    /// librdkafka's defaults, with log lines sent to `tracing`.
    pub fn new() -> Self {
        // Before librdkafka does it: this way OpenSSL frees nothing when the process exits, which clients that are still
        // closing (see [`RELEASE`]) would go on using from their threads, and crash.
        openssl::init();
        // SAFETY: allocates, takes nothing.
        let conf =
            NonNull::new(unsafe { c::rd_kafka_conf_new() }).expect("librdkafka allocates a configuration");
        // SAFETY: the configuration is alive; the callback is static.
        unsafe { c::rd_kafka_conf_set_log_cb(conf.as_ptr(), Some(on_log)) };
        // SAFETY: as above.
        unsafe { calls::rd_kafka_conf_set_ssl_cert_verify_cb(conf.as_ptr(), Some(on_certificate)) };
        Conf { native: conf, files: Vec::new() }
    }

    /// Sets one key; the error is librdkafka's own sentence, and names the key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let text = |what: &str| format!("`{key}` holds a NUL byte in its {what}");
        let name = CString::new(key).map_err(|_| text("name"))?;
        let c_value = CString::new(value).map_err(|_| text("value"))?;
        let mut why = [0 as c_char; TEXT];
        // SAFETY: all pointers live through the call, and the buffer's length is given.
        let outcome = unsafe {
            let conf = self.native.as_ptr();
            calls::rd_kafka_conf_set(conf, name.as_ptr(), c_value.as_ptr(), why.as_mut_ptr(), why.len())
        };
        match outcome {
            CONF_OK => {
                if key.starts_with("ssl.") && key.ends_with(".location") {
                    self.files.retain(|(set, _)| set != key);
                    self.files.push((key.to_owned(), value.to_owned()));
                }
                Ok(())
            }
            // Where a key is another name of one, the sentence has that one.
            _ => match sentence(&why) {
                why if why.contains(key) => Err(why),
                why => Err(format!("`{key}`: {why}")),
            },
        }
    }

    /// A key's value, as librdkafka has read it.
    pub fn get(&self, key: &str) -> Option<String> {
        let name = CString::new(key).ok()?;
        let (mut value, mut size) = ([0 as c_char; TEXT], TEXT);
        // SAFETY: the configuration is alive, and the buffer's length is given.
        let outcome = unsafe {
            calls::rd_kafka_conf_get(self.native.as_ptr(), name.as_ptr(), value.as_mut_ptr(), &mut size)
        };
        (outcome == CONF_OK).then(|| sentence(&value))
    }

    /// Which events queues hand out, as a sum of `RD_KAFKA_EVENT_*`.
    fn events(&mut self, mask: c_int) {
        // SAFETY: the configuration is alive.
        unsafe { c::rd_kafka_conf_set_events(self.native.as_ptr(), mask) };
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: ours; a client that took it over forgot this value.
        unsafe { c::rd_kafka_conf_destroy(self.native.as_ptr()) };
    }
}

/// A client: its threads, connections and main queue.
pub(in crate::librdkafka) struct Client {
    handle: Handle,
    files: Files,
}

/// The pointer alone, so that it can be released on another thread.
struct Handle(NonNull<c::rd_kafka_t>);

// SAFETY: librdkafka's interface is thread safe for a client's handle.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Client {
    /// Starts a client; it connects by itself. The error is librdkafka's sentence about the configuration.
    pub fn new(role: Role, mut conf: Conf) -> Result<Arc<Client>, String> {
        let (kind, events) = match role {
            Role::Consumer => {
                (c::rd_kafka_type_t::RD_KAFKA_CONSUMER, c::RD_KAFKA_EVENT_ERROR | c::RD_KAFKA_EVENT_FETCH)
            }
            Role::Producer => {
                (c::rd_kafka_type_t::RD_KAFKA_PRODUCER, c::RD_KAFKA_EVENT_ERROR | c::RD_KAFKA_EVENT_DR)
            }
        };
        conf.events(events);
        if role == Role::Producer {
            time::intercept(conf.native.as_ptr());
        }
        // Before the client reads them: a file that is replaced in between counts as replaced.
        let files = Files::read(conf.files.iter().map(|(key, value)| (&**key, &**value)));
        let mut why = [0 as c_char; TEXT];
        // SAFETY: on success the configuration belongs to the client, and `conf` is forgotten below; on failure it
        // stays ours. The buffer's length is given.
        let client = unsafe { c::rd_kafka_new(kind, conf.native.as_ptr(), why.as_mut_ptr(), why.len()) };
        let handle = Handle(NonNull::new(client).ok_or_else(|| sentence(&why))?);
        conf.files = Vec::new();
        std::mem::forget(conf);
        if role == Role::Consumer {
            // SAFETY: the client is alive. From here on what would go to its main queue goes to the consumer's.
            unsafe { calls::rd_kafka_poll_set_consumer(handle.0.as_ptr()) };
        }
        Ok(Arc::new(Client { handle, files }))
    }

    /// The files that it has read to prove itself.
    pub fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn ptr(&self) -> *mut c::rd_kafka_t {
        self.handle.0.as_ptr()
    }

    /// Reads these partitions from their offsets, and no others. Waits for the client's own thread only.
    pub fn assign(&self, partitions: &List) -> Result<(), Code> {
        // SAFETY: client and list are alive; the list is copied.
        ok(unsafe { calls::rd_kafka_assign(self.ptr(), partitions.ptr()) })
    }

    /// Stops reading these partitions and starts them at the list's offsets. Needed where fetching has ended with an
    /// error: a seek is ignored there.
    pub fn restart(&self, partitions: &List) -> Result<(), Code> {
        self.remove(partitions)?;
        self.add(partitions)
    }

    /// Reads these partitions no more.
    pub fn remove(&self, partitions: &List) -> Result<(), Code> {
        // SAFETY: client and list are alive; the list is copied; an error object that comes back is ours.
        unsafe { take_error(c::rd_kafka_incremental_unassign(self.ptr(), partitions.ptr())) }
    }

    /// Reads these partitions too, from the list's offsets.
    pub fn add(&self, partitions: &List) -> Result<(), Code> {
        // SAFETY: as above.
        unsafe { take_error(c::rd_kafka_incremental_assign(self.ptr(), partitions.ptr())) }
    }

    /// Goes on at the list's offsets; what was read ahead is dropped before this returns.
    pub fn seek(&self, partitions: &mut List) -> Result<(), Code> {
        // SAFETY: client and list are alive. With a time-out of 0 the call only bumps the partitions' versions, which
        // outdates what is queued, and enqueues the seek.
        unsafe { take_error(c::rd_kafka_seek_partitions(self.ptr(), partitions.ptr(), 0)) }?;
        match partitions.iter().find_map(|entry| (entry.code != Code::IN_PROGRESS).then_some(entry.code)) {
            Some(code) if code.is_error() => Err(code),
            _ => Ok(()),
        }
    }

    /// Commits the list; one answer with `request` comes on `replies`.
    pub fn commit(&self, offsets: &List, replies: &Queue, request: u64) -> Result<(), Code> {
        let opaque = request as usize as *mut std::ffi::c_void;
        // SAFETY: all three are alive; the list is copied; without a callback the opaque value is a number that only
        // comes back in the answer.
        ok(unsafe { calls::rd_kafka_commit_queue(self.ptr(), offsets.ptr(), replies.ptr(), None, opaque) })
    }

    /// Waits until everything was delivered; somebody must serve the main queue meanwhile.
    pub fn flush(&self, timeout: Duration) -> Result<(), Code> {
        // SAFETY: the client is alive.
        ok(unsafe { calls::rd_kafka_flush(self.ptr(), millis(timeout)) })
    }

    /// Gives up on all records that are queued or on their way, without waiting.
    pub fn purge(&self) -> Result<(), Code> {
        let what =
            c::RD_KAFKA_PURGE_F_QUEUE | c::RD_KAFKA_PURGE_F_INFLIGHT | c::RD_KAFKA_PURGE_F_NON_BLOCKING;
        // SAFETY: the client is alive.
        ok(unsafe { calls::rd_kafka_purge(self.ptr(), what) })
    }

    /// The error after which the client does nothing any more, if there was one.
    pub fn fatal(&self) -> Option<(Code, String)> {
        let mut why = [0 as c_char; TEXT];
        // SAFETY: the client is alive, and the buffer's length is given.
        let code = Code(unsafe { calls::rd_kafka_fatal_error(self.ptr(), why.as_mut_ptr(), why.len()) });
        code.is_error().then(|| (code, sentence(&why)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let (done, waiting) = mpsc::channel::<()>();
        let handle = Handle(self.handle.0);
        let release = move || {
            // The whole wrapper moves in, not its pointer, which alone is not `Send`.
            let Handle(pointer) = { handle };
            // SAFETY: every queue, topic and list that was made from the client held it, so this was the last user. A
            // consumer leaves no group and commits nothing by itself, so there is nothing to close.
            unsafe {
                c::rd_kafka_destroy_flags(pointer.as_ptr(), c::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
            }
            drop(done);
        };
        let began = Instant::now();
        match std::thread::Builder::new().name("kafka-release".into()).spawn(release) {
            Ok(_) => {
                if waiting.recv_timeout(RELEASE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let waited = began.elapsed();
                    tracing::warn!(target: "kafka", ?waited, "a client is still closing its connections; not waited for");
                }
            }
            Err(error) => {
                tracing::warn!(target: "kafka", %error, "a client was not released: no thread could be started");
            }
        }
    }
}

/// A call's result.
pub(super) fn ok(number: c_int) -> Result<(), Code> {
    let code = Code(number);
    if code.is_error() { Err(code) } else { Ok(()) }
}

/// A time-out as librdkafka takes it; the longest is 24 days.
pub(super) fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn sentence(buffer: &[c_char; TEXT]) -> String {
    // SAFETY: librdkafka terminates what it writes, and the buffer starts zeroed, so that there is a NUL in it.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

/// Called for each certificate of a broker's chain after OpenSSL has judged it; the judgement stays.
///
/// # Safety
/// librdkafka passes a name that ends with NUL, a number, and a buffer of the length that it says.
unsafe extern "C" fn on_certificate(
    _: *mut c::rd_kafka_t,
    broker: *const c_char,
    _: i32,
    verdict: *mut c_int,
    _: c_int,
    _: *const c_char,
    _: usize,
    why: *mut c_char,
    room: usize,
    _: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: it points to a number that lives through the call.
    let verdict = unsafe { *verdict };
    if verdict == 0 {
        return 1;
    }
    // SAFETY: it is NUL-terminated and lives through the call.
    let broker = unsafe { CStr::from_ptr(broker) }.to_string_lossy();
    let text = hints::certificate(&broker, verdict);
    if !why.is_null() && room > text.len() {
        // SAFETY: the buffer has room for the text and its end, and is nobody else's now.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), why, text.len());
            *why.add(text.len()) = 0;
        }
    }
    0
}

/// Called on any of the client's threads.
unsafe extern "C" fn on_log(
    _: *const c::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    if facility.is_null() || line.is_null() {
        return;
    }
    // SAFETY: both are NUL-terminated and live through the call.
    let (facility, line) = unsafe { (CStr::from_ptr(facility), CStr::from_ptr(line)) };
    log::line(level, &facility.to_string_lossy(), &line.to_string_lossy());
}

#[cfg(test)]
mod tests {
    use super::{Client, Conf, Role};

    #[test]
    fn a_key_that_librdkafka_does_not_know_is_named() {
        let mut conf = Conf::new();
        assert!(conf.set("linger.ms", "5").is_ok());
        assert!(conf.set("no.such.key", "5").unwrap_err().contains("no.such.key"));
        assert!(conf.set("linger.ms", "soon").unwrap_err().contains("linger.ms"));
        assert!(conf.set("linger.ms", "5\0").unwrap_err().contains("NUL"));
    }

    #[test]
    fn a_client_that_cannot_be_configured_says_why_and_frees_all() {
        let mut conf = Conf::new();
        conf.set("fetch.max.bytes", "1000").unwrap();
        let Err(why) = Client::new(Role::Consumer, conf) else { panic!("it was accepted") };
        assert!(why.contains("fetch.max.bytes"), "{why}");
    }

    #[test]
    fn a_client_without_a_broker_is_released_at_once() {
        let mut conf = Conf::new();
        conf.set("bootstrap.servers", "127.0.0.1:1").unwrap();
        let client = Client::new(Role::Producer, conf).unwrap();
        assert_eq!(client.fatal(), None);
        drop(client);
    }
}
