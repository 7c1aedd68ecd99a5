//! ConfigMap `kube-system/extension-apiserver-authentication`, by which an extension server learns whom to trust (kube-apiserver
//! `pkg/controlplane/controller/clusterauthenticationtrust`, 1.37).

use std::time::Duration;

use kindom_actor_kit::Deadline;
use kindom_api::{Map, Value, json, object};
use kindom_objects::{PlanError, RuleContext};
use kindom_resource_actor::{ResourceHandle, Target, WriteError, WriteOptions};
use rustls::pki_types::CertificateDer;

use crate::BoxError;
use crate::flags::FrontProxyFlags;
use crate::pki::{certificate_pem, read_certificates};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The longest that a write may take.
const STEP: Duration = Duration::from_secs(60);

/// Publishes whom this server trusts: authorities of users, and of the front proxies that forward to extension servers. As
/// upstream, it takes nothing out that is there: a replica with other flags may have put it there.
///
/// # Errors
/// A file that cannot be read, or the store.
pub(crate) async fn publish_authentication(
    config_maps: &ResourceHandle,
    of_users: &[CertificateDer<'_>],
    proxies: &FrontProxyFlags,
    object_bytes_max: usize,
) -> Result<(), BoxError> {
    let mut data = Map::new();
    let pem = |all: &[CertificateDer<'_>]| all.iter().map(|der| certificate_pem(der)).collect::<String>();
    data.insert("client-ca-file", pem(of_users));
    if let Some(file) = &proxies.requestheader_client_ca_file {
        let list = |names: &[String]| {
            let names: Vec<Value> = names.iter().map(|name| Value::from(name.as_str())).collect();
            Value::Array(names.into()).to_string()
        };
        data.insert("requestheader-client-ca-file", pem(&read_certificates(file)?));
        data.insert("requestheader-allowed-names", list(&proxies.requestheader_allowed_names));
        data.insert("requestheader-username-headers", list(&proxies.requestheader_username_headers));
        data.insert("requestheader-uid-headers", list(&proxies.requestheader_uid_headers));
        data.insert("requestheader-group-headers", list(&proxies.requestheader_group_headers));
        data.insert("requestheader-extra-headers-prefix", list(&proxies.requestheader_extra_headers_prefix));
    }
    let key = format!("{NAMESPACE}/{NAME}");
    let stored = config_maps.get(&key, Deadline::after(STEP)).await?;
    let known = stored.as_ref().and_then(|stored| json::parse_own(stored.json()).ok());
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
