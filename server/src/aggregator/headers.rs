//! The headers of a forwarded request and of its answer (client-go `transport/round_trippers.go` `SetAuthProxyHeaders`,
//! Go's `net/http/httputil` for those of a hop).

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, InvalidHeaderValue,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use kindom_api::User;

use crate::extra_key::escaped;

/// The servers that a request has passed through, each by the name of its process.
pub(super) const PASSED: HeaderName = HeaderName::from_static("x-kindom-passed");
/// The most servers that a request may pass through.
const PASSED_MAX: usize = 8;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The reason why a request is not forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It has passed through this server before, or through too many.
    Loop,
    /// A user's name or attribute cannot stand in a header.
    User,
}

impl From<InvalidHeaderValue> for Refused {
    fn from(_: InvalidHeaderValue) -> Self {
        Self::User
    }
}

/// `true` for a header that is about one connection.
fn is_of_a_hop(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TE
        || *name == TRAILER
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || matches!(
            name.as_str(),
            "keep-alive" | "proxy-connection" | "proxy-authenticate" | "proxy-authorization"
        )
}

/// `true` for a header by which a client says who it is.
fn is_a_credential(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == AUTHORIZATION || text.starts_with("impersonate-") || text.starts_with("x-remote-")
}

/// Drops what is about one connection, and what `Connection` names.
pub(super) fn drop_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let gone: Vec<HeaderName> = headers.keys().filter(|name| is_of_a_hop(name)).cloned().collect();
    for name in named.iter().chain(&gone) {
        headers.remove(name);
    }
}

/// The client of a forwarded request.
pub(super) struct Client<'a> {
    pub(super) user: &'a User,
    pub(super) address: Option<IpAddr>,
    pub(super) audit_id: Option<&'a [u8]>,
}

/// The headers of a request, as the other server gets them. One that HTTP does not allow is left out.
pub(super) fn forwarded<'a>(
    given: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    client: &Client<'_>,
    own_name: &str,
    has_body: bool,
    upgrades: bool,
) -> Result<HeaderMap, Refused> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let upgrade = headers.get(UPGRADE).cloned().filter(|_| upgrades);
    drop_hop(&mut headers);
    let gone: Vec<HeaderName> =
        headers.keys().filter(|name| is_a_credential(name) || **name == HOST).cloned().collect();
    gone.iter().for_each(|name| drop(headers.remove(name)));
    if !has_body || upgrades {
        headers.remove(CONTENT_LENGTH);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
        drop_token(&mut headers);
    }
    if let Some(address) = client.address {
        come_from(&mut headers, address);
    }
    if let Some(id) = client.audit_id.and_then(|id| HeaderValue::from_bytes(id).ok()) {
        headers.insert(AUDIT_ID, id);
    }
    pass(&mut headers, own_name)?;
    identify(&mut headers, client.user)?;
    Ok(headers)
}

/// Adds the client's address to those that the request has come from (`net/http/httputil`, `ReverseProxy`).
fn come_from(headers: &mut HeaderMap, address: IpAddr) {
    let before = headers.get_all(FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> = before.map(str::to_owned).chain([address.to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Drops a token that a WebSocket's client sends as a subprotocol.
fn drop_token(headers: &mut HeaderMap) {
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.is_empty() && !protocol.starts_with(BEARER_PROTOCOL))
        .collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if !offered.is_empty()
        && let Ok(value) = HeaderValue::from_str(&offered.join(", "))
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Adds this server to those that a request has passed through.
fn pass(headers: &mut HeaderMap, own_name: &str) -> Result<(), Refused> {
    let mut passed: Vec<String> = Vec::new();
    for value in headers.get_all(PASSED) {
        let text = value.to_str().map_err(|_| Refused::Loop)?;
        passed.extend(text.split(',').map(|name| name.trim().to_owned()));
        if passed.len() > PASSED_MAX {
            return Err(Refused::Loop);
        }
    }
    if passed.len() >= PASSED_MAX || passed.iter().any(|name| name == own_name) {
        return Err(Refused::Loop);
    }
    passed.push(own_name.to_owned());
    headers.insert(PASSED, HeaderValue::from_str(&passed.join(","))?);
    Ok(())
}

/// Says who the user is (`SetAuthProxyHeaders`).
pub(super) fn identify(headers: &mut HeaderMap, user: &User) -> Result<(), Refused> {
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes());
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped(key)).to_ascii_lowercase();
        let name: HeaderName = name.parse().map_err(|_| Refused::User)?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn jane() -> User {
        User {
            name: "jane".to_owned(),
            uid: "42".to_owned(),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            extra: BTreeMap::from([("acme.com/Project".to_owned(), vec!["p".to_owned()])]),
            by_proxy: false,
        }
    }

    fn sent(given: &[(&str, &str)], upgrades: bool) -> Result<Vec<String>, Refused> {
        let given = given.iter().map(|(name, value)| (*name, value.as_bytes()));
        let client = Client { user: &jane(), address: Some([10, 0, 0, 7].into()), audit_id: Some(b"id-1") };
        let headers = forwarded(given, &client, "me", false, upgrades)?;
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        Ok(lines)
    }

    const OURS: [&str; 8] = [
        "audit-id: id-1",
        "x-forwarded-for: 10.0.0.7",
        "x-kindom-passed: me",
        "x-remote-extra-acme.com%2fproject: p",
        "x-remote-group: dev",
        "x-remote-group: ops",
        "x-remote-uid: 42",
        "x-remote-user: jane",
    ];

    #[test]
    fn a_clients_credentials_go_nowhere() {
        let lines = sent(
            &[
                ("authorization", "Bearer secret"),
                ("Impersonate-User", "root"),
                ("impersonate-extra-x", "y"),
                ("X-Remote-User", "root"),
                ("x-remote-group", "system:masters"),
                ("x-remote-extra-scopes", "all"),
                ("x-remote-anything", "1"),
                ("proxy-authorization", "Basic x"),
                ("host", "front"),
                ("audit-id", "given"),
            ],
            false,
        );
        assert_eq!(lines.unwrap(), OURS);
    }

    #[test]
    fn headers_of_a_hop_stay() {
        let lines = sent(
            &[
                ("connection", "keep-alive, X-Mine"),
                ("x-mine", "1"),
                ("keep-alive", "5"),
                ("te", "trailers"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("content-length", "5"),
                ("accept", "application/json"),
            ],
            false,
        );
        let mut wanted = vec!["accept: application/json"];
        wanted.extend(OURS);
        assert_eq!(lines.unwrap(), wanted);
    }

    #[test]
    fn an_upgrade_is_asked_for_without_its_token() {
        let lines = sent(
            &[
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                (
                    "sec-websocket-protocol",
                    "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
                ),
            ],
            true,
        );
        let lines = lines.unwrap();
        for wanted in
            ["connection: Upgrade", "upgrade: websocket", "sec-websocket-protocol: v4.channel.k8s.io"]
        {
            assert!(lines.iter().any(|line| line == wanted), "{lines:?}");
        }
    }

    #[test]
    fn a_request_passes_once() {
        assert_eq!(sent(&[("x-kindom-passed", "a,me")], false), Err(Refused::Loop));
        assert_eq!(sent(&[("x-kindom-passed", "a,b,c,d,e,f,g,h")], false), Err(Refused::Loop));
        assert!(
            sent(&[("x-kindom-passed", "a")], false).unwrap().contains(&"x-kindom-passed: a,me".to_owned())
        );
    }

    #[test]
    fn a_name_that_is_no_header_is_refused() {
        let user = User { name: "a\nx-remote-group: system:masters".to_owned(), ..User::default() };
        assert_eq!(identify(&mut HeaderMap::new(), &user), Err(Refused::User));
    }
}
