//! IP addresses and ranges as fields have them (apimachinery `pkg/util/validation/ip.go`, `k8s.io/utils/net`, 1.37).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kindom_api::field::{Error, ErrorList, Path, go_quote};

/// A text that is an IP address, by the loosest of the ways in which Kubernetes reads one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ip {
    /// The address; one of IPv4 that is mapped into IPv6 is the one of IPv4, as for Go's `net.IP`.
    pub(super) address: IpAddr,
    /// The text is an address of IPv4 in the form of IPv6.
    is_mapped: bool,
    /// The text has zeros at the head of a number, which no strict parser takes.
    has_zeros: bool,
}

impl Ip {
    /// Reads an address (`ParseIPSloppy`); zeros at the head of a number are skipped.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let strict = text.parse::<IpAddr>().ok();
        let loose = || if text.contains(':') { loose_v6(text) } else { loose_v4(text).map(IpAddr::V4) };
        let parsed = strict.or_else(loose)?;
        let mapped = match parsed {
            IpAddr::V6(v6) => v6.to_ipv4_mapped(),
            IpAddr::V4(_) => None,
        };
        let address = mapped.map_or(parsed, IpAddr::V4);
        Some(Self { address, is_mapped: mapped.is_some(), has_zeros: strict.is_none() })
    }

    /// The error that only strict validation finds.
    fn strict_error(self) -> Option<&'static str> {
        match (self.has_zeros, self.is_mapped) {
            (true, _) => Some("must not have leading 0s"),
            (false, true) => Some("must not be an IPv4-mapped IPv6 address"),
            (false, false) => None,
        }
    }
}

fn loose_v4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let digits = part.trim_start_matches('0');
        if digits.is_empty() && is_number { Some(0) } else { digits.parse().ok().filter(|_| is_number) }
    });
    let octets = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then(|| octets.into())
}

fn loose_v6(text: &str) -> Option<IpAddr> {
    let bare = |part: &str| -> Option<String> {
        if part.contains('.') {
            return loose_v4(part).map(|v4| v4.to_string());
        }
        let digits = part.trim_start_matches('0');
        Some(if digits.is_empty() && !part.is_empty() { "0".to_owned() } else { digits.to_owned() })
    };
    // No address has more groups; a longer text is not worth the copies.
    let parts: Option<Vec<String>> = text.split(':').take(10).map(bare).collect();
    parts?.join(":").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// `IsValidIPForLegacyField`, where strict validation is on.
pub(super) fn legacy(value: &str, at: &Path<'_>) -> Option<Error> {
    let text = match Ip::parse(value) {
        None => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Some(ip) => ip.strict_error()?,
    };
    Some(Error::invalid(at, value, text))
}

/// `IsValidIP`
pub(super) fn strict(value: &str, at: &Path<'_>) -> Option<Error> {
    legacy(value, at).or_else(|| {
        let canonical = Ip::parse(value)?.address.to_string();
        let detail = format!("must be in canonical form ({})", go_quote(&canonical));
        (canonical != value).then(|| Error::invalid(at, value, detail))
    })
}

/// The rules of `ValidateEndpointIP`.
///
/// # Errors
/// The address means something else to each machine.
pub fn refuse_endpoint(address: IpAddr) -> Result<(), String> {
    let errors = endpoint(&address.to_string(), &Path::new("ip"));
    errors.first().map_or(Ok(()), |error| Err(error.detail.clone()))
}

/// `ValidateEndpointIP`
pub(super) fn endpoint(value: &str, at: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(Ip { address, .. }) = Ip::parse(value) else {
        errors.push(Error::invalid(at, value, "must be a valid IP address"));
        return errors;
    };
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), matches!(v4.octets(), [224, 0, 0, _])),
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if address.is_unspecified() {
        errors.push(Error::invalid(at, value, format!("may not be unspecified ({value})")));
    }
    let ranges = [
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    errors.extend(ranges.into_iter().filter(|(is, _)| *is).map(|(_, text)| Error::invalid(at, value, text)));
    errors
}

/// `GetWarningsForIP`
pub(super) fn warning(value: &str, at: &Path<'_>) -> Option<String> {
    let ip = Ip::parse(value)?;
    let (quoted, canonical) = (go_quote(value), go_quote(&ip.address.to_string()));
    if ip.strict_error().is_some() {
        return Some(format!("{at}: non-standard IP address {quoted} is invalid: use {canonical}"));
    }
    (ip.address.is_ipv6() && quoted != canonical)
        .then(|| format!("{at}: IPv6 address {quoted} should be in RFC 5952 canonical format ({canonical})"))
}

/// A range of addresses, by the loosest of the ways in which Kubernetes reads one (`ParseCIDRSloppy`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Cidr {
    ip: Ip,
    /// The bits of the mask that are set, of 32 or of 128.
    pub(super) bits: u32,
    /// The text of the bits begins with a zero.
    has_zeros: bool,
}

impl Cidr {
    /// Reads a range.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let ip = Ip::parse(address)?;
        let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let has_zeros = bits.len() > 1 && bits.starts_with('0');
        let all = if address.contains(':') { 128 } else { 32 };
        let bits = bits.parse().ok().filter(|bits| is_number && *bits <= all)?;
        Some(Self { ip, bits, has_zeros })
    }

    /// The bits of the mask over the address as it is kept.
    fn own_bits(self) -> u32 {
        if self.ip.is_mapped { self.bits.saturating_sub(96) } else { self.bits }
    }

    /// The first address of the range.
    fn first(self) -> IpAddr {
        masked(self.ip.address, self.own_bits())
    }

    /// Returns true if another range begins within this one.
    pub(super) fn holds(self, other: Self) -> bool {
        let first = other.first();
        first.is_ipv4() == self.ip.address.is_ipv4() && masked(first, self.own_bits()) == self.first()
    }

    /// The range as Kubernetes prints it.
    fn canonical(self) -> String {
        format!("{}/{}", self.first(), self.own_bits())
    }
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or_default();
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or_default();
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

/// `IsValidCIDRForLegacyField`, where strict validation is on.
pub(super) fn legacy_cidr(value: &str, at: &Path<'_>) -> Option<Error> {
    let text = match Cidr::parse(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(cidr) if cidr.has_zeros || cidr.ip.has_zeros => {
            "must not have leading 0s in IP or prefix length"
        }
        Some(cidr) if cidr.ip.is_mapped => "must not have an IPv4-mapped IPv6 address",
        Some(cidr) if cidr.first() != cidr.ip.address => "must not have bits set beyond the prefix length",
        Some(_) => return None,
    };
    Some(Error::invalid(at, value, text))
}

/// `IsValidCIDR`
pub(super) fn strict_range(value: &str, at: &Path<'_>) -> Option<Error> {
    if let Some(error) = legacy_cidr(value, at) {
        return Some(error);
    }
    let canonical = Cidr::parse(value)?.canonical();
    let is_other = canonical != value;
    is_other
        .then(|| Error::invalid(at, value, format!("must be in canonical form ({})", go_quote(&canonical))))
}

/// `IsValidInterfaceAddress`
pub(super) fn interface(value: &str, at: &Path<'_>) -> Option<Error> {
    let Some(cidr) = Cidr::parse(value) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return Some(Error::invalid(at, value, detail));
    };
    let canonical = format!("{}/{}", cidr.ip.address, cidr.own_bits());
    let is_other = canonical != value;
    is_other
        .then(|| Error::invalid(at, value, format!("must be in canonical form ({})", go_quote(&canonical))))
}

/// The family of a range, `true` for IPv6; `None` if it is no range (`IPFamilyOfCIDRString` of `k8s.io/utils/net`).
pub(super) fn is_range_of_six(value: &str) -> Option<bool> {
    Cidr::parse(value).map(|cidr| cidr.ip.address.is_ipv6())
}

/// `GetWarningsForCIDR`
pub(super) fn cidr_warnings(value: &str, at: &Path<'_>) -> Vec<String> {
    let Some(cidr) = Cidr::parse(value) else { return Vec::new() };
    let (quoted, canonical) = (go_quote(value), go_quote(&cidr.canonical()));
    let mut warnings = Vec::new();
    if cidr.first() != cidr.ip.address {
        let all = if cidr.ip.address.is_ipv4() && !cidr.ip.is_mapped { 32 } else { 128 };
        let single = go_quote(&format!("{}/{all}", cidr.ip.address));
        warnings.push(format!(
            "{at}: CIDR value {quoted} is ambiguous in this context (should be {canonical} or {single}?)"
        ));
    }
    if cidr.has_zeros || cidr.ip.has_zeros || cidr.ip.is_mapped {
        warnings.push(format!("{at}: non-standard CIDR value {quoted} is invalid: use {canonical}"));
    }
    if warnings.is_empty() && cidr.ip.address.is_ipv6() && quoted != canonical {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({canonical})"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, address: Option<&str>, strict_error: Option<&str>) {
        let ip = Ip::parse(text);
        assert_eq!(ip.map(|ip| ip.address.to_string()).as_deref(), address, "{text}");
        assert_eq!(ip.and_then(Ip::strict_error), strict_error, "{text}");
    }

    #[test]
    fn addresses_are_read_loosely_and_judged_strictly() {
        check("10.9.8.7", Some("10.9.8.7"), None);
        check("010.09.008.0", Some("10.9.8.0"), Some("must not have leading 0s"));
        check("::ffff:1.2.3.4", Some("1.2.3.4"), Some("must not be an IPv4-mapped IPv6 address"));
        check("::ffff:1.2.3.04", Some("1.2.3.4"), Some("must not have leading 0s"));
        check("2001:DB8:0:0::0", Some("2001:db8::"), None);
        check("00001::", Some("1::"), Some("must not have leading 0s"));
        for none in [
            "",
            ".",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1..2.3",
            "-1.2.3.4",
            ":::",
            "1:2",
            "fe80::1%eth0",
            "١.2.3.4",
            "1.2.3.4:",
        ] {
            check(none, None, None);
        }
    }

    #[test]
    fn ranges_are_read_loosely_and_judged_strictly() {
        let path = Path::new("range");
        let why = |text| legacy_cidr(text, &path).map(|error| error.detail);
        for good in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:DB8::/32", "fd00::1/128"] {
            assert_eq!(why(good), None, "{good}");
        }
        let no_range = Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned());
        for none in
            ["", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "::/129", "x/8", "10.0.0.0/8/8"]
        {
            assert_eq!(why(none), no_range, "{none}");
        }
        let zeros = Some("must not have leading 0s in IP or prefix length".to_owned());
        assert_eq!([why("010.0.0.0/8"), why("10.0.0.0/08")], [zeros.clone(), zeros]);
        assert_eq!(why("10.0.0.1/8").as_deref(), Some("must not have bits set beyond the prefix length"));
        assert_eq!(why("::ffff:1.2.3.0/120").as_deref(), Some("must not have an IPv4-mapped IPv6 address"));
        assert_eq!(
            cidr_warnings("FD00::1/64", &path),
            [
                "range: CIDR value \"FD00::1/64\" is ambiguous in this context (should be \"fd00::/64\" or \"fd00::1/128\"?)"
            ]
        );
        assert_eq!(
            cidr_warnings("FD00::/64", &path),
            ["range: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"]
        );
        assert_eq!(
            cidr_warnings("::ffff:1.2.3.0/120", &path),
            ["range: non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\""]
        );
    }

    #[test]
    fn an_address_of_an_endpoint_is_reachable() {
        let path = Path::new("ip");
        let count = |text| endpoint(text, &path).iter().count();
        assert_eq!(count("10.0.0.1"), 0);
        for bad in
            ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "::", "::1", "fe80::1", "ff02::1", "x"]
        {
            assert_eq!(count(bad), 1, "{bad}");
        }
    }

    #[test]
    fn an_odd_form_is_warned_of() {
        let path = Path::new("ip");
        assert_eq!(warning("10.0.0.1", &path), None);
        assert_eq!(
            warning("FE80::ABC", &path).as_deref(),
            Some("ip: IPv6 address \"FE80::ABC\" should be in RFC 5952 canonical format (\"fe80::abc\")")
        );
        assert_eq!(
            warning("010.0.0.1", &path).as_deref(),
            Some("ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"")
        );
    }

    #[test]
    fn a_range_holds_those_that_begin_within_it() {
        let path = Path::new("cidr");
        for right in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:DB8::/32", "10.0.0.1/32"] {
            assert!(legacy_cidr(right, &path).is_none(), "{right}");
        }
        for wrong in [
            "",
            "x",
            "10.0.0.0",
            "10.0.0.1/8",
            "010.0.0.0/8",
            "10.0.0.0/08",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "::ffff:10.0.0.0/104",
        ] {
            assert!(legacy_cidr(wrong, &path).is_some(), "{wrong}");
        }
        let holds = |a: &str, b: &str| Cidr::parse(a).zip(Cidr::parse(b)).is_some_and(|(a, b)| a.holds(b));
        assert!(holds("10.0.0.0/8", "10.1.0.0/16") && !holds("10.1.0.0/16", "10.1.0.0/8"));
        assert!(!holds("0.0.0.0/0", "::/1") && !holds("::/0", "0.0.0.0/0") && holds("::/0", "8000::/1"));
        let ambiguous = "cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)";
        assert_eq!(cidr_warnings("10.0.0.1/8", &path), [ambiguous]);
    }
}
