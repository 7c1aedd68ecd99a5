//! ControllerRevision, `apps/v1`: a state that a controller has rolled out and may roll back to. Its data is any object.
//!
//! Sources: `pkg/registry/apps/controllerrevision/strategy.go`, `pkg/apis/apps/validation/validation.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::names::split_api_version;
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::{metadata_update, table_column};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static REVISION: Declared = Declared::catalogued("apps/v1", "ControllerRevision");

/// ControllerRevisions as a built-in type.
pub(super) fn controller_revisions() -> TypeSpec {
    let columns = vec![
        name_column(),
        table_column("Controller", "string", 0, "Controller of the object"),
        table_column("Revision", "string", 0, REVISION.text_of(&["revision"])),
        table_column("Age", "string", 0, ""),
    ];
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("controllerrevisions", "ControllerRevision");
    TypeSpec::built_in("apps", names, Scope::Namespaced, versions, Arc::new(Revisions))
}

/// `printControllerRevision`
fn cells(revision: &Value, now: i64) -> Vec<Value> {
    let metadata = part(revision, "metadata");
    let controls = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let controller = items(metadata, "ownerReferences").iter().find(controls);
    vec![
        text(metadata, "name").into(),
        controller.map_or_else(|| "<none>".to_owned(), shown).into(),
        Value::Int(number(revision, "revision").unwrap_or_default()),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// An owner by its kind, group and name (`formatResourceName`).
fn shown(owner: &Value) -> String {
    let group = split_api_version(text(owner, "apiVersion")).map_or("", |(group, _)| group);
    let kind = text(owner, "kind");
    let of = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    format!("{}/{}", of.to_lowercase(), text(owner, "name"))
}

/// `validateControllerRevision`
fn validate(revision: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(revision, "metadata"), true, &name_is_dns_subdomain, &at);
    let value = number(revision, "revision").unwrap_or_default();
    if value < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&Path::new("revision"), value, detail));
    }
    errors
}

/// The rules of ControllerRevisions.
struct Revisions;

impl Strategy for Revisions {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&REVISION)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["apps/v1beta1", "apps/v1beta2"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn validate(&self, _: &RuleContext<'_>, revision: &Value) -> ErrorList {
        let mut errors = validate(revision);
        let missing = match revision.get("data") {
            None | Some(Value::Null) => "data is mandatory",
            Some(Value::Object(_)) => return errors,
            Some(_) => "data must be a valid JSON object",
        };
        errors.push(Error::required(&Path::new("data"), missing));
        errors
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        revision: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(revision, old);
        errors.extend(validate(revision));
        let [data, before] = [revision, old].map(|of| part(of, "data"));
        if data != before {
            errors.push(Error::invalid(&Path::new("data"), data.clone(), "field is immutable"));
        }
        errors
    }
}
