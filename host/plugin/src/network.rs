//! The network, linked whether granted or not. Guest toolchains import sockets and HTTP whether they use them or not, so a
//! use without a grant is answered `access-denied` inside the guest (`HTTP-request-denied` for HTTP), and told once in the
//! log, with the lines that would grant it. HTTP requests to granted hosts are sent by [`HttpClient`].

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use loom_types::AddressClass;
use tracing::Level;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup;
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, Network};
use wasmtime_wasi::p2::{DynPollable, SocketError};
use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode as ErrorCodeOfHttp;
use wasmtime_wasi_http::{RequestOptions, WasiBody, WasiHttpHooks};

use crate::http::{Exchanges, HttpClient, SendError};
use crate::log::PluginLog;
use crate::state::HostState;

/// Different refusals that are told. A guest that scans addresses fills no log.
const TOLD: usize = 64;

/// What a guest is told of sockets and names.
const ACCESS_DENIED: &str = "access-denied";

/// What it is told of HTTP requests.
const REQUEST_DENIED: &str = "HTTP-request-denied";

/// What was told of one plugin's uses without a grant, over all its instances.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<HashSet<String>>);

impl Told {
    /// Whether this is told now: once, and no more than so many.
    fn is_new(&self, what: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TOLD && told.insert(what.to_owned())
    }
}

/// What an instance tried to use without a grant: told in its plugin's log, with flow, node and worker, wherever the
/// call that did it runs.
#[derive(Debug)]
pub(crate) struct Refusals {
    told: Arc<Told>,
    log: Arc<PluginLog>,
}

impl Refusals {
    pub(crate) fn new(told: Arc<Told>, log: Arc<PluginLog>) -> Self {
        Refusals { told, log }
    }

    /// Tells a use that was refused, once. `answer` is what the guest gets, `allow` what would grant it, as it stands
    /// under `allow:`.
    fn tell(&self, used: &str, answer: &str, allow: &str) {
        if self.told.is_new(allow) {
            let plugin = self.log.plugin();
            self.log.host(
                Level::WARN,
                format_args!(
                    "{used} is not granted: the plugin was told {answer}. To grant it: \
                     plugins: {{ {plugin}: {{ allow: {{ {allow} }} }} }}"
                ),
            );
        }
    }

    /// Tells that a granted name leads where no plugin, or not this grant, may go; once a name.
    fn tell_prohibited(&self, host: &str, why: &str) {
        if self.told.is_new(&format!("{host}: {why}")) {
            self.log.host(Level::WARN, format_args!("an HTTP request to {host} was not sent: {why}"));
        }
    }

    /// What is of use only to who looks for it.
    fn whisper(&self, what: std::fmt::Arguments<'_>) {
        self.log.host(Level::DEBUG, what);
    }

    fn socket(&self, address: SocketAddr, using: SocketAddrUse) -> bool {
        match using {
            // Connecting and sending ask first for the implicit bind, to no address and no port, which does nothing
            // by itself; the address that matters comes next.
            SocketAddrUse::TcpBind | SocketAddrUse::UdpBind
                if address.ip().is_unspecified() && address.port() == 0 =>
            {
                true
            }
            SocketAddrUse::TcpConnect => {
                let allow = format!("tcp: [\"{address}\"]");
                self.tell(&format!("a TCP connection to {address}"), ACCESS_DENIED, &allow);
                false
            }
            _ => {
                self.whisper(format_args!(
                    "{using:?} of {address} refused: plugins neither listen nor use UDP"
                ));
                false
            }
        }
    }
}

/// Sockets can be made, and can go nowhere.
pub(crate) fn refuse_sockets(builder: &mut WasiCtxBuilder, refusals: Arc<Refusals>) {
    builder.allow_tcp(true).allow_udp(true).socket_addr_check(move |address, using| {
        let allowed = refusals.socket(address, using);
        Box::pin(async move { allowed })
    });
}

/// Name look-up that knows the name it refuses.
pub(crate) struct NameLookup<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) refusals: &'a Refusals,
}

struct HasNameLookup;

impl HasData for HasNameLookup {
    type Data<'a> = NameLookup<'a>;
}

/// Puts our name look-up in place of the one that the linker has.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    ip_name_lookup::add_to_linker::<HostState, HasNameLookup>(linker, HostState::name_lookup)
}

impl ip_name_lookup::Host for NameLookup<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<ip_name_lookup::ResolveAddressStream>, SocketError> {
        self.table.get(&network)?;
        let name = crate::log::cut(&name, 255);
        let allow = format!("tcp: [\"{name}:PORT\"]");
        self.refusals.tell(&format!("looking up the name {name:?}"), ACCESS_DENIED, &allow);
        Err(ErrorCode::AccessDenied.into())
    }
}

// Look-ups name their errors through this; the interface itself stays wasmtime-wasi's.
impl network::Host for NameLookup<'_> {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        _error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(None)
    }
}

impl network::HostNetwork for NameLookup<'_> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        self.table.delete(network)?;
        Ok(())
    }
}

// No look-up succeeds, so no stream of addresses exists.
impl ip_name_lookup::HostResolveAddressStream for NameLookup<'_> {
    fn resolve_next_address(
        &mut self,
        _stream: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> Result<Option<IpAddress>, SocketError> {
        Err(ErrorCode::AccessDenied.into())
    }

    fn subscribe(
        &mut self,
        stream: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        wasmtime_wasi::p2::subscribe(self.table, stream)
    }

    fn drop(&mut self, stream: Resource<ip_name_lookup::ResolveAddressStream>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

/// Outgoing HTTP: what is granted is sent, everything else refused.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) client: Option<Arc<HttpClient>>,
    pub(crate) exchanges: Arc<Exchanges>,
}

/// Whether a host is an address that no grant can give.
fn is_never(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().is_ok_and(|address| AddressClass::of(address) == AddressClass::Never)
}

type Response = (http::Response<WasiBody>, Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>);

impl WasiHttpHooks for Requests {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _done: Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime_wasi_http::Result<Response>> + Send> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let granted = self.client.as_ref().filter(|client| client.grants(host, port));
        let Some(client) = granted.cloned() else {
            let host = crate::log::cut(host, 255);
            if is_never(host) {
                self.refusals.tell_prohibited(host, "such addresses are never given to plugins");
                return Box::new(async { Err(wasmtime_wasi_http::Error::HttpRequestDenied) });
            }
            let used = format!("an HTTP request to {host}:{port}");
            self.refusals.tell(&used, REQUEST_DENIED, &format!("http: [\"{host}:{port}\"]"));
            return Box::new(async { Err(wasmtime_wasi_http::Error::HttpRequestDenied) });
        };
        let refusals = self.refusals.clone();
        let (request, waited_for) = self.exchanges.begin(request);
        Box::new(async move {
            let answer = client.send(request, options.unwrap_or_default()).await;
            if let Err(SendError::Prohibited { host, why }) = &answer {
                refusals.tell_prohibited(host, why);
            }
            let nothing_more: Box<dyn Future<Output = _> + Send> = Box::new(async { Ok(()) });
            Ok((waited_for.begun(answer?), nothing_more))
        })
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        self.exchanges.pieces()
    }

    // The guest is told; whose fault it is cannot be known here, and it may come with every request.
    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCodeOfHttp {
        self.refusals.whisper(format_args!("an HTTP exchange failed: {error}"));
        if error.is_incomplete_message() || error.is_closed() {
            ErrorCodeOfHttp::ConnectionTerminated
        } else {
            ErrorCodeOfHttp::HttpProtocolError
        }
    }

    fn p2_error_from_connect(&mut self, error: &std::io::Error) -> ErrorCodeOfHttp {
        self.refusals.whisper(format_args!("no connection: {error}"));
        match error.kind() {
            std::io::ErrorKind::TimedOut => ErrorCodeOfHttp::ConnectionTimeout,
            _ => ErrorCodeOfHttp::ConnectionRefused,
        }
    }

    fn p2_error_from_tls(&mut self, error: &std::io::Error) -> ErrorCodeOfHttp {
        self.refusals.whisper(format_args!("no TLS: {error}"));
        ErrorCodeOfHttp::TlsProtocolError
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wasmtime_wasi::sockets::SocketAddrUse;

    use wasmtime_wasi_http::{WasiBody, WasiHttpHooks};

    use super::{Refusals, Requests, Told};
    use crate::http::Exchanges;
    use crate::log::PluginLog;
    use crate::node::NodeContext;

    fn refusals() -> Refusals {
        let node = NodeContext {
            flow: "f".into(),
            node: "process[0]".into(),
            plugin: "p".into(),
            worker: 0,
            timeout: None,
        };
        Refusals::new(Arc::new(Told::default()), Arc::new(PluginLog::new(node, 1 << 20)))
    }

    fn requests(refusals: &Arc<Refusals>) -> Requests {
        Requests { refusals: refusals.clone(), client: None, exchanges: Exchanges::new(1 << 20) }
    }

    #[test]
    fn every_http_request_is_refused_and_told_with_its_host_and_port() {
        let refusals = Arc::new(refusals());
        for (uri, allow) in [
            ("https://api.example/x", "http: [\"api.example:443\"]"),
            ("http://api.example/", "http: [\"api.example:80\"]"),
            ("http://[::1]:8080/", "http: [\"[::1]:8080\"]"),
        ] {
            let request = http::Request::builder().uri(uri).body(WasiBody::default()).unwrap();
            let answer = requests(&refusals).send_request(request, None, Box::new(async { Ok(()) }));
            let answer = wasmtime_wasi::runtime::in_tokio(std::pin::Pin::from(answer));
            assert!(matches!(answer, Err(wasmtime_wasi_http::Error::HttpRequestDenied)));
            assert!(refusals.told.0.lock().unwrap().contains(allow), "{uri}");
        }
        // Where no grant would help none is told.
        let request =
            http::Request::builder().uri("http://169.254.169.254/").body(WasiBody::default()).unwrap();
        drop(requests(&refusals).send_request(request, None, Box::new(async { Ok(()) })));
        let told = refusals.told.0.lock().unwrap();
        assert!(told.iter().any(|line| line == "169.254.169.254: such addresses are never given to plugins"));
        assert!(!told.iter().any(|line| line.contains("http: [\"169")), "{told:?}");
    }

    #[test]
    fn only_the_implicit_bind_passes() {
        let refusals = refusals();
        let any = "0.0.0.0:0".parse().unwrap();
        let some = "10.0.0.1:5432".parse().unwrap();
        assert!(refusals.socket(any, SocketAddrUse::TcpBind));
        assert!(refusals.socket(any, SocketAddrUse::UdpBind));
        assert!(!refusals.socket("0.0.0.0:80".parse().unwrap(), SocketAddrUse::TcpBind));
        assert!(!refusals.socket(any, SocketAddrUse::TcpListen));
        for using in [
            SocketAddrUse::TcpConnect,
            SocketAddrUse::TcpAccept,
            SocketAddrUse::UdpSend,
            SocketAddrUse::UdpReceive,
        ] {
            assert!(!refusals.socket(some, using), "{using:?}");
        }
        assert_eq!(refusals.told.0.lock().unwrap().iter().collect::<Vec<_>>(), ["tcp: [\"10.0.0.1:5432\"]"]);
    }
}
