//! `kindom convert`: registrations of former times as `apiextensions.k8s.io/v1`.

use std::io::Write as _;

use kindom_api::faces::Face;
use kindom_api::{Value, object};
use kindom_codec::yaml::to_yaml;
use kindom_schema::crd::{ConvertError, to_v1};

use crate::BoxError;
use crate::flags::{Convert, OutputFormat};
use crate::manifests::{Place, complete_items, items, read};

/// Reads, converts and prints; nothing is printed if anything cannot be converted.
pub(crate) fn run(options: &Convert) -> Result<(), BoxError> {
    let mut report = Report::default();
    let mut documents = Vec::new();
    for (place, document) in read(&options.filename)? {
        documents.push(convert(document, &place, &mut report));
    }
    let mut err = std::io::stderr().lock();
    for line in &report.warnings {
        writeln!(err, "warning: {line}")?;
    }
    if !report.errors.is_empty() {
        return Err(report.errors.join("\nerror: ").into());
    }
    std::io::stdout().lock().write_all(print(documents, options.output).as_bytes())?;
    Ok(())
}

#[derive(Debug, Default)]
struct Report {
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Converts the document, or each item of a list. A document that is no registration stays as it is.
fn convert(mut document: Value, place: &Place, report: &mut Report) -> Value {
    let is_of_old_kind =
        is_old(document.text_at(&["apiVersion"]), document.text_at(&["kind"]).trim_end_matches("List"));
    if is_of_old_kind {
        complete_items(&mut document);
    }
    let Some(list) = items(&mut document) else { return convert_one(document, place, report) };
    for (i, item) in list.iter_mut().enumerate() {
        *item = convert_one(std::mem::take(item), &place.item(i), report);
    }
    if is_of_old_kind && let Some(list) = document.as_object_mut() {
        list.insert("apiVersion", "v1");
        list.insert("kind", "List");
    }
    document
}

fn is_old(api_version: &str, kind: &str) -> bool {
    let face = Face::of(api_version, kind);
    face.is_some_and(|face| face != Face::V1)
        || (api_version, kind) == ("extensions/v1beta1", "ThirdPartyResource")
}

fn convert_one(object: Value, place: &Place, report: &mut Report) -> Value {
    let kind = object.text_at(&["kind"]).to_owned();
    if !is_old(object.text_at(&["apiVersion"]), &kind) {
        return object;
    }
    let at = format!("{place}: {kind} {:?}", object.text_at(&["metadata", "name"]));
    match to_v1(object) {
        Ok(converted) => {
            report.warnings.extend(converted.warnings.into_iter().map(|text| format!("{at}: {text}")));
            return converted.manifest;
        }
        Err(ConvertError::Invalid(errors)) => {
            report.errors.extend(errors.iter().map(|error| format!("{at}: {error}")));
        }
        Err(error @ (ConvertError::Decode(_) | ConvertError::Kind { .. })) => {
            report.errors.push(format!("{at}: {error}"));
        }
    }
    Value::Null
}

fn print(mut documents: Vec<Value>, format: OutputFormat) -> String {
    match format {
        OutputFormat::Yaml => documents.iter().map(to_yaml).collect::<Vec<_>>().join("---\n"),
        OutputFormat::Json => {
            let one = match documents.len() {
                0 => return String::new(),
                1 => documents.pop().unwrap_or_default(),
                _ => object! { "apiVersion": "v1", "kind": "List", "items": documents },
            };
            format!("{one}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::parse;

    fn converted(manifest: &str) -> (Vec<Value>, Report) {
        let mut report = Report::default();
        let all = parse("old.yaml", manifest.as_bytes()).unwrap();
        let all = all.into_iter().map(|(place, document)| convert(document, &place, &mut report)).collect();
        (all, report)
    }

    const TPR: &str = "apiVersion: extensions/v1beta1\nkind: ThirdPartyResource\n\
        metadata: {name: ox.farm.example.com}\nversions: [{name: v1}]\n";

    #[test]
    fn only_registrations_change() {
        let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, x: [1.5]}\ndata: {a: b}\n";
        let (all, report) = converted(&format!("{other}---\n{TPR}"));
        assert!(report.errors.is_empty() && report.warnings.is_empty());
        assert_eq!(all[0], parse("", other.as_bytes()).unwrap()[0].1);
        assert_eq!(all[1].text_at(&["apiVersion"]), "apiextensions.k8s.io/v1");
        assert_eq!(all[1].text_at(&["metadata", "name"]), "oxs.farm.example.com");
        let yaml = print(all.clone(), OutputFormat::Yaml);
        let read: Vec<Value> =
            parse("", yaml.as_bytes()).unwrap().into_iter().map(|(_, value)| value).collect();
        assert_eq!(read, all);
        let json = print(all.clone(), OutputFormat::Json);
        assert_eq!(parse("", json.as_bytes()).unwrap()[0].1.get("items").unwrap(), &Value::from(all));
        assert_eq!(print(Vec::new(), OutputFormat::Json), "");
    }

    #[test]
    fn lists_stay_lists() {
        let item = r#"{"apiVersion":"extensions/v1beta1","kind":"ThirdPartyResource","metadata":{"name":"ox.a.b"},"versions":[{"name":"v1"}]}"#;
        let (all, _) =
            converted(&format!(r#"{{"apiVersion":"v1","kind":"List","items":[{item},{{"kind":"X"}}]}}"#));
        let items = all[0].get("items").and_then(Value::as_array).unwrap();
        assert_eq!(
            (items[0].text_at(&["kind"]), items[1].text_at(&["kind"])),
            ("CustomResourceDefinition", "X")
        );
        let of_one_kind =
            item.replace(r#""apiVersion":"extensions/v1beta1","kind":"ThirdPartyResource","#, "");
        let (all, _) = converted(&format!(
            r#"{{"apiVersion":"extensions/v1beta1","kind":"ThirdPartyResourceList","metadata":{{}},"items":[{of_one_kind}]}}"#
        ));
        assert_eq!((all[0].text_at(&["apiVersion"]), all[0].text_at(&["kind"])), ("v1", "List"));
        let items = all[0].get("items").and_then(Value::as_array).unwrap();
        assert_eq!(items[0].text_at(&["kind"]), "CustomResourceDefinition");
    }

    #[test]
    fn errors_tell_where_they_are() {
        let crd = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n\
            metadata: {name: cows.farm.example.com}\n\
            spec: {group: farm.example.com, version: v1, names: {plural: cows, kind: Cow}, odd: 1,\n\
            validation: {openAPIV3Schema: {additionalProperties: {type: string}}}}\n";
        let (_, report) =
            converted(&format!("{TPR}---\n{crd}---\n{}", TPR.replace("ox.farm.example.com", "ox")));
        assert_eq!(report.errors.len(), 2, "{report:?}");
        assert_eq!(
            report.errors[0],
            "old.yaml: document 2: CustomResourceDefinition \"cows.farm.example.com\": \
             spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"
        );
        assert!(
            report.errors[1]
                .starts_with("old.yaml: document 3: ThirdPartyResource \"ox\": metadata.name: Invalid"),
            "{report:?}"
        );
        let (_, report) = converted(&crd.replace("additionalProperties: {type: string}", "type: object"));
        assert_eq!(
            report.warnings,
            [
                "old.yaml: document 1: CustomResourceDefinition \"cows.farm.example.com\": unknown field \"spec.odd\""
            ]
        );
    }
}
