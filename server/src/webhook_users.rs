//! The users that this server is for admission webhooks: of the kubeconfig that a plugin's configuration names, the user with the
//! name of the webhook's host (apiserver `pkg/util/webhook/authentication.go`, 1.37).

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use kube::config::{AuthInfo, Kubeconfig};
use secrecy::ExposeSecret as _;
use tokio::task::spawn_blocking;

use crate::BoxError;
use crate::extra_key::escaped;
use crate::kubeconfig::refuse;
use crate::pki::{may_be_read, read_regular};

/// A user.
#[derive(Debug, Default)]
pub(crate) struct WebhookUser {
    /// Those of its certificate and key.
    certificate: Option<(Source, Source)>,
    authorization: Option<Authorization>,
    /// The headers that name the user whom it acts as.
    acts_as: Vec<(HeaderName, HeaderValue)>,
}

/// A certificate and its key, in PEM.
pub(crate) struct OwnCertificate {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Bytes, or the file that has them.
#[derive(Debug)]
enum Source {
    Bytes(Vec<u8>),
    File(PathBuf),
}

#[derive(Debug)]
enum Authorization {
    Known(HeaderValue),
    /// A token that may change at any time.
    File(PathBuf),
}

impl Source {
    /// Of two fields of a user, of which the data counts.
    fn of(data: Option<&str>, file: Option<&str>, field: &str) -> Result<Option<Self>, BoxError> {
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let bytes = STANDARD.decode(data).map_err(|error| format!("{field}-data: {error}"))?;
            return Ok(Some(Self::Bytes(bytes)));
        }
        Ok(file.filter(|file| !file.is_empty()).map(|file| Self::File(PathBuf::from(file))))
    }

    fn read(&self) -> Result<Vec<u8>, BoxError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File(file) => {
                let text = read_regular(file);
                Ok(text.map_err(|error| format!("{}: {error}", file.display()))?.into_bytes())
            }
        }
    }
}

/// `Bearer token`
fn bearer(token: &str) -> Result<HeaderValue, BoxError> {
    secret(&format!("Bearer {}", token.trim()))
}

/// A header that no log shows.
fn secret(text: &str) -> Result<HeaderValue, BoxError> {
    let mut value: HeaderValue =
        text.parse().map_err(|_| "the credentials have signs that no header can have")?;
    value.set_sensitive(true);
    Ok(value)
}

/// The headers that name the user whom another one acts as; without a name there is none (client-go
/// `transport/round_trippers.go`, `impersonatingRoundTripper`, 1.37).
fn acts_as(user: &AuthInfo) -> Result<Vec<(HeaderName, HeaderValue)>, BoxError> {
    let Some(name) = user.impersonate.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut headers = Vec::new();
    let mut add = |header: &str, field: &str, value: &str| -> Result<(), BoxError> {
        let wrong = |_| format!("{field}: {value:?} has signs that no header can have");
        let header = HeaderName::from_bytes(header.as_bytes())?;
        headers.push((header, HeaderValue::from_bytes(value.as_bytes()).map_err(wrong)?));
        Ok(())
    };
    add("impersonate-user", "as", name)?;
    if let Some(uid) = user.impersonate_uid.as_deref().filter(|uid| !uid.is_empty()) {
        add("impersonate-uid", "as-uid", uid)?;
    }
    for group in user.impersonate_groups.iter().flatten() {
        add("impersonate-group", "as-groups", group)?;
    }
    let extra: BTreeMap<_, _> = user.impersonate_user_extra.iter().flatten().collect();
    for (key, values) in extra {
        let key = escaped(key).to_string().to_ascii_lowercase();
        for value in values {
            add(&format!("impersonate-extra-{key}"), "as-user-extra", value)?;
        }
    }
    Ok(headers)
}

impl WebhookUser {
    fn of(user: &AuthInfo) -> Result<Self, BoxError> {
        refuse(&[("exec", user.exec.is_some()), ("auth-provider", user.auth_provider.is_some())])?;
        let (data, file) = (user.client_certificate_data.as_deref(), user.client_certificate.as_deref());
        let certificate = Source::of(data, file, "client-certificate")?;
        let data = user.client_key_data.as_ref().map(|key| key.expose_secret());
        let key = Source::of(data, user.client_key.as_deref(), "client-key")?;
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("client-certificate and client-key go together".into()),
        };
        let token = user.token.as_ref().map(|token| token.expose_secret()).filter(|token| !token.is_empty());
        let token_file = user.token_file.as_deref().filter(|file| !file.is_empty());
        let name = user.username.as_deref().unwrap_or_default();
        let password = user.password.as_ref().map_or("", |password| password.expose_secret());
        let authorization = match (token, token_file) {
            (_, Some(file)) => Some(Authorization::File(PathBuf::from(file))),
            (Some(token), None) => Some(Authorization::Known(bearer(token)?)),
            (None, None) if !name.is_empty() || !password.is_empty() => {
                let both = STANDARD.encode(format!("{name}:{password}"));
                Some(Authorization::Known(secret(&format!("Basic {both}"))?))
            }
            (None, None) => None,
        };
        Ok(Self { certificate, authorization, acts_as: acts_as(user)? })
    }

    /// Its certificate, if it has one.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn certificate(&self) -> Result<Option<OwnCertificate>, BoxError> {
        let Some((certificate, key)) = &self.certificate else { return Ok(None) };
        Ok(Some(OwnCertificate { certificate: certificate.read()?, key: key.read()? }))
    }

    /// The headers of a question; a token is read each time from its file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) async fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, BoxError> {
        let authorization = self.authorization().await?.map(|value| (AUTHORIZATION, value));
        Ok(authorization.into_iter().chain(self.acts_as.iter().cloned()).collect())
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, BoxError> {
        match &self.authorization {
            None => Ok(None),
            Some(Authorization::Known(value)) => Ok(Some(value.clone())),
            Some(Authorization::File(file)) => {
                let path = file.clone();
                let token = spawn_blocking(move || read_regular(&path)).await?;
                let token = token.map_err(|error| format!("{}: {error}", file.display()))?;
                bearer(&token).map(Some)
            }
        }
    }
}

/// The users of a kubeconfig.
#[derive(Debug, Default)]
pub(crate) struct WebhookUsers {
    by_host: HashMap<String, Arc<WebhookUser>>,
    usual: Option<Arc<WebhookUser>>,
}

impl WebhookUsers {
    /// Those of a file.
    ///
    /// # Errors
    /// It cannot be read, or has a user that cannot be one here.
    pub(crate) fn read(file: &Path) -> Result<Self, BoxError> {
        let name = file.display();
        may_be_read(file).map_err(|error| format!("{name}: {error}"))?;
        let config = Kubeconfig::read_from(file).map_err(|error| format!("{name}: {error}"))?;
        let mut by_host = HashMap::new();
        for named in &config.auth_infos {
            let user = WebhookUser::of(named.auth_info.as_ref().unwrap_or(&AuthInfo::default()));
            let user = user.map_err(|error| format!("{name}: user {:?}: {error}", named.name))?;
            by_host.insert(named.name.clone(), Arc::new(user));
        }
        let current = config.current_context.as_ref();
        let context = current.and_then(|name| config.contexts.iter().find(|named| named.name == *name));
        let current = context.and_then(|named| named.context.as_ref()?.user.as_ref());
        let usual = by_host.get("*").or_else(|| by_host.get(current?)).cloned();
        Ok(Self { by_host, usual })
    }

    /// The user for a host, `name:port`; `None` for nobody.
    pub(crate) fn of(&self, host: &str) -> Option<&Arc<WebhookUser>> {
        let find = |host: &str| {
            let exact = self.by_host.get(host);
            exact.or_else(|| {
                let dots = host.match_indices('.');
                let mut wider = dots.map(|(at, _)| format!("*{}", host.get(at..).unwrap_or_default()));
                wider.find_map(|name| self.by_host.get(&name))
            })
        };
        let without_port = || find(host.strip_suffix(":443")?);
        find(host).or_else(without_port).or(self.usual.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<WebhookUsers, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhooks.kubeconfig");
        std::fs::write(&path, text).unwrap();
        WebhookUsers::read(&path)
            .map_err(|error| error.to_string().replace(&path.display().to_string(), "file"))
    }

    /// The token for a host.
    fn token(users: &WebhookUsers, host: &str) -> String {
        match users.of(host).map(|user| &user.authorization) {
            Some(Some(Authorization::Known(value))) => value.to_str().unwrap().replace("Bearer ", ""),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_closest_name_counts() {
        let all = users(
            "{current-context: c, contexts: [{name: c, context: {cluster: x, user: current}}], users: [
            {name: 'a.team.svc:8443', user: {token: exact}}, {name: '*.team.svc:8443', user: {token: team}},
            {name: b.team.svc, user: {token: usual-port}}, {name: '*.svc', user: {token: services}},
            {name: '*', user: {token: any}}, {name: current, user: {token: current}}]}",
        )
        .unwrap();
        for (host, expected) in [
            ("a.team.svc:8443", "exact"),
            ("b.team.svc:8443", "team"),
            ("b.team.svc:443", "usual-port"),
            ("c.team.svc:443", "services"),
            ("c.other.svc:9443", "any"),
            ("svc:443", "any"),
            ("[::1]:8443", "any"),
            ("", "any"),
        ] {
            assert_eq!(token(&all, host), expected, "{host}");
        }
        let current = "{current-context: c, contexts: [{name: c, context: {cluster: x, user: u}}], users: [{name: u, user: {token: t}}]}";
        assert_eq!(token(&users(current).unwrap(), "a:1"), "t");
        assert_eq!(token(&users("{users: [{name: u, user: {token: t}}]}").unwrap(), "a:1"), "None");
    }

    #[tokio::test]
    async fn a_user_acts_as_another() {
        let all = users(
            "{users: [{name: '*', user: {token: t, as: jane, as-uid: '7', as-groups: [a, b], as-user-extra: {'x/Y z': [v, w]}}},
            {name: nobody.svc, user: {as-groups: [a]}}]}",
        )
        .unwrap();
        let headers = async |host: &str| {
            let headers = all.of(host).unwrap().headers().await.unwrap();
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            headers("x:1").await,
            [
                "authorization: Bearer t",
                "impersonate-user: jane",
                "impersonate-uid: 7",
                "impersonate-group: a",
                "impersonate-group: b",
                "impersonate-extra-x%2fy%20z: v",
                "impersonate-extra-x%2fy%20z: w",
            ]
        );
        assert_eq!(headers("nobody.svc:443").await, Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let of = |user: &str| users(&format!("{{users: [{{name: u, user: {user}}}]}}")).unwrap_err();
        assert_eq!(
            of("{exec: {command: c}}"),
            "file: user \"u\": the kubeconfig's exec is not supported here"
        );
        assert_eq!(of("{as: \"c\\n\"}"), "file: user \"u\": as: \"c\\n\" has signs that no header can have");
        assert_eq!(
            of("{client-certificate-data: QQ==}"),
            "file: user \"u\": client-certificate and client-key go together"
        );
        assert_eq!(
            of("{token: \"a\\nb\"}"),
            "file: user \"u\": the credentials have signs that no header can have"
        );
        let basic = users("{users: [{name: '*', user: {username: a, password: b}}]}").unwrap();
        assert_eq!(token(&basic, "x:1"), "Basic YTpi");
    }
}
