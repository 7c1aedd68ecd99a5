//! IPAddress, `networking.k8s.io/v1`: the holder of an address of a cluster. The server makes those of services, with the
//! service ([`super::service`]); a client's own keeps an address from services.
//!
//! Sources: `pkg/registry/networking/ipaddress/strategy.go`, `pkg/apis/networking/validation` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_subdomain, is_path_segment};
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{part, present, text, texts};
use crate::kinds::{ip, metadata_update, table_column};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static IP_ADDRESS: Declared = Declared::catalogued("networking.k8s.io/v1", "IPAddress");

/// IPAddresses as a built-in type.
pub(super) fn ip_addresses() -> TypeSpec {
    let parent = table_column("ParentRef", "string", 0, IP_ADDRESS.text_of(&["spec", "parentRef"]));
    let columns = Columns::rows(vec![name_column(), parent], row);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { short_names: vec!["ip".into()], ..Names::of_kind("ipaddresses", "IPAddress") };
    TypeSpec::built_in("networking.k8s.io", names, Scope::Cluster, versions, Arc::new(IpAddresses))
}

fn parent(address: &Value) -> Option<&Value> {
    present(part(address, "spec"), "parentRef")
}

/// `printIPAddress`, which has a cell more than columns.
fn row(address: &Value, now: i64) -> Vec<Value> {
    let shown = parent(address).map_or_else(
        || "<none>".to_owned(),
        |parent| {
            let (resource, group) = (text(parent, "resource"), text(parent, "group"));
            let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
            let namespace = Some(text(parent, "namespace")).filter(|namespace| !namespace.is_empty());
            let parts = [resource.to_lowercase()].into_iter().chain(namespace.map(str::to_owned));
            parts.chain([text(parent, "name").to_owned()]).collect::<Vec<_>>().join("/")
        },
    );
    vec![
        address.text_at(&["metadata", "name"]).into(),
        shown.into(),
        age(address.text_at(&["metadata", "creationTimestamp"]), now).into(),
    ]
}

/// `ValidateIPAddressName`
fn name(name: &str, _: bool) -> Vec<String> {
    ip::strict(name, &Path::new("name")).into_iter().map(|error| error.detail).collect()
}

/// `ValidateIPAddress`
fn validate(address: &Value) -> ErrorList {
    let mut errors = validate_object_meta(part(address, "metadata"), false, &name, &Path::new("metadata"));
    let path = Path::new("spec");
    let at = path.child("parentRef");
    let Some(parent) = parent(address) else {
        errors.push(Error::required(&at, ""));
        return errors;
    };
    let group = text(parent, "group");
    if !group.is_empty() {
        texts(is_dns1123_subdomain(group), group, &at.child("group"), &mut errors);
    }
    for (field, is_needed) in [("resource", true), ("name", true), ("namespace", false)] {
        match text(parent, field) {
            "" if is_needed => errors.push(Error::required(&at.child(field), "")),
            "" => {}
            value => texts(is_path_segment(value, false), value, &at.child(field), &mut errors),
        }
    }
    errors
}

/// The rules of IPAddresses.
struct IpAddresses;

impl Strategy for IpAddresses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&IP_ADDRESS)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, address: &Value) -> ErrorList {
        validate(address)
    }

    /// `ValidateIPAddressUpdate`
    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        address: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(address);
        errors.append(&mut metadata_update(address, old));
        if !IP_ADDRESS.is_same(address, old, "spec") {
            let path = Path::new("spec");
            // Upstream prints no value.
            errors.push(Error::invalid(&path.child("parentRef"), Value::Null, "field is immutable"));
        }
        errors
    }
}
