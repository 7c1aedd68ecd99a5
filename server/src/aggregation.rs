//! `kindom aggregation manifests`: the objects by which a cluster serves this server's groups as its own (B-02, B-45).

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::{Method, StatusCode};
use kindom_api::crd::condition;
use kindom_api::faces::Face;
use kindom_api::names::version_order;
use kindom_api::{Value, object};
use kindom_codec::yaml::to_yaml;
use kindom_objects::StoredRegistration;

use crate::BoxError;
use crate::client::Client;
use crate::flags::{AggregationManifests, label};
use crate::kubeconfig;
use crate::pki::{certificate_pem, read_certificates};

/// The registrations, all of which this server's own command may list.
const REGISTRATIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The priorities of the groups of registered types, and of their preferred versions (kube-aggregator
/// `pkg/controllers/autoregister`, and kube-apiserver's `crdregistration_controller.go`, 1.37).
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// The versions of each group, the preferred one first.
pub(crate) type Groups = BTreeMap<String, Vec<String>>;

/// The Service by which the cluster reaches this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl std::str::FromStr for ServiceReference {
    type Err = String;

    /// `kindom-system/kindom`, or `kindom-system/kindom:6443`; the port is 443 by default.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is no NAMESPACE/NAME or NAMESPACE/NAME:PORT");
        let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
            None => (rest, 443),
        };
        Ok(Self { namespace: label(namespace)?, name: label(name)?, port })
    }
}

/// Prints the manifests for the groups that the server serves now.
///
/// # Errors
/// No server, or a file that cannot be read.
pub(crate) fn run(options: &AggregationManifests) -> Result<(), BoxError> {
    let mut config = kubeconfig::load(
        options.access.kubeconfig.as_deref(),
        options.access.context.as_deref(),
        options.access.server.as_deref(),
    )?;
    let authorities = match &options.ca_file {
        Some(file) => read_certificates(file)?.iter().map(|der| der.to_vec()).collect(),
        None => config.root_cert.get_or_insert_default().clone(),
    };
    if authorities.is_empty() {
        return Err("the kubeconfig has no certificate-authority; name the file with --ca-file".into());
    }
    let bundle = STANDARD.encode(authorities.iter().map(|der| certificate_pem(der)).collect::<String>());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime
        .block_on(async { Client::new(config)?.send(Method::GET, REGISTRATIONS, None).await })
        .map_err(|error| format!("the registrations cannot be listed: {error}"))?;
    if answer.status != StatusCode::OK {
        return Err(format!("the registrations cannot be listed: {}", answer.message()).into());
    }
    let text = print(options, &bundle, &groups(items(&answer.body)));
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_array).unwrap_or_default()
}

/// The groups of the established ones of these registrations, and those that a registration itself comes in by.
pub(crate) fn groups(registrations: &[Value]) -> Groups {
    let mut groups = Groups::new();
    for face in [Face::ThirdPartyResource, Face::Aggregated] {
        groups.insert(face.group().to_owned(), vec![face.version().to_owned()]);
    }
    for registration in registrations {
        let registration = StoredRegistration::new(registration);
        let Some(group) = registration.group() else { continue };
        if registration.is_condition_true(condition::ESTABLISHED) {
            let served = registration.served_versions().map(str::to_owned);
            groups.entry(group.to_owned()).or_default().extend(served);
        }
    }
    groups.retain(|_, versions| {
        versions.sort_by_cached_key(|version| version_order(version));
        versions.dedup();
        !versions.is_empty()
    });
    groups
}

/// The APIService of a group-version, which is so many places behind the group's preferred one.
pub(crate) fn api_service(
    group: &str,
    version: &str,
    behind: i64,
    bundle: Option<&str>,
    service: &ServiceReference,
) -> Value {
    let ServiceReference { namespace, name, port } = service;
    let service =
        object! { "name": name.as_str(), "namespace": namespace.as_str(), "port": i64::from(*port) };
    let mut spec = object! {
        "group": group,
        "version": version,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": (VERSION_PRIORITY - behind).max(1),
        "service": service,
    };
    if let (Some(bundle), Some(spec)) = (bundle, spec.as_object_mut()) {
        spec.insert("caBundle", bundle);
    }
    object! {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": object! { "name": format!("{version}.{group}") },
        "spec": spec,
    }
}

fn print(options: &AggregationManifests, bundle: &str, groups: &Groups) -> String {
    let AggregationManifests { service, namespace, service_port, external_name, .. } = options;
    let mut text = format!(
        "# The server needs --tls-san {service}.{namespace}.svc, and --requestheader-client-ca-file with the authority of the\n\
         # cluster's front proxy (ConfigMap kube-system/extension-apiserver-authentication). Without --authorization-kubeconfig it also needs\n\
         # --controllers=*,-garbage-collector-controller: the cluster collects what is owned on both sides.\n"
    );
    let metadata = object! { "name": service.as_str(), "namespace": namespace.as_str() };
    let port = i64::from(*service_port);
    let spec = match external_name {
        Some(name) => object! { "type": "ExternalName", "externalName": name.as_str() },
        None => object! {
            "selector": object! { "app.kubernetes.io/name": service.as_str() },
            "ports": vec![object! { "name": "https", "port": port, "targetPort": "https" }],
        },
    };
    text.push_str("---\n");
    text.push_str(&to_yaml(
        &object! { "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec },
    ));
    let (namespace, name, port) = (namespace.clone(), service.clone(), *service_port);
    let reference = ServiceReference { namespace, name, port };
    for (group, versions) in groups {
        for (version, behind) in versions.iter().zip(0..) {
            let api_service = api_service(group, version, behind, Some(bundle), &reference);
            text.push_str("---\n");
            text.push_str(&to_yaml(&api_service));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::*;

    #[test]
    fn services_have_a_namespace_and_perhaps_a_port() {
        let service = |namespace: &str, name: &str, port| {
            Ok(ServiceReference { namespace: namespace.to_owned(), name: name.to_owned(), port })
        };
        assert_eq!("kindom-system/kindom".parse(), service("kindom-system", "kindom", 443));
        assert_eq!("a/b:6443".parse(), service("a", "b", 6443));
        for wrong in ["", "a", "a/", "/b", "a/b:", "a/b:0", "a/b:65536", "A/b", "a/b/c", "a/b:1:2"] {
            assert!(wrong.parse::<ServiceReference>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn served_versions_of_established_registrations_are_named() {
        let list = br#"{"items":[
            {"spec":{"group":"a.io","versions":[{"name":"v1beta1","served":true},{"name":"v2","served":true},
                {"name":"v3","served":false}]},"status":{"conditions":[{"type":"Established","status":"True"}]}},
            {"spec":{"group":"a.io","versions":[{"name":"v2","served":true},{"name":"v1","served":true}]},
                "status":{"conditions":[{"type":"Established","status":"True"}]}},
            {"spec":{"group":"b.io","versions":[{"name":"v1","served":true}]},
                "status":{"conditions":[{"type":"Established","status":"False"}]}},
            {"spec":{"group":"c.io","versions":[{"name":"v1","served":true}]}}, {}]}"#;
        let groups = groups(items(&parse(list).unwrap()));
        let names: Vec<(&str, Vec<&str>)> = groups
            .iter()
            .map(|(group, versions)| (group.as_str(), versions.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            names,
            [
                ("a.io", vec!["v2", "v1", "v1beta1"]),
                ("apiextension.k8s.io", vec!["v1beta1"]),
                ("apiextensions.kindom.dev", vec!["v1"]),
            ]
        );
    }
}
