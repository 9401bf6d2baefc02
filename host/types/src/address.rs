//! What kind of place a network address is, as far as grants of plugins go.
//!
//! Names are granted, and addresses are what a name happens to point to at the moment. So an address is judged by
//! itself: a name that was granted literally may lead into the private network (services of a cluster are there), one
//! that only a wildcard covers may not, and some places are never given to a plugin whatever a name says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// Reachable on the internet.
    Public,
    /// This machine, or a network that the internet does not reach.
    Private,
    /// Never reachable for plugins: link-local addresses, among them the metadata services of clouds, and addresses that
    /// name no single machine.
    Never,
}

/// Metadata services of clouds whose addresses are not link-local.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// The same in IPv6.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

impl AddressClass {
    /// Judges an address. An IPv6 address that only wraps one of IPv4 is what it wraps.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    let never = address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || a == 0
        || a >= 240
        || METADATA_V4.contains(&address);
    let shared = a == 100 && (64..128).contains(&b);
    let benchmarks = a == 198 && (b == 18 || b == 19);
    let protocols = a == 192 && b == 0 && c == 0;
    match () {
        () if never => AddressClass::Never,
        () if address.is_loopback()
            || address.is_private()
            || address.is_documentation()
            || shared
            || benchmarks
            || protocols =>
        {
            AddressClass::Private
        }
        () => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if let Some(inner) = wrapped(address) {
        return of_v4(inner);
    }
    let segments = address.segments();
    let never = address.is_unspecified()
        || address.is_multicast()
        || segments[0] & 0xffc0 == 0xfe80
        || METADATA_V6.contains(&address);
    // What is not global unicast (2000::/3) is no place on the internet, and neither is documentation.
    let global = segments[0] & 0xe000 == 0x2000 && !(segments[0] == 0x2001 && segments[1] == 0xdb8);
    match (never, global) {
        (true, _) => AddressClass::Never,
        (false, true) => AddressClass::Public,
        (false, false) => AddressClass::Private,
    }
}

/// The IPv4 address inside: mapped, compatible, of NAT64, of 6to4.
fn wrapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // ::1 and :: are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::AddressClass::{self, Never, Private, Public};

    fn class(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn link_local_and_metadata_addresses_are_never_given() {
        for text in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::",
            "ff02::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ] {
            assert_eq!(class(text), Never, "{text}");
        }
    }

    #[test]
    fn what_the_internet_does_not_reach_is_private() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
        ] {
            assert_eq!(class(text), Private, "{text}");
        }
    }

    #[test]
    fn everything_else_is_public() {
        for text in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
        {
            assert_eq!(class(text), Public, "{text}");
        }
    }
}
