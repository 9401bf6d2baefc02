//! The client against servers of this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wasmtime_wasi_http::{RequestOptions, WasiBody};

use super::connect::tls;
use super::names::LookUp;
use super::{HttpClient, SendError};
use crate::grants::HostGrant;

/// A server that answers every request with the same bytes, on connections that it keeps.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
}

trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

fn server(answer: &'static str) -> Server {
    serve(answer, |stream| Box::new(stream))
}

fn serve(
    answer: &'static str,
    secure: impl Fn(std::net::TcpStream) -> Box<dyn Wire> + Send + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, heads) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<Vec<String>>>::default());
    let (counted, seen) = (connections.clone(), heads.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let (mut wire, seen) = (BufReader::new(secure(stream)), seen.clone());
            std::thread::spawn(move || {
                while let Some(head) = head(&mut wire) {
                    seen.lock().unwrap().push(head);
                    if wire
                        .get_mut()
                        .write_all(answer.as_bytes())
                        .and_then(|()| wire.get_mut().flush())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    Server { address, connections, heads }
}

/// The lines up to the empty one; none at the end.
fn head(wire: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if wire.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[before..].trim().is_empty() {
            return Some(head);
        }
    }
}

/// Names that all lead to this machine.
fn here() -> LookUp {
    Arc::new(|_| Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }))
}

fn client(grants: &[HostGrant]) -> HttpClient {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(include_bytes!("fixtures/ca.pem")).unwrap()).unwrap();
    HttpClient::with(grants, here(), tls(roots))
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn get(client: &HttpClient, url: &str, options: RequestOptions) -> Result<(u16, String), SendError> {
    let request = Request::builder().uri(url).body(WasiBody::default()).unwrap();
    let answer = client.send(request, options).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.map_err(|error| SendError::Ended(error.to_string()))?;
    Ok((status, String::from_utf8(body.to_bytes().to_vec()).unwrap()))
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[test]
fn a_granted_host_answers_and_its_connection_is_used_again() {
    let server = server(HELLO);
    let port = server.address.port();
    run(async {
        let client = client(&[HostGrant::new("service.test", port)]);
        for _ in 0..3 {
            let answer =
                get(&client, &format!("http://service.test:{port}/a?b"), RequestOptions::default()).await;
            assert_eq!(answer, Ok((200, "hello".to_owned())));
        }
    });
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let heads = server.heads.lock().unwrap();
    assert!(heads[0].starts_with("GET /a?b HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains(&format!("host: service.test:{port}\r\n")), "{}", heads[0]);
}

#[test]
fn a_redirect_is_handed_on_and_nothing_else_is_connected_to() {
    let other = server(HELLO);
    let moved =
        format!("HTTP/1.1 302 Found\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n", other.address);
    let first = server(moved.leak());
    run(async {
        let client = client(&[HostGrant::new("127.0.0.1", first.address.port())]);
        let answer = get(&client, &format!("http://{}/", first.address), RequestOptions::default()).await;
        assert_eq!(answer, Ok((302, String::new())));
        let denied = get(&client, &format!("http://{}/", other.address), RequestOptions::default()).await;
        assert_eq!(denied, Err(SendError::Denied));
    });
    assert_eq!(other.connections.load(Ordering::SeqCst), 0);
}

#[test]
fn a_wildcard_does_not_lead_to_this_machine() {
    let server = server(HELLO);
    let port = server.address.port();
    run(async {
        for (granted, asked) in [("*.test", "service.test"), ("*", "127.0.0.1"), ("*", "[::ffff:127.0.0.1]")]
        {
            let client = client(&[HostGrant::new(granted, port)]);
            let refused = get(&client, &format!("http://{asked}:{port}/"), RequestOptions::default()).await;
            assert!(matches!(refused, Err(SendError::Prohibited { .. })), "{granted}: {refused:?}");
        }
    });
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

#[test]
fn https_is_checked_against_the_roots_and_the_name() {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("fixtures/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("fixtures/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let server = serve(HELLO, move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        Box::new(rustls::StreamOwned::new(connection, stream))
    });
    let port = server.address.port();
    run(async {
        let grants = ["service.test", "other.test"].map(|host| HostGrant::new(host, port));
        let known = client(&grants);
        let ask = async |client: &HttpClient, host: &str| {
            get(client, &format!("https://{host}:{port}/"), RequestOptions::default()).await
        };
        assert_eq!(ask(&known, "service.test").await, Ok((200, "hello".to_owned())));
        let told = ask(&known, "other.test").await;
        assert!(matches!(&told, Err(SendError::Tls(why)) if why.contains("certificate")), "{told:?}");
        let stranger = HttpClient::with(&grants, here(), tls(RootCertStore::empty()));
        assert!(matches!(ask(&stranger, "service.test").await, Err(SendError::Tls(_))));
    });
}

#[test]
fn every_wait_has_an_end() {
    let silent = server("");
    let halted = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe");
    let grants = [&silent, &halted].map(|server| HostGrant::new("127.0.0.1", server.address.port()));
    let short = Some(Duration::from_millis(50));
    let options =
        RequestOptions { connect_timeout: short, first_byte_timeout: short, between_bytes_timeout: short };
    run(async {
        let client = client(&grants);
        let answer = get(&client, &format!("http://{}/", silent.address), options).await;
        assert_eq!(answer, Err(SendError::AnswerTimeout));
        let answer = get(&client, &format!("http://{}/", halted.address), options).await;
        assert!(matches!(&answer, Err(SendError::Ended(why)) if why.contains("timeout")), "{answer:?}");
    });
}

#[test]
fn what_is_no_connection_and_no_http_is_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let babble = server("what?\r\n\r\n");
    let grants = [closed.port(), babble.address.port()].map(|port| HostGrant::new("127.0.0.1", port));
    run(async {
        let client = client(&grants);
        let refused = get(&client, &format!("http://{closed}/"), RequestOptions::default()).await;
        assert!(matches!(refused, Err(SendError::Connect(_))), "{refused:?}");
        let odd = get(&client, &format!("http://{}/", babble.address), RequestOptions::default()).await;
        assert!(matches!(odd, Err(SendError::Protocol(_))), "{odd:?}");
    });
}
