//! A plain step that sends an HTTP request for each record, by WASI HTTP 0.2.
//!
//! The payload is a URL, or the configuration's `url` with the payload as a path behind it. The answer becomes the
//! payload: status, a space, the body. What is no answer becomes `error: …` with WASI's code; with `retry: true` in the
//! configuration it is answered as `retry`, and so is a status of 500 or above. With `post` the request has a body.

mod documented;

use std::cell::RefCell;

use exports::loom::plugin::{setup, step};
use loom::plugin::types::{Change, Failure, Message, Patch};
use serde::Deserialize;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-http {
            include loom:plugin/step-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

struct Probe;
export!(Probe);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    url: Option<String>,
    retry: bool,
    /// `configure` asks for this page, and refuses the configuration without an answer.
    ask_first: Option<String>,
    /// The request has a body.
    post: Option<Post>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Post {
    /// So many bytes.
    bytes: usize,
    /// In pieces of so many, at most; 4096 when left out.
    pieces: Option<usize>,
    /// Written before `handle` is called.
    first: bool,
    /// With `check-write` and a pollable, where otherwise each piece is one call that blocks.
    polled: bool,
    /// And the answer is waited for without an end of the body.
    unfinished: bool,
    /// As the documentation has it.
    documented: bool,
}

thread_local! {
    static CONFIG: RefCell<Config> = RefCell::default();
}

impl setup::Guest for Probe {
    fn configure(config: String) -> Result<(), String> {
        let config: Option<Config> = serde_json::from_str(&config).map_err(|e| format!("config: {e}"))?;
        let config = config.unwrap_or_default();
        if let Some(url) = &config.ask_first {
            get(url, None)?;
        }
        CONFIG.set(config);
        Ok(())
    }
}

impl step::Guest for Probe {
    fn process(message: Message) -> Result<Patch, Failure> {
        let Config { url, retry, post, .. } = CONFIG.with_borrow(Clone::clone);
        let payload = String::from_utf8_lossy(message.payload.as_deref().unwrap_or_default()).into_owned();
        let url = url.map_or_else(|| payload.clone(), |url| format!("{url}{payload}"));
        let text = match get(&url, post.as_ref()) {
            Ok((status, body)) if retry && status >= 500 => {
                return Err(Failure::Retry(format!("status {status}: {body}")));
            }
            Ok((status, body)) => format!("{status} {body}"),
            Err(error) if retry => return Err(Failure::Retry(error)),
            Err(error) => format!("error: {error}"),
        };
        Ok(Patch { payload: Change::Set(text.into_bytes()), key: Change::Keep, headers: None })
    }
}

/// Asks for a page: its status and body.
fn get(url: &str, post: Option<&Post>) -> Result<(u16, String), String> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let request = OutgoingRequest::new(Fields::new());
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let method = if post.is_some() { Method::Post } else { Method::Get };
    request.set_method(&method).map_err(|()| "method")?;
    request.set_scheme(Some(&scheme)).map_err(|()| "scheme")?;
    request.set_authority(Some(authority)).map_err(|()| "authority")?;
    request.set_path_with_query(Some(path)).map_err(|()| "path")?;
    if let Some(post) = post.filter(|post| post.documented) {
        let (status, answer) = documented::post(request, &vec![b'x'; post.bytes])?;
        return Ok((status, String::from_utf8_lossy(&answer).into_owned()));
    }
    let body = request.body().map_err(|()| "body")?;
    let Some(post) = post else {
        finish(body)?;
        return answered(&sent(request)?);
    };
    let answer = if post.first {
        write(&body, post)?;
        sent(request)?
    } else {
        let answer = sent(request)?;
        write(&body, post)?;
        answer
    };
    if post.unfinished {
        let answered = answered(&answer);
        drop(body);
        return answered;
    }
    finish(body)?;
    answered(&answer)
}

fn sent(request: OutgoingRequest) -> Result<FutureIncomingResponse, String> {
    handle(request, None).map_err(|code| format!("{code:?}"))
}

fn finish(body: OutgoingBody) -> Result<(), String> {
    OutgoingBody::finish(body, None).map_err(|code| format!("{code:?}"))
}

fn answered(answer: &FutureIncomingResponse) -> Result<(u16, String), String> {
    answer.subscribe().block();
    let response =
        answer.get().ok_or("not ready")?.map_err(|()| "taken")?.map_err(|code| format!("{code:?}"))?;
    Ok((response.status(), read(&response)?))
}

fn write(body: &OutgoingBody, post: &Post) -> Result<(), String> {
    let stream = body.write().map_err(|()| "no stream")?;
    let told = |error| format!("writing: {error:?}");
    let mut left = post.bytes;
    while left > 0 {
        let mut piece = left.min(post.pieces.unwrap_or(4096));
        if post.polled {
            let room = stream.check_write().map_err(told)?;
            if room == 0 {
                stream.subscribe().block();
                continue;
            }
            piece = piece.min(room as usize);
            stream.write(&vec![b'x'; piece]).map_err(told)?;
        } else {
            stream.blocking_write_and_flush(&vec![b'x'; piece]).map_err(told)?;
        }
        left -= piece;
    }
    Ok(())
}

fn read(response: &IncomingResponse) -> Result<String, String> {
    let body = response.consume().map_err(|()| "no body")?;
    let stream = body.stream().map_err(|()| "no stream")?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
}
