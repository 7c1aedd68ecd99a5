//! `kindom create types`: kinds from their registrations, for whoever comes with CustomResourceDefinitions.
//!
//! The types are those that kopium makes of a schema. It is run as a program: as a library it would bring a second version of kube and
//! of k8s-openapi.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use kindom_api::crd::{ColumnDefinition, Version};
use kindom_api::{Map, Value};
use kindom_codec::yaml::to_yaml;
use serde_json::json;

use crate::arguments::CreateTypes;
use crate::create::finish;
use crate::error::Error;
use crate::kinds::{self, kinds};
use crate::manifest::{Imported, Kind, Manifest, ScalePaths};
use crate::plan::Plan;
use crate::templates::Templates;

/// The fields of an object for which a kind has a place.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Adds the kinds of registrations; those that are there already stay as they are.
pub(crate) fn run(folder: &Path, options: &CreateTypes, out: &mut dyn Write) -> Result<(), Error> {
    let mut manifest = Manifest::need(folder)?;
    let templates = Templates::new()?;
    let mut plan = Plan::default();
    for found in &kinds(folder, std::slice::from_ref(&options.from_crd))? {
        let version = chosen(found, options.version.as_deref())?;
        let mut kind = wanted(&manifest, found, version)?;
        if let Some(known) = manifest.find(&kind.group, &kind.kind).and_then(|at| manifest.kinds.get(at)) {
            if known.imported.is_none() || known.hub() != kind.hub() {
                let why = format!("{} is there already, in version {}", kind.kind, known.hub());
                return Err(from(found, &why));
            }
            continue;
        }
        manifest.check_next(&kind).map_err(|(_, why)| from(found, &why))?;
        let types = types(&options.kopium, found, version)?;
        if let Some(imported) = &mut kind.imported {
            imported.types = prefix(&types, &kind.kind).ok_or_else(|| {
                from(found, &format!("{} made no type {}Spec", options.kopium.display(), kind.kind))
            })?;
        }
        templates.imported(
            &manifest,
            &kind,
            &blanks(found, version, &types),
            &sample(&manifest, &kind, version),
            &mut plan,
        )?;
        manifest.kinds.push(kind);
    }
    finish(folder, &manifest, &templates, plan, out)
}

/// The version that is asked for, or the stored one.
fn chosen<'a>(found: &'a kinds::Kind, version: Option<&str>) -> Result<&'a Version, Error> {
    let versions = &found.registration.spec.versions;
    let found_version = versions.iter().find(|of| version.map_or(of.storage, |version| of.name == version));
    found_version.ok_or_else(|| {
        let names: Vec<&str> = versions.iter().map(|version| version.name.as_str()).collect();
        let wanted = version.unwrap_or_default();
        Error::refused(format!(
            "--version {wanted:?}: {} has the versions {}",
            found.name(),
            names.join(", ")
        ))
    })
}

/// A mistake in a registration.
fn from(found: &kinds::Kind, why: &str) -> Error {
    Error::refused(format!("--from-crd: {} of {}: {why}", found.name(), found.group()))
}

fn wanted(manifest: &Manifest, found: &kinds::Kind, version: &Version) -> Result<Kind, Error> {
    let group = found.group().strip_suffix(&manifest.domain).and_then(|group| group.strip_suffix('.'));
    let group = group.ok_or_else(|| {
        let why = format!(
            "the groups of this project end with .{}, which kindom init repo was given",
            manifest.domain
        );
        from(found, &why)
    })?;
    let schema = schema(version);
    let properties = schema.and_then(|schema| map_at(schema, "properties"));
    let names = || properties.into_iter().flat_map(Map::iter).map(|(name, _)| name);
    if let Some(other) = names().find(|name| !FIELDS.contains(name)) {
        return Err(from(
            found,
            &format!("its field {other} stands beside spec and status, where kopium makes no types"),
        ));
    }
    let has_fields = |name| {
        let field = properties.and_then(|all| all.get(name)).and_then(Value::as_object);
        field.is_some_and(|field| map_at(field, "properties").is_some_and(|fields| !fields.is_empty()))
    };
    if !has_fields("spec") {
        return Err(from(
            found,
            &format!("its version {} has no spec with fields, of which kopium makes types", version.name),
        ));
    }
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let subresources = version.subresources.as_ref();
    let status = has_fields("status");
    let scale = subresources.is_some_and(|of| of.scale.is_some());
    let asked = &found.registration.spec.names;
    // Kubernetes takes a name twice.
    let mut short_names = asked.short_names.clone();
    short_names.retain(|name| *name != asked.kind.to_ascii_lowercase() && *name != asked.plural);
    Ok(Kind {
        group: group.to_owned(),
        kind: asked.kind.clone(),
        resource: asked.plural.clone(),
        short_names,
        namespaced: found.registration.spec.scope == "Namespaced",
        status: status && subresources.is_some_and(|of| of.status.is_some()),
        scale,
        controller: false,
        versions: vec![version.name.clone()],
        subresources: Vec::new(),
        imported: Some(Imported {
            types: asked.kind.clone(),
            optional_spec: !required
                .is_some_and(|names| names.iter().any(|name| name.as_str() == Some("spec"))),
            status,
            scale: subresources.and_then(|of| of.scale.as_ref()).map(ScalePaths::of),
        }),
    })
}

fn schema(version: &Version) -> Option<&Map> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()?.as_object()
}

fn map_at<'a>(map: &'a Map, field: &str) -> Option<&'a Map> {
    map.get(field).and_then(Value::as_object)
}

/// What the type's file says beside its names.
fn blanks(found: &kinds::Kind, version: &Version, types: &str) -> serde_json::Value {
    let names = &found.registration.spec.names;
    let is_usual = names.singular.is_empty() || names.singular == names.kind.to_ascii_lowercase();
    let description = schema(version).and_then(|schema| schema.get("description")).and_then(Value::as_str);
    // Every typed kind has a column of its age.
    let is_age = |column: &&ColumnDefinition| {
        column.kind == "date" && column.json_path == ".metadata.creationTimestamp"
    };
    let columns = version.additional_printer_columns.iter().filter(|column| !is_age(column)).map(|column| {
        json!({
            "name": column.name, "type": column.kind, "path": column.json_path, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    json!({
        "singular": (!is_usual).then_some(&names.singular),
        "categories": names.categories,
        "description": description.map_or_else(|| format!("A {}.", names.kind), str::to_owned),
        "deprecated": version.deprecated.then(|| version.deprecation_warning.clone().unwrap_or_default()),
        "columns": columns.collect::<Vec<_>>(),
        "types": types,
        "uses": {
            "maps": types.contains("BTreeMap<"),
            "int_or_string": types.contains("IntOrString"),
            "json": types.contains("serde_json::"),
        },
    })
}

/// What kopium makes of a version's schema.
fn types(kopium: &Path, found: &kinds::Kind, version: &Version) -> Result<String, Error> {
    let program = kopium.display().to_string();
    let mut child = Command::new(kopium)
        .args(["--filename", "-", "--api-version", &version.name, "--hide-kube", "--hide-prelude", "--docs"])
        .args(["--schema", "derived", "--derive", "PartialEq", "--no-condition", "--no-object-reference"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::refused(format!(
                "kopium makes the types, and {program} is not there: cargo install kopium, or --kopium PROGRAM"
            )),
            _ => Error::Program { program: program.clone(), source },
        })?;
    let text = found.tree.to_vec();
    // It may write before it has read all.
    let given = child.stdin.take().map(|mut stdin| thread::spawn(move || stdin.write_all(&text)));
    let done =
        child.wait_with_output().map_err(|source| Error::Program { program: program.clone(), source })?;
    // A program that does not read what it is given is judged by what it prints.
    drop(given.map(thread::JoinHandle::join));
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        let last = why.trim().lines().last().unwrap_or("it does not say why").to_owned();
        return Err(from(found, &format!("{program} failed ({}): {last}", done.status)));
    }
    let types =
        String::from_utf8(done.stdout).map_err(|_| from(found, &format!("{program} wrote no text")))?;
    // It warns that it would overwrite what it made, which it never does here.
    let lines = types.lines().skip_while(|line| line.is_empty() || line.starts_with("// "));
    let types: String = lines.flat_map(|line| [line, "\n"]).collect();
    Ok(types)
}

/// The beginning of the types' names: kopium writes a kind such as `IPPool` in UpperCamelCase, `IpPool`.
fn prefix(types: &str, kind: &str) -> Option<String> {
    let structs = types.lines().filter_map(|line| line.strip_prefix("pub struct ")?.split([' ', '{']).next());
    let mut prefixes = structs.filter_map(|name| name.strip_suffix("Spec"));
    prefixes.find(|prefix| prefix.eq_ignore_ascii_case(kind)).map(str::to_owned)
}

/// An object that has what its schema requires, and no more.
fn sample(manifest: &Manifest, kind: &Kind, version: &Version) -> String {
    let empty = Map::new();
    let properties = schema(version).and_then(|schema| map_at(schema, "properties")).unwrap_or(&empty);
    let spec = properties.get("spec").map(example).unwrap_or_default();
    let api_version = format!("{}/{}", manifest.group_name(kind), version.name);
    let fields = [
        ("apiVersion", Value::from(api_version)),
        ("kind", Value::from(kind.kind.as_str())),
        ("metadata", Value::Object(Map::from_iter([("name", Value::from(kind.object(&version.name)))]))),
        ("spec", spec),
    ];
    to_yaml(&Value::Object(Map::from_iter(fields)))
}

/// A value of a schema: its default or first choice, or what has only the fields that it needs.
fn example(schema: &Value) -> Value {
    let empty = Map::new();
    let schema = schema.as_object().unwrap_or(&empty);
    let choice = schema.get("enum").and_then(Value::as_array).and_then(|choices| choices.first());
    if let Some(given) = schema.get("default").or(choice) {
        return given.clone();
    }
    // Bounds are floats in a schema.
    let number = |field: &str| -> Option<i64> {
        format!("{:.0}", schema.get(field).and_then(Value::as_f64)?.ceil()).parse().ok()
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let items = usize::try_from(number("minItems").unwrap_or(0)).unwrap_or(0).min(8);
            let item = schema.get("items").map(example).unwrap_or_default();
            Value::Array(vec![item; items].into())
        }
        Some("boolean") => Value::Bool(false),
        Some("integer" | "number") => Value::from(number("minimum").unwrap_or(1)),
        Some("string") => match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => Value::from("2026-01-01T00:00:00Z"),
            _ => Value::from("example"),
        },
        _ if schema.contains_key("x-kubernetes-int-or-string") => Value::from(1),
        _ => {
            let properties = map_at(schema, "properties").unwrap_or(&empty);
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let named = required.filter_map(|name| Some((name.as_str()?, properties.get(name.as_str()?)?)));
            Value::Object(Map::from_iter(named.map(|(name, schema)| (name, example(schema)))))
        }
    }
}
