//! Connections to granted hosts: to the addresses that their names may lead to, on the granted ports, with TLS by the
//! system's roots. No proxy is taken from anywhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::names::Names;
use super::{SendError, covers, target};
use crate::grants::HostGrant;

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one address may take, where there is another to try.
const ONE_ADDRESS: Duration = Duration::from_secs(3);

/// Connects to granted hosts.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) grants: Arc<[HostGrant]>,
    pub(super) names: Arc<Names>,
    pub(super) tls: Arc<ClientConfig>,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Line>, SendError> {
        let (host, port) = target(&uri);
        // Asked again where the connection is made, so that no way around the first question leads out.
        let Some(literal) = covers(&self.grants, host, port) else { return Err(SendError::Denied) };
        let addresses = self.names.addresses(host, literal).await?;
        let mut last = SendError::Connect("no address".to_owned());
        let count = addresses.len();
        for (index, address) in addresses.into_iter().enumerate() {
            let limit = if index + 1 < count { ONE_ADDRESS } else { CONNECT };
            match tokio::time::timeout(limit, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => return self.secured(host, &uri, stream).await,
                Ok(Err(error)) => last = SendError::Connect(error.to_string()),
                Err(_) => last = SendError::ConnectTimeout,
            }
        }
        self.names.failed(host);
        Err(last)
    }

    async fn secured(&self, host: &str, uri: &Uri, stream: TcpStream) -> Result<TokioIo<Line>, SendError> {
        // Requests are small and answers awaited: nothing is gained by waiting for more to send.
        let _ = stream.set_nodelay(true);
        if uri.scheme_str() != Some("https") {
            return Ok(TokioIo::new(Line(Box::new(stream))));
        }
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let bare = bare.strip_suffix('.').unwrap_or(bare).to_owned();
        let name = ServerName::try_from(bare).map_err(|error| SendError::Tls(error.to_string()))?;
        let secured = TlsConnector::from(self.tls.clone()).connect(name, stream);
        match tokio::time::timeout(CONNECT, secured).await {
            Ok(Ok(stream)) => Ok(TokioIo::new(Line(Box::new(stream)))),
            Ok(Err(error)) => Err(SendError::Tls(error.to_string())),
            Err(_) => Err(SendError::ConnectTimeout),
        }
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Line>;
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, with TLS or without.
pub(super) struct Line(Box<dyn Stream>);

impl Connection for Line {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// TLS by the system's roots, read once a process.
pub(super) fn system_tls() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            let (added, ignored) = roots.add_parsable_certificates(found.certs);
            tracing::debug!(target: "plugin", added, ignored, "root certificates of the system");
            if added == 0 {
                let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                tracing::warn!(
                    target: "plugin",
                    reason = why.join("; "),
                    "the system has no root certificates: HTTPS requests of plugins will fail. Install them \
                     (`ca-certificates`), or name a file with SSL_CERT_FILE"
                );
            }
            tls(roots)
        })
        .clone()
}

/// TLS by these roots.
pub(super) fn tls(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that are on by default");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}
