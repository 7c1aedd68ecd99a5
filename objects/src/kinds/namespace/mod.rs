//! The rules of namespaces as objects.
//!
//! Sources: `pkg/registry/core/namespace`, `pkg/apis/core/validation`, the `NamespaceLifecycle` admission plugin (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Value, object};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::AGE;
use crate::propagation::Propagation;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Deletion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod content;
mod rules;

pub use content::{Content, finalize, set_conditions};
pub use rules::{NAMESPACE, Namespace, decode_namespace};

/// The namespaces that exist from the start.
pub const STANDARD_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// `v1` Namespace as a built-in type.
#[must_use]
pub fn namespaces() -> TypeSpec {
    let names = Names { short_names: vec!["ns".into()], ..Names::of_kind("namespaces", "Namespace") };
    let status = ("Status", "The status of the namespace", ".status.phase", Printed::Text);
    let columns = Columns::printed(&[status, AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(Namespaces))
}

/// One of the namespaces that exist from the start, as it is created.
#[must_use]
pub fn standard_namespace(name: &str) -> Value {
    object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": name } }
}

/// The rules of namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespaces;

/// A stored or decoded namespace. kindom never stored an object that does not decode; here it becomes an empty one, which
/// fails validation, so that the server does not fail.
fn typed(object: &Value) -> Namespace {
    rules::decode_namespace(object).map(|(namespace, _)| namespace).unwrap_or_default()
}

fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    object.at(path).and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

impl Strategy for Namespaces {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&NAMESPACE)
    }

    fn allows_delete_collection(&self) -> bool {
        false
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    /// Nothing changes while its content goes.
    fn propagation(&self, object: &Value, asked: Propagation) -> Propagation {
        let is_marked = object.at(&["metadata", "deletionTimestamp"]).is_some();
        if is_marked && self.holds_deletion(object) { Propagation::Unsaid } else { asked }
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::new(".status.phase")]
    }

    fn fill_defaults(&self, object: &mut Value) {
        let mut namespace = typed(object);
        rules::default_namespace(&mut namespace);
        *object = namespace.to_value();
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Finalize, Subresource::Status]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        let mut namespace = typed(object);
        rules::prepare_for_create(&mut namespace);
        *object = namespace.to_value();
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate_create(&typed(object))
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (typed(object), typed(old));
        match cx.subresource {
            Some(Subresource::Status) => rules::prepare_for_status_update(&mut new, &old),
            Some(Subresource::Finalize) => rules::prepare_for_finalize(&mut new, &old),
            _ => rules::prepare_for_update(&mut new, &old),
        }
        *object = new.to_value();
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let (new, old) = (typed(object), typed(old));
        match cx.subresource {
            Some(Subresource::Status) => rules::validate_status_update(&new, &old),
            Some(Subresource::Finalize) => rules::validate_finalize(&new, &old),
            _ => rules::validate_update(&new, &old),
        }
    }

    fn judges_preconditions(&self) -> bool {
        true
    }

    fn refuse_delete(&self, name: &str) -> Option<String> {
        IMMORTAL.contains(&name).then(|| "this namespace may not be deleted".to_owned())
    }

    fn begin_delete(&self, cx: &RuleContext<'_>, object: &mut Value) -> Deletion {
        let mut namespace = typed(object);
        namespace.metadata.deletion_timestamp = Some(cx.now.to_owned());
        namespace.status.phase = rules::TERMINATING.to_owned();
        *object = namespace.to_value();
        Deletion::Changed
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        !strings(object, &["spec", "finalizers"]).is_empty()
    }
}
