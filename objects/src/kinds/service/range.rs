//! The ranges of addresses and ports that services get theirs from, and the search for a free one
//! (`pkg/registry/core/service/ipallocator`, `portallocator`, 1.37).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::holdings::Allocation;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const NAMES: [&'static str; 2] = ["IPv4", "IPv6"];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        [Self::V4, Self::V6].into_iter().find(|family| family.name() == name)
    }

    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// A range of addresses in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// 10.0.0.0/24, kube-apiserver's default.
    pub const DEFAULT: Self = Self { network: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), bits: 24 };

    /// The first address after the network's: that of the service `kubernetes`.
    #[must_use]
    pub fn first(self) -> IpAddr {
        self.at(1)
    }

    pub(super) fn network(self) -> IpAddr {
        self.network
    }

    pub(super) fn family(self) -> Family {
        Family::of(self.network)
    }

    /// The addresses of the whole range, the network's and the broadcast's included.
    fn size(self) -> u128 {
        let width: u32 = if self.network.is_ipv4() { 32 } else { 128 };
        1_u128.checked_shl(width.saturating_sub(self.bits.into())).unwrap_or(u128::MAX)
    }

    /// The addresses that a service may have: all but the network's, and in IPv4 the broadcast's.
    fn hosts(self) -> u128 {
        self.size().saturating_sub(if self.network.is_ipv4() { 2 } else { 1 })
    }

    fn at(self, offset: u128) -> IpAddr {
        match self.network {
            IpAddr::V4(v4) => {
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                Ipv4Addr::from(u32::from(v4).wrapping_add(offset)).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).wrapping_add(offset)).into(),
        }
    }

    /// `true` for an address that a service may have.
    pub(super) fn holds(self, address: IpAddr) -> bool {
        let offset = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                u32::from(address).checked_sub(u32::from(network)).map(u128::from)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => u128::from(address).checked_sub(network.into()),
            _ => None,
        };
        offset.is_some_and(|offset| (1..=self.hosts()).contains(&offset))
    }

    /// A free address (`allocateNextService`).
    pub(super) fn free(self, allocation: &Allocation, is_taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let reserved = if self.size() <= 16 { 0 } else { (self.size() / 16).clamp(16, 256) };
        free(self.hosts(), reserved, allocation, |offset| is_taken(self.at(offset.saturating_add(1))))
            .map(|offset| self.at(offset.saturating_add(1)))
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range of addresses in CIDR notation, like 10.0.0.0/24");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let (width, shortest) = if address.is_ipv4() { (32, 8) } else { (128, 64) };
        if bits > width {
            return Err(wrong());
        }
        if bits < shortest {
            return Err(format!(
                "{text:?} has a prefix of {bits} bits, {shortest} is the shortest that is allowed"
            ));
        }
        let shift = u32::from(width - bits);
        let network = match address {
            IpAddr::V4(v4) => Ipv4Addr::from(
                u32::from(v4).checked_shr(shift).and_then(|v| v.checked_shl(shift)).unwrap_or(0),
            )
            .into(),
            IpAddr::V6(v6) => Ipv6Addr::from(
                u128::from(v6).checked_shr(shift).and_then(|v| v.checked_shl(shift)).unwrap_or(0),
            )
            .into(),
        };
        let range = Self { network, bits };
        // `ServiceIPRange` of `pkg/controlplane/services.go`.
        if range.size() < 8 { Err(format!("{text:?} must be at least 8 IP addresses")) } else { Ok(range) }
    }
}

/// A range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    base: u16,
    size: u16,
}

impl PortRange {
    /// 30000-32767, kube-apiserver's default.
    pub const DEFAULT: Self = Self { base: 30_000, size: 2_768 };

    pub(super) fn holds(self, port: i64) -> bool {
        (i64::from(self.base)..i64::from(self.base).saturating_add(self.size.into())).contains(&port)
    }

    /// A free port (`AllocateNext`).
    pub(super) fn free(self, allocation: &Allocation, is_taken: impl Fn(i64) -> bool) -> Option<i64> {
        let reserved = if self.size <= 16 { 0 } else { (self.size / 32).clamp(16, 128) };
        let port =
            |offset: u128| i64::from(self.base).saturating_add(i64::try_from(offset).unwrap_or(i64::MAX));
        free(self.size.into(), reserved.into(), allocation, |offset| is_taken(port(offset))).map(port)
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = u32::from(self.base).saturating_add(self.size.into()).saturating_sub(1);
        write!(f, "{}-{last}", self.base)
    }
}

impl FromStr for PortRange {
    type Err = String;

    /// Reads `30000-32767`, or `30000+2767` (`ParsePortRange` of apimachinery `pkg/util/net`).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range of ports, like 30000-32767");
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (low, high) = match text.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => {
                let (low, more) = text.split_once('+').ok_or_else(wrong)?;
                let low = number(low)?;
                (low, low.saturating_add(number(more)?))
            }
        };
        let size = high.checked_sub(low).and_then(|size| size.checked_add(1)).filter(|_| low > 0);
        Ok(Self { base: low, size: size.ok_or_else(wrong)? })
    }
}

/// A free one of `count` places, from a random one on: first behind the `reserved` ones, which are for clients who name
/// theirs (KEP-3070).
fn free(
    count: u128,
    reserved: u128,
    allocation: &Allocation,
    is_taken: impl Fn(u128) -> bool,
) -> Option<u128> {
    let reserved = reserved.min(count);
    let search = |first: u128, count: u128| {
        let start = allocation.below(count);
        // More than the taken ones need not be tried.
        let tries = u128::try_from(allocation.taken.len()).unwrap_or(u128::MAX).saturating_add(TRIES);
        let place =
            |offset: u128| first.saturating_add(start.wrapping_add(offset).checked_rem(count).unwrap_or(0));
        (0..count.min(tries)).map(place).find(|place| !is_taken(*place))
    };
    search(reserved, count.saturating_sub(reserved)).or_else(|| search(0, reserved))
}

/// Places that one object takes beside those of [`Allocation::taken`], at most: its own ports.
const TRIES: u128 = 1 << 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn allocation(seed: &str) -> Allocation {
        Allocation { seed: seed.to_owned(), taken: BTreeSet::new(), dry_run: false }
    }

    #[test]
    fn ranges_of_addresses_are_read_and_printed() {
        let good = |text: &str| text.parse::<AddressRange>().unwrap().to_string();
        assert_eq!(good("10.0.0.0/24"), AddressRange::DEFAULT.to_string());
        assert_eq!(good("10.1.2.3/16"), "10.1.0.0/16");
        assert_eq!(good("fd00::7/112"), "fd00::/112");
        for wrong in
            ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/30", "10.0.0.0/4", "fd00::/48", "x/24", "10.0.0.0/-1"]
        {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_of_ports_are_read_and_printed() {
        let good = |text: &str| text.parse::<PortRange>().unwrap().to_string();
        assert_eq!(good("30000-32767"), PortRange::DEFAULT.to_string());
        assert_eq!(good("30000+10"), "30000-30010");
        assert_eq!(good("80-80"), "80-80");
        for wrong in ["", "30000", "30000-", "2-1", "0-10", "1-65536", "a-b"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_ends_of_a_range_are_nobodys() {
        let range: AddressRange = "10.0.0.0/28".parse().unwrap();
        let holds = |text: &str| range.holds(text.parse().unwrap());
        assert!(holds("10.0.0.1") && holds("10.0.0.14"));
        assert!(!holds("10.0.0.0") && !holds("10.0.0.15") && !holds("10.0.1.1") && !holds("9.9.9.9"));
        let six: AddressRange = "fd00::/112".parse().unwrap();
        assert!(!six.holds("fd00::".parse().unwrap()) && six.holds("fd00::ffff".parse().unwrap()));
        assert!(!six.holds("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn every_address_is_given_once_and_reserved_ones_last() {
        let range: AddressRange = "10.0.0.0/26".parse().unwrap();
        let mut given = BTreeSet::new();
        for n in 0..62 {
            let seed = format!("{:08x}", n * 7919_u32);
            let next = range.free(&allocation(&seed), |address| given.contains(&address)).unwrap();
            assert!(range.holds(next) && given.insert(next), "{next}");
            let is_reserved = next < "10.0.0.17".parse::<IpAddr>().unwrap();
            assert_eq!(is_reserved, n >= 46, "{next}");
        }
        assert_eq!(range.free(&allocation("1"), |address| given.contains(&address)), None);
    }

    #[test]
    fn ports_are_given_from_the_range() {
        let range: PortRange = "30000-30003".parse().unwrap();
        let taken = [30_000, 30_002, 30_003];
        assert_eq!(range.free(&allocation("3"), |port| taken.contains(&port)), Some(30_001));
        assert_eq!(range.free(&allocation("3"), |_| true), None);
        assert!(range.holds(30_003) && !range.holds(30_004) && !range.holds(29_999));
    }

    #[test]
    fn a_wide_range_of_ipv6_is_searched_at_once() {
        let range: AddressRange = "fd00::/64".parse().unwrap();
        let seed = "ffffffff-ffff-4fff-bfff-ffffffffffff";
        assert!(range.free(&allocation(seed), |_| false).is_some_and(|address| range.holds(address)));
    }
}
