//! RuntimeClass, `node.k8s.io/v1`. It is kept for whoever reads it: nothing runs a container here.
//!
//! Sources: `pkg/registry/node/runtimeclass/strategy.go`, `pkg/apis/node/validation/validation.go`, `pkg/api/node/util.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1123_label, name_is_dns_subdomain};
use kindom_api::meta::{validate_labels, validate_object_meta};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::fields::{items, part, present, text, texts};
use crate::kinds::keyed::entries;
use crate::kinds::pod_spec::{tolerations, validate_limits};
use crate::kinds::{AGE, metadata_update, node_labels};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static RUNTIME_CLASS: Declared = Declared::catalogued("node.k8s.io/v1", "RuntimeClass");

/// RuntimeClasses as a built-in type.
pub(super) fn runtime_classes() -> TypeSpec {
    // Upstream looks for the handler's description among those of metadata, and finds none.
    let columns = Columns::printed(&[("Handler", "", ".handler", Printed::Text), AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("runtimeclasses", "RuntimeClass");
    TypeSpec::built_in("node.k8s.io", names, Scope::Cluster, versions, Arc::new(RuntimeClasses))
}

/// The rules of RuntimeClasses.
struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&RUNTIME_CLASS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["node.k8s.io/v1alpha1", "node.k8s.io/v1beta1"]
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, class: &Value) -> ErrorList {
        validate(class)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        class: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(class);
        errors.append(&mut metadata_update(class, old));
        if text(class, "handler") != text(old, "handler") {
            errors.push(Error::invalid(&Path::new("handler"), Value::Null, "field is immutable"));
        }
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, class: &Value, _: Option<&Value>) -> Vec<String> {
        let scheduling = part(class, "scheduling");
        let advice = entries(scheduling, "nodeSelector").filter_map(|(label, _)| node_labels::advice(label));
        advice.map(|advice| format!("scheduling.nodeSelector: {advice}")).collect()
    }
}

/// `ValidateRuntimeClass`
fn validate(class: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(class, "metadata"), false, &name_is_dns_subdomain, &at);
    let at = Path::new("handler");
    match text(class, "handler") {
        "" => errors.push(Error::required(&at, "")),
        handler => {
            // The declared rule counts bytes.
            let wrong = is_dns1123_label(handler).into_iter();
            texts(
                wrong.map(|why| why.replace("63 characters", "63 bytes")).collect(),
                handler,
                &at,
                &mut errors,
            );
        }
    }
    if let Some(overhead) = present(class, "overhead") {
        // Upstream sees in it the limits of a container.
        validate_limits(part(overhead, "podFixed"), &Path::new("overhead"), &mut errors);
    }
    if let Some(scheduling) = present(class, "scheduling") {
        let at = Path::new("scheduling");
        validate_labels(scheduling, "nodeSelector", &at, &mut errors);
        validate_tolerations(scheduling, &at.child("tolerations"), &mut errors);
    }
    errors
}

/// `validateTolerations`: their seconds make no difference.
fn validate_tolerations(scheduling: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, toleration) in items(scheduling, "tolerations").iter().enumerate() {
        let at = at.index(index);
        tolerations::validate_one(toleration, &at, errors);
        let key = ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
        if !seen.insert(key) {
            let shown = RUNTIME_CLASS.internal_item(&["scheduling", "tolerations"], toleration);
            errors.push(Error::duplicate_raw(&at, shown));
        }
    }
}
