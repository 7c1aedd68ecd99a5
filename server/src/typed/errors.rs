//! The errors of a hook.

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{Value, json};
use serde::Serialize;

/// The errors that a hook finds in fields. A client gets them all at once, in Kubernetes' words and in this order, as a 422.
///
/// Fields are named by their path from the object's root: `spec.sails[0].name`, or `metadata.labels[key]`.
#[derive(Debug, Clone, Default)]
pub struct Errors(ErrorList);

impl Errors {
    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// True without errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The field's value is wrong: `Invalid value: 0: DETAIL`.
    pub fn invalid(&mut self, field: &str, value: impl Serialize, detail: impl Into<String>) -> &mut Self {
        self.push(Error::invalid(&Path::new(field), tree(&value), detail))
    }

    /// The field is missing: `Required value: DETAIL`.
    pub fn required(&mut self, field: &str, detail: impl Into<String>) -> &mut Self {
        self.push(Error::required(&Path::new(field), detail))
    }

    /// The field may not be set, or not be changed: `Forbidden: DETAIL`.
    pub fn forbidden(&mut self, field: &str, detail: impl Into<String>) -> &mut Self {
        self.push(Error::forbidden(&Path::new(field), detail))
    }

    /// The value is there already: `Duplicate value: "a"`.
    pub fn duplicate(&mut self, field: &str, value: impl Serialize) -> &mut Self {
        self.push(Error::duplicate(&Path::new(field), tree(&value)))
    }

    /// The object that the value names does not exist: `Not found: "a"`.
    pub fn not_found(&mut self, field: &str, value: impl Serialize) -> &mut Self {
        self.push(Error::not_found(&Path::new(field), tree(&value)))
    }

    /// The value is none of those that are: `Unsupported value: "c": supported values: "a", "b"`, in this order.
    pub fn not_supported(&mut self, field: &str, value: impl Serialize, supported: &[&str]) -> &mut Self {
        self.push(Error::not_supported(&Path::new(field), tree(&value), supported))
    }

    /// An error if a change has another value than before: `Invalid value: 2: field is immutable`.
    pub fn immutable<T: PartialEq + Serialize>(&mut self, field: &str, new: &T, old: &T) -> &mut Self {
        if new == old { self } else { self.invalid(field, new, "field is immutable") }
    }

    /// Adds another hook's.
    pub fn extend(&mut self, others: Self) -> &mut Self {
        self.0.extend(others.0);
        self
    }

    fn push(&mut self, error: Error) -> &mut Self {
        self.0.push(error);
        self
    }

    pub(super) fn into_list(self) -> ErrorList {
        self.0
    }
}

/// A value as the error shows it; nothing for one that is no JSON, such as a map whose keys are no text.
fn tree(value: &impl Serialize) -> Value {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    json::parse_own(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_the_words_of_kubernetes() {
        let mut errors = Errors::none();
        assert!(errors.is_empty());
        errors.invalid("spec.crew", 0, "must be greater than 0").required("spec.name", "");
        errors.immutable("spec.hull", &"oak", &"oak").immutable("spec.hull", &"steel", &"oak");
        errors.not_supported("spec.rig", "junk", &["gaff", "bermuda"]).duplicate("spec.sails[1]", "jib");
        let texts: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.crew: Invalid value: 0: must be greater than 0",
                "spec.name: Required value",
                "spec.hull: Invalid value: \"steel\": field is immutable",
                "spec.rig: Unsupported value: \"junk\": supported values: \"gaff\", \"bermuda\"",
                "spec.sails[1]: Duplicate value: \"jib\"",
            ]
        );
    }
}
