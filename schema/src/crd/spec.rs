//! The spec: names, versions, columns, subresources.

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::crd::{ColumnDefinition, Names, Scale, Subresources};
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_dns1035_label, is_dns1123_subdomain};

use super::openapi::{self, Context};
use super::props::{any_schema, flag, go_fields, go_json, go_schema, has, type_of};
use super::rules::{self, Scope};
use super::view::{VersionView, View};
use super::{Options, conversion, defaults, selectable, structural};

const DEPRECATION_WARNING_BYTES_MAX: usize = 256;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// The keywords that the root schema of a version with a status may have, so that nothing is lost when the status is taken
/// out of it; upstream's Go names.
const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// The rules that hold for a create and an update.
pub(super) fn validate(view: &View<'_>, options: &Options, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = view.spec;
    group(&spec.group, &path.child("group"), errors);
    scope(&spec.scope, &path.child("scope"), errors);
    schema_required(view, options, path, errors);
    // If no default is allowed at all, each is reported at its place.
    let allows_defaults = options.defaults_forbidden.is_none();
    if allows_defaults
        && spec.preserve_unknown_fields
        && view.schemas().any(|s| any_schema(s, &mut |s| has(s, "default")))
    {
        errors.push(Error::invalid(
            &path.child("preserveUnknownFields"),
            true,
            "must be false in order to use defaults in the schema",
        ));
    }
    let options = &Structural { options, required: requires_structural(view, options) };
    let versions = path.child("versions");
    for (i, version) in view.versions().iter().enumerate() {
        let at = versions.index(i);
        let name = &version.version.name;
        let wrong = is_dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&at.child("name"), name.as_str(), wrong.join(",")));
        }
        // All versions share subresources, or each has its own.
        let status = has_status(view.subresources.or(version.subresources));
        version_rules(version, status, options, &at, errors);
    }
    versions_rules(view, path, errors);
    let names_path = path.child("names");
    for (field, value) in [
        ("plural", &spec.names.plural),
        ("singular", &spec.names.singular),
        ("kind", &spec.names.kind),
        ("listKind", &spec.names.list_kind),
    ] {
        if value.is_empty() {
            errors.push(Error::required(&names_path.child(field), ""));
        }
    }
    names(&spec.names, &names_path, errors);
    shared_rules(view, options, path, errors);
    conversion::validate(spec, options.options, path, errors);
}

/// Refuses changes of the fields that are immutable once a registration is used, or always.
pub(super) fn immutable(
    new: &View<'_>,
    old: &View<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (new, old) = (new.spec, old.spec);
    // The scope has a Go type of its own, which prints as JSON.
    if options.require_immutable_names && new.scope != old.scope {
        let scope = go_json(&new.scope.as_str().into());
        errors.push(Error::invalid_raw(&path.child("scope"), scope, "field is immutable"));
    }
    let mut check = |path: &Path<'_>, new: &str, old: &str| {
        if new != old {
            errors.push(Error::invalid(path, new, "field is immutable"));
        }
    };
    let names = path.child("names");
    if options.require_immutable_names {
        check(&names.child("kind"), &new.names.kind, &old.names.kind);
    }
    check(&path.child("group"), &new.group, &old.group);
    check(&names.child("plural"), &new.names.plural, &old.names.plural);
}

/// The options, and whether schemas must be structural, which also depends on the new spec.
struct Structural<'a> {
    options: &'a Options,
    required: bool,
}

fn requires_structural(view: &View<'_>, options: &Options) -> bool {
    const EXTENSIONS: [&str; 6] = [
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    let defaults = options.defaults_forbidden.is_none();
    let mut needs =
        |s: &Value| (defaults && has(s, "default")) || EXTENSIONS.iter().any(|keyword| has(s, keyword));
    options.require_structural
        || !view.spec.preserve_unknown_fields
        || view.schemas().any(|s| any_schema(s, &mut needs))
}

fn group(group: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let wrong = is_dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid(path, group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(path, group, "should be a domain with at least one dot"));
    }
}

fn scope(scope: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match scope {
        "" => errors.push(Error::required(path, "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(Error::not_supported(path, other, &["Cluster", "Namespaced"])),
    }
}

fn schema_required(view: &View<'_>, options: &Options, path: &Path<'_>, errors: &mut ErrorList) {
    if view.top_schema().is_some() {
        return;
    }
    let versions = path.child("versions");
    for (i, version) in view.versions().iter().enumerate().filter(|(_, v)| v.schema().is_none()) {
        let at = versions.index(i);
        let at = at.child("schema");
        if options.require_schema {
            errors.push(Error::required(&at.child("openAPIV3Schema"), ""));
        } else if version.version.served && !view.spec.preserve_unknown_fields {
            let detail = "because otherwise all fields are pruned";
            errors.push(Error::required(&at.child("openAPIV3Schema"), detail));
        }
    }
}

fn has_status(subresources: Option<&Subresources>) -> bool {
    subresources.is_some_and(|s| s.status.is_some())
}

fn version_rules(
    version: &VersionView<'_>,
    status: bool,
    options: &Structural<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    deprecation_warning(version, &path.child("deprecationWarning"), errors);
    if let Some(schema) = version.schema() {
        let unchanged = options.options.unchanged_schemas.contains(&version.version.name);
        schema_rules(schema, status, unchanged, options, &path.child("schema"), errors);
    }
    subresources(version.subresources, &path.child("subresources"), errors);
    columns(version.columns, &path.child("additionalPrinterColumns"), errors);
    if version.selectable_fields.is_empty() {
        return;
    }
    let at = path.child("selectableFields");
    match version.schema() {
        // The text is upstream's, although it means the opposite.
        None => errors.push(Error::invalid(
            &at,
            "",
            "may only be set when `version.schema.openAPIV3Schema` is not included",
        )),
        Some(schema) => {
            if let Err(text) = structural::unsupported(schema) {
                errors.push(Error::invalid(&path.child("schema.openAPIV3Schema"), "", text));
            }
            selectable::validate(
                version.selectable_fields,
                Some(schema),
                &at,
                options.options,
                &version.version.name,
                errors,
            );
        }
    }
}

fn deprecation_warning(version: &VersionView<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(warning) = &version.version.deprecation_warning else { return };
    // Upstream prints the pointer, as JSON.
    let value = go_json(&warning.as_str().into());
    let mut wrong = |detail: String| errors.push(Error::invalid_raw(path, value.clone(), detail));
    if !version.version.deprecated {
        return wrong("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
        wrong(format!("must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"));
    }
    if warning.is_empty() {
        wrong("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !is_printable(*c)) {
        wrong(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

/// As Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(c: char) -> bool {
    // Rust's debug output escapes exactly the characters that are not printable; a mark behind a letter is not escaped.
    matches!(c, '"' | '\'' | '\\') || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// Rules for the versions together. In v1's view, values that are the same in all versions stand beside them, so upstream's
/// rules against repetition find nothing.
fn versions_rules(view: &View<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("versions");
    let versions = &view.spec.versions;
    let mut seen = HashSet::new();
    if !versions.iter().all(|v| seen.insert(&v.name)) {
        errors.push(Error::invalid_raw(&at, view.go_versions(), "must contain unique version names"));
    }
    if versions.iter().filter(|v| v.storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid_raw(&at, view.go_versions(), detail));
    }
    // The internal type still has the one version of long ago, set to the first.
    if let Some(first) = versions.first().filter(|v| !v.name.is_empty()) {
        let wrong = is_dns1035_label(&first.name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&path.child("version"), first.name.as_str(), wrong.join(",")));
        }
    }
}

/// The rules for names, asked for or accepted: all may be empty here.
pub(super) fn names(names: &Names, path: &Path<'_>, errors: &mut ErrorList) {
    let mut label = |path: &Path<'_>, name: &str| {
        let wrong = is_dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(path, name, wrong.join(",")));
        }
    };
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        if !name.is_empty() {
            label(&path.child(field), name);
        }
    }
    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let wrong = is_dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(Error::invalid(&path.child(field), name.as_str(), detail));
        }
    }
    let labels = |field: &str, names: &[String], errors: &mut ErrorList| {
        let list = path.child(field);
        for (i, name) in names.iter().enumerate() {
            let wrong = is_dns1035_label(name);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&list.index(i), name.as_str(), wrong.join(",")));
            }
        }
    };
    labels("shortNames", &names.short_names, errors);
    if !names.kind.is_empty() && names.kind == names.list_kind {
        errors.push(Error::invalid(
            &path.child("listKind"),
            names.list_kind.as_str(),
            "kind and listKind may not be the same",
        ));
    }
    labels("categories", &names.categories, errors);
}

/// The rules for what all versions share.
fn shared_rules(view: &View<'_>, options: &Structural<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(schema) = view.top_schema() {
        let status = view.spec.versions.iter().any(|v| v.has_status());
        // It counts as that of the first version.
        let first = view.spec.versions.first();
        let unchanged = first.is_some_and(|v| options.options.unchanged_schemas.contains(&v.name));
        schema_rules(schema, status, unchanged, options, &path.child("validation"), errors);
    }
    subresources(view.subresources, &path.child("subresources"), errors);
    columns(view.columns, &path.child("additionalPrinterColumns"), errors);
    if view.selectable_fields.is_empty() {
        return;
    }
    let at = path.child("selectableFields");
    if !view.has_validation() {
        let detail = "may only be set when validations.schema is included";
        errors.push(Error::invalid(&at, "", detail));
        return;
    }
    if let Some(text) = view.top_schema().and_then(|s| structural::unsupported(s).err()) {
        errors.push(Error::invalid(&path.child("schema.openAPIV3Schema"), "", text));
    }
    selectable::validate(view.selectable_fields, view.top_schema(), &at, options.options, "", errors);
}

/// The rules for a schema and all in it. `path` is that of the struct around it.
fn schema_rules(
    schema: &Value,
    status: bool,
    unchanged: bool,
    options: &Structural<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let before = errors.len();
    if status {
        root_fields(schema, path, errors);
    }
    if flag(schema, "nullable") {
        errors.push(Error::forbidden(
            &path.child("openAPIV3Schema.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let at = path.child("openAPIV3Schema");
    let unsupported = structural::unsupported(schema).err().filter(|_| options.required);
    let mut scope = None;
    if options.required && unsupported.is_none() {
        let mut wrong = structural::validate(schema, &at);
        if wrong.is_empty() {
            wrong = defaults::validate(schema, &at, options.options.require_pruned_defaults);
        }
        if wrong.is_empty() {
            scope = Some(Scope::root(schema, &at));
        }
        errors.extend(wrong);
    }
    let rules = rules::Found::new(unchanged);
    let mut found = openapi::Found { errors, rules };
    let context = Context::root(options.options);
    openapi::validate(schema, &at, scope.as_ref(), &context, options.options, &mut found);
    let mut rules = found.rules;
    errors.append(&mut rules.errors);
    // The cause of an unreadable schema mostly has a better error by now.
    if let Some(text) = unsupported.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(&at, "", text));
    }
    rules.total(&at, errors);
}

/// Upstream walks over the fields of its Go struct and stops at the first wrong one.
fn root_fields(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in go_fields(schema) {
        if field == "Type" {
            if type_of(schema) != "object" {
                errors.push(Error::invalid(
                    &path.child("openAPIV3Schema.type"),
                    type_of(schema),
                    "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
                ));
                return;
            }
        } else if !ROOT_FIELDS.contains(&field) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ROOT_FIELDS.join(" ")
            );
            errors.push(Error::invalid_raw(&path.child("openAPIV3Schema"), go_schema(schema), detail));
            return;
        }
    }
}

fn subresources(subresources: Option<&Subresources>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(scale) = subresources.and_then(|s| s.scale.as_ref()) {
        scale_rules(scale, path, errors);
    }
}

fn scale_rules(scale: &Scale, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, json_path, below) in [
        ("scale.specReplicasPath", &scale.spec_replicas_path, "spec"),
        ("scale.statusReplicasPath", &scale.status_replicas_path, "status"),
    ] {
        let at = path.child(field);
        if json_path.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if simple_json_path(json_path, &at, errors) && !json_path.starts_with(&format!(".{below}.")) {
            let detail = format!("should be a json path under .{below}");
            errors.push(Error::invalid(&at, json_path.as_str(), detail));
        }
    }
    let Some(json_path) = scale.label_selector_path.as_deref().filter(|p| !p.is_empty()) else { return };
    let at = path.child("scale.labelSelectorPath");
    if simple_json_path(json_path, &at, errors)
        && !json_path.starts_with(".spec.")
        && !json_path.starts_with(".status.")
    {
        // Upstream prints the pointer, as JSON.
        let value = go_json(&json_path.into());
        errors.push(Error::invalid_raw(&at, value, "should be a json path under either .spec or .status"));
    }
}

/// Upstream asks no more of a column's or a scale's path than that it begins with a dot. Says whether it does.
fn simple_json_path(json_path: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let simple = json_path.starts_with('.');
    if !simple {
        errors.push(Error::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    simple
}

fn columns(columns: &[ColumnDefinition], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, column) in columns.iter().enumerate() {
        let at = path.index(i);
        if column.name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        let detail = || format!("must be one of {}", COLUMN_TYPES.join(","));
        match column.kind.as_str() {
            "" => errors.push(Error::required(&at.child("type"), detail())),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => errors.push(Error::invalid(&at.child("type"), kind, detail())),
        }
        let format = column.format.as_str();
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(&at.child("format"), format, detail));
        }
        let json_path_at = at.child("JSONPath");
        if column.json_path.is_empty() {
            errors.push(Error::required(&json_path_at, ""));
        } else {
            simple_json_path(&column.json_path, &json_path_at, errors);
        }
    }
}
