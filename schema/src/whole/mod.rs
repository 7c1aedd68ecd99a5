//! Whole JSON Schemas: what a type says about its objects beyond its structural schema (`$ref`, `if`, `patternProperties`,
//! `dependentRequired`, `unevaluatedProperties` …), in JSON Schema 2020-12 and evaluated by the crate `jsonschema`.
//!
//! Structural schemas prune, default and publish, and so may not say everything; a whole schema only accepts or refuses. Work, stack,
//! memory and references are bounded: see [`fence`] and [`parts`].

mod errors;
mod fence;
mod parts;

use std::sync::LazyLock;

use jsonschema::{Draft, PatternOptions, Validator};
use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use fence::Allowance;

/// The annotation of a registration with the schema, which objects of all its versions match beside their version's own.
pub const ANNOTATION: &str = "kindom.dev/json-schema";

/// The dialect.
pub const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The most that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 256 << 10;

/// About half a second of work for compiling a schema, and for deciding about an object.
const COMPILING: Allowance = Allowance { units: 5_000_000_000, makes_errors: false };
const DECIDING: Allowance = Allowance { units: 5_000_000_000, makes_errors: false };
/// Less for saying what is wrong, as that takes memory: an error holds a copy of the value that it is about.
const TELLING: Allowance = Allowance { units: 100_000_000, makes_errors: true };

/// The JSON Schema of a type's manifests, with the whole schema of its registration, if that has one: it sees objects that have
/// their defaults, and so may refuse manifests that the server completes.
#[must_use]
pub fn with_whole_schema(json_schema: Value, registration: &Value) -> Value {
    let text = registration.at(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str);
    match text.and_then(parts::embedded) {
        Some(whole) => parts::join(json_schema, whole),
        None => json_schema,
    }
}

/// The text of one schema for objects of several versions, each by its `apiVersion`.
#[must_use]
pub fn of_versions(schemas: Vec<(String, serde_json::Value)>) -> String {
    parts::choice(schemas).to_string()
}

/// A compiled schema.
#[derive(Debug)]
pub struct WholeSchema(Validator);

impl WholeSchema {
    /// Compiles the text of a schema.
    ///
    /// # Errors
    /// The mistake in it, in words.
    pub fn compile(text: &str) -> Result<Self, String> {
        let schema: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("must be a JSON Schema: {error}"))?;
        // First, as it bounds the nesting.
        let fenced = parts::fenced(schema.clone())?;
        let checked = jsonschema::draft202012::meta::validate(&schema);
        checked.map_err(|error| errors::in_schema(&error))?;
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
            .with_keyword(fence::KEYWORD, |_, fence, _| fence::keyword(fence));
        let built = fence::within(COMPILING, || options.build(&fenced));
        let built = built.map_err(|_| "is too large, or nests too deeply".to_owned())?;
        let whole = Self(built.map_err(|error| {
            let why = errors::cut(error.to_string());
            format!("must be a JSON Schema, with patterns of a bounded size and without look-around: {why}")
        })?);
        match fence::within(DECIDING, || whole.0.is_valid(&EMPTY)) {
            Ok(_) => Ok(whole),
            Err(_) => Err("takes too long to evaluate, even for an empty object".to_owned()),
        }
    }

    /// The errors in an object, each with its place; of very many, or where saying it takes too long, that there are some.
    #[must_use]
    pub fn validate(&self, object: &Value) -> ErrorList {
        let root = Path::root();
        let object = match serde_json::to_value(object) {
            Ok(object) => object,
            Err(error) => return Error::invalid_part(&root, error.to_string()).into(),
        };
        match fence::within(DECIDING, || self.0.is_valid(&object)) {
            Ok(true) => return ErrorList::new(),
            Ok(false) => {}
            Err(_) => return Error::forbidden(&root, "its JSON Schema takes too long to evaluate").into(),
        }
        let told = fence::within(TELLING, || errors::told(self.0.iter_errors(&object)));
        told.unwrap_or_else(|_| Error::invalid_part(&root, "it does not match its JSON Schema").into())
    }
}

/// The least object.
static EMPTY: LazyLock<serde_json::Value> =
    LazyLock::new(|| serde_json::json!({"apiVersion": "", "kind": "", "metadata": {}}));

#[cfg(test)]
mod tests;
