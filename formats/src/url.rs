//! As much of Go's `net/url` as validation needs.

/// The parts of a URL that rules look at.
#[derive(Debug, Default, PartialEq)]
pub struct Url {
    /// In lower case; empty without one.
    pub scheme: String,
    /// With the port, decoded; empty without an authority.
    pub host: String,
    /// What stands before the `@`.
    pub user: Option<String>,
    /// What follows the `?`, undecoded.
    pub query: String,
    /// What follows the `#`, decoded.
    pub fragment: String,
}

/// Reads a URL or a reference to one (`url.Parse`).
///
/// # Errors
/// Go's text, with the operation and the URL: `parse "x y": …`.
pub fn parse(text: &str) -> Result<Url, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let wrong = |url: &str, why: String| format!("parse {}: {why}", kindom_api::field::go_quote(url));
    let mut url = parse_rest(rest, false).map_err(|why| wrong(rest, why))?;
    url.fragment = unescape(fragment).map_err(|why| wrong(text, why))?;
    Ok(url)
}

/// Whether a text is a URL with a scheme and a host (`url.ParseRequestURI`, which knows no fragment).
#[must_use]
pub fn is_absolute(text: &str) -> bool {
    parse_rest(text, true).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

fn parse_rest(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    let mut rest = text;
    if let Some(scheme) = scheme(text)? {
        url.scheme = scheme.to_ascii_lowercase();
        rest = text.get(scheme.len() + 1..).unwrap_or_default();
    }
    if let Some((path, query)) = rest.split_once('?') {
        (rest, url.query) = (path, query.to_owned());
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            // An opaque URL: `mailto:x`.
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
        url.host = parse_host(host)?;
        url.user = user.map(parse_user).transpose()?;
    }
    unescape(rest)?;
    Ok(url)
}

/// What stands before the first colon, if that can be a scheme.
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

fn parse_user(user: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(known) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user)?;
    Ok(user.to_owned())
}

fn parse_host(host: &str) -> Result<String, String> {
    let port = match host.rfind('[') {
        Some(at) if at > 0 => return Err("invalid IP-literal".to_owned()),
        Some(_) => {
            let (address, port) = host.rsplit_once(']').ok_or("missing ']' in host")?;
            let address = address.strip_prefix('[').unwrap_or(address);
            let address = address.split('%').next().unwrap_or(address);
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("invalid host: ParseAddr: unable to parse IP".to_owned());
            }
            port
        }
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let is_port = port.is_empty() || port.starts_with(':') && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_port {
        return Err(format!("invalid port {} after host", kindom_api::field::go_quote(port)));
    }
    if let Some(c) =
        host.chars().find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!(
            "invalid character {} in host name",
            kindom_api::field::go_quote(&c.to_string())
        ));
    }
    unescape(host)
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    out.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let hex = part.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(decoded) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
            let shown: String = std::iter::once('%').chain(part.chars().take(2)).collect();
            return Err(format!("invalid URL escape {}", kindom_api::field::go_quote(&shown)));
        };
        out.push(decoded);
        out.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
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
        check("https://[x]/", r#"parse "https://[x]/": invalid host: ParseAddr: unable to parse IP"#);
    }

    #[test]
    fn absolute() {
        assert!(is_absolute("https://github.com/kubernetes/kubernetes/pull/78458"));
        for text in ["", "x", "/x", "http:", "http://", "https:x", "://x"] {
            assert!(!is_absolute(text), "{text}");
        }
    }
}
