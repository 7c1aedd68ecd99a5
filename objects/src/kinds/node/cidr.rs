//! Ranges of addresses as fields have them (apimachinery `pkg/util/validation/ip.go`, 0.37).

use std::net::IpAddr;

use kindom_api::field::{Error, Path, go_quote};

use crate::kinds::ip::Ip;

/// A range of addresses, read loosely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    address: IpAddr,
    bits: u8,
    /// The first address of the range.
    first: IpAddr,
    /// The length of an address in bits.
    length: u8,
    /// The text has zeros at the head of a number, or is one of IPv4 in the form of IPv6.
    flaw: Option<&'static str>,
}

const ZEROS: &str = "must not have leading 0s in IP or prefix length";
const MAPPED: &str = "must not have an IPv4-mapped IPv6 address";

impl Range {
    /// `ParseCIDRSloppy`
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let strict = address.parse::<IpAddr>().ok();
        let ip = Ip::parse(address)?.address;
        let is_mapped = matches!(strict, Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some());
        let is_number = !bits.is_empty() && bits.len() <= 9 && bits.bytes().all(|b| b.is_ascii_digit());
        let has_zeros = strict.is_none() || bits.len() > 1 && bits.starts_with('0');
        let number: u32 = bits.parse().ok().filter(|_| is_number)?;
        let (number, length) = match ip {
            IpAddr::V4(_) if is_mapped => (number.checked_sub(96)?, 32),
            IpAddr::V4(_) => (number, 32),
            IpAddr::V6(_) => (number, 128),
        };
        let bits = u8::try_from(number).ok().filter(|bits| *bits <= length)?;
        let first = match ip {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or_default();
                IpAddr::V4((u32::from(v4) & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default();
                IpAddr::V6((u128::from(v6) & mask).into())
            }
        };
        let flaw = if has_zeros { Some(ZEROS) } else { is_mapped.then_some(MAPPED) };
        Some(Self { address: ip, bits, first, length, flaw })
    }

    /// `true` for a range of IPv6.
    pub(super) fn is_v6(self) -> bool {
        self.address.is_ipv6()
    }
}

/// `IsValidCIDRForLegacyField`, where strict validation is on.
pub(super) fn legacy(value: &str, at: &Path<'_>) -> Option<Error> {
    let text = match Range::parse(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(range) if range.flaw.is_some() => range.flaw?,
        Some(range) if range.address != range.first => "must not have bits set beyond the prefix length",
        Some(_) => return None,
    };
    Some(Error::invalid(at, value, text))
}

/// `GetWarningsForCIDR`
pub(super) fn warnings(value: &str, at: &Path<'_>, warnings: &mut Vec<String>) {
    let Some(range) = Range::parse(value) else { return };
    let (quoted, canonical) = (go_quote(value), go_quote(&format!("{}/{}", range.first, range.bits)));
    let mut is_odd = false;
    if range.address != range.first {
        is_odd = true;
        let single = go_quote(&format!("{}/{}", range.address, range.length));
        warnings.push(format!(
            "{at}: CIDR value {quoted} is ambiguous in this context (should be {canonical} or {single}?)"
        ));
    }
    if range.flaw.is_some() {
        is_odd = true;
        warnings.push(format!("{at}: non-standard CIDR value {quoted} is invalid: use {canonical}"));
    }
    if !is_odd && range.is_v6() && quoted != canonical {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({canonical})"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_judged() {
        let path = Path::new("x");
        for right in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/64", "1.2.3.4/32", "::/0"] {
            assert!(legacy(right, &path).is_none(), "{right}");
        }
        for wrong in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "010.0.0.0/8",
            "10.0.0.0/08",
            "::ffff:10.0.0.0/104",
            "x/8",
        ] {
            assert!(legacy(wrong, &path).is_some(), "{wrong}");
        }
        let mut all = Vec::new();
        warnings("FD00::/64", &path, &mut all);
        assert_eq!(
            all,
            ["x: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"]
        );
    }
}
