//! A request with a body and its answer, word for word as `docs/plugins.md` has them: a test compares the two.

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{FutureIncomingResponse, Method, OutgoingBody, OutgoingRequest};
use wasip2::io::streams::StreamError;

pub fn post(request: OutgoingRequest, bytes: &[u8]) -> Result<(u16, Vec<u8>), String> {
    request.set_method(&Method::Post).map_err(|()| "method")?;
    let body = request.body().map_err(|()| "body")?;
    let answer = handle(request, None).map_err(|error| error.to_string())?;
    let stream = body.write().map_err(|()| "stream")?;
    // What one call takes at most, by the contract of WASI.
    for piece in bytes.chunks(4096) {
        stream.blocking_write_and_flush(piece).map_err(|error| error.to_string())?;
    }
    // The stream goes before its body.
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|error| error.to_string())?;
    read(&answer)
}

fn read(answer: &FutureIncomingResponse) -> Result<(u16, Vec<u8>), String> {
    answer.subscribe().block();
    let response =
        answer.get().ok_or("no answer")?.map_err(|()| "taken")?.map_err(|error| error.to_string())?;
    let body = response.consume().map_err(|()| "body")?;
    let stream = body.stream().map_err(|()| "stream")?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => return Ok((response.status(), bytes)),
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
}
