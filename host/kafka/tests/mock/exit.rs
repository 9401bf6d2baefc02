//! The end of the process while clients still speak TLS: a broker that does not let go holds their threads beyond what a
//! stop waits for, and what they use must stay there until the process is gone.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom_kafka::librdkafka::KafkaBroker;
use loom_kafka::{Broker, CredentialSettings, Sensitive};
use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::ssl::{Ssl, SslAcceptor, SslMethod, SslStream};
use openssl::x509::X509;

use crate::support::settings;

/// Where the process that is to end finds its broker.
const ADDRESS: &str = "LOOM_TEST_TLS_BROKER";

/// Processes that end.
const PROCESSES: usize = 10;

/// Clients of each.
const CLIENTS: usize = 8;

/// A broker that ends every connection behind its TLS handshake, so that clients are always in one. Its address, and how
/// many handshakes there were.
fn restless_broker() -> (String, Arc<AtomicUsize>) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut certificate = X509::builder().unwrap();
    certificate.set_pubkey(&key).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
    acceptor.set_private_key(&key).unwrap();
    acceptor.set_certificate(&certificate.build()).unwrap();
    let context = acceptor.build().into_context();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let handshakes = Arc::new(AtomicUsize::new(0));
    let count = handshakes.clone();
    // Ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = SslStream::new(Ssl::new(&context).unwrap(), stream).unwrap();
            if stream.accept().is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (address, handshakes)
}

#[test]
fn a_process_may_end_while_clients_are_in_a_tls_handshake() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return end_with_busy_clients(&address);
    }
    let (address, handshakes) = restless_broker();
    for _ in 0..PROCESSES {
        let before = handshakes.load(Ordering::Relaxed);
        let test = "exit::a_process_may_end_while_clients_are_in_a_tls_handshake";
        let mut process = Command::new(std::env::current_exe().unwrap());
        let ended = process.args(["--exact", test]).env(ADDRESS, &address).output().unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
        assert!(handshakes.load(Ordering::Relaxed) > before, "no client came as far as a handshake");
    }
}

/// Leaves clients behind that connect again and again; the process ends under them.
fn end_with_busy_clients(address: &str) {
    let mut settings = settings(address.to_owned());
    settings.credentials =
        CredentialSettings { protocol: Some("SSL".into()), ..CredentialSettings::default() };
    for (key, value) in [
        ("enable.ssl.certificate.verification", "false"),
        ("reconnect.backoff.ms", "0"),
        ("reconnect.backoff.max.ms", "0"),
    ] {
        settings.extra.insert(key.into(), Sensitive(value.into()));
    }
    let brokers: Vec<_> = (0..CLIENTS).map(|_| KafkaBroker::new(settings.clone()).unwrap()).collect();
    // Nothing is answered; meanwhile all of them connect.
    assert!(brokers[0].topic_names(Duration::from_millis(300)).is_err());
    std::mem::forget(brokers);
}
