//! Hosts with ports, as `allow.http` and `allow.tcp` grant them.
//!
//! A name stands for itself; `*.example.com` for every name below it; `*` for every name. Addresses are written out,
//! IPv6 in brackets. There is always a port: what it grants is one service, not a machine.

use std::net::{IpAddr, Ipv6Addr};

use loom_types::AddressClass;

use super::cx::Cx;
use super::fields::Field;
use super::values::name;
use crate::issue::Code;
use crate::plan::AllowedHost;
use crate::report::Problem;

/// What is wrong with a host, and what to write instead where that can be told.
#[derive(Debug, PartialEq, Eq)]
struct Fault(String, Option<&'static str>);

/// One granted host; none, with an issue, if it is none. What is not known yet (`${…}` without a value) is no issue.
pub(super) fn allowed_host(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<AllowedHost> {
    let text = name(cx, item).filter(|text| !text.open)?;
    match parse(text.value.trim()) {
        Ok(host) => Some(host),
        Err(Fault(why, hint)) => {
            let message = format!("`{}` grants no host: {why}", text.shown);
            let hint = hint.unwrap_or("write a host and a port, such as `api.example.com:443`");
            cx.push(&text.place, Problem::error(Code::ValueInvalid, message).hint(hint));
            None
        }
    }
}

fn parse(text: &str) -> Result<AllowedHost, Fault> {
    let fault = |why: &str| Err(Fault(why.to_owned(), None));
    if text.contains("://") || text.contains('/') {
        return fault("it is an address of a page, and only a host and its port are granted");
    }
    if text.contains('@') {
        return fault("a user does not belong here");
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(Fault(
            "an IPv6 address stands in brackets".to_owned(),
            Some("write `[2001:db8::1]:443`"),
        ));
    }
    let Some((host, port)) = text.rsplit_once(':').filter(|(host, _)| !host.ends_with(':')) else {
        return fault("it has no port");
    };
    let Some(port) = port.parse::<u16>().ok().filter(|port| *port > 0) else {
        return fault("its port is no number from 1 to 65535");
    };
    let host = host.to_ascii_lowercase();
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let Ok(address) = address.parse::<Ipv6Addr>() else {
            return fault("what stands in brackets is no IPv6 address");
        };
        return address_host(address.into(), port);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return address_host(address, port);
    }
    let name = if host == "*" { "" } else { host.strip_prefix("*.").unwrap_or(&host) };
    if name.contains('*') {
        return Err(Fault(
            "`*` stands for a whole name, or for what is before its first dot".to_owned(),
            Some("write `*.example.com:443`"),
        ));
    }
    if host != "*" && !is_name(name) {
        return fault("its host is no name (international names are written as `xn--…`)");
    }
    Ok(AllowedHost { host, port })
}

fn address_host(address: IpAddr, port: u16) -> Result<AllowedHost, Fault> {
    if AddressClass::of(address) == AddressClass::Never {
        return Err(Fault(
            "link-local addresses and metadata services are never given to plugins".to_owned(),
            Some("grant the service itself, by its name"),
        ));
    }
    Ok(AllowedHost { host: address.to_string(), port })
}

/// Whether this is a host's name. All digits and dots would be an address that is none.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253
        && name.split('.').all(label)
        && name.bytes().any(|byte| !b"0123456789.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn of(text: &str) -> Result<(String, u16), String> {
        parse(text).map(|host| (host.host, host.port)).map_err(|fault| fault.0)
    }

    #[test]
    fn names_wildcards_and_addresses_with_ports_are_granted() {
        for (text, host, port) in [
            ("api.example.com:443", "api.example.com", 443),
            ("API.Example.com:80", "api.example.com", 80),
            ("localhost:8080", "localhost", 8080),
            ("my_service:1", "my_service", 1),
            ("*.example.com:443", "*.example.com", 443),
            ("*:443", "*", 443),
            ("10.0.0.5:9000", "10.0.0.5", 9000),
            ("[::1]:65535", "::1", 65535),
            ("[2001:DB8::1]:443", "2001:db8::1", 443),
        ] {
            assert_eq!(of(text), Ok((host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn what_grants_nothing_says_why() {
        for (text, why) in [
            ("api.example.com", "no port"),
            ("https://api.example.com", "address of a page"),
            ("api.example.com/v1:443", "address of a page"),
            ("user@api.example.com:443", "a user"),
            ("api.example.com:0", "port is no number"),
            ("api.example.com:65536", "port is no number"),
            ("api.example.com:https", "port is no number"),
            ("api.example.com:", "port is no number"),
            (":443", "is no name"),
            ("::1", "brackets"),
            ("::1:443", "brackets"),
            ("[::x]:443", "no IPv6 address"),
            ("a.*.com:443", "`*` stands for"),
            ("*example.com:443", "`*` stands for"),
            ("*.:443", "is no name"),
            ("a..b:443", "is no name"),
            ("bücher.example:443", "is no name"),
            ("1.2.3:443", "is no name"),
            ("169.254.169.254:80", "never given"),
            ("[fe80::1]:80", "never given"),
        ] {
            let told = of(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
