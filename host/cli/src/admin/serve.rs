//! Connections of the admin server, on one thread.
//!
//! What one client can take is bounded: the size of a request's head, the time it may need for it, the time that a
//! connection lives, how many there are, how many requests are answered a second. An answer is made once and held whole,
//! so a client that reads slowly holds that much memory, for no longer than its connection may live.
//!
//! A connection on which nothing is being answered keeps nobody out: where there is no place, the one that has been idle
//! longest gives way.

use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use loom_runtime::Board;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::{LAST_ANSWERS, routes};

/// Connections at once.
const CONNECTIONS: usize = 32;

/// The head of a request, in bytes.
const HEAD_BYTES: usize = 16 << 10;

/// Time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// A connection lives no longer.
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Between two attempts to accept after one failed: the process may be out of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves until it is told to stop.
pub fn run(listener: TcpListener, board: Board, stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .thread_name("admin-ask")
        .build();
    let served = runtime.map(|runtime| {
        let result = runtime.block_on(accept(listener, board, stopped));
        // A question to the workers that is under way ends by itself, soon.
        runtime.shutdown_timeout(LAST_ANSWERS);
        result
    });
    if let Err(error) = served.and_then(|result| result) {
        tracing::error!(%error, "the admin server cannot go on; the flow does");
    }
}

async fn accept(
    listener: TcpListener,
    board: Board,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = routes::router(board);
    let mut places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin server was not accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
        };
        while connections.try_join_next().is_some() {}
        // Without a place the connection is closed at once: on all that are there something is being answered.
        if !places.has_room() {
            continue;
        }
        let (router, stopped) = (router.clone(), stopped.clone());
        let idle = Arc::new(Idle::default());
        let connection = serve(stream, router, idle.clone(), stopped);
        let task = connections.spawn(async move {
            let _ = timeout(CONNECTION_TIME, connection).await;
        });
        places.held.push((task, idle));
    }
    let _ = timeout(LAST_ANSWERS, async { while connections.join_next().await.is_some() {} }).await;
    Ok(())
}

/// The connections that there are.
#[derive(Default)]
struct Places {
    held: Vec<(AbortHandle, Arc<Idle>)>,
}

impl Places {
    /// Whether one more has a place; it may be that of an idle one, which is closed.
    fn has_room(&mut self) -> bool {
        self.held.retain(|(task, _)| !task.is_finished());
        if self.held.len() < CONNECTIONS {
            return true;
        }
        let idle = self.held.iter().enumerate().filter_map(|(at, (_, idle))| Some((idle.since()?, at)));
        match idle.min() {
            Some((_, longest)) => {
                self.held.swap_remove(longest).0.abort();
                true
            }
            None => false,
        }
    }
}

/// Since when nothing has been answered on a connection; none while something is.
struct Idle(Mutex<Option<Instant>>);

impl Default for Idle {
    fn default() -> Self {
        Idle(Mutex::new(Some(Instant::now())))
    }
}

impl Idle {
    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

async fn serve(stream: TcpStream, router: axum::Router, idle: Arc<Idle>, mut stopped: watch::Receiver<bool>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES).keep_alive(true);
    let router = TowerToHyperService::new(router);
    let answered = service_fn(move |request: Request<Incoming>| {
        idle.set(None);
        let (idle, answer) = (idle.clone(), router.call(request));
        async move {
            let answer = answer.await;
            idle.set(Some(Instant::now()));
            answer
        }
    });
    let connection = http.serve_connection(TokioIo::new(stream), answered);
    let mut connection = pin!(connection);
    // What a client does wrong is its own affair.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
