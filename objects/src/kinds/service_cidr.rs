//! ServiceCIDR, `networking.k8s.io/v1`: blocks from which services get their addresses. It is kept as data: services get theirs
//! from `--service-cluster-ip-range` alone, which the object `kubernetes` shows.
//!
//! Sources: `pkg/registry/networking/servicecidr/strategy.go`, `pkg/apis/networking/validation/validation.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{items, part, text};
use crate::kinds::status::{is_of_status, keep_metadata, keep_other_part, reset};
use crate::kinds::{ip, metadata_update, table_column};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

static SERVICE_CIDR: Declared = Declared::catalogued("networking.k8s.io/v1", "ServiceCIDR");
const ONE_A_FAMILY: &str =
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
const IMMUTABLE: &str = "field is immutable";

/// ServiceCIDRs as a built-in type.
pub(super) fn service_cidrs() -> TypeSpec {
    let columns = vec![
        name_column(),
        table_column("CIDRs", "string", 0, SERVICE_CIDR.text_of(&["spec", "cidrs"])),
        table_column("Age", "string", 0, ""),
    ];
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("servicecidrs", "ServiceCIDR");
    TypeSpec::built_in("networking.k8s.io", names, Scope::Cluster, versions, Arc::new(ServiceCidrs))
}

/// `printServiceCIDR`
fn cells(object: &Value, now: i64) -> Vec<Value> {
    let metadata = part(object, "metadata");
    vec![
        text(metadata, "name").into(),
        blocks(object).join(",").into(),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

fn blocks(object: &Value) -> Vec<&str> {
    items(part(object, "spec"), "cidrs").iter().filter_map(Value::as_str).collect()
}

/// `validateServiceCIDRSpec`
fn validate_spec(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let (at, blocks) = (path.child("cidrs"), blocks(object));
    if blocks.is_empty() {
        return errors.push(Error::required(&at, "at least one CIDR required"));
    }
    if blocks.len() > 2 {
        let shown = SERVICE_CIDR.internal(&["spec"], part(object, "spec"));
        return errors.push(Error::invalid_raw(&at, shown, "may only hold up to 2 values"));
    }
    for (index, block) in blocks.iter().enumerate() {
        errors.extend(ip::strict_range(block, &at.index(index)));
    }
    let is_of_six = |block: &&str| ip::is_range_of_six(block);
    if let [first, second] = blocks.as_slice()
        && let (Some(first), Some(second)) = (is_of_six(first), is_of_six(second))
        && first == second
    {
        errors.push(Error::invalid(&at, part(part(object, "spec"), "cidrs").clone(), ONE_A_FAMILY));
    }
}

/// The rules of ServiceCIDRs.
struct ServiceCidrs;

impl Strategy for ServiceCidrs {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SERVICE_CIDR)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["networking.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["metadata", "spec"] } else { &["status"] }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        reset(cx, object);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(object, "metadata"), false, &name_is_dns_subdomain, &at);
        validate_spec(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        keep_other_part(cx, object, old);
        if is_of_status(cx) {
            keep_metadata(object, old);
        }
    }

    /// `ValidateServiceCIDRUpdate`: a block of the other family may be added.
    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        if is_of_status(cx) {
            return errors;
        }
        let path = Path::new("spec");
        let at = path.child("cidrs");
        let (now, before) = (blocks(object), blocks(old));
        let grows = before.len() == 1 && now.len() == 2;
        if now.len() != before.len() && !grows {
            let shown = items(part(object, "spec"), "cidrs").to_vec();
            errors.push(Error::invalid(&at, Value::from(shown), IMMUTABLE));
            return errors;
        }
        for (index, (now, before)) in now.iter().zip(&before).enumerate() {
            if now != before {
                errors.push(Error::invalid(&at.index(index), *now, IMMUTABLE));
            }
        }
        if grows {
            validate_spec(object, &mut errors);
        }
        errors
    }
}
