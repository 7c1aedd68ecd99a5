//! String formats (`validation/formats.go` and `kube-openapi/pkg/validation/strfmt`, 1.37).
//!
//! Each check accepts what Go's accepts, oddities included, since stored objects passed it. A format that is unknown, or
//! on a type that does not carry it, is ignored, as upstream ignores it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use kindom_api::meta::time::days_from_civil;

use crate::duration;
use crate::pattern::Pattern;

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// A format that Kubernetes knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the format of its name")]
        pub enum Format { $($(#[$doc])* $variant),* }

        impl Format {
            const ALL: &[(&str, Format)] = &[$(($name, Format::$variant)),*];

            /// As messages name it.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

formats! {
    BsonObjectId = "bsonobjectid", Uri = "uri", Email = "email", Hostname = "hostname", Ipv4 = "ipv4", Ipv6 = "ipv6",
    Cidr = "cidr", Mac = "mac", Uuid = "uuid", Uuid3 = "uuid3", Uuid4 = "uuid4", Uuid5 = "uuid5", Isbn = "isbn",
    Isbn10 = "isbn10", Isbn13 = "isbn13", CreditCard = "creditcard", Ssn = "ssn", HexColor = "hexcolor",
    RgbColor = "rgbcolor", Byte = "byte", Password = "password", Date = "date", Duration = "duration",
    DateTime = "date-time", DateTimePlain = "datetime", ShortName = "k8s-short-name", LongName = "k8s-long-name",
    Int32 = "int32", Int64 = "int64", Float = "float", Double = "double",
}

impl Format {
    /// The format of this name. Hyphens do not matter, but in the names of numbers' formats.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let plain = text.replace('-', "");
        let known = |format: Self| !format.is_numeric() || plain == text;
        Self::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .or_else(|| Self::ALL.iter().find(|(name, _)| name.replace('-', "") == plain))
            .map(|(_, format)| *format)
            .filter(|format| known(*format))
    }

    /// Returns true for a format of numbers.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// Returns true if a string has the format; always true for a format of numbers.
    #[must_use]
    pub fn accepts(self, s: &str) -> bool {
        match self {
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
            Self::BsonObjectId => s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => crate::url::is_request(s),
            Self::Email => email(s),
            Self::Hostname => hostname(s),
            Self::Ipv4 => s.contains('.') && sloppy_ip(s).is_some(),
            Self::Ipv6 => s.contains(':') && ipv6(s),
            Self::Cidr => cidr(s),
            Self::Mac => mac(s),
            Self::Uuid => uuid(s, |_, _| true),
            Self::Uuid3 => uuid(s, |i, b| i != 12 || b == b'3'),
            Self::Uuid4 => uuid(s, |i, b| versioned(i, b, b'4')),
            Self::Uuid5 => uuid(s, |i, b| versioned(i, b, b'5')),
            Self::Isbn => isbn10(s) || isbn13(s),
            Self::Isbn10 => isbn10(s),
            Self::Isbn13 => isbn13(s),
            Self::CreditCard => credit_card(s),
            Self::Ssn => ssn(s),
            Self::HexColor => hex_color(s),
            Self::RgbColor => rgb_color(s),
            Self::Byte => base64(s),
            Self::Date => date(s),
            Self::Duration => duration::parse_words(s).is_some(),
            Self::DateTime | Self::DateTimePlain => date_time(s),
            Self::ShortName => s.len() <= 63 && segment(s),
            Self::LongName => s.len() <= 253 && s.split('.').all(segment),
        }
    }
}

/// An expression of this file: held for good, as compiling it takes a thousand times as long as matching.
type Held = LazyLock<Arc<Pattern>>;

fn matches(pattern: &Held, s: &str) -> bool {
    pattern.matches(s).unwrap_or(false)
}

fn ssn(s: &str) -> bool {
    static PATTERN: Held = LazyLock::new(|| Pattern::shared(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
    s.len() == 11 && matches(&PATTERN, s)
}

fn segment(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (Some(first), Some(last)) = (s.bytes().next(), s.bytes().last()) else { return false };
    inner(first) && inner(last) && s.bytes().all(|b| inner(b) || b == b'-')
}

/// `mail.ParseAddress`, for addresses without comments: `a@b`, `Name <a@b>`.
fn email(s: &str) -> bool {
    let s = s.trim_matches([' ', '\t']);
    let address = match (s.find('<'), s.strip_suffix('>')) {
        (Some(open), Some(inside)) => {
            let name = s.get(..open).unwrap_or("").trim();
            if !display_name(name) {
                return false;
            }
            inside.get(open + 1..).unwrap_or("")
        }
        (None, None) => s,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atoms = |s: &str, strict_end: bool| {
        !s.is_empty()
            && !s.starts_with('.')
            && (!strict_end || !s.ends_with('.'))
            && !s.contains("..")
            && s.chars().all(|c| c == '.' || atom_char(c))
    };
    let literal = |s: &str| {
        s.strip_prefix('[').and_then(|s| s.strip_suffix(']')).is_some_and(|s| {
            s.parse::<Ipv4Addr>().is_ok()
                || s.strip_prefix("IPv6:").is_some_and(|s| s.parse::<Ipv6Addr>().is_ok())
        })
    };
    (atoms(local, true) || quoted(local)) && (atoms(domain, true) || literal(domain))
}

fn atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

fn quoted(s: &str) -> bool {
    let Some(inside) = s.strip_prefix('"').and_then(|s| s.strip_suffix('"')) else { return false };
    let mut escaped = false;
    for c in inside.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            c if c.is_ascii_control() && c != '\t' => return false,
            _ => {}
        }
    }
    !escaped && s.len() > 1
}

fn display_name(s: &str) -> bool {
    quoted(s) || s.chars().all(|c| atom_char(c) || c == ' ' || c == '.' || c == '\t')
}

/// `IsHostname`: Go's pattern, whose one unanchored half lets much through.
fn hostname(s: &str) -> bool {
    static PATTERN: Held = LazyLock::new(|| {
        Pattern::shared(concat!(
            r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)",
            r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
            r"([a-zA-Z\p{L}]){2,63})$"
        ))
    });
    s.len() <= 255 && s.split('.').all(|part| part.len() <= 63) && matches(&PATTERN, s)
}

enum Ip {
    V4,
    V6,
}

/// `netutils.ParseIPSloppy`: as before Go 1.17, with leading zeros in IPv4.
fn sloppy_ip(s: &str) -> Option<Ip> {
    if s.contains(':') {
        return ipv6(s).then_some(Ip::V6);
    }
    sloppy_ipv4(s).then_some(Ip::V4)
}

fn sloppy_ipv4(s: &str) -> bool {
    s.split('.').count() == 4
        && s.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_digit())
                && part.trim_start_matches('0').len() <= 3
                && part.trim_start_matches('0').parse::<u16>().unwrap_or(0) <= 255
        })
}

fn ipv6(s: &str) -> bool {
    s.parse::<Ipv6Addr>().is_ok()
}

fn cidr(s: &str) -> bool {
    let Some((address, prefix)) = s.split_once('/') else { return false };
    let bits = match sloppy_ip(address) {
        Some(Ip::V4) => 32,
        Some(Ip::V6) => 128,
        None => return false,
    };
    !prefix.is_empty()
        && prefix.bytes().all(|b| b.is_ascii_digit())
        && prefix.trim_start_matches('0').len() <= 3
        && prefix.trim_start_matches('0').parse::<u16>().unwrap_or(0) <= bits
}

/// `net.ParseMAC`: 6, 8 or 20 bytes by `:`, `-` or, two together, by `.`.
fn mac(s: &str) -> bool {
    let by = |separator: char, digits: usize, counts: [usize; 3]| {
        counts.contains(&s.split(separator).count())
            && s.split(separator).all(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    by(':', 2, [6, 8, 20]) || by('-', 2, [6, 8, 20]) || by('.', 4, [3, 4, 10])
}

/// 32 hexadecimal digits, a hyphen allowed after the 8th, 12th, 16th and 20th; `digit` may refuse one by its index.
fn uuid(s: &str, digit: impl Fn(usize, u8) -> bool) -> bool {
    let mut count = 0;
    let mut hyphen = false;
    for b in s.bytes() {
        if b == b'-' {
            if hyphen || ![8, 12, 16, 20].contains(&count) {
                return false;
            }
            hyphen = true;
            continue;
        }
        hyphen = false;
        if !b.is_ascii_hexdigit() || !digit(count, b) {
            return false;
        }
        count += 1;
    }
    count == 32
}

fn versioned(index: usize, b: u8, version: u8) -> bool {
    match index {
        12 => b == version,
        16 => b"89abAB".contains(&b),
        _ => true,
    }
}

fn without_separators(s: &str) -> Vec<u8> {
    s.bytes().filter(|b| !b"\t\n\x0c\r -".contains(b)).collect()
}

fn isbn10(s: &str) -> bool {
    let digits = without_separators(s);
    let Some((last, body)) = digits.split_last() else { return false };
    if body.len() != 9 || !body.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    let sum: u32 = body.iter().zip(1..).map(|(b, i)| i * value(*b)).sum::<u32>() + 10 * value(*last);
    sum.is_multiple_of(11)
}

fn isbn13(s: &str) -> bool {
    let digits = without_separators(s);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        digits.iter().zip([1, 3].into_iter().cycle()).map(|(b, factor)| factor * u32::from(b - b'0')).sum();
    sum.is_multiple_of(10)
}

fn credit_card(s: &str) -> bool {
    static PATTERN: Held = LazyLock::new(|| {
        Pattern::shared(concat!(
            r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
            r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
        ))
    });
    let digits: String = s.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .zip([1, 2].into_iter().cycle())
        .map(|(b, factor)| {
            let n = u32::from(b - b'0') * factor;
            if n >= 10 { n % 10 + 1 } else { n }
        })
        .sum();
    sum.is_multiple_of(10) && matches(&PATTERN, &digits)
}

fn hex_color(s: &str) -> bool {
    let digits = s.strip_prefix('#').unwrap_or(s);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn rgb_color(s: &str) -> bool {
    static PATTERN: Held = LazyLock::new(|| {
        const PART: &str = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
        Pattern::shared(&format!(r"^rgb\({PART},{PART},{PART}\)$"))
    });
    matches(&PATTERN, s)
}

/// The standard alphabet with its padding; not empty.
fn base64(s: &str) -> bool {
    let body = s.strip_suffix("==").or_else(|| s.strip_suffix('=')).unwrap_or(s);
    !s.is_empty()
        && s.len().is_multiple_of(4)
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// `YYYY-MM-DD` of a day that exists.
fn date(s: &str) -> bool {
    let (Some(year), Some(month), Some(day)) =
        (digits(s, 0, 4, None), digits(s, 5, 2, Some(b'-')), digits(s, 8, 2, Some(b'-')))
    else {
        return false;
    };
    s.len() == 10 && days_from_civil(year.into(), month.into(), day.into()).is_some()
}

/// The number of `len` digits at `at`, if `before` stands in front of it.
fn digits(s: &str, at: usize, len: usize, before: Option<u8>) -> Option<u32> {
    let text = s.get(at..at + len)?;
    let separated = before.is_none_or(|b| s.as_bytes().get(at.wrapping_sub(1)) == Some(&b));
    (separated && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A date, `t`, and a time with its zone; seconds up to 59. Text behind another `t` is ignored.
fn date_time(s: &str) -> bool {
    let mut parts = s.split(['t', 'T']);
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    date(day) && clock(time)
}

/// `^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$`, whatever the case, and in the day. Without
/// a regex: nearly every object has such a time in its status.
fn clock(s: &str) -> bool {
    let part = |at, before, max| digits(s, at, 2, before).is_some_and(|n| n <= max);
    let rest = s.get(8..).unwrap_or("");
    // Any character may stand before the fraction: Go's pattern does not escape the point.
    let fraction = || {
        let mut chars = rest.chars();
        let digits = chars.next().filter(|c| *c != '\n').map_or("", |_| chars.as_str());
        let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < digits.len() && zone(after)
    };
    part(0, None, 23) && part(3, Some(b':'), 59) && part(6, Some(b':'), 59) && (zone(rest) || fraction())
}

fn zone(s: &str) -> bool {
    match s.as_bytes() {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    fn check(format: &str, good: &[&str], bad: &[&str]) {
        let format = Format::named(format).unwrap();
        for s in good {
            assert!(format.accepts(s), "{format:?} should accept {s:?}");
        }
        for s in bad {
            assert!(!format.accepts(s), "{format:?} should refuse {s:?}");
        }
    }

    #[test]
    fn hyphens_do_not_matter() {
        assert_eq!(Format::named("int32"), Some(Format::Int32));
        assert_eq!(Format::named("int-32"), None);
        assert_eq!(Format::named("uint8"), None);
        assert_eq!(Format::named("date-time").map(Format::text), Some("date-time"));
        assert_eq!(Format::named("datetime").map(Format::text), Some("datetime"));
        assert_eq!(Format::named("k8s-short-name"), Some(Format::ShortName));
        assert_eq!(Format::named("k8sshortname"), Some(Format::ShortName));
        assert_eq!(Format::named("int64-or-so"), None);
    }

    #[test]
    fn addresses() {
        check(
            "ipv4",
            &["1.2.3.4", "010.0.0.1", "255.255.255.255"],
            &["1.2.3", "256.1.1.1", "::1", "", "1.2.3.4 "],
        );
        check("ipv6", &["::1", "2001:db8::", "::ffff:1.2.3.4"], &["1.2.3.4", "::g", "fe80::1%eth0", ""]);
        check(
            "cidr",
            &["10.0.0.0/8", "2001:db8::/32", "1.2.3.4/032"],
            &["10.0.0.0", "10.0.0.0/33", "::/129", "x/1"],
        );
        check(
            "mac",
            &["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"],
            &["01:23:45:67:89", "0123:4567:89ab", "g1:23:45:67:89:ab"],
        );
        check(
            "hostname",
            &["a", "example.com", "1.example.org", "a-b.cd"],
            &["", "-a", "a_b", "exa mple.com"],
        );
        check(
            "uri",
            &["http://a.b/c?d", "/path", "mailto:x", "https://u:p@h:80/", "http://[::1]:80/x", "urn:a:b"],
            &["", "relative", "http://a b/", "http://[::1/", "http://h:port/", "/%zz", ":x", "a\n"],
        );
        check(
            "email",
            &["a@b", "a.b@c.de", "Name Surname <a@b.c>", "\"q u\"@x.y"],
            &["a", "@b", "a@", "a..b@c", "<a@b", "a@b c"],
        );
    }

    #[test]
    fn times() {
        check(
            "date",
            &["2024-02-29", "0001-01-01"],
            &["2023-02-29", "2024-13-01", "2024-1-1", "2024-01-01T", ""],
        );
        check(
            "date-time",
            &[
                "2024-01-01T00:00:00Z",
                "2024-01-01t23:59:59.123+01:00",
                "2024-01-01T00:00:00z",
                "2024-01-01T00:00:00-99:99",
                "2024-01-01T00:00:00é5Z",
                "2024-01-01T00:00:00+05Z",
                "2024-01-01T00:00:0012Z",
                "2024-01-01T00:00:00ZT more",
            ],
            &[
                "2024-01-01",
                "2024-01-01T24:00:00Z",
                "2024-01-01T23:60:00Z",
                "2024-01-01T00:00:00",
                "2024-01-01T00:00:60Z",
                "2024-01-01T00:00:00.Z",
                "2024-01-01T00:00:00\n5Z",
                "2024-01-01T00:00:001Z",
                "2024-01-01T00:00:00+0100",
                "2024-01-01T00-00-00Z",
                "2024-01-01 00:00:00Z",
                "T",
                "",
            ],
        );
        check(
            "duration",
            &["1h30m", "-1.5s", "0", "22 ns", "3 days", "1 week", "5µs", "10 seconds"],
            &["", "1", "h", "1x", "one day", "99999999999999999999 days"],
        );
    }

    #[test]
    fn identifiers_and_numbers() {
        check(
            "uuid",
            &["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"],
            &["a8098c1a-f86e-11da-bd1a-00112444be1", "a8098c1-af86e-11da-bd1a-00112444be1e", ""],
        );
        check("uuid3", &["bcd02e22-68f0-3046-a512-327cca9def8f"], &["025b0d74-00a2-4048-bf57-227c5111bb34"]);
        check("uuid4", &["025b0d74-00a2-4048-bf57-227c5111bb34"], &["025b0d74-00a2-4048-7f57-227c5111bb34"]);
        check("uuid5", &["886313e1-3b8a-5372-9b90-0c9aee199e5d"], &["025b0d74-00a2-4048-bf57-227c5111bb34"]);
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", ""]);
        check(
            "isbn",
            &["0321751043", "978-0321751041", "0-8044-2957-X"],
            &["0321751044", "978-0321751042", ""],
        );
        check("isbn10", &["0321751043"], &["978-0321751041"]);
        check("isbn13", &["978 0321751041"], &["0321751043"]);
        check("creditcard", &["4111-1111-1111-1111", "4012888888881881"], &["4111111111111112", "1234", ""]);
        check("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111a"]);
        check("k8s-short-name", &["a", "a-b-9"], &["", "A", "-a", "a.b", "a-"]);
        check("k8s-long-name", &["a.b-c.9", "x"], &["", "a..b", "a.", "A.b"]);
    }

    #[test]
    fn colours_and_bytes() {
        check("hexcolor", &["#fff", "FFFFFF"], &["#ff", "fffff", "#ggg"]);
        check(
            "rgbcolor",
            &["rgb(0,12,255)", "rgb( 1 , 2 , 3 )"],
            &["rgb(256,1,1)", "rgb(1,1)", "RGB(1,1,1)"],
        );
        check("byte", &["aGVsbG8=", "YQ==", "YWJj"], &["", "a", "aGVsbG8", "a-_=", "=aaa", "a=a="]);
        check("password", &["", "anything"], &[]);
    }
}
