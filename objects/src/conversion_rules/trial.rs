//! A trial of rules for losses, on objects that the schemas of the versions make up. Expressions may refuse objects
//! of a version that is neither the hub nor stored: their writes are refused then, and nothing is lost.

use kindom_api::names::api_version;
use kindom_api::{Map, Value};
use kindom_schema::Schema;
use kindom_schema::samples::Samples;

use super::DeclaredConversion;
use super::expression::EXPRESSION_BYTES;
use crate::Convert as _;
use crate::stored_registration::StoredRegistration;

/// The objects of each version that are tried, and those that are made up for them: some break a rule of their schema.
const SAMPLES: usize = 64;
const TRIES: usize = 20 * SAMPLES;
/// The most bytes of schemas and objects that are walked for all of them: judging an object by a schema takes time for both. Fewer are
/// tried where they are large.
const BYTES_MAX: usize = 4 << 20;
/// The most bytes of an object in a message.
const SHOWN_MAX: usize = 512;

struct Version<'a> {
    name: &'a str,
    structure: &'a Value,
    schema: std::sync::Arc<Schema>,
}

/// The first loss, in words: an object that is another one when it comes back from another version.
pub(super) fn loss(rules: &DeclaredConversion, registration: StoredRegistration<'_>) -> Option<String> {
    let preserve = registration.preserves_unknown_fields();
    let versions = registration.versions().iter().filter_map(|version| {
        let structure = version.at(&["schema", "openAPIV3Schema"])?;
        // A schema that does not compile is refused by itself.
        let schema = Schema::shared(Some(structure), preserve).ok()?;
        Some(Version { name: version.get("name")?.as_str()?, structure, schema })
    });
    let versions: Vec<Version<'_>> = versions.collect();
    let group = registration.group().unwrap_or_default();
    let kind = registration.names().kind;
    // Every way leads through the hub.
    let hub = versions.iter().find(|version| version.name == rules.hub)?;
    let stored =
        registration.storage_version().and_then(|at| registration.versions().get(at)?.get("name")?.as_str());
    let (by_byte, by_object) = if rules.evaluates { (4, 2 * EXPRESSION_BYTES) } else { (1, 0) };
    let mut bytes = 0;
    for other in versions.iter().filter(|version| version.name != rules.hub) {
        for (from, to) in [(hub, other), (other, hub)] {
            let may_refuse = from.name != rules.hub && Some(from.name) != stored;
            let each = from.structure.to_string().len() + to.structure.to_string().len();
            let mut samples = Samples::new(1);
            let mut tried = 0;
            for _ in 0..TRIES {
                if tried == SAMPLES || tried > 0 && bytes > BYTES_MAX || bytes > 2 * BYTES_MAX {
                    break;
                }
                let mut object = samples.object(from.structure, &api_version(group, from.name), &kind);
                bytes += each + by_object + by_byte * object.to_string().len();
                if from.schema.fill_defaults(&mut object).is_ok() && from.schema.validate(&object).is_empty()
                {
                    tried += 1;
                    match loss_of(rules, &object, from, to) {
                        Err(why) if !may_refuse => {
                            let (from, to, object) = (from.name, to.name, shown(&object));
                            return Some(format!("{object} of {from} has no form in {to}: {why}"));
                        }
                        Ok(Some(loss)) => return Some(loss),
                        Ok(None) | Err(_) => {}
                    }
                }
            }
        }
    }
    None
}

/// # Errors
/// The object has no form in the other version.
fn loss_of(
    rules: &DeclaredConversion,
    object: &Value,
    from: &Version<'_>,
    to: &Version<'_>,
) -> Result<Option<String>, String> {
    let converted = |object: &Value, from: &Version<'_>, to: &Version<'_>| {
        let mut object = rules.convert(object, from.name, to.name)?;
        to.schema.prune(&mut object, None);
        to.schema.repair(&mut object);
        Ok::<_, String>(object)
    };
    let there = converted(object, from, to)?;
    let way = format!("{} on the way to {} and back", from.name, to.name);
    let mut back = match converted(&there, to, from) {
        Ok(back) => back,
        Err(why) => return Ok(Some(format!("loses an object of {way}: {why}: {}", shown(object)))),
    };
    let mut before = object.clone();
    for object in [&mut before, &mut back] {
        // Both are pruned alike.
        from.schema.prune(object, None);
        without_empty(object);
    }
    let difference = difference(&before, &back, String::new());
    Ok(difference.map(|(path, was)| format!("loses {path} of {way}: {was} in {}", shown(object))))
}

/// The first place where two trees differ, with the value of the first.
fn difference(before: &Value, after: &Value, path: String) -> Option<(String, String)> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(name)));
            let mut differences = names.filter_map(|name| {
                let null = Value::Null;
                let (before, after) = (before.get(name).unwrap_or(&null), after.get(name).unwrap_or(&null));
                difference(before, after, format!("{path}.{name}"))
            });
            differences.next()
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let mut items = before.iter().zip(after.iter()).enumerate();
            items.find_map(|(i, (before, after))| difference(before, after, format!("{path}[{i}]")))
        }
        (Value::Object(_), Value::Null) => difference(before, &Map::new().into(), path),
        (before, after) if before == after => None,
        (before, after) => Some((path, format!("{} becomes {}", shown(before), shown(after)))),
    }
}

fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > SHOWN_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_MAX));
        text.push('…');
    }
    text
}

/// Takes away the fields that say nothing: null, and empty maps and lists, which count as absent.
fn without_empty(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(map) => map.retain(|_, value: &mut Value| {
            without_empty(value);
            !is_empty(value)
        }),
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}
