//! Outgoing HTTP to granted hosts: one pooled client for each plugin.
//!
//! Invariants:
//! - nothing is connected to but a granted host on a granted port, at an address that its grant may lead to;
//! - answers are handed to the guest as they are: no redirect is followed, no proxy asked, no cookie kept;
//! - every wait has an end of its own, whatever the guest asks for, and ends with the guest's call at the latest.

mod body;
mod connect;
mod exchanges;
mod names;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use crate::grants::HostGrant;
use body::Timed;
use connect::Connector;
use names::Names;

pub(crate) use exchanges::{Exchanges, OwnWait, add_to_linker};

/// How long a connection that nothing is asked on is kept. Shorter than what most servers and balancers allow.
const IDLE: Duration = Duration::from_secs(30);

/// Connections to one host that are kept while nothing is asked on them.
const IDLE_CONNECTIONS: usize = 32;

/// How long an answer's first byte may take, where the guest does not say: a minute, and the connection's own time.
const FIRST_BYTE: Duration = Duration::from_secs(70);

/// How long an answer may pause, where the guest does not say.
const BETWEEN_BYTES: Duration = Duration::from_secs(60);

/// Sends one plugin's requests.
pub(crate) struct HttpClient {
    grants: Arc<[HostGrant]>,
    client: Client<Connector, WasiBody>,
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The host is not granted.
    #[error("the host is not granted")]
    Denied,
    /// The host is granted, and leads where the grant may not.
    #[error("{host}: {why}")]
    Prohibited { host: String, why: String },
    /// The name has no address, as far as is known.
    #[error("{0}")]
    LookUp(String),
    /// No connection.
    #[error("{0}")]
    Connect(String),
    /// No connection in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// No TLS.
    #[error("{0}")]
    Tls(String),
    /// No answer in time.
    #[error("no answer in time")]
    AnswerTimeout,
    /// The connection ended before the answer did.
    #[error("{0}")]
    Ended(String),
    /// What came is no HTTP.
    #[error("{0}")]
    Protocol(String),
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Denied => Error::HttpRequestDenied,
            SendError::Prohibited { .. } => Error::DestinationIpProhibited,
            SendError::LookUp(why) => Error::DnsError { rcode: Some(why), info_code: None },
            SendError::Connect(why) => Error::Connect(std::io::Error::other(why)),
            SendError::ConnectTimeout => Error::ConnectionTimeout,
            SendError::Tls(why) => Error::Tls(std::io::Error::other(why)),
            SendError::AnswerTimeout => Error::ConnectionReadTimeout,
            SendError::Ended(_) => Error::ConnectionTerminated,
            SendError::Protocol(_) => Error::HttpProtocolError,
        }
    }
}

impl HttpClient {
    /// A client for these grants; none where nothing is granted.
    pub(crate) fn new(grants: &[HostGrant]) -> Option<Self> {
        (!grants.is_empty()).then(|| Self::with(grants, names::system(), connect::system_tls()))
    }

    fn with(grants: &[HostGrant], look_up: names::LookUp, tls: Arc<rustls::ClientConfig>) -> Self {
        let grants: Arc<[HostGrant]> = grants.into();
        let connector = Connector { grants: grants.clone(), names: Arc::new(Names::new(look_up)), tls };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(connector);
        HttpClient { grants, client }
    }

    /// Whether requests to this host and port are granted.
    pub(crate) fn grants(&self, host: &str, port: u16) -> bool {
        covers(&self.grants, host, port).is_some()
    }

    /// Sends a request, and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<Response<WasiBody>, SendError> {
        let first_byte = options
            .first_byte_timeout
            .map_or(FIRST_BYTE, |first| first + options.connect_timeout.unwrap_or_default())
            .min(FIRST_BYTE * 60);
        let answer = match tokio::time::timeout(first_byte, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| why(&error))?,
            Err(_) => return Err(SendError::AnswerTimeout),
        };
        let between = options.between_bytes_timeout.unwrap_or(BETWEEN_BYTES).min(BETWEEN_BYTES * 60);
        Ok(answer.map(|body| Timed::new(body, between).boxed_unsync()))
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("grants", &self.grants).finish_non_exhaustive()
    }
}

/// The host and port that a request goes to.
fn target(uri: &Uri) -> (&str, u16) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    (uri.host().unwrap_or_default(), port)
}

/// Whether some grant covers a host and port: none if not, else whether one names it literally.
fn covers(grants: &[HostGrant], host: &str, port: u16) -> Option<bool> {
    grants.iter().filter_map(|grant| grant.covers(host, port)).max()
}

/// What a client's error means.
fn why(error: &ClientError) -> SendError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut text = error.to_string();
    while let Some(cause) = source {
        if let Some(own) = cause.downcast_ref::<SendError>() {
            return own.clone();
        }
        text = format!("{text}: {cause}");
        if let Some(hyper) = cause.downcast_ref::<hyper::Error>()
            && hyper.is_parse()
        {
            return SendError::Protocol(text);
        }
        source = cause.source();
    }
    if error.is_connect() { SendError::Connect(text) } else { SendError::Ended(text) }
}
