//! The admin server: a running flow answers over HTTP how it stands. Only looking is possible, and nothing that a client
//! does can hold a worker: workers answer the board when it asks them, and the server has a thread of its own.
//!
//! `address.rs` is where it listens; `guard.rs` decides whom it answers; `serve.rs` carries connections, within bounds of
//! size, time, rate and number; `routes.rs` is what there is to ask; `metrics.rs` the Prometheus text; `files.rs` how the
//! commands find it; `client.rs` how they ask.

mod address;
pub mod client;
pub mod files;
mod guard;
mod metrics;
mod process;
mod routes;
mod serve;

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use loom_runtime::Board;
use tokio::sync::watch;

pub use address::Address;

/// How long requests that are under way may take at the end.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A server that runs until it is dropped.
pub struct Admin {
    at: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Removed with the server.
    _file: Option<files::RuntimeFile>,
}

impl Admin {
    /// Starts the server for this flow, and leaves a file that the commands find it by; none where it is off.
    ///
    /// # Errors
    /// It cannot listen there: a message for the user.
    pub fn start(address: &Address, flow: &str, board: Board) -> Result<Option<Admin>, String> {
        let Some(listener) = address.listen()? else { return Ok(None) };
        let at =
            listener.local_addr().map_err(|error| format!("the admin server has no address: {error}"))?;
        if !at.ip().is_loopback() {
            tracing::warn!(
                address = %at,
                "the admin server listens beyond this machine: everyone who reaches it can see the flow's state"
            );
        }
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || serve::run(listener, board, stopped))
            .map_err(|error| format!("the admin server has no thread: {error}"))?;
        let url = url_of(at);
        tracing::info!(url, "the admin server listens");
        let file = files::RuntimeFile::leave(flow, &url)
            .inspect_err(|why| {
                tracing::warn!(
                    reason = why,
                    "`loom-host status` will not find this flow by itself; --url {url} does"
                );
            })
            .ok();
        Ok(Some(Admin { at, stop, thread: Some(thread), _file: file }))
    }
}

impl Drop for Admin {
    /// Ends the server; requests under way have a moment.
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!(address = %self.at, "the admin server ended early");
        }
    }
}

/// An address that nobody listens at is asked on this machine.
fn url_of(at: SocketAddr) -> String {
    let host = match at {
        at if !at.ip().is_unspecified() => at.ip(),
        SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}", SocketAddr::new(host, at.port()))
}
