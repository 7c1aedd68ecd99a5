//! Lease, `coordination.k8s.io/v1`: the lock that the candidates of a leader election write in turn.
//!
//! Sources: `pkg/registry/coordination/lease/strategy.go`, `pkg/apis/coordination/validation`,
//! `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Shape, Struct};
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::{OBJECT_META, validate_object_meta};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::{AGE, metadata_update};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

const STRING: Shape = Shape::String("string");
const OPTIONAL_STRING: Shape = Shape::Pointer(&STRING);
const OPTIONAL_INT32: Shape = Shape::Pointer(&Shape::Int32);
const OPTIONAL_MICRO_TIME: Shape = Shape::Pointer(&Shape::MicroTime);

static LEASE: Declared = Declared::new(Declaration {
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    go_package: "k8s.io/api/coordination/v1",
    shape: &SHAPE,
});

static SHAPE: Struct = Struct::new(
    "v1.Lease",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
        Field::always("spec", Shape::Struct(&SPEC)).declared(2, "The holder, and for how long it holds."),
    ],
)
.described("A lock that ends by itself if its holder does not renew it in time.");

static SPEC: Struct = Struct::new(
    "v1.LeaseSpec",
    &[
        Field::new("holderIdentity", OPTIONAL_STRING).declared(1, "The name of the present holder."),
        Field::new("leaseDurationSeconds", OPTIONAL_INT32)
            .declared(2, "The seconds after the last renewal that others wait before they take the lease."),
        Field::new("acquireTime", OPTIONAL_MICRO_TIME)
            .declared(3, "The time at which the present holder took it."),
        Field::new("renewTime", OPTIONAL_MICRO_TIME)
            .declared(4, "The time at which the present holder last renewed it."),
        Field::new("leaseTransitions", OPTIONAL_INT32).declared(5, "The number of changes of the holder."),
        Field::new("strategy", Shape::Pointer(&Shape::String("v1.CoordinatedLeaseStrategy"))).declared(
            6,
            "The way in which a coordinator picks the holder; kept only where coordinated leader election is on.",
        ),
        Field::new("preferredHolder", OPTIONAL_STRING)
            .declared(7, "The candidate that the holder should give it to; only with a strategy."),
    ],
)
.described("The state of a lease.");

/// Leases as a built-in type.
pub(super) fn leases() -> TypeSpec {
    let holder = ("Holder", "The name of the present holder.", ".spec.holderIdentity", Printed::Text);
    let columns = Columns::printed(&[holder, AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("leases", "Lease");
    TypeSpec::built_in("coordination.k8s.io", names, Scope::Namespaced, versions, Arc::new(Leases))
}

/// The rules of leases.
struct Leases;

/// The fields of coordinated leader election, whose feature gate is off, as it is by default.
const COORDINATED: [&str; 2] = ["strategy", "preferredHolder"];

/// Drops the fields of a feature that is off, unless the stored object has them.
fn drop_coordinated(object: &mut Value, old: Option<&Value>) {
    let had = |field: &str| old.is_some_and(|old| old.at(&["spec", field]).is_some());
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        COORDINATED.into_iter().filter(|field| !had(field)).for_each(|field| drop(spec.remove(field)));
    }
}

/// The errors in a spec (`ValidateLeaseSpec`).
fn validate_spec(object: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let number = |field| object.at(&["spec", field]).and_then(Value::as_i64);
    let text = |field| object.at(&["spec", field]).and_then(Value::as_str);
    let mut errors = ErrorList::new();
    if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        let path = spec.child("leaseDurationSeconds");
        errors.push(Error::invalid(&path, seconds, "must be greater than 0"));
    }
    if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
        let path = spec.child("leaseTransitions");
        errors.push(Error::invalid(&path, count, "must be greater than or equal to 0"));
    }
    if let Some(strategy) = text("strategy") {
        validate_strategy(strategy, &spec.child("strategy"), &mut errors);
    }
    if text("preferredHolder").is_some_and(|holder| !holder.is_empty())
        && text("strategy").unwrap_or_default().is_empty()
    {
        let path = spec.child("preferredHolder");
        errors.push(Error::forbidden(&path, "may only be specified if `strategy` is defined"));
    }
    errors
}

/// `ValidateCoordinatedLeaseStrategy`
fn validate_strategy(strategy: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("strategy");
    if strategy.contains('/') {
        errors.extend(
            is_qualified_name(strategy).into_iter().map(|text| Error::invalid(&path, strategy, text)),
        );
    } else if strategy != "OldestEmulationVersion" {
        errors.push(Error::not_supported(&path, strategy, &["OldestEmulationVersion"]));
    }
}

impl Strategy for Leases {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&LEASE)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["coordination.k8s.io/v1beta1"]
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        drop_coordinated(object, None);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
        errors.extend(validate_spec(object));
        errors
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, object: &mut Value, old: &Value) {
        drop_coordinated(object, Some(old));
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        // Upstream's validator looks at the metadata too, after the generic rules did.
        let mut errors = metadata_update(object, old);
        errors.extend(validate_spec(object));
        errors
    }
}
