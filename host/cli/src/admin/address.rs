//! Where the admin server listens.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// The port that is tried when none is given.
pub const PORT: u16 = 7878;

/// `--admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// On this machine only, at [`PORT`], or at a free port where that is taken.
    Default,
    /// Exactly there.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

impl Address {
    /// Reads `off`, `IP:PORT`, `localhost:PORT`, or a port alone, which means this machine.
    pub fn parse(text: &str) -> Result<Address, String> {
        let here = |port| Address::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        if text == "off" {
            return Ok(Address::Off);
        }
        let port = text.strip_prefix("localhost:").unwrap_or(text);
        if let Ok(port) = port.parse() {
            return Ok(here(port));
        }
        text.parse().map(Address::At).map_err(|_| {
            format!("write an address and a port, such as 127.0.0.1:{PORT} or 0.0.0.0:{PORT}, a port alone, or `off`")
        })
    }

    /// A listener; none where it is off.
    ///
    /// # Errors
    /// The address cannot be had: a message for the user.
    pub fn listen(&self) -> Result<Option<TcpListener>, String> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let bound = match self {
            Address::Off => return Ok(None),
            Address::At(at) => TcpListener::bind(at),
            Address::Default => bind(PORT).or_else(|error| match error.kind() {
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied => bind(0),
                _ => Err(error),
            }),
        };
        let listener = bound.map_err(|error| {
            let place = match self {
                Address::At(at) => at.to_string(),
                _ => format!("127.0.0.1:{PORT}"),
            };
            format!("the admin server cannot listen at {place}: {error}; give another with --admin, or `--admin off`")
        })?;
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Address, PORT};

    #[test]
    fn addresses_are_read_and_others_explained() {
        let at = |text: &str| Address::At(text.parse().unwrap());
        assert_eq!(Address::parse("off"), Ok(Address::Off));
        assert_eq!(Address::parse("9000"), Ok(at("127.0.0.1:9000")));
        assert_eq!(Address::parse("localhost:0"), Ok(at("127.0.0.1:0")));
        assert_eq!(Address::parse("0.0.0.0:7878"), Ok(at("0.0.0.0:7878")));
        assert_eq!(Address::parse("[::1]:7878"), Ok(at("[::1]:7878")));
        for wrong in ["", "on", "127.0.0.1", "host:1", "70000"] {
            assert!(
                Address::parse(wrong).is_err_and(|message| message.contains("127.0.0.1:7878")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_port_that_was_asked_for_is_not_swapped_for_another() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = Address::At(taken.local_addr().unwrap()).listen().unwrap_err();
        assert!(error.contains("cannot listen at 127.0.0.1:"), "{error}");
        assert!(Address::Off.listen().unwrap().is_none());
    }

    #[test]
    fn the_default_gives_way_to_a_free_port_and_stays_on_this_machine() {
        let first = Address::Default.listen().unwrap().unwrap();
        let second = Address::Default.listen().unwrap().unwrap();
        let (first, second) = (first.local_addr().unwrap(), second.local_addr().unwrap());
        assert!(first.ip().is_loopback() && second.ip().is_loopback());
        assert!(second.port() != PORT || first.port() != PORT);
        assert_ne!(first.port(), second.port());
    }
}
