//! Credentials: every client of a flow speaks to its brokers as its settings say, whatever it is for.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use loom_kafka::librdkafka::KafkaBroker;
use loom_kafka::{
    Broker, ConsumerSettings, CredentialSettings, Group, OutputSettings, ProducerSettings, Sensitive,
};
use loom_types::TopicPartition;

use crate::support::{PATIENCE, Signal, read, settings};

/// Long enough for a client to connect and log in; nothing is answered after that.
const QUESTION: Duration = Duration::from_secs(2);

/// Kafka's numbers of the requests that a connection begins with.
const METADATA: u16 = 3;
const SASL_HANDSHAKE: u16 = 17;
const API_VERSIONS: u16 = 18;

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 22;

/// Kafka's error of a request in a form that is not known.
const UNSUPPORTED_VERSION: [u8; 2] = [0, 35];

/// A broker that gets to know who comes in, and then says nothing more.
struct Door {
    address: String,
    comers: mpsc::Receiver<TcpStream>,
    /// What came in stays connected, so that each client comes once.
    inside: Vec<TcpStream>,
}

impl Door {
    fn open() -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (bell, comers) = mpsc::channel();
        // Waits for one more when the test is over, and ends with the process.
        std::thread::spawn(move || listener.incoming().flatten().try_for_each(|stream| bell.send(stream)));
        Door { address, comers, inside: Vec::new() }
    }

    /// The next client's connection.
    fn next(&mut self) -> &mut TcpStream {
        let stream = self.comers.recv_timeout(PATIENCE).expect("a client comes");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.inside.push(stream);
        self.inside.last_mut().unwrap()
    }

    /// The first byte of the next client.
    fn first_byte(&mut self) -> u8 {
        let mut byte = [0; 1];
        self.next().read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// What the next client wants to know first, after the versions that are spoken here.
    fn first_question(&mut self) -> u16 {
        u16_at(&introduced(self.next()), 0)
    }

    /// The mechanism that the next client asks for, and what it presents for it.
    fn login(&mut self) -> (String, String) {
        let stream = self.next();
        let asked = introduced(stream);
        assert_eq!(u16_at(&asked, 0), SASL_HANDSHAKE, "it comes before any question");
        let client = usize::from(u16_at(&asked, 8));
        // A length and the name: behind no error it is the list of the one mechanism that is there.
        let mechanism = &asked[10 + client..];
        answer(stream, &[&asked[4..8], &[0, 0, 0, 0, 0, 1], mechanism]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&mechanism[2..]), text(&frame(stream)))
    }
}

/// The first request behind those for the versions that are spoken here, which are answered.
fn introduced(stream: &mut TcpStream) -> Vec<u8> {
    loop {
        let asked = frame(stream);
        let correlation = &asked[4..8];
        match (u16_at(&asked, 0), u16_at(&asked, 2)) {
            (API_VERSIONS, 0) => {
                // Each in the versions 0 to 0: as much as a login needs.
                let known = [API_VERSIONS, METADATA, SASL_HANDSHAKE];
                let known: Vec<u8> = known.iter().flat_map(|api| [0, *api as u8, 0, 0, 0, 0]).collect();
                answer(stream, &[correlation, &[0, 0, 0, 0, 0, 3], &known]);
            }
            // In a later form: the earliest is understood here.
            (API_VERSIONS, _) => answer(stream, &[correlation, &UNSUPPORTED_VERSION, &[0; 4]]),
            _ => return asked,
        }
    }
}

/// What stands behind a length of four bytes.
fn frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

fn answer(stream: &mut TcpStream, parts: &[&[u8]]) {
    let body = parts.concat();
    stream.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn credentials(protocol: &str, user: &str) -> CredentialSettings {
    CredentialSettings {
        protocol: Some(protocol.into()),
        sasl_mechanism: Some("PLAIN".into()),
        sasl_username: Some(user.into()),
        sasl_password: Some(Sensitive("pw".into())),
    }
}

/// A question that nobody answers is no reason to come in again.
fn patient() -> BTreeMap<String, Sensitive> {
    BTreeMap::from([("socket.max.fails".to_owned(), Sensitive("0".to_owned()))])
}

fn consumer(door: &Door, credentials: CredentialSettings) -> ConsumerSettings {
    ConsumerSettings { credentials, extra: patient(), ..settings(door.address.clone()) }
}

fn output(door: &Door, credentials: CredentialSettings) -> OutputSettings {
    let producer = ProducerSettings {
        brokers: vec![door.address.clone()],
        credentials,
        compression: None,
        idempotence: true,
        largest_batch: None,
        extra: patient(),
    };
    OutputSettings { topic: "out".into(), producer: Arc::new(producer) }
}

/// Opens each of a flow's clients in turn, so that it connects, and has `see` look at the door: the one that is asked for
/// metadata and offsets, one that reads and commits, one that writes.
fn each_client<T: Send>(
    credentials: impl Fn(&str) -> CredentialSettings,
    mut see: impl FnMut(&mut Door) -> T,
) -> [T; 3] {
    let mut door = Door::open();
    let broker = KafkaBroker::new(consumer(&door, credentials("reads"))).unwrap();
    let outputs = [output(&door, credentials("writes"))];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let place = [TopicPartition::new("in", 0)];
            assert!(broker.topics(&["in"], QUESTION).is_err(), "nobody answers");
            assert!(broker.committed(Group::Input, &place, QUESTION).is_err(), "nobody answers");
        });
        let asks = see(&mut door);
        let reading = read(&broker, "in", 0);
        let reads = see(&mut door);
        scope.spawn(|| broker.writer(&outputs, 128 << 20, Arc::<Signal>::default().waker()).map(drop));
        let writes = see(&mut door);
        drop(reading);
        [asks, reads, writes]
    })
}

#[test]
fn every_client_of_a_flow_presents_the_credentials_of_its_settings() {
    let logins = each_client(|user| credentials("SASL_PLAINTEXT", user), Door::login);
    let plain = |user: &str| ("PLAIN".to_owned(), format!("\0{user}\0pw"));
    assert_eq!(logins, [plain("reads"), plain("reads"), plain("writes")]);
}

#[test]
fn every_client_of_a_flow_encrypts_when_its_settings_say_so() {
    assert_eq!(each_client(|user| credentials("SASL_SSL", user), Door::first_byte), [TLS_HANDSHAKE; 3]);
}

#[test]
fn without_credentials_a_client_speaks_in_the_clear_and_does_not_log_in() {
    // A login would come before the first question, and TLS before everything.
    assert_eq!(each_client(|_| CredentialSettings::default(), Door::first_question), [METADATA; 3]);
}
