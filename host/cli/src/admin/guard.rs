//! Whom the admin server answers.
//!
//! A page that someone opens in a browser on this machine can send requests here. What it must not get is an answer:
//! - a request that another site's page makes says so, in `Sec-Fetch-Site` or `Origin`: refused;
//! - a page can give its own name this machine's address, so that the browser takes the server for the page's own site
//!   (DNS rebinding). Then `Host` holds that name: only addresses, `localhost`, this machine's own name and names that no
//!   public site can have are answered.
//!
//! Requests have no body here. All of it is decided from the head alone.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hyper::Version;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, ORIGIN, TRANSFER_ENCODING};

/// Endings of names that public sites cannot have.
const PRIVATE: [&str; 7] =
    [".localhost", ".local", ".internal", ".home.arpa", ".svc", ".cluster.local", ".localdomain"];

/// Why a request is refused: a status and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub why: String,
}

fn refused(status: u16, why: impl Into<String>) -> Result<(), Refused> {
    Err(Refused { status, why: why.into() })
}

/// Whether a request with this head is answered. `machine`: this machine's own name.
///
/// HTTP/1.0 knows no `Host`: probes of load balancers leave it out, and no browser speaks it.
pub fn admit(version: Version, headers: &HeaderMap, machine: &str) -> Result<(), Refused> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
    let mut hosts = headers.get_all(HOST).iter().map(text);
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) if version <= Version::HTTP_10 => String::new(),
        _ => return refused(400, "a request names one Host"),
    };
    if headers.contains_key(HOST) && !is_ours(name_of(&host), machine) {
        return refused(
            403,
            format!("Host {host:?} may be another site's name for this machine; ask by address or localhost"),
        );
    }
    if let Some(site) = headers.get("sec-fetch-site").map(text)
        && !matches!(site.as_str(), "none" | "same-origin")
    {
        return refused(403, "a page of another site is not answered");
    }
    for origin in headers.get_all(ORIGIN).iter().map(text) {
        if origin.strip_prefix("http://") != Some(host.as_str()) {
            return refused(403, format!("a page of {origin} is not answered"));
        }
    }
    let length = headers.get(CONTENT_LENGTH).map(text);
    if length.is_some_and(|length| length != "0") || headers.contains_key(TRANSFER_ENCODING) {
        return refused(413, "a request has no body");
    }
    Ok(())
}

/// The name in a `Host`, without its port.
fn name_of(host: &str) -> &str {
    if let Some(address) = host.strip_prefix('[') {
        return address.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_ours(name: &str, machine: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let single = !name.is_empty() && !name.contains('.');
    name.parse::<IpAddr>().is_ok()
        || single
        || PRIVATE.iter().any(|ending| name.ends_with(ending))
        || name.eq_ignore_ascii_case(machine)
}

/// So many requests a second, and a few more at once.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    burst: f64,
    left: f64,
    last: Instant,
}

impl Rate {
    /// Full at `now`.
    pub fn new(per_second: u32, burst: u32, now: Instant) -> Rate {
        let burst = f64::from(burst);
        Rate { per_second: f64::from(per_second), burst, left: burst, last: now }
    }

    /// Whether one more request is answered.
    pub fn admits(&mut self, now: Instant) -> bool {
        let since: Duration = now.saturating_duration_since(self.last);
        self.left = (self.left + since.as_secs_f64() * self.per_second).min(self.burst);
        self.last = now;
        let admitted = self.left >= 1.0;
        if admitted {
            self.left -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use hyper::Version;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    use super::{Rate, admit};

    fn status(headers: &[(&str, &str)]) -> u16 {
        status_of(Version::HTTP_11, headers)
    }

    fn status_of(version: Version, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        admit(version, &map, "box-7.example.org").map_or_else(|refused| refused.status, |()| 200)
    }

    #[test]
    fn addresses_and_names_that_no_site_can_have_are_answered() {
        for host in [
            "127.0.0.1:7878",
            "127.0.0.1",
            "[::1]:7878",
            "10.0.3.4:7878",
            "localhost:7878",
            "LOCALHOST:7878",
            "orders",
            "orders.shop.svc:7878",
            "orders.shop.svc.cluster.local",
            "box-7.example.org:7878",
        ] {
            assert_eq!(status(&[("host", host)]), 200, "{host}");
        }
    }

    #[test]
    fn a_name_that_a_site_could_give_this_machine_is_refused() {
        for host in ["evil.example:7878", "127.0.0.1.nip.io", "localhost.evil.example", "svc.evil.example"] {
            assert_eq!(status(&[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&[]), 400);
        assert_eq!(status(&[("host", "localhost"), ("host", "evil.example")]), 400);
        assert_eq!(status(&[("host", "")]), 403);
    }

    #[test]
    fn a_probe_of_an_older_version_need_not_name_a_host() {
        assert_eq!(status_of(Version::HTTP_10, &[]), 200);
        assert_eq!(status_of(Version::HTTP_10, &[("host", "evil.example")]), 403);
        assert_eq!(status_of(Version::HTTP_10, &[("host", "")]), 403);
        assert_eq!(status_of(Version::HTTP_10, &[("origin", "http://evil.example")]), 403);
    }

    #[test]
    fn pages_of_other_sites_are_refused_and_ones_own_are_not() {
        let host = ("host", "localhost:7878");
        for site in ["cross-site", "same-site", "anything"] {
            assert_eq!(status(&[host, ("sec-fetch-site", site)]), 403, "{site}");
        }
        for site in ["none", "same-origin"] {
            assert_eq!(status(&[host, ("sec-fetch-site", site)]), 200, "{site}");
        }
        for origin in ["http://evil.example", "null", "https://localhost:7878", "http://localhost:80"] {
            assert_eq!(status(&[host, ("origin", origin)]), 403, "{origin}");
        }
        assert_eq!(status(&[host, ("origin", "http://localhost:7878")]), 200);
        assert_eq!(
            status(&[host, ("origin", "http://localhost:7878"), ("origin", "http://evil.example")]),
            403
        );
    }

    #[test]
    fn a_request_has_no_body() {
        let host = ("host", "localhost");
        assert_eq!(status(&[host, ("content-length", "1")]), 413);
        assert_eq!(status(&[host, ("content-length", "0")]), 200);
        assert_eq!(status(&[host, ("transfer-encoding", "chunked")]), 413);
    }

    #[test]
    fn a_burst_is_answered_and_what_goes_on_is_slowed() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 3, start);
        let answered = (0..5).filter(|_| rate.admits(start)).count();
        assert_eq!(answered, 3);
        assert!(rate.admits(start + Duration::from_millis(101)));
        assert!(!rate.admits(start + Duration::from_millis(102)));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..5).filter(|_| rate.admits(later)).count(), 3, "what is unused does not add up");
    }
}
