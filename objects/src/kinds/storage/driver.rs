//! CSIDriver (`pkg/registry/storage/csidriver/strategy.go`, 1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, age, name_column};

use super::{API_VERSION, of};
use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, number, part, present, same, text};
use crate::kinds::generation;
use crate::kinds::{metadata_update, table_column};
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static DRIVER: Declared = Declared::catalogued(API_VERSION, "CSIDriver");
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const PERIOD_SECONDS_MIN: i64 = 10;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const TOKENS_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                              possible logging of tokens in volume attributes";
const IMMUTABLE: &str = "field is immutable";

pub(super) fn drivers() -> TypeSpec {
    let column =
        |name: &str, kind: &str, field: &str| table_column(name, kind, 0, DRIVER.text_of(&["spec", field]));
    let columns = vec![
        name_column(),
        column("AttachRequired", "boolean", "attachRequired"),
        column("PodInfoOnMount", "boolean", "podInfoOnMount"),
        column("StorageCapacity", "boolean", "storageCapacity"),
        column("TokenRequests", "string", "tokenRequests"),
        column("RequiresRepublish", "boolean", "requiresRepublish"),
        column("Modes", "string", "volumeLifecycleModes"),
        table_column("Age", "string", 0, ""),
    ];
    let names = Names::of_kind("csidrivers", "CSIDriver");
    of(names, Scope::Cluster, Columns::rows(columns, cells), Arc::new(Drivers))
}

/// `printCSIDriver`
fn cells(driver: &Value, now: i64) -> Vec<Value> {
    let (metadata, spec) = (part(driver, "metadata"), part(driver, "spec"));
    let is = |field: &str, otherwise: bool| {
        Value::Bool(present(spec, field).map_or(otherwise, |is| is == &Value::Bool(true)))
    };
    let modes: Vec<&str> = items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    let tokens = present(spec, "tokenRequests").map(|_| {
        let audiences = items(spec, "tokenRequests").iter().map(|token| text(token, "audience"));
        audiences.collect::<Vec<_>>().join(",")
    });
    vec![
        text(metadata, "name").into(),
        is("attachRequired", true),
        is("podInfoOnMount", false),
        is("storageCapacity", false),
        tokens.unwrap_or_else(|| "<unset>".to_owned()).into(),
        is("requiresRepublish", false),
        modes.into(),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// The rules of CSIDrivers.
struct Drivers;

impl Strategy for Drivers {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&DRIVER)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1beta1"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn fill_defaults(&self, driver: &mut Value) {
        default_nil(driver, "spec", Map::new());
        let Some(spec) = driver.get_mut("spec") else { return };
        default_nil(spec, "attachRequired", true);
        default_nil(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        for field in [
            "podInfoOnMount",
            "storageCapacity",
            "requiresRepublish",
            "seLinuxMount",
            "preventPodSchedulingIfMissing",
        ] {
            default_nil(spec, field, false);
        }
        if items(spec, "volumeLifecycleModes").is_empty()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert("volumeLifecycleModes", vec![Value::from("Persistent")]);
        }
    }

    fn validate(&self, _: &RuleContext<'_>, driver: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(driver, "metadata"), false, &name_is_dns_subdomain, &at);
        validate_spec(part(driver, "spec"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, driver: &mut Value, old: &Value) {
        generation::next_if_changed(driver, old, "spec");
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        driver: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(driver, old);
        let ([spec, before], at) = ([driver, old].map(|of| part(of, "spec")), Path::new("spec"));
        validate_spec(spec, &mut errors);
        // Upstream calls the first by another name than its own.
        for (field, name) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            if !same(spec.get(field), before.get(field)) {
                errors.push(Error::invalid(&at.child(name), part(spec, field).clone(), IMMUTABLE));
            }
        }
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = part(driver, "spec");
        let field = "tokenRequests";
        let is_new = old.is_none_or(|old| !same(spec.get(field), part(old, "spec").get(field)));
        let is_open = present(spec, "serviceAccountTokenInSecrets").is_none();
        let is_asked = !items(spec, field).is_empty();
        (is_new && is_open && is_asked).then(|| TOKENS_WARNING.to_owned()).into_iter().collect()
    }
}

/// `validateCSIDriverSpec`
fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let policy = text(spec, "fsGroupPolicy");
    if !GROUP_POLICIES.contains(&policy) {
        errors.push(Error::not_supported(&at.child("fsGroupPolicy"), policy, &GROUP_POLICIES));
    }
    let (tokens, at_tokens) = (items(spec, "tokenRequests"), at.child("tokenRequests"));
    let mut audiences = BTreeSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let (at, audience) = (at_tokens.index(index), text(token, "audience"));
        if !audiences.insert(audience) {
            errors.push(Error::duplicate(&at.child("audience"), audience));
            continue;
        }
        let detail = match number(token, "expirationSeconds") {
            Some(..TOKEN_SECONDS_MIN) => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => continue,
        };
        let seconds = part(token, "expirationSeconds").clone();
        errors.push(Error::invalid(&at.child("expirationSeconds"), seconds, detail));
    }
    let at_modes = at.child("volumeLifecycleModes");
    for mode in items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !MODES.contains(&mode) {
            errors.push(Error::not_supported(&at_modes, mode, &MODES));
        }
    }
    if let Some(period) = number(spec, "nodeAllocatableUpdatePeriodSeconds")
        && period < PERIOD_SECONDS_MIN
    {
        let at = at.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(Error::invalid(&at, period, "must be greater than or equal to 10 seconds"));
    }
    if let Some(in_secrets) = present(spec, "serviceAccountTokenInSecrets").filter(|_| tokens.is_empty()) {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        let at = at.child("serviceAccountTokenInSecrets");
        errors.push(Error::invalid(&at, in_secrets.clone(), detail));
    }
}
