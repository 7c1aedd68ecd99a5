//! URLs as Go's `net/url` (1.26) reads and prints them.

use std::fmt;

use kindom_api::field::go_quote;

use crate::net::Address;

/// A URL, or a reference to one (`url.URL`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty without one.
    pub scheme: String,
    /// The text behind a scheme without a slash: `x@y` of `mailto:x@y`.
    pub opaque: String,
    /// The user information in front of the `@`, as Go escapes it.
    pub user: Option<String>,
    /// With the port, decoded; empty without an authority.
    pub host: String,
    /// The text behind the `?`, not decoded.
    pub query: String,
    /// The text behind the `#`, decoded.
    pub fragment: String,
    /// Decoded.
    path: Vec<u8>,
    /// As it was written, where Go would escape it otherwise.
    raw_path: Option<String>,
    raw_fragment: Option<String>,
    /// `true` if the URL ends in a bare `?`.
    force_query: bool,
    /// `true` if the path follows the scheme directly, without `//`.
    omit_host: bool,
}

/// The part of a URL that a text is escaped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// Reads a URL or a reference to one (`url.Parse`).
///
/// # Errors
/// Go's text, with the operation and the URL: `parse "x y": …`.
pub fn parse(text: &str) -> Result<Url, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse_rest(rest, false).map_err(|why| wrong(rest, &why))?;
    let decoded = unescape(fragment, Part::Fragment).map_err(|why| wrong(text, &why))?;
    if escape(&decoded, Part::Fragment) != fragment {
        url.raw_fragment = Some(fragment.to_owned());
    }
    url.fragment = lossy(decoded);
    Ok(url)
}

/// Reads an absolute URL or an absolute path, which have no fragment (`url.ParseRequestURI`).
///
/// # Errors
/// Go's text, with the operation and the URL: `parse "x": invalid URI for request`.
pub fn parse_request(text: &str) -> Result<Url, String> {
    parse_rest(text, true).map_err(|why| wrong(text, &why))
}

/// Returns true if [`parse_request`] accepts a text. The most common texts, with nothing to decode, are recognised without
/// parsing.
#[must_use]
pub fn is_request(text: &str) -> bool {
    is_plain(text) || parse_rest(text, true).is_ok()
}

/// `https://example.com/a/b-1.c`, without a user, a port, a query or an escape.
fn is_plain(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'-' | b'_'))
    })
}

fn wrong(url: &str, why: &str) -> String {
    format!("parse {}: {why}", go_quote(url))
}

/// Returns true if a text is a URL with a scheme and a host (`url.ParseRequestURI`, which knows no fragment).
#[must_use]
pub fn is_absolute(text: &str) -> bool {
    parse_rest(text, true).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

impl Url {
    /// The path as it was written if that can stand, else as Go escapes it (`URL.EscapedPath`).
    #[must_use]
    pub fn escaped_path(&self) -> String {
        match &self.raw_path {
            Some(raw) if is_encoded(raw, Part::Path) => raw.clone(),
            _ if self.path == b"*" => "*".to_owned(),
            _ => escape(&self.path, Part::Path),
        }
    }

    fn escaped_fragment(&self) -> String {
        match &self.raw_fragment {
            Some(raw) if is_encoded(raw, Part::Fragment) => raw.clone(),
            _ => escape(self.fragment.as_bytes(), Part::Fragment),
        }
    }

    /// The host without its port and brackets (`URL.Hostname`).
    #[must_use]
    pub fn hostname(&self) -> &str {
        self.host_and_port().0
    }

    /// The port's digits; empty without one (`URL.Port`).
    #[must_use]
    pub fn port(&self) -> &str {
        self.host_and_port().1
    }

    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port),
            _ => (self.host.as_str(), ""),
        };
        let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inside.unwrap_or(host), port)
    }

    /// The query's keys and values, decoded, in order; malformed ones are left out, and all if there are more than 10,000
    /// (`URL.Query`).
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        if self.query.matches('&').count() + 1 > PARAMETERS_MAX {
            return Vec::new();
        }
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let key = unescape(key, Part::Query).ok()?;
                let value = unescape(value, Part::Query).ok()?;
                Some((lossy(key), lossy(value)))
            })
            .collect()
    }
}

/// `defaultMaxParams`
const PARAMETERS_MAX: usize = 10_000;

/// As Go puts it together again (`URL.String`).
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let path = self.escaped_path();
            let no_authority = self.host.is_empty() && self.user.is_none();
            let mut bare = self.scheme.is_empty();
            if !no_authority || !self.scheme.is_empty() && !self.omit_host {
                if !no_authority || !self.path.is_empty() {
                    f.write_str("//")?;
                    bare = false;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&escape(self.host.as_bytes(), Part::Host))?;
            }
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                f.write_str("/")?;
            }
            if bare && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                f.write_str("./")?;
            }
            f.write_str(&path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if self.force_query || !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if self.fragment.is_empty() { Ok(()) } else { write!(f, "#{}", self.escaped_fragment()) }
    }
}

fn parse_rest(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let mut rest = text;
    if let Some(scheme) = scheme(text)? {
        url.scheme = scheme.to_ascii_lowercase();
        rest = text.get(scheme.len() + 1..).unwrap_or_default();
    }
    if let Some((path, query)) = rest.split_once('?') {
        url.force_query = query.is_empty();
        (rest, url.query) = (path, query.to_owned());
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_authority = !url.scheme.is_empty() || (!request && !rest.starts_with("///"));
    if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at_checked(end).unwrap_or((authority, ""));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(&url.scheme, host)?;
        url.user = user.map(parse_user).transpose()?;
    } else {
        url.omit_host = !url.scheme.is_empty() && rest.starts_with('/');
    }
    url.path = unescape(rest, Part::Path)?;
    if escape(&url.path, Part::Path) != rest {
        url.raw_path = Some(rest.to_owned());
    }
    Ok(url)
}

/// The text before the first colon, if that can be a scheme.
fn scheme(text: &str) -> Result<Option<&str>, String> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(text.get(..i)),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// As Go would print it.
fn parse_user(user: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(known) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let again =
        |text: &str| -> Result<String, String> { Ok(escape(&unescape(text, Part::User)?, Part::User)) };
    match user.split_once(':') {
        Some((name, password)) => Ok(format!("{}:{}", again(name)?, again(password)?)),
        None => again(user),
    }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|b| b.is_ascii_digit())
}

fn check_port(port: &str) -> Result<(), String> {
    if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", go_quote(port)))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(at) if at > 0 => return Err("invalid IP-literal".to_owned()),
        Some(_) => return parse_literal(host),
        None => {}
    }
    // Several hosts with ports in one are an old habit of databases' URLs.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    if let Some(at) = colon {
        check_port(host.get(at..).unwrap_or_default())?;
    }
    unescape(host, Part::Host).map(lossy)
}

/// `[::1]:80`
fn parse_literal(host: &str) -> Result<String, String> {
    let (address, port) = host.rsplit_once(']').ok_or("missing ']' in host")?;
    let address = address.strip_prefix('[').unwrap_or(address);
    check_port(port)?;
    let address = match address.find("%25").and_then(|at| address.split_at_checked(at)) {
        Some((address, zone)) => {
            let mut whole = unescape(address, Part::Host)?;
            whole.extend(unescape(zone, Part::Zone)?);
            lossy(whole)
        }
        None => lossy(unescape(address, Part::Host)?),
    };
    match Address::parse(&address) {
        Ok(Address::V6(..)) => Ok(format!("[{address}]{port}")),
        Ok(Address::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(why) => Err(format!("invalid host: {why}")),
    }
}

/// `shouldEscape`
fn must_escape(b: u8, part: Part) -> bool {
    match b {
        b if b.is_ascii_alphanumeric() => false,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'[' | b']'
        | b'<' | b'>' | b'"'
            if matches!(part, Part::Host | Part::Zone) =>
        {
            false
        }
        b'-' | b'_' | b'.' | b'~' => false,
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => b == b'?',
            Part::User => matches!(b, b'@' | b'/' | b'?' | b':'),
            Part::Query | Part::Host | Part::Zone => true,
            Part::Fragment => false,
        },
        b'!' | b'(' | b')' | b'*' => part != Part::Fragment,
        _ => true,
    }
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for b in bytes {
        if must_escape(*b, part) {
            out.push_str(&format!("%{b:02X}"));
        } else {
            out.push(char::from(*b));
        }
    }
    out
}

/// `validEncoded`
fn is_encoded(text: &str, part: Part) -> bool {
    text.bytes().all(|b| b"!$&'()*+,;=:@[]%".contains(&b) || !must_escape(b, part))
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(b) = bytes.get(at).copied() {
        at += 1;
        match b {
            b'%' => {
                let after = bytes.get(at..at + 2).unwrap_or_default();
                let hex =
                    std::str::from_utf8(after).ok().filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
                let decoded = hex.filter(|h| h.len() == 2).and_then(|h| u8::from_str_radix(h, 16).ok());
                let Some(decoded) = decoded else {
                    let shown = bytes.get(at - 1..(at + 2).min(bytes.len())).unwrap_or_default();
                    return Err(bad_escape(shown));
                };
                let percent = decoded == b'%';
                let refused = match part {
                    Part::Host => decoded < 0x80 && !percent,
                    Part::Zone => !percent && decoded != b' ' && must_escape(decoded, Part::Host),
                    _ => false,
                };
                if refused {
                    return Err(bad_escape(bytes.get(at - 1..at + 2).unwrap_or_default()));
                }
                out.push(decoded);
                at += 2;
            }
            b'+' if part == Part::Query => out.push(b' '),
            b if matches!(part, Part::Host | Part::Zone) && b < 0x80 && must_escape(b, part) => {
                let shown = go_quote(&char::from(b).to_string());
                return Err(format!("invalid character {shown} in host name"));
            }
            b => out.push(b),
        }
    }
    Ok(out)
}

/// Go cuts through a character, and shows the bytes that are left.
fn bad_escape(shown: &[u8]) -> String {
    let mut text = String::new();
    for chunk in shown.utf8_chunks() {
        let quoted = go_quote(chunk.valid());
        text.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
        for b in chunk.invalid() {
            text.push_str(&format!("\\x{b:02x}"));
        }
    }
    format!("invalid URL escape \"{text}\"")
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{is_absolute, parse};

    #[test]
    fn urls() {
        let url = parse("https://user:pw@example.com:8443/path?q=1#frag").unwrap();
        assert_eq!(url.scheme, "https");
        assert_eq!(url.host, "example.com:8443");
        assert_eq!(url.user.as_deref(), Some("user:pw"));
        assert_eq!((url.query.as_str(), url.fragment.as_str()), ("q=1", "frag"));
        assert_eq!(parse("https:///path").unwrap().host, "");
        assert_eq!(parse("https://[::1]:443/").unwrap().host, "[::1]:443");
        assert_eq!(parse("HTTPS://x").unwrap().scheme, "https");
        assert_eq!(parse("").unwrap().scheme, "");
    }

    #[test]
    fn errors_read_as_in_go() {
        let check = |text: &str, want: &str| assert_eq!(parse(text).unwrap_err(), want);
        check(":x", r#"parse ":x": missing protocol scheme"#);
        check("https://a:b", r#"parse "https://a:b": invalid port ":b" after host"#);
        check("/d%zz", r#"parse "/d%zz": invalid URL escape "%zz""#);
        check("https://x/%é", r#"parse "https://x/%é": invalid URL escape "%é""#);
        check("https://a b/", r#"parse "https://a b/": invalid character " " in host name"#);
        check("1a:b", r#"parse "1a:b": first path segment in URL cannot contain colon"#);
        check("a\nb", r#"parse "a\nb": net/url: invalid control character in URL"#);
        check("https://[x]/", r#"parse "https://[x]/": invalid host: ParseAddr("x"): unable to parse IP"#);
    }

    #[test]
    fn parts_and_print() {
        let check = |text: &str, host: &str, port: &str, path: &str, print: &str| {
            let url = parse(text).unwrap();
            let path = (path.to_owned(), print.to_owned());
            assert_eq!((url.hostname(), url.port()), (host, port), "{text}");
            assert_eq!((url.escaped_path(), url.to_string()), path, "{text}");
        };
        check("https://a:80/b c", "a", "80", "/b%20c", "https://a:80/b%20c");
        check("https://[::1]:80/%2f", "::1", "80", "/%2f", "https://[::1]:80/%2f");
        check("/a%41?x#y z", "", "", "/a%41", "/a%41?x#y%20z");
        check("http:/x?", "", "", "/x", "http:/x?");
        check("mailto:a@b", "", "", "", "mailto:a@b");
        check("x://a:b@h:1", "h", "1", "", "x://a:b@h:1");
        check("x://h:1:2", "h:1", "2", "", "x://h:1:2");
        check("./a:b", "", "", "./a:b", "./a:b");
        check("%ff", "", "", "%ff", "%ff");
        check("/[x]", "", "", "/[x]", "/[x]");
        check("/[x]\u{e9}", "", "", "/%5Bx%5D%C3%A9", "/%5Bx%5D%C3%A9");
        check("*", "", "", "*", "*");
        let url = parse("/?a=1&b=%20+&c;d&=2&a=%zz&a=3&e").unwrap();
        let pairs = url.parameters();
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "  "), ("", "2"), ("a", "3"), ("e", "")]);
    }

    #[test]
    fn absolute() {
        assert!(is_absolute("https://github.com/kubernetes/kubernetes/pull/78458"));
        for text in ["", "x", "/x", "http:", "http://", "https:x", "://x"] {
            assert!(!is_absolute(text), "{text}");
        }
    }
}
