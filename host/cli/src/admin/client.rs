//! How the commands ask a running flow: which one is meant, and one request to its admin server.

use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use loom_flow::{CompileOptions, Mode, compile};
use loom_runtime::FlowStatus;
use loom_runtime::status::VERSION;
use tokio::net::TcpStream;

use super::files::{self, Running};
use crate::answers::{KeysAlone, PluginFiles, ProcessEnvironment};
use crate::flow_file;
use crate::status::Status;

/// The variable that names the admin server.
const VARIABLE: &str = "LOOM_ADMIN";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// No answer is larger.
const MAX_BYTES: usize = 64 << 20;

/// Why nothing was answered.
#[derive(Debug)]
pub struct Unanswered {
    pub status: Status,
    pub message: String,
}

fn failed(message: impl Into<String>) -> Unanswered {
    Unanswered { status: Status::Failed, message: message.into() }
}

fn usage(message: impl Into<String>) -> Unanswered {
    Unanswered { status: Status::Usage, message: message.into() }
}

/// Who is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    url: String,
    /// The flow's name, where one was given: another one's answer is none.
    flow: Option<String>,
}

/// The admin server that is meant: `--url`, `LOOM_ADMIN`, or the one running flow of that name, or of all.
///
/// # Errors
/// None, or more than one, fits.
pub fn find(flow: Option<&str>, url: Option<&str>) -> Result<Meant, Unanswered> {
    let flow = flow.map(flow_name).transpose()?;
    let given = url.map(str::to_owned).or_else(|| std::env::var(VARIABLE).ok().filter(|url| !url.is_empty()));
    let url = match given {
        Some(url) => url,
        None => choose(files::running(), flow.as_deref())?,
    };
    Ok(Meant { url, flow })
}

fn choose(running: Vec<Running>, name: Option<&str>) -> Result<String, Unanswered> {
    let fitting: Vec<&Running> =
        running.iter().filter(|running| name.is_none_or(|name| running.flow == name)).collect();
    match (fitting.as_slice(), name) {
        ([one], _) => Ok(one.url.clone()),
        ([], None) => Err(failed(
            "no flow runs on this machine for this user; for one elsewhere give --url, such as http://10.0.0.7:7878",
        )),
        ([], Some(name)) => {
            let names: Vec<&str> = running.iter().map(|running| running.flow.as_str()).collect();
            let nearest = names.iter().max_by(|one, two| {
                strsim::jaro_winkler(name, one).total_cmp(&strsim::jaro_winkler(name, two))
            });
            let hint = match nearest {
                Some(near) if strsim::jaro_winkler(name, near) > 0.8 => format!("; did you mean {near}?"),
                Some(_) => format!("; what runs: {}", names.join(", ")),
                None => String::new(),
            };
            Err(failed(format!("no flow {name} runs on this machine for this user{hint}")))
        }
        (several, _) => {
            let list: Vec<String> = several
                .iter()
                .map(|running| format!("{} (process {}) at {}", running.flow, running.pid, running.url))
                .collect();
            let hint =
                if name.is_some() { "say which with --url" } else { "name one, or say which with --url" };
            Err(usage(format!("several flows run here, {hint}: {}", list.join("; "))))
        }
    }
}

/// A flow's name, or the name that its file says.
fn flow_name(given: &str) -> Result<String, Unanswered> {
    let path = Path::new(given);
    let is_file = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if !is_file && !given.contains('/') {
        return Ok(given.to_owned());
    }
    let source = flow_file::read(path)
        .map_err(|issue| Unanswered { status: Status::Flow, message: issue.message.clone() })?;
    let options = CompileOptions { mode: Mode::Check, require_env: false, plugins: false };
    let compiled = compile(&source, &ProcessEnvironment, &PluginFiles, &KeysAlone, options);
    let name = compiled.plan.as_ref().map(|plan| plan.name.to_string());
    name.ok_or_else(|| Unanswered {
        status: Status::Flow,
        message: format!("{given} has errors (`loom-host check {given}` shows them); name the flow instead"),
    })
}

/// One answer of a flow: the document, and its text.
///
/// # Errors
/// Nobody answers there, it is no admin server of this version, or it runs another flow.
pub fn status(meant: &Meant) -> Result<(FlowStatus, String), Unanswered> {
    let Meant { url, flow } = meant;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| failed(format!("cannot ask: {error}")))?;
    let text = runtime.block_on(async {
        let asked = tokio::time::timeout(PATIENCE, get(url, "/api/status")).await;
        asked.unwrap_or_else(|_| Err(failed(format!("{url} did not answer within {PATIENCE:?}"))))
    })?;
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let foreign = || failed(format!("what answers at {url} is no admin server of loom-host"));
    let Versioned { version } = serde_json::from_str(&text).map_err(|_| foreign())?;
    if version != VERSION {
        return Err(failed(format!(
            "the flow at {url} speaks version {version} of the status, this command version {VERSION}: use the \
             loom-host that runs the flow"
        )));
    }
    let status: FlowStatus = serde_json::from_str(&text).map_err(|_| foreign())?;
    if let Some(flow) = flow.as_ref().filter(|flow| **flow != status.flow) {
        return Err(failed(format!("the flow at {url} is {}, not {flow}", status.flow)));
    }
    Ok((status, text))
}

async fn get(url: &str, path: &str) -> Result<String, Unanswered> {
    let uri: Uri =
        url.trim_end_matches('/').parse().map_err(|error| usage(format!("{url} is no URL: {error}")))?;
    if uri.scheme_str() != Some("http") {
        return Err(usage(format!("{url}: write it as http://HOST:PORT")));
    }
    let Some(authority) = uri.authority() else { return Err(usage(format!("{url} names no host"))) };
    let host = authority.host().trim_matches(['[', ']']);
    let port = authority.port_u16().unwrap_or(80);
    let away = |error: io::Error| failed(format!("no admin server answers at {url}: {error}"));
    let addresses = (host, port).to_socket_addrs().map_err(away)?;
    let mut last = failed(format!("no admin server answers at {url}: the name has no address"));
    let mut stream = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => last = away(error),
        }
    }
    let Some(stream) = stream else { return Err(last) };
    let broken = |error: hyper::Error| failed(format!("{url} broke the answer off: {error}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driven = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, authority.as_str()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| usage(format!("{url} cannot be asked: {error}")))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let code = response.status();
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    driven.abort();
    let body = body.map_err(|error| failed(format!("{url} broke the answer off: {error}")))?.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    if code.is_success() { Ok(text) } else { Err(failed(format!("{url} answers {code}: {}", text.trim()))) }
}

#[cfg(test)]
mod tests {
    use super::{Running, choose};
    use crate::status::Status;

    fn running(flow: &str, port: u16) -> Running {
        Running { flow: flow.to_owned(), url: format!("http://127.0.0.1:{port}"), pid: 1, started: None }
    }

    #[test]
    fn the_flow_that_is_meant_is_found_or_the_choice_shown() {
        let two = || vec![running("orders", 1), running("payments", 2)];
        assert_eq!(choose(two(), Some("orders")).unwrap(), "http://127.0.0.1:1");
        assert_eq!(choose(vec![running("orders", 1)], None).unwrap(), "http://127.0.0.1:1");
        let several = choose(two(), None).unwrap_err();
        assert_eq!(several.status, Status::Usage);
        assert!(
            several.message.contains("payments (process 1) at http://127.0.0.1:2"),
            "{}",
            several.message
        );
        let near = choose(two(), Some("order")).unwrap_err();
        assert_eq!(near.status, Status::Failed);
        assert!(near.message.ends_with("did you mean orders?"), "{}", near.message);
        assert!(choose(Vec::new(), Some("orders")).unwrap_err().message.ends_with("for this user"));
        assert!(choose(Vec::new(), None).unwrap_err().message.contains("--url"));
    }
}
