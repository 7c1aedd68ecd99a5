//! The ConfigMap in which a host says whose certificates count: `kube-system/extension-apiserver-authentication` (apiserver
//! `pkg/authentication/request/headerrequest/requestheader_controller.go`,
//! `pkg/server/dynamiccertificates/configmap_cafile_content.go`, 1.37).
//!
//! **Guarantees.** What was known holds if the ConfigMap goes, loses a key or cannot be read, or if the host is away; the log
//! says so, once. The two parts, users' authorities and front proxies, are taken over apart.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kindom_api::{Value, json};
use kindom_http::authn::FrontProxies;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Error};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::watch;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Host, asking};
use crate::BoxError;
use crate::flags::header_name;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The Role that the host has for readers of it.
const ROLE: &str = "extension-apiserver-authentication-reader";
/// The longest that the first look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// What the ConfigMap says, as far as it was ever readable.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostAuthentication {
    /// The authorities of users' certificates.
    pub(crate) users: Vec<CertificateDer<'static>>,
    /// The front proxies of the host.
    pub(crate) proxies: Option<FrontProxies>,
}

/// The last known content of the ConfigMap.
pub(crate) struct Known {
    now: Mutex<HostAuthentication>,
    changed: watch::Sender<()>,
    /// The last complaint, which is not repeated.
    complaint: Mutex<String>,
}

impl Known {
    fn new() -> Self {
        let (now, complaint) = (Mutex::default(), Mutex::default());
        Self { now, changed: watch::Sender::new(()), complaint }
    }

    pub(crate) fn now(&self) -> HostAuthentication {
        self.now.lock().clone()
    }

    /// Reports each change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Takes over what can be read, and wakes those who listen if it has changed; returns the reasons why a part of it cannot.
    fn take_over(&self, data: &BTreeMap<String, String>) -> Vec<String> {
        let (users, proxies) = (users(data), proxies(data));
        let mut complaints = Vec::new();
        let mut now = self.now.lock();
        let before = now.clone();
        match users {
            Ok(users) => now.users = users,
            Err(why) => complaints.push(why),
        }
        match proxies {
            Ok(proxies) => now.proxies = Some(proxies),
            Err(why) => complaints.push(why),
        }
        let has_changed = *now != before;
        drop(now);
        if has_changed {
            self.changed.send_replace(());
        }
        complaints
    }

    fn complain(&self, why: &str) {
        let mut complaint = self.complaint.lock();
        if *complaint != why {
            if !why.is_empty() {
                tracing::error!("configmap/{NAME} in {NAMESPACE} of the host: {why}; what was known holds");
            }
            why.clone_into(&mut complaint);
        }
    }
}

fn users(data: &BTreeMap<String, String>) -> Result<Vec<CertificateDer<'static>>, String> {
    authorities(data, "client-ca-file")
}

fn proxies(data: &BTreeMap<String, String>) -> Result<FrontProxies, String> {
    let headers = |key| -> Result<Vec<String>, String> {
        let names = texts(data, key)?.into_iter();
        names.map(|name| header_name(&name).map_err(|why| format!("{key}: {name:?} {why}"))).collect()
    };
    Ok(FrontProxies {
        authorities: authorities(data, "requestheader-client-ca-file")?,
        allowed_names: texts(data, "requestheader-allowed-names")?,
        username_headers: headers("requestheader-username-headers")?,
        uid_headers: headers("requestheader-uid-headers")?,
        group_headers: headers("requestheader-group-headers")?,
        extra_prefixes: headers("requestheader-extra-headers-prefix")?,
    })
}

fn authorities(data: &BTreeMap<String, String>, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = data.get(key).map_or("", String::as_str);
    if text.is_empty() {
        return Err(format!("{key} is missing"));
    }
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| format!("{key}: {error}"))?;
    if found.is_empty() {
        return Err(format!("{key} holds no certificate"));
    }
    match found.iter().find_map(|der| X509Certificate::from_der(der).err()) {
        Some(error) => Err(format!("{key}: {error}")),
        None => Ok(found),
    }
}

/// A list of texts as JSON; an absent one is empty.
fn texts(data: &BTreeMap<String, String>, key: &str) -> Result<Vec<String>, String> {
    let text = data.get(key).map_or("", String::as_str);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let parsed = json::parse(text.as_bytes()).map_err(|error| format!("{key}: {error}"))?;
    let list = match &parsed {
        Value::Null => return Ok(Vec::new()),
        list => list.as_array().ok_or_else(|| format!("{key} is no list"))?,
    };
    let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| format!("{key} holds no text"));
    list.iter().map(text).collect()
}

/// Looks the ConfigMap up for the first time.
///
/// # Errors
/// The host does not answer, does not let this server read it, or the front proxies in it cannot be read. If there is none,
/// nothing is known yet, which is no error.
pub(crate) async fn look_up(host: &Host) -> Result<Arc<Known>, BoxError> {
    let known = Known::new();
    let api: Api<ConfigMap> = Api::namespaced(host.client.clone(), NAMESPACE);
    let found = tokio::time::timeout(LOOK_LIMIT, api.get_opt(NAME)).await;
    let found = found.map_err(|_| format!("no answer within {LOOK_LIMIT:?}"))?;
    match found {
        Ok(Some(map)) => {
            let data = map.data.unwrap_or_default();
            known.take_over(&data);
            // As upstream: authorities of users may still come, but a host that names its proxies wrongly has none.
            let names_proxies = data.keys().any(|key| key.starts_with("requestheader-"));
            if names_proxies && let Err(why) = proxies(&data) {
                return Err(format!("configmap/{NAME} in {NAMESPACE}: {why}").into());
            }
        }
        Ok(None) => tracing::warn!("the host has no configmap/{NAME} in {NAMESPACE} yet"),
        Err(error) => return Err(why(&error).into()),
    }
    Ok(Arc::new(known))
}

/// Nothing is known, as no first look was possible.
pub(crate) fn unknown() -> Arc<Known> {
    Arc::new(Known::new())
}

fn why(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 403 => format!(
            "Unable to get configmap/{NAME} in {NAMESPACE}.  Usually fixed by 'kubectl create rolebinding -n {NAMESPACE} \
             ROLEBINDING_NAME --role={ROLE} --serviceaccount=YOUR_NS:YOUR_SA': {}",
            status.message
        ),
        error => asking::causes(error),
    }
}

/// Follows the ConfigMap for ever.
pub(crate) async fn follow(host: Arc<Host>, known: Arc<Known>) {
    let api: Api<ConfigMap> = Api::namespaced(host.client.clone(), NAMESPACE);
    let mut seen = pin!(watch_object(api, NAME).default_backoff());
    while let Some(seen) = seen.next().await {
        match seen {
            Ok(Some(map)) => {
                let complaints = known.take_over(&map.data.unwrap_or_default());
                known.complain(&complaints.join("; "));
            }
            Ok(None) => known.complain("it does not exist"),
            Err(error) => known.complain(&asking::causes(&error)),
        }
    }
}

/// Reads the data of any ConfigMap, for the fuzzer.
#[cfg(test)]
pub(super) fn read(map: &Value) {
    let data = map.get("data").and_then(Value::as_object);
    let text = |(key, value): (&str, &Value)| Some((key.to_owned(), value.as_str()?.to_owned()));
    let data: BTreeMap<String, String> =
        data.into_iter().flat_map(|data| data.iter().filter_map(text)).collect();
    if let Ok(proxies) = proxies(&data) {
        assert!(!proxies.authorities.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pem() -> String {
        CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let (users, proxies) = (pem(), pem());
        let good = [
            ("client-ca-file", users.as_str()),
            ("requestheader-client-ca-file", &proxies),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        let known = Known::new();
        let mut changes = known.changes();
        assert_eq!(known.take_over(&data(&good)), Vec::<String>::new());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        let first = known.now();
        let found = first.proxies.clone().unwrap();
        assert_eq!((first.users.len(), found.authorities.len()), (1, 1));
        assert_eq!(found.username_headers, ["x-remote-user"], "requests' headers are in lower case");
        assert_eq!(found.extra_prefixes, ["x-remote-extra-"]);
        let replaced = |key: &str, value: &'static str| {
            let mut all = data(&good);
            all.insert(key.to_owned(), value.to_owned());
            all
        };
        for (all, complaint) in [
            (replaced("client-ca-file", ""), "client-ca-file is missing"),
            (replaced("client-ca-file", "no PEM"), "client-ca-file holds no certificate"),
            (replaced("requestheader-client-ca-file", ""), "requestheader-client-ca-file is missing"),
            (replaced("requestheader-allowed-names", "{}"), "requestheader-allowed-names is no list"),
            (replaced("requestheader-allowed-names", "[7]"), "requestheader-allowed-names holds no text"),
            (
                replaced("requestheader-group-headers", r#"["a b"]"#),
                "requestheader-group-headers: \"a b\" is no header's name",
            ),
        ] {
            assert_eq!(known.take_over(&all), [complaint]);
            assert_eq!(known.now(), first, "{complaint}");
        }
        assert_eq!(known.take_over(&BTreeMap::new()).len(), 2);
        assert!(known.now() == first && !changes.has_changed().unwrap());
        // One part may change while the other is broken.
        let mut half = replaced("requestheader-username-headers", "[");
        half.insert("client-ca-file".to_owned(), pem());
        assert_eq!(known.take_over(&half).len(), 1);
        assert!(known.now().users != first.users && known.now().proxies == first.proxies);
        assert!(changes.has_changed().unwrap());
    }
}
