//! Bounds of the validation of one object, whatever the schema and the object. Upstream has no such bounds; real schemas and
//! objects do not come near them.

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList};
use kindom_formats::pattern::Budget;

/// Steps of one walk: one for each value checked against a schema, and proportionally more for larger work. The largest
/// object that a store takes may be checked against some 100 branches. Upstream needs about a minute for as many, which is
/// when it gives a request up.
const STEPS_MAX: usize = if cfg!(test) { 1_000_000 } else { 50_000_000 };

/// The most bytes of errors in the answer: as many as the largest request has. Each may show a value of the object, or all
/// choices of an `enum`, and 1 MB of object can be wrong in 10^10 ways.
const LISTED_BYTES_MAX: usize = 3 << 20;

/// The steps that are left.
#[derive(Debug)]
pub(crate) struct Steps(Budget);

impl Steps {
    pub(crate) fn new() -> Self {
        Self(Budget::new(STEPS_MAX))
    }

    pub(super) fn take(&mut self, count: usize) {
        // The next value notices that the steps are used up.
        let _ = self.0.take(count);
    }

    /// For patterns, whose steps take as long.
    pub(super) fn budget(&mut self) -> &mut Budget {
        &mut self.0
    }

    pub(crate) fn are_used_up(&self) -> bool {
        self.0.left() == 0
    }

    /// The error of an object whose walk was not finished.
    pub(super) fn error() -> Error {
        Error::omitted(format!(
            "validation was given up after {STEPS_MAX} steps: the schema has too many branches for an object of this size"
        ))
    }
}

/// The work of comparing or hashing a value: one for each value in it, and for each 32 bytes of text.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 32,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            1 + map.iter().map(|(key, value)| 1 + key.len() / 32 + weight(value)).sum::<usize>()
        }
        _ => 1,
    }
}

/// The listed errors, and the number of those for which there was no room.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    errors: Vec<Error>,
    bytes: usize,
    omitted: usize,
}

/// A position in the list of errors.
pub(super) struct Mark {
    errors: usize,
    bytes: usize,
    omitted: usize,
}

impl ErrorLog {
    /// Adds an error, which is not made if there is no room.
    pub(super) fn push(&mut self, error: impl FnOnce() -> Error) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let error = error();
        self.bytes += error.bytes();
        self.errors.push(error);
    }

    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = Error>) {
        errors.into_iter().for_each(|error| self.push(|| error));
    }

    /// The number of errors, listed or not.
    pub(super) fn count(&self) -> usize {
        self.errors.len() + self.omitted
    }

    /// `true` if there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= LISTED_BYTES_MAX
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { errors: self.errors.len(), bytes: self.bytes, omitted: self.omitted }
    }

    /// Removes the errors added since the mark.
    pub(super) fn forget(&mut self, since: &Mark) {
        self.errors.truncate(since.errors);
        self.bytes = since.bytes;
        self.omitted = since.omitted;
    }

    /// The errors; the last one says how many there are more.
    pub(super) fn into_errors(self) -> ErrorList {
        let mut errors: ErrorList = self.errors.into_iter().collect();
        if self.omitted > 0 {
            errors.push(Error::omitted(format!("too many errors: {} more are not listed", self.omitted)));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::field::Path;
    use kindom_api::json::parse;
    use kindom_api::{Value, object};
    use kindom_formats::Pattern;

    use super::LISTED_BYTES_MAX;
    use crate::{Schema, TooManyDefaults};

    fn schema(of_items: &str) -> Schema {
        let text = format!(r#"{{"properties":{{"l":{{"type":"array","items":{of_items}}}}}}}"#);
        Schema::compile(Some(&parse(text.as_bytes()).unwrap()), false).unwrap()
    }

    fn list(item: &str, times: usize) -> Value {
        object! { "l": Value::from(vec![parse(item.as_bytes()).unwrap(); times]) }
    }

    #[test]
    fn a_walk_ends_after_so_many_steps() {
        let branches = vec![r#"{"minimum":1}"#; 2_000].join(",");
        let schema = schema(&format!(r#"{{"type":"integer","anyOf":[{branches}]}}"#));
        let errors = schema.validate(&list("0", 10_000));
        let last = errors.last().unwrap().to_string();
        assert!(last.contains("validation was given up after 1000000 steps"), "{last}");
        assert!(errors.len() < 2_000, "{}", errors.len());
        // A replaced object does not excuse it, and an object whose walk ends in time has no further error.
        assert_eq!(schema.validate_update(&list("0", 10_000), &list("0", 10_000)).last(), errors.last());
        assert!(schema.validate(&list("1", 10_000)).is_empty());
    }

    #[test]
    fn patterns_are_compiled_as_far_as_there_are_steps() {
        // Each takes a tenth of the steps that there are.
        let pattern = |i: usize| format!("^{}{i}$", "(([ab]{10}){10}){9}".repeat(120));
        let properties: Vec<String> =
            (0..40).map(|i| format!(r#""p{i}":{{"type":"string","pattern":"{}"}}"#, pattern(i))).collect();
        let text = format!(r#"{{"properties":{{{}}}}}"#, properties.join(","));
        let schema = Schema::compile(Some(&parse(text.as_bytes()).unwrap()), false).unwrap();
        let mut object = object! {};
        for i in 0..40 {
            object.as_object_mut().unwrap().insert(format!("p{i}"), "x");
        }
        let errors = schema.validate(&object);
        let last = errors.last().unwrap().to_string();
        assert!(last.contains("validation was given up after 1000000 steps"), "{last}");
        let compiled = (0..40).filter(|i| Pattern::shared(&pattern(*i)).effort() == 0).count();
        assert!((2..20).contains(&compiled), "{compiled}");
    }

    #[test]
    fn the_defaults_of_a_registration_share_the_steps() {
        let pattern = |i: usize| format!("^({}{i})?$", "(([ab]{10}){10}){9}".repeat(120));
        let errors_of = |count: usize| {
            let properties: Vec<String> = (0..count)
                .map(|i| format!(r#""p{i}":{{"type":"string","default":"","pattern":"{}"}}"#, pattern(i)))
                .collect();
            let text = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
            crate::crd::defaults::validate(&parse(text.as_bytes()).unwrap(), &Path::root(), true)
        };
        assert_eq!(errors_of(2), []);
        let errors = errors_of(40);
        assert_eq!(errors.len(), 1, "{errors:?}");
        let text = errors[0].to_string();
        assert!(text.contains("validation was given up after 1000000 steps"), "{text}");
    }

    #[test]
    fn errors_are_told_as_far_as_there_is_room() {
        let names: Vec<String> = (0..1_000).map(|i| format!("\"name{i}\"")).collect();
        let schema = schema(&format!(r#"{{"type":"object","required":[{}]}}"#, names.join(",")));
        let few = schema.validate(&list("{}", 2));
        assert_eq!(few.len(), 2_000);
        let errors = schema.validate(&list("{}", 900));
        let bytes: usize = errors.iter().map(|error| error.to_string().len()).sum();
        assert!(bytes < LISTED_BYTES_MAX, "{bytes}");
        let more = 900_000 + 1 - errors.len();
        let last = errors.last().unwrap().to_string();
        assert_eq!(last, format!("<nil>: Too many: <nil>: too many errors: {more} more are not listed"));
        // Unchanged errors are let through, however many they are.
        let old = list("{}", 900);
        assert!(schema.validate_update(&old, &old).is_empty());
    }

    #[test]
    fn rules_that_cost_nothing_are_told_as_far_as_there_is_room() {
        let rules = vec![r#"{"rule":"false"}"#; 100].join(",");
        let schema = schema(&format!(r#"{{"type":"integer","x-kubernetes-validations":[{rules}]}}"#));
        let errors = schema.validate(&list("0", 2_000));
        let last = errors.last().unwrap().to_string();
        assert!(last.ends_with(&format!("{} more are not listed", 200_000 + 1 - errors.len())), "{last}");
    }

    #[test]
    fn defaults_fill_an_object_up_to_a_limit() {
        let default = "d".repeat(1 << 20);
        let schema =
            schema(&format!(r#"{{"properties":{{"t":{{"type":"string","default":"{default}"}}}}}}"#));
        assert_eq!(schema.default(&mut list("{}", 10)), Ok(()));
        assert_eq!(schema.default(&mut list("{}", 1_000)), Err(TooManyDefaults));
    }

    #[test]
    fn unknown_fields_are_named_as_far_as_there_is_room() {
        let schema = schema(r#"{"type":"object"}"#);
        let name = "n".repeat(1 << 20);
        let mut object = list(&format!(r#"{{"{name}":0}}"#), 10);
        let mut unknown = Vec::new();
        schema.prune(&mut object, Some(&mut unknown));
        assert_eq!((unknown.len(), object), (3, list("{}", 10)));
    }
}
