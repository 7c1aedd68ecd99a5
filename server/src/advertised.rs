//! The address that the Service `kubernetes` leads to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use kindom_objects::kinds::refuse_endpoint;

/// Addresses for documentation (RFC 5737, RFC 3849), which lie behind the default route.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The address of --advertise-address, or that at which the server listens, or, if that is all there are, the one that the host
/// has on its default route. None if only the host itself can reach the server (upstream then tells others an address at which
/// it does not listen: `ResolveBindAddress` of apimachinery's `pkg/util/net/interface.go`, 1.37).
///
/// # Errors
/// The flag names an address that means something else to each machine.
pub(crate) fn advertised(flag: Option<IpAddr>, bound: IpAddr) -> Result<Option<IpAddr>, String> {
    if let Some(address) = flag {
        refuse_endpoint(address).map_err(|why| format!("--advertise-address {address}: {why}"))?;
        return Ok(Some(address));
    }
    let address = if bound.is_unspecified() { on_default_route(bound) } else { Some(bound) };
    Ok(address.filter(|address| refuse_endpoint(*address).is_ok()))
}

/// The host's own address on its default route, of a family that the server listens to. Sends nothing.
fn on_default_route(bound: IpAddr) -> Option<IpAddr> {
    ELSEWHERE.into_iter().filter(|there| there.is_ipv4() || bound.is_ipv6()).find_map(|there| {
        let from: IpAddr =
            if there.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect((there, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_told_that_others_can_use() {
        assert_eq!(advertised(None, ip("127.0.0.1")), Ok(None));
        assert_eq!(advertised(None, ip("::1")), Ok(None));
        assert_eq!(advertised(None, ip("198.51.100.7")), Ok(Some(ip("198.51.100.7"))));
        assert_eq!(advertised(Some(ip("2001:db8::7")), ip("127.0.0.1")), Ok(Some(ip("2001:db8::7"))));
        let found = advertised(None, ip("0.0.0.0")).unwrap();
        assert!(found.is_none_or(|found| found.is_ipv4() && !found.is_loopback() && !found.is_unspecified()));
        for useless in ["127.0.0.1", "0.0.0.0", "169.254.1.1", "fe80::1", "224.0.0.1"] {
            let refused = advertised(Some(ip(useless)), ip("0.0.0.0")).unwrap_err();
            assert!(refused.starts_with(&format!("--advertise-address {useless}: may not be ")), "{refused}");
        }
    }
}
