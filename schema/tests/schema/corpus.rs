//! Real registrations and objects, and a real API server's answers.
//!
//! The corpus is not part of the repository (`corpus_folder.rs`); without it the tests say that they skip.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use kindom_api::{Map, Value, json};
use kindom_schema::Schema;

use crate::{corpus_folder, merge};

/// The documents of a file, numbered as a YAML stream numbers them.
pub(crate) fn documents(path: &Path) -> Vec<Option<Value>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let marker = line == "---" || line.starts_with("--- ") || line.starts_with("---\t");
        if marker {
            let rest = line.strip_prefix("---").unwrap_or_default();
            parts.push(format!("{rest}\n"));
        } else {
            let part = parts.last_mut().unwrap();
            part.push_str(line);
            part.push('\n');
        }
    }
    let blank =
        |part: &String| part.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if blank(&parts[0]) {
        parts.remove(0);
    }
    // As YAML 1.1 has it, which is what clients read.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let read = |part: &str| serde_saphyr::from_str_with_options(part, options.clone()).ok();
    // Built together with kube the reader also keeps comments, of which it holds only so many.
    let bare = |part: &str| -> String {
        part.lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| [line, "\n"])
            .collect()
    };
    parts
        .iter()
        .map(|part| if blank(part) { None } else { read(part).or_else(|| read(&bare(part))) })
        .collect()
}

struct Version {
    schema: Result<Schema, String>,
    has_status: bool,
}

struct Crd {
    versions: HashMap<String, Version>,
    storage_version: String,
}

fn crd(document: &Value) -> Crd {
    let spec = document.get("spec").unwrap();
    let versions = spec.get("versions").and_then(Value::as_array).unwrap_or(&[]);
    let name = |version: &Value| version.get("name").and_then(Value::as_str).unwrap().to_owned();
    let stored = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage_version = stored.map(name).unwrap_or_default();
    let versions = versions.iter().map(|version| {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        let preserve = spec.get("preserveUnknownFields").and_then(Value::as_bool).unwrap_or(false);
        let schema = Schema::compile(schema, preserve).map_err(|errors| format!("{errors:?}"));
        let has_status = version.at(&["subresources", "status"]).is_some();
        (name(version), Version { schema, has_status })
    });
    Crd { versions: versions.collect(), storage_version }
}

pub(crate) struct Sample {
    pub(crate) key: String,
    pub(crate) file: String,
    pub(crate) doc: usize,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) answer: Value,
}

/// The samples that the reference judged, by the file of their registration.
pub(crate) fn samples(corpus: &Path) -> BTreeMap<String, Vec<Sample>> {
    let answers = std::fs::read_to_string(corpus.join("reference/samples-1.37.jsonl")).unwrap();
    let mut answers: HashMap<String, Value> = answers
        .lines()
        .map(|line| json::parse(line.as_bytes()).unwrap())
        .map(|answer| (answer.get("key").and_then(Value::as_str).unwrap().to_owned(), answer))
        .collect();
    let rows = json::parse(&std::fs::read(corpus.join("SAMPLES.json")).unwrap()).unwrap();
    let mut by_crd: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for row in rows.as_array().unwrap() {
        let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let doc = row.get("doc").and_then(Value::as_i64).unwrap();
        let key = format!("{}#{doc}", text("file"));
        let Some(answer) = answers.remove(&key) else { continue };
        let api_version = text("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        by_crd.entry(text("crd")).or_default().push(Sample {
            key,
            file: text("file"),
            doc: usize::try_from(doc).unwrap(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text("kind"),
            answer,
        });
    }
    by_crd
}

/// A cause as the reference has it: reason, field, message.
type Cause = (String, String, String);

fn reference_causes(answer: &Value) -> BTreeSet<Cause> {
    let text =
        |cause: &Value, field: &str| cause.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let causes = answer.get("causes").and_then(Value::as_array).unwrap_or(&[]);
    causes.iter().map(|c| (text(c, "reason"), text(c, "field"), text(c, "message"))).collect()
}

/// Returns true for a cause that does not come from the schema without its rules, but from CEL or the metadata.
fn is_foreign((_, field, message): &Cause, own: &BTreeSet<Cause>) -> bool {
    let told = [" in body ", "must validate", "some validation rules were not checked", "supported values"];
    field.starts_with("metadata.")
        || (message.starts_with("Invalid value") && !told.iter().any(|text| message.contains(text)))
            && !own.iter().any(|(_, own_field, own_message)| own_field == field && own_message == message)
}

#[derive(Default, Debug)]
struct Counts {
    accepted: usize,
    accepted_and_stored_equal: usize,
    refused: usize,
    refused_with_equal_causes: usize,
    refused_by_rules_alone: usize,
    disagreements: Vec<String>,
}

fn judge(sample: &Sample, crd: &Crd, document: &Value, counts: &mut Counts) {
    let Some(version) = crd.versions.get(&sample.version) else { return };
    let code = sample.answer.get("code").and_then(Value::as_i64);
    let schema = match &version.schema {
        Ok(schema) => schema,
        Err(errors) => {
            counts.disagreements.push(format!("{}: the schema does not compile: {errors}", sample.key));
            return;
        }
    };
    let mut object = document.clone();
    object.as_object_mut().unwrap().remove("status");
    schema.prune(&mut object, None);
    schema.default(&mut object).unwrap();
    if version.has_status {
        object.as_object_mut().unwrap().remove("status");
    }
    // An object that is read back went through the storage version, whose defaults it has; conversion prunes, but does not
    // default.
    let mut read = object.clone();
    if let Some(Version { schema: Ok(stored), .. }) = crd.versions.get(&crd.storage_version) {
        stored.prune(&mut read, None);
        stored.default(&mut read).unwrap();
    }
    schema.prune(&mut read, None);
    let own: BTreeSet<Cause> = schema
        .validate(&object)
        .iter()
        .map(|error| (error.kind.reason().to_owned(), error.field.clone(), error.body()))
        .collect();
    match code {
        Some(201) => {
            counts.accepted += 1;
            let without_metadata = |value: &Value| -> Map {
                let map = value.as_object().unwrap().clone();
                map.into_iter().filter(|(key, _)| &**key != "metadata").collect()
            };
            let stored = without_metadata(sample.answer.get("stored").unwrap());
            if !own.is_empty() {
                counts.disagreements.push(format!("{}: wrongly refused: {own:?}", sample.key));
            } else if Value::Object(stored.clone()).to_string()
                == Value::Object(without_metadata(&read)).to_string()
            {
                counts.accepted_and_stored_equal += 1;
            } else {
                let (ours, theirs) =
                    (Value::Object(without_metadata(&read)).to_string(), Value::Object(stored).to_string());
                let at = ours.bytes().zip(theirs.bytes()).position(|(a, b)| a != b).unwrap_or(0);
                let part = |s: &str| s.chars().skip(at.saturating_sub(30)).take(90).collect::<String>();
                counts.disagreements.push(format!(
                    "{}: stored {} not {}",
                    sample.key,
                    part(&ours),
                    part(&theirs)
                ));
            }
        }
        Some(422) => {
            let theirs = reference_causes(&sample.answer);
            let of_schema: BTreeSet<Cause> =
                theirs.iter().filter(|c| !is_foreign(c, &own)).cloned().collect();
            if of_schema.is_empty() && own.is_empty() {
                counts.refused_by_rules_alone += 1;
                return;
            }
            counts.refused += 1;
            if of_schema == own {
                counts.refused_with_equal_causes += 1;
            } else {
                let missing: Vec<&Cause> = of_schema.difference(&own).collect();
                let extra: Vec<&Cause> = own.difference(&of_schema).collect();
                counts.disagreements.push(format!("{}: missing {missing:?}, extra {extra:?}", sample.key));
            }
        }
        _ => {}
    }
}

/// YAML that only Go's reader takes: a quoted text that ends in the first column.
const UNREADABLE: [&str; 1] = ["antrea/samples/build/yamls/offload/mellanox/antrea-crd.yml#0: not readable"];

#[test]
fn samples_get_the_references_verdict() {
    let Some(corpus) = corpus_folder::folder() else { return };
    let mut counts = Counts::default();
    for (crd_file, samples) in samples(&corpus) {
        let mut crds: HashMap<(String, String), Crd> = HashMap::new();
        for document in documents(&corpus.join(&crd_file)).iter().flatten() {
            if document.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
                let text =
                    |path: &[&str]| document.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
                let name = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
                crds.entry(name).or_insert_with(|| crd(document));
            }
        }
        let mut files: HashMap<&str, Vec<Option<Value>>> = HashMap::new();
        for sample in &samples {
            let documents =
                files.entry(&sample.file).or_insert_with(|| documents(&corpus.join(&sample.file)));
            let Some(document) = documents.get(sample.doc).and_then(Option::as_ref) else {
                counts.disagreements.push(format!("{}: not readable", sample.key));
                continue;
            };
            if let Some(crd) = crds.get(&(sample.group.clone(), sample.kind.clone())) {
                judge(sample, crd, document, &mut counts);
            }
        }
    }
    for line in &counts.disagreements {
        println!("{line}");
    }
    println!(
        "accepted: {} of {} stored equal; refused: {} of {} with equal causes; {} by rules alone",
        counts.accepted_and_stored_equal,
        counts.accepted,
        counts.refused_with_equal_causes,
        counts.refused,
        counts.refused_by_rules_alone
    );
    assert_eq!(counts.disagreements, UNREADABLE);
    assert!(counts.accepted >= 1960 && counts.accepted_and_stored_equal == counts.accepted, "{counts:?}");
    assert!(counts.refused >= 173 && counts.refused_with_equal_causes == counts.refused, "{counts:?}");
}

#[test]
fn every_schema_compiles() {
    let Some(corpus) = corpus_folder::folder() else { return };
    let mut folders = vec![corpus];
    let (mut compiled, mut places, mut refused) = (0, 0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
            if path.ends_with("testdata") {
                // Round-trip fixtures, with words in place of types.
            } else if path.is_dir() {
                folders.push(path);
            } else if yaml && path.components().any(|part| part.as_os_str() == "crds") {
                for document in documents(&path).iter().flatten() {
                    if document.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
                        continue;
                    }
                    for (name, version) in crd(document).versions {
                        match version.schema {
                            Ok(schema) => {
                                compiled += 1;
                                places += merge::walk(schema.merge_type(), json::MAX_DEPTH);
                            }
                            Err(errors) => refused.push(format!("{} {name}: {errors}", path.display())),
                        }
                    }
                }
            }
        }
    }
    println!("compiled: {compiled}, refused: {}; places to merge: {places}", refused.len());
    for line in &refused {
        println!("{line}");
    }
    assert!(refused.is_empty());
    assert!(places > 100 * compiled, "{places}");
}
