//! PodTemplate, `v1`: a template of pods that stands alone.
//!
//! Sources: `pkg/registry/core/podtemplate/strategy.go`, `pkg/apis/core/validation` (`ValidatePodTemplate`),
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::field::{ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};
use kindom_schema::columns::{Columns, name_column};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, part, same};
use crate::kinds::generation;
use crate::kinds::metadata_update;
use crate::kinds::pod_spec::{self, container_cells, defaults, validate_template};
use crate::kinds::table_column;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static POD_TEMPLATE: Declared = Declared::catalogued("v1", "PodTemplate");

/// PodTemplates as a built-in type.
pub(super) fn pod_templates() -> TypeSpec {
    let column = |name: &str, description: &str| table_column(name, "string", 0, description);
    let columns = vec![
        name_column(),
        column("Containers", "Names of each container in the template."),
        column("Images", "Images referenced by each container in the template."),
        column("Pod Labels", "The labels for the pod template."),
    ];
    let columns = Columns::rows(columns, cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names::of_kind("podtemplates", "PodTemplate");
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(PodTemplates))
}

fn cells(object: &Value, _: i64) -> Vec<Value> {
    let template = part(object, "template");
    let mut cells = vec![Value::from(object.text_at(&["metadata", "name"]))];
    cells.extend(container_cells(template).map(Value::from));
    cells.push(pod_spec::label_cell(template.at(&["metadata", "labels"])).into());
    cells
}

/// The rules of PodTemplates.
struct PodTemplates;

fn validate(object: &Value, errors: &mut ErrorList) {
    validate_template(part(object, "template"), &[], &Path::new("template"), errors);
}

impl Strategy for PodTemplates {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&POD_TEMPLATE)
    }

    fn fill_defaults(&self, object: &mut Value) {
        default_nil(object, "template", Map::new());
        let Some(template) = object.get_mut("template") else { return };
        default_nil(template, "spec", Map::new());
        template.get_mut("spec").into_iter().for_each(defaults::fill);
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        generation::first(object);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(object, "metadata"), true, &name_is_dns_subdomain, &at);
        validate(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, object: &mut Value, old: &Value) {
        generation::next_if_changed(object, old, "template");
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        validate(object, &mut errors);
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| same(object.get("template"), old.get("template"))) {
            return Vec::new();
        }
        let template = part(object, "template");
        pod_spec::warnings(part(template, "spec"), part(template, "metadata"), &Path::new("template"))
    }
}
