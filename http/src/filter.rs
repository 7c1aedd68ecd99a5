//! Which objects of a type a list, a watch or a deletecollection is about.

use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_resource_actor::StoredObject;

use crate::RequestError;
use crate::dispatch::Call;
use crate::query::ListOptions;

/// A namespace (or all), labels, and the fields that every type has.
pub(crate) struct Filter {
    prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    /// # Errors
    /// [`RequestError::BadRequest`] for a field that cannot be selected by.
    pub(crate) fn new(call: &Call<'_>, options: &ListOptions) -> Result<Self, RequestError> {
        for requirement in options.field_selector.requirements() {
            let field = requirement.field.as_str();
            if !matches!(field, "metadata.name" | "metadata.namespace") {
                return Err(RequestError::BadRequest(if call.spec.registration.is_some() {
                    format!("field label not supported: {field}")
                } else {
                    format!(
                        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        kindom_api::field::go_quote(field)
                    )
                }));
            }
        }
        Ok(Self {
            prefix: call.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
            labels: options.label_selector.clone(),
            fields: options.field_selector.clone(),
        })
    }

    /// What the keys of the objects start with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether every object of the namespace matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        object.key().starts_with(&self.prefix)
            && (self.labels.is_empty() || self.labels.matches(|key| object.label(key)))
            && (self.fields.is_empty()
                || self.fields.matches(|field| match field {
                    "metadata.name" => Some(object.name()),
                    "metadata.namespace" => Some(object.namespace().unwrap_or_default()),
                    _ => None,
                }))
    }
}
