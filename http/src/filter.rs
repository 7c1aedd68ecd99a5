//! The selection of a type's objects by a list, a watch or a deletecollection.

use std::sync::Arc;

use kindom_actor_kit::Held;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::{Value, json};
use kindom_objects::conversion::Conversion;
use kindom_objects::version::{CompiledVersion, SelectableField};
use kindom_objects::{StoredObject, TypeSpec, Unreadable, render};

use crate::RequestError;
use crate::call::Call;
use crate::query::ListOptions;
use crate::status::Failure;

/// A namespace (or all), labels, the fields that every type has, and those that the version declares.
pub(crate) struct Filter {
    prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The version's selectable fields that the selector uses.
    declared: Vec<SelectableField>,
    /// The version that declares them.
    version: String,
    /// The memory of selectors that take much: a watch has them for hours.
    _held: Option<Held>,
}

/// Selectors of so few bytes cost nothing.
const FEW_BYTES: usize = 4 << 10;

impl Filter {
    /// # Errors
    /// [`RequestError::BadRequest`] for a field that cannot be selected by; [`Overloaded`](kindom_actor_kit::Overloaded) if there is
    /// no room for the selectors.
    pub(crate) fn new(call: &Call<'_>, options: &ListOptions) -> Result<Self, Failure> {
        let mut declared: Vec<SelectableField> = Vec::new();
        let fields =
            options.field_selector.requirements().iter().map(|requirement| requirement.field.as_str());
        let mut fields =
            fields.filter(|field| !matches!(*field, "metadata.name" | "metadata.namespace")).peekable();
        // What every type has needs no schema.
        let compiled = if fields.peek().is_some() { Some(compiled(call)?) } else { None };
        let selectable = compiled.as_ref().map(|compiled| compiled.selectable.as_slice()).unwrap_or_default();
        for field in fields {
            if declared.iter().any(|f| f.name == field) {
                continue;
            }
            match selectable.iter().find(|known| known.name == field) {
                Some(found) => declared.push(found.clone()),
                None if !call.spec.is_typed() || !selectable.is_empty() => {
                    return Err(RequestError::BadRequest(call.spec.strategy.unselectable(field)).into());
                }
                None => {
                    let known = "only \"metadata.name\", \"metadata.namespace\"";
                    let field = kindom_api::field::go_quote(field);
                    let why = format!("{field} is not a known field selector: {known}");
                    return Err(RequestError::BadRequest(why).into());
                }
            }
        }
        let bytes = options.label_selector.bytes() + options.field_selector.bytes();
        let mut held = (bytes > FEW_BYTES).then(|| call.room().begin());
        if let Some(held) = &mut held {
            held.grow(bytes)?;
        }
        Ok(Self {
            prefix: call.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
            labels: options.label_selector.clone(),
            fields: options.field_selector.clone(),
            declared,
            version: call.info.resource.version.clone(),
            _held: held,
        })
    }

    /// Returns true if objects have to be converted before it is known which are selected.
    pub(crate) fn needs_answers(&self, spec: &TypeSpec) -> bool {
        !self.declared.is_empty() && spec.converter().is_some()
    }

    /// A field that is selected by and that the version, as it is now, does not declare any more.
    pub(crate) fn lost_field(&self, spec: &TypeSpec, version: &str) -> Option<&str> {
        if self.declared.is_empty() {
            return None;
        }
        // A schema that does not compile is reported when an object is rendered.
        let compiled = spec.compiled(spec.version(version)?).ok()?;
        self.declared.iter().find(|field| !compiled.selectable.contains(field)).map(|f| f.name.as_str())
    }

    /// The prefix of the objects' keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `true` if every object of the namespace matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The requirements that an object is compared with.
    pub(crate) fn requirements(&self) -> usize {
        self.labels.requirements().len() + self.fields.requirements().len()
    }

    /// The bytes of these objects that have to be read into trees to select from them.
    pub(crate) fn bytes_read<'a>(
        &self,
        spec: &TypeSpec,
        objects: impl Iterator<Item = &'a Arc<StoredObject>>,
    ) -> usize {
        if self.declared.is_empty() { 0 } else { objects.map(|object| spec.bytes_to_convert(object)).sum() }
    }

    /// Returns true if an object of the type, as it is now, is selected.
    ///
    /// # Errors
    /// The version has no form of the object to select by.
    pub(crate) fn matches(&self, spec: &TypeSpec, object: &StoredObject) -> Result<bool, Unreadable> {
        let may = object.key().starts_with(&self.prefix)
            && (self.labels.is_empty() || self.labels.matches(|key| object.label(key)));
        if may && !self.fields.is_empty() { self.fields_match(spec, object) } else { Ok(may) }
    }

    /// `true` if an object that can't be read may be one of those that are selected: by its key, that is.
    pub(crate) fn may_match(&self, object: &StoredObject) -> bool {
        let is = |field, of: &str| self.fields.exact_match(field).is_none_or(|wanted| wanted == of);
        object.key().starts_with(&self.prefix)
            && is("metadata.name", object.name())
            && is("metadata.namespace", object.namespace().unwrap_or_default())
    }

    /// `true` unless its key or its labels tell that an object is not selected.
    pub(crate) fn may_select(&self, object: &StoredObject) -> bool {
        self.may_match(object) && (self.labels.is_empty() || self.labels.matches(|key| object.label(key)))
    }

    /// `true` if a list or a watch has to say something of the object: it is selected, or may be and cannot be read.
    pub(crate) fn shows(&self, spec: &TypeSpec, object: &StoredObject) -> bool {
        let matches = match object.corrupt() {
            Some(_) => None,
            None => self.matches(spec, object).ok(),
        };
        matches.unwrap_or_else(|| self.may_match(object))
    }

    fn fields_match(&self, spec: &TypeSpec, object: &StoredObject) -> Result<bool, Unreadable> {
        let values: Vec<String> = if self.declared.is_empty() {
            Vec::new()
        } else {
            let tree = self.tree(spec, object)?;
            self.declared.iter().map(|field| field.of(&tree)).collect()
        };
        Ok(self.fields.matches(|field| match field {
            "metadata.name" => Some(object.name()),
            "metadata.namespace" => Some(object.namespace().unwrap_or_default()),
            field => {
                let at = self.declared.iter().position(|declared| declared.name == field)?;
                values.get(at).map(String::as_str)
            }
        }))
    }

    /// The object in the version whose fields are declared: its own form, but where that is known to be the stored one.
    fn tree(&self, spec: &TypeSpec, object: &StoredObject) -> Result<Value, Unreadable> {
        let version = spec.version(&self.version).filter(|version| {
            let is_raw = matches!(spec.conversion, Conversion::Faces(_)) || object.corrupt().is_some();
            !is_raw && !render::is_copied(spec, version, object)
        });
        match version {
            Some(version) => render::decode(spec, version, object),
            None => Ok(json::parse_own(object.json()).unwrap_or_default()),
        }
    }
}

/// The version, ready to be used.
fn compiled(call: &Call<'_>) -> Result<Arc<CompiledVersion>, Failure> {
    let compiled = call.spec.compiled(call.version()?);
    compiled.map_err(|e| call.read_failure(Unreadable::Undecodable(e)))
}
