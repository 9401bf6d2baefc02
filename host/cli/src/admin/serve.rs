//! Connections of the admin server, on one thread.
//!
//! What one client can take is bounded: the size of a request's head, the time it may need for it, the time that a
//! connection lives, how many there are, how many requests are answered a second. An answer is made once and held whole,
//! so a client that reads slowly holds that much memory, for no longer than its connection may live.

use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use loom_runtime::Board;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
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
        // Without a place the connection is closed at once: the ones that are there end by themselves.
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let (router, stopped) = (router.clone(), stopped.clone());
        connections.spawn(async move {
            let _place = place;
            let _ = timeout(CONNECTION_TIME, serve(stream, router, stopped)).await;
        });
    }
    let _ = timeout(LAST_ANSWERS, async { while connections.join_next().await.is_some() {} }).await;
    Ok(())
}

async fn serve(stream: TcpStream, router: axum::Router, mut stopped: watch::Receiver<bool>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES).keep_alive(true);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    // What a client does wrong is its own affair.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
