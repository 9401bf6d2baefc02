//! What there is to ask.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while the process lives |
//! | `/readyz` | 200 while the flow does its work, else 503 with the reasons, one a line |
//! | `/metrics` | Prometheus text |
//! | `/api/status` | the status document, JSON |
//!
//! Answers of one moment are shared: the workers are asked at most every [`FRESH`], however many clients there are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use loom_runtime::{Board, FlowStatus};
use loom_types::printable;

use super::guard::{Rate, admit};
use super::metrics;
use crate::hidden;

/// A status that is no older is not asked for again.
const FRESH: Duration = Duration::from_millis(200);

/// How long workers are waited for: one that is in a plugin's call answers later.
const ANSWER: Duration = Duration::from_millis(500);

/// Requests a second, and at once; for probes as many again, so that nothing else that is asked can make a flow look
/// dead.
const RATE: (u32, u32) = (50, 100);

/// What probes ask.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

struct Shared {
    board: Board,
    machine: String,
    probes: Mutex<Rate>,
    others: Mutex<Rate>,
    last: tokio::sync::Mutex<Option<(Instant, Arc<FlowStatus>)>>,
}

/// The routes, each behind the guard.
pub fn router(board: Board) -> Router {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let rate = || Mutex::new(Rate::new(RATE.0, RATE.1, Instant::now()));
    let shared = Arc::new(Shared {
        board,
        machine,
        probes: rate(),
        others: rate(),
        last: tokio::sync::Mutex::new(None),
    });
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/status", get(api_status))
        .fallback(nowhere)
        .method_not_allowed_fallback(only_get)
        .layer(from_fn_with_state(shared.clone(), guarded))
        .with_state(shared)
}

async fn guarded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if let Err(refused) = admit(request.version(), request.headers(), &shared.machine) {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::FORBIDDEN);
        let mut response = text(status, refused.why + "\n");
        // A body that is there is not read.
        response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        return response;
    }
    let rate = if PROBES.contains(&request.uri().path()) { &shared.probes } else { &shared.others };
    if !rate.lock().unwrap_or_else(PoisonError::into_inner).admits(Instant::now()) {
        let mut response = text(StatusCode::TOO_MANY_REQUESTS, "too many requests; ask again in a second\n");
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        return response;
    }
    next.run(request).await
}

async fn healthz() -> Response {
    text(StatusCode::OK, "ok\n")
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let status = shared.status().await;
    if status.ready {
        return text(StatusCode::OK, "ready\n");
    }
    let reasons =
        status.reasons.iter().map(|reason| format!("{}: {}\n", reason.kind, printable(&reason.text)));
    text(StatusCode::SERVICE_UNAVAILABLE, reasons.collect::<String>())
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    answer(StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(&*shared.status().await))
}

async fn api_status(State(shared): State<Arc<Shared>>) -> Response {
    match serde_json::to_string(&*shared.status().await) {
        Ok(json) => answer(StatusCode::OK, "application/json", json + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

async fn nowhere() -> Response {
    text(StatusCode::NOT_FOUND, "there are /healthz, /readyz, /metrics and /api/status\n")
}

async fn only_get() -> Response {
    text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n")
}

impl Shared {
    /// A status that is fresh; requests that come together share one.
    async fn status(&self) -> Arc<FlowStatus> {
        let mut last = self.last.lock().await;
        if let Some((at, status)) = &*last
            && at.elapsed() < FRESH
        {
            return status.clone();
        }
        let board = self.board.clone();
        let read = tokio::task::spawn_blocking(move || board.read(ANSWER)).await;
        // Asking does not fail; should it, what the workers said last is still there.
        let status = Arc::new(redacted(read.unwrap_or_else(|_| self.board.document())));
        *last = Some((Instant::now(), status.clone()));
        status
    }
}

/// The document without the flow's secrets: a client may quote what it was given.
fn redacted(mut status: FlowStatus) -> FlowStatus {
    let hide = |text: &mut String| *text = hidden::redact(text).into_owned();
    status.reasons.iter_mut().for_each(|reason| hide(&mut reason.text));
    status.client_errors.iter_mut().for_each(|error| hide(&mut error.text));
    status.commits.last_error.iter_mut().for_each(hide);
    status.notes.values_mut().for_each(hide);
    let stalled = status.partitions.iter_mut().filter_map(|partition| partition.stalled.as_mut());
    stalled.for_each(|stalled| hide(&mut stalled.cause));
    status
}

fn text(status: StatusCode, body: impl Into<String>) -> Response {
    answer(status, "text/plain; charset=utf-8", body.into())
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
