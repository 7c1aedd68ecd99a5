//! JSON Schemas of registered types, against the server's own verdict and by another validator.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::process::{Command, Stdio};

use kindom_api::{Map, Value, json, object};
use kindom_formats::pattern::{Pattern, check, ecma, sample};
use kindom_schema::Schema;
use kindom_schema::openapi::{json_schema_of, preserves_unknown_fields};

use crate::{corpus, corpus_folder};

fn plain(value: &Value) -> serde_json::Value {
    serde_json::from_slice(&value.to_vec()).unwrap()
}

fn validator(schema: &Value) -> jsonschema::Validator {
    let schema = plain(schema);
    jsonschema::draft7::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
    jsonschema::draft7::options().should_validate_formats(true).build(&schema).unwrap()
}

fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.iter_mut().for_each(|(_, value)| without_rules(value));
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

/// The server's verdict on a manifest, but for rules: what is wrong with it.
fn judged(schema: &Schema, has_status: bool, manifest: &Value) -> Result<(), Vec<String>> {
    let mut object = manifest.clone();
    if has_status {
        // A create drops it.
        object.as_object_mut().unwrap().remove("status");
    }
    let mut unknown = Vec::new();
    schema.reshape(&mut object, Some(&mut unknown)).map_err(|error| vec![error.to_string()])?;
    if let Some(field) = unknown.first() {
        return Err(vec![format!("unknown field {field}")]);
    }
    schema.default(&mut object).map_err(|error| vec![error.to_string()])?;
    match schema.validate(&object) {
        errors if errors.is_empty() => Ok(()),
        errors => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

/// The places of all values in a manifest, but for those that are not the type's own.
fn places(value: &Value, at: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    let mut visit = |step: Step, value: &Value| {
        at.push(step);
        out.push(at.clone());
        places(value, at, out);
        at.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| visit(Step::Field(name.to_owned()), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| visit(Step::Item(i), value)),
        _ => {}
    }
}

#[derive(Debug, Clone)]
enum Step {
    Field(String),
    Item(usize),
}

fn parent<'a>(value: &'a mut Value, place: &[Step]) -> &'a mut Value {
    place.iter().fold(value, |value, step| match step {
        Step::Field(name) => value.as_object_mut().unwrap().get_mut(name).unwrap(),
        Step::Item(i) => &mut value.as_array_mut().unwrap()[*i],
    })
}

/// The manifest with another value at a place, or without it.
fn changed(manifest: &Value, place: &[Step], value: Option<&Value>) -> Value {
    let mut changed = manifest.clone();
    let (last, before) = place.split_last().unwrap();
    match (parent(&mut changed, before), last, value) {
        (Value::Object(map), Step::Field(name), Some(value)) => {
            drop(map.insert(name.as_str(), value.clone()))
        }
        (Value::Object(map), Step::Field(name), None) => drop(map.remove(name)),
        (Value::Array(items), Step::Item(i), Some(value)) => items[*i] = value.clone(),
        _ => {}
    }
    changed
}

/// True for an error that only the server can find: two items with the same keys, names within embedded objects, and patterns,
/// formats and rules that the JSON Schema cannot have.
fn only_the_server(why: &str) -> bool {
    let of = |before: &str, after: &str| Some(why.split_once(before)?.1.rsplit_once(after)?.0.to_owned());
    let pattern = of("should match '", "'").is_some_and(|pattern| ecma(&pattern).is_none());
    let foreign = ["ipv4", "byte", "uri", "duration", "hostname", "email", "uuid", "cidr", "mac"];
    let format = of("must be of type ", ": ")
        .is_some_and(|format| foreign.contains(&format.split(':').next().unwrap()));
    pattern
        || format
        || ["Duplicate value", "DNS-1035", "metadata", "apiVersion", "schema (oneOf)", "schema (anyOf)"]
            .iter()
            .any(|text| why.contains(text))
}

#[derive(Debug, Default)]
struct Counts {
    accepted: usize,
    refused: usize,
    by_the_server_alone: usize,
    faults: Vec<String>,
}

fn compare(
    key: &str,
    (schema, has_status, theirs): &(Schema, bool, jsonschema::Validator),
    manifest: &mut Value,
    counts: &mut Counts,
) {
    let ours = judged(schema, *has_status, manifest);
    schema.drop_nulls(manifest);
    let plain = plain(manifest);
    let errors: Vec<String> =
        theirs.iter_errors(&plain).map(|error| format!("{}: {error}", error.instance_path())).collect();
    match (ours, errors.is_empty()) {
        (Ok(()), true) => counts.accepted += 1,
        (Err(_), false) => counts.refused += 1,
        (Err(why), true) if why.iter().all(|why| only_the_server(why)) => counts.by_the_server_alone += 1,
        (Ok(()), false) => counts.faults.push(format!("{key}: wrongly refused: {}", errors.join("; "))),
        (Err(why), true) => counts.faults.push(format!("{key}: wrongly accepted, in spite of {why:?}")),
    }
}

/// Every manifest of the corpus, and each with one of its values replaced or taken away.
#[test]
fn manifests_are_judged_as_by_the_server() {
    let Some(folder) = corpus_folder::folder() else { return };
    let mut counts = Counts::default();
    let others = [Some("no such thing".into()), Some(Value::Int(7)), Some(object! { "other": true }), None];
    let at_most = if std::env::var_os("KINDOM_TEST_FULL").is_some() { usize::MAX } else { 25 };
    for (file, samples) in corpus::samples(&folder) {
        let mut versions: HashMap<(String, String, String), (Schema, bool, jsonschema::Validator)> =
            HashMap::new();
        for registration in corpus::documents(&folder.join(&file)).iter().flatten() {
            let text = |path: &[&str]| registration.text_at(path).to_owned();
            if text(&["kind"]) != "CustomResourceDefinition" {
                continue;
            }
            for version in
                registration.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default()
            {
                let key = (
                    text(&["spec", "group"]),
                    text(&["spec", "names", "kind"]),
                    version.text_at(&["name"]).to_owned(),
                );
                let mut structural = version.at(&["schema", "openAPIV3Schema"]).cloned();
                structural.iter_mut().for_each(without_rules);
                let keeps = preserves_unknown_fields(registration);
                let schema = Schema::compile(structural.as_ref(), keeps).unwrap();
                let has_status = version.at(&["subresources", "status"]).is_some();
                versions.entry(key).or_insert_with(|| {
                    (schema, has_status, validator(&json_schema_of(registration, version.text_at(&["name"]))))
                });
            }
        }
        let mut files: BTreeMap<&str, Vec<Option<Value>>> = BTreeMap::new();
        for sample in &samples {
            let documents =
                files.entry(&sample.file).or_insert_with(|| corpus::documents(&folder.join(&sample.file)));
            let Some(Some(document)) = documents.get(sample.doc) else { continue };
            let key = (sample.group.clone(), sample.kind.clone(), sample.version.clone());
            let Some(judges) = versions.get(&key) else { continue };
            let mut manifest = document.clone();
            let fields = manifest.as_object_mut().unwrap();
            let name = document.at(&["metadata", "name"]).cloned().unwrap_or_else(|| "a".into());
            fields.insert("metadata", object! { "name": name });
            let mut all = Vec::new();
            places(&manifest, &mut Vec::new(), &mut all);
            all.retain(|place| {
                !matches!(&place[0], Step::Field(name) if ["apiVersion", "kind", "metadata"].contains(&name.as_str()))
            });
            let every = all.len().div_ceil(at_most).max(1);
            for place in all.iter().step_by(every) {
                for value in &others {
                    let mut changed = changed(&manifest, place, value.as_ref());
                    let key = format!("{} {place:?}={value:?}", sample.key);
                    compare(&key, judges, &mut changed, &mut counts);
                }
            }
            compare(&sample.key, judges, &mut manifest, &mut counts);
        }
    }
    let Counts { accepted, refused, by_the_server_alone, faults } = &counts;
    println!("both accept {accepted}, both refuse {refused}, the server alone refuses {by_the_server_alone}");
    faults.iter().take(100).for_each(|fault| println!("{fault}"));
    assert!(faults.is_empty(), "{} faults", faults.len());
    // Else this compares little.
    assert!(*accepted > 5000 && *refused > 20_000 && *by_the_server_alone < refused / 50, "{counts:?}");
}

/// Reads `[[pattern, [text, …]], …]`; writes a list of 0 and 1 for each pattern, or what is wrong with it.
const ENGINE: &str = r#"
const all = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(all.map(([pattern, texts]) => {
    try { const engine = new RegExp(pattern, 'u'); return texts.map(text => engine.test(text) ? 1 : 0); }
    catch (error) { return String(error); }
})));
"#;

/// The verdicts of Node's engine.
fn by_node(asked: &[(String, Vec<String>)]) -> Option<Vec<serde_json::Value>> {
    let mut node = Command::new("node");
    let node = node.args(["-e", ENGINE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = match node {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        node => node.unwrap(),
    };
    // Node reads all before it writes.
    node.stdin.take().unwrap().write_all(&serde_json::to_vec(asked).unwrap()).unwrap();
    let out = node.wait_with_output().unwrap();
    assert!(out.status.success());
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

/// Patterns of Go in the words of ECMA-262, by an engine that editors have.
const PATTERNS: [&str; 24] = [
    r"^[\w-.]+$",
    r"^[\w-_./]+\z",
    r"^[\d-z]+$",
    "(?P<1a>x)(?P<n>a)(?P<n>b)",
    "^a{01}$",
    "^a{2,}b{1,3}$",
    r"^\S+\s\S*$",
    r"^[^\s]+$",
    "^.$",
    "^[^/]{1,3}$",
    r"\bfoo\b",
    r"^\Aa\z$",
    "^a{,3}$",
    "^${a}$",
    r"^\_\-\@$",
    "^[a-c-e]+$",
    "^[]a]$",
    r"^[\^\]\-\[]+$",
    "^[+--]$",
    r"^(|a|b(c))*$",
    r"^x*?y+?$",
    r"^[\t\v\f]$",
    r"^\a$",
    "^[😀-😎]+$",
];
const TEXTS: [&str; 24] = [
    "",
    "a",
    "aa",
    "aab",
    "abc",
    "a-b.c_d/e",
    "x",
    "xab",
    "a{01}",
    "a{,3}",
    "${a}",
    "_-@",
    "a b",
    "a\u{a0}b",
    "a\u{b}b",
    "\n",
    "\r",
    "\u{2028}",
    "😀",
    "😀😀",
    "foo bar",
    "afoo",
    "^]-[",
    "\u{7}",
];

#[test]
fn patterns_mean_the_same_to_editors() {
    let mut patterns: BTreeSet<String> = PATTERNS.map(str::to_owned).into();
    if let Some(folder) = corpus_folder::folder() {
        for file in corpus::samples(&folder).keys() {
            for document in corpus::documents(&folder.join(file)).iter().flatten() {
                collect_patterns(document, &mut patterns);
            }
        }
    }
    let mut random = 7_u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n.max(1)
    };
    let (mut asked, mut left_out) = (Vec::new(), 0);
    for pattern in &patterns {
        let Some(there) = ecma(pattern) else {
            left_out += 1;
            continue;
        };
        let mut texts: Vec<String> = TEXTS.map(str::to_owned).into();
        texts.extend((0..20).filter_map(|_| sample(pattern, &mut below)));
        asked.push((pattern.as_str(), there, texts));
    }
    let for_node: Vec<_> = asked.iter().map(|(_, there, texts)| (there.clone(), texts.clone())).collect();
    let Some(verdicts) = by_node(&for_node) else { return corpus_folder::skipped("there is no node") };
    let mut matched = 0;
    for ((pattern, there, texts), verdict) in asked.iter().zip(verdicts) {
        let ours: Vec<u8> =
            texts.iter().map(|text| Pattern::shared(pattern).matches(text).unwrap().into()).collect();
        assert_eq!(verdict, serde_json::json!(ours), "{pattern} as {there} of {texts:?}");
        matched += ours.iter().filter(|matches| **matches == 1).count();
    }
    println!("{} patterns, {left_out} left out, {matched} matches", patterns.len());
    assert!(left_out * 10 < patterns.len() && matched > patterns.len());
}

fn collect_patterns(value: &Value, patterns: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| match value {
            Value::String(pattern) if name == "pattern" && check(pattern).is_ok() => {
                patterns.insert(pattern.to_string());
            }
            value => collect_patterns(value, patterns),
        }),
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}

fn registration(version: Value) -> Value {
    let names = object! { "kind": "Ox" };
    object! { "spec": object! { "group": "example.com", "names": names, "versions": vec![version] } }
}

fn of(schema: &str) -> Value {
    let schema = json::parse(schema.as_bytes()).unwrap();
    let version = object! { "name": "v1", "schema": object! { "openAPIV3Schema": schema } };
    json_schema_of(&registration(version), "v1")
}

#[test]
fn keywords_are_those_of_the_dialect() {
    let schema = of(r#"{"type":"object","properties":{
            "spec":{"type":"object","required":["a","b"],"properties":{
                "a":{"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":9,"default":2,"format":"int32"},
                "b":{"type":"string","nullable":true,"pattern":"^a\\z","format":"duration","example":"a"},
                "c":{"x-kubernetes-int-or-string":true,"nullable":true,"description":"Either."},
                "d":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","pattern":"(?i)a"}},
                "e":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
                "f":{"type":"object","additionalProperties":{"type":"object"}},
                "g":{"type":"object","x-kubernetes-embedded-resource":true}}},
            "metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3}}}}}"#);
    let spec = schema.at(&["properties", "spec"]).unwrap();
    let expected = json::parse(
        br#"{"type":"object","required":["b"],"additionalProperties":false,"properties":{
            "a":{"type":"integer","exclusiveMinimum":1,"maximum":9,"default":2,"format":"int32"},
            "b":{"type":["string","null"],"pattern":"^a$","examples":["a"]},
            "c":{"anyOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"type":"null"}],"description":"Either."},
            "d":{"type":"array","uniqueItems":true,"items":{"type":"string"}},
            "e":{"type":"object"},
            "f":{"type":"object","additionalProperties":{"type":"object","additionalProperties":false}}}}"#,
    )
    .unwrap();
    let mut spec = spec.clone();
    let embedded =
        spec.as_object_mut().unwrap().get_mut("properties").unwrap().as_object_mut().unwrap().remove("g");
    assert_eq!(spec, expected);
    let embedded = embedded.unwrap();
    assert_eq!(embedded.get("required").unwrap().to_string(), r#"["kind","apiVersion"]"#);
    assert_eq!(embedded.get("additionalProperties"), Some(&Value::Bool(false)));

    let validator = validator(&schema);
    let errors = |manifest: &str| -> Vec<String> {
        let manifest = serde_json::from_str(manifest).unwrap();
        validator.iter_errors(&manifest).map(|error| error.instance_path().to_string()).collect()
    };
    let ox = r#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{"name":"a"},"spec":{"b":null}}"#;
    assert_eq!(errors(ox), [""; 0]);
    assert_eq!(errors(&ox.replace("v1", "v2")), ["/apiVersion"]);
    assert_eq!(errors(&ox.replace(r#""name":"a""#, r#""name":"long""#)), ["/metadata/name"]);
    assert_eq!(errors(&ox.replace(r#""name":"a""#, r#""names":"a""#)), ["/metadata"]);
    assert_eq!(errors(&ox.replace("null", "3")), ["/spec/b"]);
    let has = |map: Option<&Map>, name: &str| map.unwrap().contains_key(name);
    assert!(has(
        schema.get("definitions").and_then(Value::as_object),
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"
    ));
}

/// A create drops the status, whatever it is.
#[test]
fn a_status_is_not_judged_where_a_create_drops_it() {
    let schema = r#"{"type":"object","properties":{"status":{"type":"object","required":["a"],
        "properties":{"a":{"type":"string"}}}}}"#;
    let schema = json::parse(schema.as_bytes()).unwrap();
    let ox = r#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{},"status":{}}"#;
    for (subresources, valid) in [(object! {}, false), (object! { "status": object! {} }, true)] {
        let version = object! {
            "name": "v1", "schema": object! { "openAPIV3Schema": schema.clone() }, "subresources": subresources,
        };
        let validator = validator(&json_schema_of(&registration(version), "v1"));
        assert_eq!(validator.is_valid(&serde_json::from_str(ox).unwrap()), valid);
    }
}

/// A rule about what a default may still change would refuse what the server accepts.
#[test]
fn defaults_come_before_rules() {
    let schema = of(r#"{"type":"object","properties":{"spec":{"type":"object","minProperties":1,
            "enum":[{"a":"x"}],"oneOf":[{"required":["a"]},{"required":["b"]}],"not":{"maxProperties":0},
            "properties":{"a":{"type":"string","default":"x"},"b":{"type":"string"}}}}}"#);
    let validator = validator(&schema);
    let valid = |spec: &str| {
        let ox = r#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{},"spec":SPEC}"#;
        validator.is_valid(&serde_json::from_str(&ox.replace("SPEC", spec)).unwrap())
    };
    assert!(valid("{}") && !valid(r#"{"a":1}"#));
}

#[test]
fn a_type_without_a_schema_takes_any_fields() {
    let validator = validator(&json_schema_of(&registration(object! { "name": "v1" }), "v1"));
    let ox = r#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{},"spec":{"a":[1]}}"#;
    assert!(validator.is_valid(&serde_json::from_str(ox).unwrap()));
}
