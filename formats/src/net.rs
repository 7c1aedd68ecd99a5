//! IP addresses and networks as Go's `net/netip` reads and prints them: `std::net` reads the same texts, and where it
//! reads none, this module finds Go's reason.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kindom_api::field::go_quote;

/// An address (`netip.Addr`). An IPv4 address mapped into IPv6 is an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of 32 bits.
    V4(Ipv4Addr),
    /// Of 128 bits, perhaps with a zone.
    V6(Ipv6Addr, String),
}

/// A network (`netip.Prefix`): an address, which may have bits beyond the prefix, and the prefix' length in bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Without a zone.
    pub address: Address,
    /// At most the address' length.
    pub bits: u8,
}

/// Why a text is no address, and the text from the place on where that shows.
type Why<'t> = (&'static str, &'t str);

impl Address {
    /// Reads an address (`netip.ParseAddr`).
    ///
    /// # Errors
    /// Go's text: `ParseAddr("1.2.3"): IPv4 address too short`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
            Some(b'.') => text.parse().map(Self::V4).map_err(|_| why_not_v4(text)),
            Some(b':') => match text.split_once('%').unwrap_or((text, "")) {
                (_, "") if text.contains('%') => Err(("zone must be a non-empty string", "")),
                (address, zone) => {
                    let ip = address.parse().map_err(|_| why_not_v6(address));
                    ip.map(|ip| Self::V6(ip, zone.to_owned()))
                }
            },
            Some(_) => Err(("missing IPv6 address", "")),
            None => Err(("unable to parse IP", "")),
        };
        parsed.map_err(|(why, at)| {
            let text = go_quote(text);
            if at.is_empty() {
                format!("ParseAddr({text}): {why}")
            } else {
                format!("ParseAddr({text}): {why} (at {})", go_quote(at))
            }
        })
    }

    /// The length of the address in bits.
    #[must_use]
    pub fn bits(&self) -> u8 {
        match self {
            Self::V4(_) => 32,
            Self::V6(..) => 128,
        }
    }

    /// The zone of an IPv6 address; empty without one.
    #[must_use]
    pub fn zone(&self) -> &str {
        match self {
            Self::V4(_) => "",
            Self::V6(_, zone) => zone,
        }
    }

    /// `true` if it is an IPv4 address mapped into IPv6: `::ffff:1.2.3.4`.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self, Self::V6(ip, _) if ip.to_ipv4_mapped().is_some())
    }

    /// `0.0.0.0` or `::`.
    #[must_use]
    pub fn is_unspecified(&self) -> bool {
        match self {
            Self::V4(ip) => ip.is_unspecified(),
            Self::V6(ip, zone) => ip.is_unspecified() && zone.is_empty(),
        }
    }

    /// As Go classifies it: an IPv4 address that is mapped into IPv6 is of the classes of the IPv4 address.
    fn unmapped(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(*ip),
            Self::V6(ip, _) => ip.to_canonical(),
        }
    }

    /// `127.0.0.0/8` or `::1`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.unmapped().is_loopback()
    }

    /// `224.0.0.0/4` or `ff00::/8`.
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        self.unmapped().is_multicast()
    }

    /// `224.0.0.0/24` or `ff?2::/16`.
    #[must_use]
    pub fn is_link_local_multicast(&self) -> bool {
        match self.unmapped() {
            IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
            IpAddr::V6(ip) => ip.to_bits() >> 112 & 0xff0f == 0xff02,
        }
    }

    /// `169.254.0.0/16` or `fe80::/10`.
    #[must_use]
    pub fn is_link_local_unicast(&self) -> bool {
        match self.unmapped() {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }

    /// Neither unspecified, the broadcast, loopback, multicast nor link-local; private networks are global here.
    #[must_use]
    pub fn is_global_unicast(&self) -> bool {
        let none = [Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()];
        !none.contains(&self.unmapped())
            && !self.is_unspecified()
            && !self.is_loopback()
            && !self.is_multicast()
            && !self.is_link_local_unicast()
    }

    /// With the bits beyond the first ones cleared, and no zone.
    #[must_use]
    fn masked(&self, bits: u8) -> Self {
        let cleared = u32::from(self.bits().saturating_sub(bits));
        match self {
            Self::V4(ip) => {
                let mask = u32::MAX.checked_shl(cleared).unwrap_or(0);
                Self::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            Self::V6(ip, _) => {
                let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
                Self::V6(Ipv6Addr::from_bits(ip.to_bits() & mask), String::new())
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(ip) => ip.fmt(f),
            Self::V6(ip, zone) => {
                write!(f, "{ip}")?;
                if zone.is_empty() { Ok(()) } else { write!(f, "%{zone}") }
            }
        }
    }
}

impl Network {
    /// Reads a network (`netip.ParsePrefix`).
    ///
    /// # Errors
    /// Go's text: `netip.ParsePrefix("1.2.3.4"): no '/'`.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_network(text).map_err(|why| format!("netip.ParsePrefix({}): {why}", go_quote(text)))
    }

    /// The network of the same length, with the bits beyond it cleared.
    #[must_use]
    pub fn masked(&self) -> Self {
        Self { address: self.address.masked(self.bits), bits: self.bits }
    }

    /// `true` if an address is in it; one with a zone is in none.
    #[must_use]
    pub fn contains(&self, address: &Address) -> bool {
        address.zone().is_empty()
            && self.address.bits() == address.bits()
            && self.address.masked(self.bits) == address.masked(self.bits)
    }

    /// `true` if there is an address in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let bits = self.bits.min(other.bits);
        self.address.bits() == other.address.bits() && self.address.masked(bits) == other.address.masked(bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn parse_network(text: &str) -> Result<Network, String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let address = Address::parse(address)?;
    if !address.zone().is_empty() {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let bad = || format!("bad bits after slash: {}", go_quote(bits));
    if bits.len() > 1 && !bits.starts_with(|c: char| ('1'..='9').contains(&c)) {
        return Err(bad());
    }
    let bits = bits.parse::<i64>().map_err(|_| bad())?;
    match u8::try_from(bits) {
        Ok(bits) if bits <= address.bits() => Ok(Network { address, bits }),
        _ => Err("prefix length out of range".to_owned()),
    }
}

/// Go's reason why a text is no IPv4 address (`parseIPv4Fields`).
fn why_not_v4(text: &str) -> Why<'_> {
    let mut dots = 0;
    // Of the field that is being read, once it has a digit.
    let mut value = None;
    for (i, b) in text.bytes().enumerate() {
        let rest = text.get(i..).unwrap_or_default();
        match (b, value) {
            (b'0'..=b'9', Some(0)) => return ("IPv4 field has octet with leading zero", ""),
            (b'0'..=b'9', _) => {
                let next = value.unwrap_or(0) * 10 + u32::from(b - b'0');
                if next > 255 {
                    return ("IPv4 field has value >255", "");
                }
                value = Some(next);
            }
            (b'.', None) => return ("IPv4 field must have at least one digit", rest),
            (b'.', _) if rest == "." => return ("IPv4 field must have at least one digit", rest),
            (b'.', _) if dots == 3 => return ("IPv4 address too long", ""),
            (b'.', _) => (dots, value) = (dots + 1, None),
            _ => return ("unexpected character", rest),
        }
    }
    ("IPv4 address too short", "")
}

/// Go's reason why a text without a zone is no IPv6 address (`parseIPv6`).
fn why_not_v6(text: &str) -> Why<'_> {
    let (mut rest, mut ellipsis) = text.strip_prefix("::").map_or((text, false), |rest| (rest, true));
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return ("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit", rest);
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with('.') {
            if !ellipsis && bytes != 12 {
                return ("embedded IPv4 address must replace the final 2 fields of the address", rest);
            }
            if bytes + 4 > 16 {
                return ("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
            }
            if rest.parse::<Ipv4Addr>().is_err() {
                return why_not_v4(rest);
            }
            rest = "";
            break;
        }
        bytes += 2;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else { return ("unexpected character, want colon", rest) };
        if after.is_empty() {
            return ("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return ("multiple :: in address", rest);
            }
            ellipsis = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return ("trailing garbage after address", rest);
    }
    if ellipsis {
        ("the :: must expand to at least one field of zeros", "")
    } else {
        ("address string too short", "")
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Network};

    #[test]
    fn addresses_print_canonically() {
        for (text, want) in [
            ("1.2.3.4", "1.2.3.4"),
            ("::", "::"),
            ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:0:2:0:0:3:4", "1::2:0:0:3:4"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("1::", "1::"),
            ("1:2:3:4:5:6:7.8.9.10", "1:2:3:4:5:6:708:90a"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), want, "{text}");
        }
    }

    #[test]
    fn errors_are_gos() {
        for (text, want) in [
            ("", "unable to parse IP"),
            ("1", "unable to parse IP"),
            ("%a", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            (".1.2.3", "IPv4 field must have at least one digit (at \".1.2.3\")"),
            ("1.2.3.", "IPv4 field must have at least one digit (at \".\")"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            (":", "each colon-separated field must have at least one digit (at \":\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("1:::", "each colon-separated field must have at least one digit (at \":\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2:3:4:5:6:7", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("::1:2:3:4:5:6:7:8", "the :: must expand to at least one field of zeros"),
            ("::g", "each colon-separated field must have at least one digit (at \"g\")"),
            ("::1g", "unexpected character, want colon (at \"g\")"),
            (
                "1:2.3.4.5",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"2.3.4.5\")",
            ),
            ("fe80::1%", "zone must be a non-empty string"),
        ] {
            assert_eq!(Address::parse(text), Err(format!("ParseAddr({text:?}): {want}")), "{text}");
        }
    }

    /// Lists the classes that `netip.Addr` puts an address in.
    fn classes(text: &str) -> String {
        let address = Address::parse(text).unwrap();
        let all = [
            ("mapped", address.is_mapped()),
            ("unspecified", address.is_unspecified()),
            ("loopback", address.is_loopback()),
            ("multicast", address.is_multicast()),
            ("link-local-multicast", address.is_link_local_multicast()),
            ("link-local", address.is_link_local_unicast()),
            ("global", address.is_global_unicast()),
        ];
        all.iter().filter(|(_, is)| *is).map(|(class, _)| *class).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn addresses_are_of_gos_classes() {
        for (text, want) in [
            ("0.0.0.0", "unspecified"),
            ("0.0.0.1", "global"),
            ("::ffff:0.0.0.0", "mapped"),
            ("::ffff:255.255.255.255", "mapped"),
            ("::ffff:127.0.0.1", "mapped loopback"),
            ("::ffff:1.2.3.4", "mapped global"),
            ("::%eth0", "global"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.255", "loopback"),
            ("126.0.0.1", "global"),
            ("128.0.0.1", "global"),
            ("10.0.0.1", "global"),
            ("169.254.1.1", "link-local"),
            ("169.253.1.1", "global"),
            ("168.254.1.1", "global"),
            ("223.0.0.0", "global"),
            ("224.0.0.1", "multicast link-local-multicast"),
            ("224.0.1.0", "multicast"),
            ("224.1.0.0", "multicast"),
            ("225.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "global"),
            ("255.255.255.255", ""),
            ("255.255.255.254", "global"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::2", "global"),
            ("1::1", "global"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "global"),
            ("fd80::1", "global"),
            ("ff02::1", "multicast link-local-multicast"),
            ("ff12::1", "multicast link-local-multicast"),
            ("ff01::1", "multicast"),
            ("fe00::1", "global"),
            ("::ffff:10.0.0.1", "mapped global"),
            ("::fffe:10.0.0.1", "global"),
            ("1::ffff:10.0.0.1", "global"),
        ] {
            assert_eq!(classes(text), want, "{text}");
        }
        assert_eq!(Address::parse("1.2.3.4").unwrap().bits(), 32);
        assert_eq!(Address::parse("::").unwrap().bits(), 128);
        assert_eq!(Address::parse("fe80::1%eth0").unwrap().zone(), "eth0");
        assert_eq!(Address::parse("fe80::1").unwrap().zone(), "");
    }

    #[test]
    fn networks() {
        let network = Network::parse("10.1.2.3/8").unwrap();
        assert_eq!(network.masked().to_string(), "10.0.0.0/8");
        assert!(network.contains(&Address::parse("10.255.0.1").unwrap()));
        assert!(!network.contains(&Address::parse("11.0.0.1").unwrap()));
        assert!(!network.contains(&Address::parse("::ffff:10.0.0.1").unwrap()));
        assert!(network.overlaps(&Network::parse("0.0.0.0/0").unwrap()));
        assert!(!network.overlaps(&Network::parse("::/0").unwrap()));
        assert!(Network::parse("::/0").unwrap().contains(&Address::parse("::1").unwrap()));
        for (text, want) in [
            ("1.2.3.4", "no '/'"),
            ("x/8", "ParseAddr(\"x\"): unable to parse IP"),
            ("fe80::%a/8", "IPv6 zones cannot be present in a prefix"),
            ("1.2.3.4/33", "prefix length out of range"),
            ("1.2.3.4/999999999999999999", "prefix length out of range"),
            ("1.2.3.4/9999999999999999999", "bad bits after slash: \"9999999999999999999\""),
            ("1.2.3.4/08", "bad bits after slash: \"08\""),
            ("1.2.3.4/", "bad bits after slash: \"\""),
            ("1.2.3.4/-1", "bad bits after slash: \"-1\""),
        ] {
            assert_eq!(Network::parse(text), Err(format!("netip.ParsePrefix({text:?}): {want}")), "{text}");
        }
    }
}
