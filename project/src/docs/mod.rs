//! `kindom build docs`: a site with a page for each version of each kind (B-54).

mod fields;
mod samples;

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::arguments::BuildDocs;
use crate::error::Error;
use crate::kinds::{Kind, kinds};
use crate::plan::{Part, Plan};
use crate::templates::Templates;

use fields::{fields, rules};
use samples::Samples;

/// Writes the pages.
pub(crate) fn run(folder: &Path, options: &BuildDocs, out: &mut dyn Write) -> Result<(), Error> {
    let kinds = kinds(folder, &options.kinds.filename)?;
    let samples = Samples::read(folder, &options.samples)?;
    let templates = Templates::new()?;
    let mut plan = Plan::default();
    let mut listed = Vec::new();
    for kind in &kinds {
        for version in kind.versions() {
            let page = page(kind, version, &samples)?;
            let path = options.output.join(format!("{}.html", kind.path(&version.name)));
            plan.add(path, templates.fill("docs/kind.html", &page)?, Part::Generated);
        }
        listed.push(json!({
            "group": kind.group(),
            "kind": kind.name(),
            "description": summary(kind),
            "pages": kind.versions().map(|version| json!({
                "version": version.name,
                "path": format!("{}.html", kind.path(&version.name)),
                "deprecated": version.deprecated,
            })).collect::<Vec<_>>(),
        }));
    }
    let index = templates.fill("docs/index.html", &json!({ "title": options.title, "kinds": listed }))?;
    plan.add(options.output.join("index.html"), index, Part::Generated);
    plan.write(folder)?.report(out)
}

/// The first sentence about a kind, from its stored version.
fn summary(kind: &Kind) -> String {
    let stored = kind.registration.storage_version().and_then(|version| version.schema.as_ref());
    let schema = stored.and_then(|schema| schema.open_api_v3_schema.as_ref());
    let text = schema.map(|schema| schema.text_at(&["description"])).unwrap_or_default();
    let text = text.split("\n\n").next().unwrap_or_default();
    text.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}

fn keeps_unknown(schema: &kindom_api::Value) -> bool {
    let keeps = schema.get("x-kubernetes-preserve-unknown-fields");
    keeps.and_then(kindom_api::Value::as_bool) == Some(true)
}

fn page(kind: &Kind, version: &kindom_api::crd::Version, samples: &Samples) -> Result<Value, Error> {
    let spec = &kind.registration.spec;
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let others: Vec<Value> = kind
        .versions()
        .filter(|other| other.name != version.name)
        .map(|other| json!({ "name": other.name, "path": format!("../{}/{}.html", other.name, kind.name().to_ascii_lowercase()) }))
        .collect();
    let subresources = version.subresources.as_ref();
    let columns: Vec<Value> = version
        .additional_printer_columns
        .iter()
        .map(|column| json!({ "name": column.name, "path": column.json_path, "description": column.description }))
        .collect();
    Ok(json!({
        "group": kind.group(),
        "kind": kind.name(),
        "version": version.name,
        "description": schema.map(|schema| schema.text_at(&["description"])).unwrap_or_default(),
        "plural": spec.names.plural,
        "short_names": spec.names.short_names,
        "categories": spec.names.categories,
        "namespaced": spec.scope == "Namespaced",
        "stored": version.storage,
        "deprecated": version.deprecated,
        "warning": version.deprecation_warning,
        "status": subresources.is_some_and(|of| of.status.is_some()),
        "scale": subresources.and_then(|of| of.scale.as_ref()).map(|scale| &scale.spec_replicas_path),
        "columns": columns,
        "others": others,
        "fields": schema.map(fields).unwrap_or_default(),
        "rules": schema.map(|schema| rules(schema, "")).unwrap_or_default(),
        "open": schema.is_none_or(keeps_unknown) || spec.preserve_unknown_fields,
        "samples": samples.of(kind, version)?,
    }))
}
