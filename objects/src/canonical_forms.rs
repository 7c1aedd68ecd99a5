//! Forms that values are stored in, whichever way they are written (B-30): a registration names them in [`CANONICAL_FORMS_ANNOTATION`], and its
//! objects' writes bring values into them before their fields get managers, and again behind whoever changes them.

use std::collections::HashSet;

use kindom_api::quantity::Quantity;
use kindom_api::{Value, json};

use crate::field_path::{self, Path};
use crate::stored_registration::StoredRegistration;

/// The annotation of a registration that names forms by paths: `{".spec.host": ["trimmed", "lowercase"]}`.
pub const CANONICAL_FORMS_ANNOTATION: &str = "kindom.dev/canonical-forms";

/// The most paths of a type, and forms of a path.
const PATHS_MAX: usize = 64;
const FORMS_MAX: usize = 5;
/// The most bytes of a quantity; longer ones stay as they are.
const QUANTITY_BYTES_MAX: usize = 128;

/// The forms of a type's values. A value that is none of the form's kind stays as it is.
#[derive(Debug, Clone, Default)]
pub struct CanonicalForms(Vec<(Path, Vec<Form>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A text without white space around it.
    Trimmed,
    /// A text without capital letters.
    Lowercase,
    /// A quantity as Kubernetes writes it: `1` for `1000m`.
    Quantity,
    /// A list without an item that equals an earlier one.
    Unique,
    /// No map, for one without entries.
    NoEmptyMap,
}

impl Form {
    const ALL: [(&'static str, Self); 5] = [
        ("trimmed", Self::Trimmed),
        ("lowercase", Self::Lowercase),
        ("quantity", Self::Quantity),
        ("unique", Self::Unique),
        ("no-empty-map", Self::NoEmptyMap),
    ];

    fn parse(name: &Value) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| name.as_str() == Some(known));
        let names = Self::ALL.map(|(name, _)| name).join(", ");
        known.map(|(_, form)| *form).ok_or_else(|| format!("{name} is none of {names}"))
    }

    /// The reason why a value with this schema never has the form.
    fn misfit(self, schema: &Value) -> Option<&'static str> {
        let is = |ty: &str| schema.get("type").and_then(Value::as_str) == Some(ty);
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        match self {
            Self::Trimmed | Self::Lowercase => (!is("string")).then_some("is no text"),
            Self::Quantity => (!is("string") && !flag("x-kubernetes-int-or-string"))
                .then_some("is no text and no int-or-string"),
            Self::Unique => match list_type {
                _ if !is("array") => Some("is no list"),
                Some("set" | "map") => Some("is a list that has no duplicates"),
                _ => None,
            },
            Self::NoEmptyMap => (!is("object")).then_some("is no map"),
        }
    }

    /// Brings a value into the form. Returns false if it is to be left out.
    fn take(self, value: &mut Value) -> bool {
        match (self, value) {
            (Self::Trimmed, Value::String(text)) => {
                let trimmed = text.trim();
                if trimmed.len() < text.len() {
                    *text = trimmed.into();
                }
            }
            (Self::Lowercase, Value::String(text)) => {
                let lower = text.to_lowercase();
                if lower != **text {
                    *text = lower;
                }
            }
            (Self::Quantity, Value::String(text)) if text.len() <= QUANTITY_BYTES_MAX => {
                if let Ok(canonical) = Quantity::canonical(text) {
                    *text = canonical;
                }
            }
            (Self::Unique, Value::Array(items)) => {
                let mut seen = HashSet::with_capacity(items.len());
                items.retain(|item| seen.insert(item.to_vec()));
            }
            (Self::NoEmptyMap, Value::Object(map)) => return !map.is_empty(),
            _ => {}
        }
        true
    }
}

impl CanonicalForms {
    fn parse(text: &str) -> Result<Self, String> {
        let tree = json::parse(text.as_bytes()).map_err(|error| format!("must be JSON: {error}"))?;
        let map = tree.as_object().ok_or("must be a map of paths and forms")?;
        if map.len() > PATHS_MAX {
            return Err(format!("must have at most {PATHS_MAX} paths"));
        }
        let forms = map.iter().map(|(at, forms)| {
            let path = Path::parse(at)?;
            let one = std::slice::from_ref(forms);
            let listed = forms.as_array().unwrap_or(one);
            if listed.len() > FORMS_MAX {
                return Err(format!("{at} must have at most {FORMS_MAX} forms"));
            }
            let forms = listed.iter().map(Form::parse);
            Ok((path, forms.collect::<Result<_, _>>().map_err(|why| format!("{at}: {why}"))?))
        });
        forms.collect::<Result<_, String>>().map(Self)
    }

    /// Those of a registration's annotation. One that cannot be read has none.
    #[must_use]
    pub fn of(registration: StoredRegistration<'_>) -> Self {
        let text = registration.annotation(CANONICAL_FORMS_ANNOTATION);
        text.and_then(|text| Self::parse(text).ok()).unwrap_or_default()
    }

    /// The mistake in an annotation's value for a registration; `None` if it is valid.
    #[must_use]
    pub fn check(text: &str, registration: StoredRegistration<'_>) -> Option<String> {
        let forms = match Self::parse(text) {
            Ok(forms) => forms,
            Err(why) => return Some(why),
        };
        forms.0.iter().find_map(|(path, forms)| {
            let versions = registration.versions().iter();
            let schemas: Vec<_> = versions
                .filter_map(|version| Some((version.get("name")?.as_str()?, path.schema(version)?)))
                .collect();
            if schemas.is_empty() {
                return Some(format!("{path} is in no version's schema"));
            }
            let misfit = |(version, schema): &(&str, &Value)| {
                let why = forms.iter().find_map(|form| form.misfit(schema))?;
                Some(format!("{path} {why} in version {version}"))
            };
            schemas.iter().find_map(misfit)
        })
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Brings the values of an object into their forms.
    pub fn take(&self, object: &mut Value) {
        for (path, forms) in &self.0 {
            path.visit(object, &mut |map| {
                let Some(value) = field_path::get_mut(map, path.fields()) else { return };
                if !forms.iter().all(|form| form.take(value)) {
                    field_path::remove(map, path.fields());
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::Value;
    use kindom_api::json::parse;

    use super::CanonicalForms;
    use crate::StoredRegistration;

    fn tree(text: &str) -> Value {
        parse(text.as_bytes()).unwrap()
    }

    fn taken(forms: &str, object: &str) -> String {
        let forms = CanonicalForms::parse(forms).unwrap();
        let mut object = tree(object);
        forms.take(&mut object);
        let mut again = object.clone();
        forms.take(&mut again);
        assert_eq!(again, object);
        object.to_string()
    }

    #[test]
    fn values_take_their_forms() {
        for (forms, object, want) in [
            (r#"{".a":["trimmed","lowercase"]}"#, r#"{"a":"  Gro\u00df X\n"}"#, "{\"a\":\"gro\u{df} x\"}"),
            (
                r#"{".a[].b":"quantity"}"#,
                r#"{"a":[{"b":"1000m"},{"b":"1Gi"},{"b":5},{"b":"x"},7]}"#,
                r#"{"a":[{"b":"1"},{"b":"1Gi"},{"b":5},{"b":"x"},7]}"#,
            ),
            (
                r#"{".a":"unique"}"#,
                r#"{"a":[2,1,2,{"x":1},[1],{"x":1},"2",null,null]}"#,
                r#"{"a":[2,1,{"x":1},[1],"2",null]}"#,
            ),
            (r#"{".a.b":"no-empty-map"}"#, r#"{"a":{"b":{}}}"#, r#"{"a":{}}"#),
            (
                r#"{".a[].b":"no-empty-map"}"#,
                r#"{"a":{"x":{"b":{}},"y":{"b":{"c":1}}}}"#,
                r#"{"a":{"x":{},"y":{"b":{"c":1}}}}"#,
            ),
        ] {
            assert_eq!(taken(forms, object), want, "{forms}");
        }
        for forms in [r#"{".a":["trimmed","lowercase","quantity","unique","no-empty-map"]}"#, "{}"] {
            for object in [r#"{"a":null}"#, r#"{"a":1.5}"#, r#"{"b":" X "}"#, "{}", "[]"] {
                assert_eq!(taken(forms, object), object, "{forms}");
            }
        }
    }

    #[test]
    fn an_annotation_that_does_not_fit_says_why() {
        let registration = tree(
            r#"{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{
                "text":{"type":"string"},"amount":{"x-kubernetes-int-or-string":true},"map":{"type":"object"},
                "set":{"type":"array","x-kubernetes-list-type":"set"},
                "list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}}}}}},
               {"name":"v2","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"text":{"type":"integer"}}}}}}}]}}"#,
        );
        for (text, why) in [
            (
                r#"{".spec.amount":"quantity",".spec.map":"no-empty-map",".spec.list":"unique",".spec.list[].name":["trimmed"]}"#,
                None,
            ),
            ("x", Some("must be JSON: ")),
            ("[]", Some("must be a map of paths and forms")),
            (r#"{"spec":"trimmed"}"#, Some("must be a path such as .spec.ports[].name, not \"spec\"")),
            (r#"{".metadata.labels":"trimmed"}"#, Some("must not be in apiVersion, kind or metadata")),
            (
                r#"{".spec.list":"sorted"}"#,
                Some(".spec.list: \"sorted\" is none of trimmed, lowercase, quantity, unique, no-empty-map"),
            ),
            (r#"{".spec.list":[1]}"#, Some(".spec.list: 1 is none of ")),
            (r#"{".spec.text":["trimmed",1,2,3,4,5]}"#, Some(".spec.text must have at most 5 forms")),
            (r#"{".spec.none":"trimmed"}"#, Some(".spec.none is in no version's schema")),
            (r#"{".spec.text":"trimmed"}"#, Some(".spec.text is no text in version v2")),
            (r#"{".spec.set":"unique"}"#, Some(".spec.set is a list that has no duplicates in version v1")),
            (r#"{".spec.map":"unique"}"#, Some(".spec.map is no list in version v1")),
            (r#"{".spec.amount":"lowercase"}"#, Some(".spec.amount is no text in version v1")),
            (
                r#"{".spec.list":"quantity"}"#,
                Some(".spec.list is no text and no int-or-string in version v1"),
            ),
            (r#"{".spec.list":"no-empty-map"}"#, Some(".spec.list is no map in version v1")),
        ] {
            let found = CanonicalForms::check(text, StoredRegistration::new(&registration));
            match (why, found) {
                (None, None) => {}
                (Some(why), Some(found)) => assert!(found.starts_with(why), "{text}: {found}"),
                (_, found) => panic!("{text}: {found:?}"),
            }
        }
    }
}
