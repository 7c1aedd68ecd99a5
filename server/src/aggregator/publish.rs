//! ConfigMap `kube-system/extension-apiserver-authentication`, by which an extension server learns whom to trust (kube-apiserver
//! `pkg/controlplane/controller/clusterauthenticationtrust`, 1.37).

use std::time::Duration;

use kindom_actor_kit::Deadline;
use kindom_api::{Map, Value, json, object};
use kindom_objects::{PlanError, RuleContext};
use kindom_resource_actor::{ResourceHandle, Target, WriteError, WriteOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::BoxError;
use crate::flags::FrontProxyFlags;
use crate::pki::{certificate_pem, read_certificates};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The longest that a write may take.
const STEP: Duration = Duration::from_secs(60);

/// Publishes whom this server trusts: authorities of users, and of the front proxies that forward to extension servers. As
/// upstream, it takes nothing out that is there but certificates that have ended: a replica with other flags may have put it
/// there (`combinedClusterAuthenticationInfo`).
///
/// # Errors
/// A file that cannot be read, or the store.
pub(crate) async fn publish_authentication(
    config_maps: &ResourceHandle,
    of_users: &[CertificateDer<'_>],
    proxies: &FrontProxyFlags,
    object_bytes_max: usize,
    now: i64,
) -> Result<(), BoxError> {
    let key = format!("{NAMESPACE}/{NAME}");
    let stored = config_maps.get(&key, Deadline::after(STEP)).await?;
    let known = stored.as_ref().and_then(|stored| json::parse_own(stored.json()).ok());
    let before = |field: &str| {
        let text = known.as_ref().and_then(|known| known.at(&["data", field])?.as_str());
        text.unwrap_or_default().to_owned()
    };
    let mut data = Map::new();
    data.insert("client-ca-file", certificates(&before("client-ca-file"), of_users, now));
    if let Some(file) = &proxies.requestheader_client_ca_file {
        let field = "requestheader-client-ca-file";
        data.insert(field, certificates(&before(field), &read_certificates(file)?, now));
        for (field, ours) in [
            ("requestheader-allowed-names", &proxies.requestheader_allowed_names),
            ("requestheader-username-headers", &proxies.requestheader_username_headers),
            ("requestheader-uid-headers", &proxies.requestheader_uid_headers),
            ("requestheader-group-headers", &proxies.requestheader_group_headers),
            ("requestheader-extra-headers-prefix", &proxies.requestheader_extra_headers_prefix),
        ] {
            data.insert(field, names(&before(field), ours));
        }
    }
    let is_there = known
        .as_ref()
        .is_some_and(|known| data.iter().all(|(field, value)| known.at(&["data", field]) == Some(value)));
    if is_there {
        return Ok(());
    }
    let options = WriteOptions::by_server(Deadline::after(STEP), object_bytes_max);
    let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
        let mut object = match stored {
            Value::Null => object! {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": object! { "name": NAME, "namespace": NAMESPACE },
            },
            stored => stored.clone(),
        };
        let mut all = object.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
        for (field, value) in data.iter() {
            all.insert(field, value.clone());
        }
        if let Some(object) = object.as_object_mut() {
            object.insert("data", Value::Object(all));
        }
        cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
        Ok(object)
    };
    let place = Target { version: "v1", subresource: None, namespace: Some(NAMESPACE), name: "" };
    let written = match &stored {
        None => config_maps.create(place, &mut wanted, &options).await,
        Some(_) => config_maps.update(Target { name: NAME, ..place }, true, &mut wanted, &options).await,
    };
    match written {
        Ok(_) | Err(WriteError::Plan(PlanError::AlreadyExists { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The certificates that are there and ours, PEM, each once; those that have ended go (`combineCertLists`).
fn certificates(before: &str, ours: &[CertificateDer<'_>], now: i64) -> String {
    let there: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(before.as_bytes()).filter_map(Result::ok).collect();
    let mut all: Vec<&[u8]> = Vec::new();
    for der in there.iter().map(|der| &**der).chain(ours.iter().map(|der| &**der)) {
        let ends = X509Certificate::from_der(der).map(|(_, parsed)| parsed.validity().not_after.timestamp());
        if !all.contains(&der) && ends.is_ok_and(|ends| ends >= now) {
            all.push(der);
        }
    }
    all.iter().map(|der| certificate_pem(der)).collect()
}

/// The names that are there and ours, each once, as a JSON array (`combineUniqueStringSlices`).
fn names(before: &str, ours: &[String]) -> String {
    let there = json::parse(before.as_bytes()).unwrap_or_default();
    let there = there.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
    let mut all: Vec<&str> = Vec::new();
    for name in there.chain(ours.iter().map(String::as_str)) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Value::Array(all.into_iter().map(Value::from).collect::<Vec<_>>().into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_stay() {
        let ours = ["b".to_owned(), "c".to_owned()];
        assert_eq!(names(r#"["a","b"]"#, &ours), r#"["a","b","c"]"#);
        for broken in ["", "{", "{}", "[1]"] {
            assert_eq!(names(broken, &ours), r#"["b","c"]"#, "{broken}");
        }
        assert_eq!(names("", &[]), "[]");
    }

    #[test]
    fn certificates_of_others_stay_until_they_end() {
        let issue = |until: i32| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::default();
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            params.self_signed(&key).unwrap().der().clone()
        };
        let (old, theirs, ours) = (issue(2020), issue(2090), issue(2091));
        let before: String = [&old, &theirs].iter().map(|der| certificate_pem(der)).collect();
        let now = 1_800_000_000;
        let wanted: String = [&theirs, &ours].iter().map(|der| certificate_pem(der)).collect();
        assert_eq!(certificates(&before, std::slice::from_ref(&ours), now), wanted);
        assert_eq!(certificates(&wanted, &[ours, theirs], now), wanted);
    }
}
