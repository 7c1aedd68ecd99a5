//! Structural schemas: compiled once, then used to prune, default and validate objects, to print columns and to publish
//! OpenAPI.
//!
//! **Owns** the meaning of a registration's schema: [`Schema`] (pruning, defaulting, validation), [`columns`] (printer
//! columns), [`scale`] (the Scale of an object), [`openapi`] (the published document), [`merge`] (the merging of its
//! objects), [`whole`] (what a type says beyond it, in JSON Schema), [`crd`] (the validation of registrations),
//! [`samples`] (objects made up from a schema). **Deliberately absent:** I/O, async, and any knowledge of storing or
//! serving objects.
//!
//! ```
//! use kindom_schema::Schema;
//! let schema = kindom_api::json::parse(br#"{"type":"object","properties":{"spec":{"type":"object","properties":{
//!     "replicas":{"type":"integer","default":1}}}}}"#).unwrap();
//! let schema = Schema::compile(Some(&schema), false).unwrap();
//!
//! let mut object = kindom_api::json::parse(br#"{"spec":{"extra":true}}"#).unwrap();
//! let mut unknown = Vec::new();
//! schema.prune(&mut object, Some(&mut unknown));
//! schema.default(&mut object).unwrap();
//! assert_eq!(unknown, ["spec.extra"]);
//! assert_eq!(object.to_string(), r#"{"spec":{"replicas":1}}"#);
//! assert!(schema.validate(&object).is_empty());
//! ```
//!
//! Sources: `apiextensions-apiserver/pkg/apiserver/{schema,validation}` and `kube-openapi/pkg/validation`, 1.37.

mod choices;
mod coerce;
pub mod columns;
mod compile;
pub mod crd;
mod default;
mod fields;
pub mod merge;
mod node;
pub mod openapi;
mod prune;
mod rules;
pub mod samples;
pub mod scale;
mod sharing;
mod validate;
pub mod whole;

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use node::Node;

pub use default::TooManyDefaults;
pub use validate::Others;

/// The compiled form of one version's `openAPIV3Schema`. Immutable; meant to be shared behind an `Arc`.
///
/// Walks over an object recurse as deeply as the object and the schema nest, which `kindom_api::json::MAX_DEPTH` bounds for
/// both. Each walk is linear in the object, but for lists that must be unique, whose items are hashed. Bounds limit
/// everything that branches and defaults can multiply: the steps and errors of a validation, the bytes that defaults add.
#[derive(Debug)]
pub struct Schema {
    root: Option<Node>,
    preserve_unknown_fields: bool,
    /// `true` if OpenAPI does not publish its fields, as for a schema that is not structural.
    unpublished: bool,
}

impl Schema {
    /// Compiles a schema. `schema` is the `openAPIV3Schema`; `None` stands for a version without one, which knows no
    /// field but `apiVersion`, `kind` and `metadata`. `preserve_unknown_fields` is v1beta1's
    /// `spec.preserveUnknownFields`: nothing is pruned then.
    ///
    /// Defaults are pruned here, as upstream does when it starts to serve a version (`defaulting.PruneDefaults`).
    ///
    /// # Errors
    /// Only what makes a schema unusable: a keyword whose value has the wrong shape, an unknown type, or nesting beyond
    /// `kindom_api::json::MAX_DEPTH`. Whether a registration may carry the schema is [`crd`]'s to say.
    pub fn compile(schema: Option<&Value>, preserve_unknown_fields: bool) -> Result<Self, ErrorList> {
        let mut compiled = Self::compile_without_rules(schema, preserve_unknown_fields)?;
        if let (Some(root), Some(schema)) = (&mut compiled.root, schema) {
            rules::attach::attach(root, schema);
        }
        Ok(compiled)
    }

    /// The same, but for the rules of `x-kubernetes-validations`, which are as if they were not there.
    pub(crate) fn compile_without_rules(
        schema: Option<&Value>,
        preserve_unknown_fields: bool,
    ) -> Result<Self, ErrorList> {
        let Some(schema) = schema else {
            return Ok(Self { root: None, preserve_unknown_fields, unpublished: true });
        };
        let (mut root, unknown_types) = compile::compile(schema)?;
        prune::prune_defaults(&mut root);
        // No face takes a schema that is not structural where unknown fields are dropped, and asking costs a walk.
        let unpublished = (preserve_unknown_fields || unknown_types) && !crd::is_published(schema);
        Ok(Self { root: Some(root), preserve_unknown_fields, unpublished })
    }

    /// As [`Self::compile`], but schemas that differ in descriptions only are compiled once: all who hold one hold the
    /// same, which goes with the last of them.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn shared(schema: Option<&Value>, preserve_unknown_fields: bool) -> Result<Arc<Self>, ErrorList> {
        sharing::shared(schema, preserve_unknown_fields)
    }

    /// The merge type of the schema's objects.
    #[must_use]
    pub fn merge_type(&self) -> merge::MergeType<'_> {
        let root = self.root.as_ref().filter(|_| !self.unpublished);
        merge::MergeType::of_object(root, self.preserve_unknown_fields)
    }

    /// Drops the fields that the schema does not know. `apiVersion`, `kind` and `metadata` of the object, and of embedded
    /// resources, always stay and are not searched. With `unknown`, adds the paths of dropped fields, sorted, as Kubernetes'
    /// strict decoding names them: `spec.x`, `spec.items[0].y`.
    pub fn prune(&self, object: &mut Value, unknown: Option<&mut Vec<String>>) {
        if !self.preserve_unknown_fields {
            prune::prune(object, self.root.as_ref(), unknown);
        }
    }

    /// Brings the metadata of embedded resources into the form that `ObjectMeta` has; that of the object itself is
    /// `kindom_api::meta::coerce_metadata`'s. To be called after [`Self::prune`]. If asked, adds the sorted paths of the
    /// fields that were dropped because no metadata has them.
    ///
    /// # Errors
    /// Metadata of the wrong type, or an `apiVersion` or `kind` that is no string; a client gets 400 for it. The object
    /// may then be changed in part.
    pub fn coerce(&self, object: &mut Value, unknown: Option<&mut Vec<String>>) -> Result<(), Error> {
        let Some(root) = &self.root else { return Ok(()) };
        let mut found = unknown.is_some().then(Vec::new);
        coerce::coerce(object, root, &Path::root(), &mut found.as_mut())?;
        if let (Some(unknown), Some(mut found)) = (unknown, found) {
            found.sort_unstable();
            unknown.append(&mut found);
        }
        Ok(())
    }

    /// Brings an object into the form of this version: prunes it, drops nulls and coerces, as upstream does with a client's
    /// objects and with converted ones; the caller fills in defaults after that (`unstructuredSchemaCoercer.apply` in
    /// apiextensions `customresource_handler.go`). With `unknown`, adds the paths of unknown fields: first those that were
    /// pruned, then those of embedded metadata, each sorted.
    ///
    /// # Errors
    /// As [`Self::coerce`].
    pub fn reshape(&self, object: &mut Value, mut unknown: Option<&mut Vec<String>>) -> Result<(), Error> {
        self.prune(object, unknown.as_deref_mut());
        self.drop_nulls(object);
        self.coerce(object, unknown)
    }

    /// Drops nulls and coerces an object that was made of others, as upstream does when it reads a stored object: malformed
    /// metadata of embedded resources is dropped (`dropInvalidMetadata`). Metadata that is no map stays.
    pub fn repair(&self, object: &mut Value) {
        self.drop_nulls(object);
        if let Some(root) = &self.root {
            coerce::repair(object, root, false);
        }
    }

    /// Reads an object of this version from the store: prunes, drops nulls, repairs the metadata of embedded resources,
    /// and fills in defaults (`schemaCoercingDecoder` with `dropInvalidMetadata`, then the codec's defaulter). The
    /// object's own metadata is left alone. Idempotent.
    ///
    /// # Errors
    /// As [`Self::default`].
    pub fn refresh(&self, object: &mut Value) -> Result<(), TooManyDefaults> {
        self.prune(object, None);
        self.repair(object);
        self.fill_defaults(object)?;
        // A default may have nulls of its own.
        self.drop_nulls(object);
        Ok(())
    }

    /// Drops nulls where the schema allows none and has no default, then fills defaults. Idempotent.
    ///
    /// # Errors
    /// [`TooManyDefaults`]: the object would become far larger than any that is stored. Some defaults are filled in then.
    pub fn default(&self, object: &mut Value) -> Result<(), TooManyDefaults> {
        self.drop_nulls(object);
        self.fill_defaults(object)
    }

    /// Drops null fields where the schema allows none and has no default (`PruneNonNullableNullsWithoutDefaults`). Says
    /// whether there was a null anywhere.
    pub fn drop_nulls(&self, object: &mut Value) -> bool {
        let has_null = default::has_null(object);
        if let Some(root) = &self.root
            && !self.preserve_unknown_fields
            && has_null
        {
            default::drop_nulls(object, root);
        }
        has_null
    }

    /// Fills defaults and leaves nulls that have none, as upstream does where an object was not sent but made of others
    /// by an apply (`unstructuredDefaulter` in apiextensions `customresource_handler.go`). Idempotent.
    ///
    /// # Errors
    /// As [`Schema::default`].
    pub fn fill_defaults(&self, object: &mut Value) -> Result<(), TooManyDefaults> {
        match &self.root {
            Some(root) => default::fill(object, root),
            None => Ok(()),
        }
    }

    /// The errors of an object, in Kubernetes' words and in the order of the schema's fields. The object's own metadata is
    /// not checked; that of embedded resources is.
    #[must_use]
    pub fn validate(&self, object: &Value) -> ErrorList {
        validate::create(self, object, Others::default())
    }

    /// As [`Self::validate`], with what else is wrong, all in upstream's order.
    #[must_use]
    pub fn validate_with(&self, object: &Value, others: Others) -> ErrorList {
        validate::create(self, object, others)
    }

    /// The errors of an object that replaces `old`. Errors in values that have not changed are let through (KEP-4008), where
    /// upstream can tell which old value belongs to a new one: fields of maps and items of `x-kubernetes-list-type: map`.
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate::update(self, object, old, Others::default()).0
    }

    /// As [`Self::validate_update`], with further errors in `others`; also returns the broken rules of
    /// `x-kubernetes-validations` in unchanged values, as warnings for the client.
    #[must_use]
    pub fn validate_update_telling(
        &self,
        object: &Value,
        old: &Value,
        others: Others,
    ) -> (ErrorList, ErrorList) {
        validate::update(self, object, old, others)
    }

    /// As [`Self::validate_update`] for a write to the status subresource: only `status` is held against the schema.
    #[must_use]
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate::status_update(self, object, old, Others::default()).0
    }

    /// As [`Self::validate_update_telling`] for a write to the status subresource.
    #[must_use]
    pub fn validate_status_update_telling(
        &self,
        object: &Value,
        old: &Value,
        others: Others,
    ) -> (ErrorList, ErrorList) {
        validate::status_update(self, object, old, others)
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::Schema;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
        "d":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{
            "metadata":{"type":"object","default":{"name":"n","x":1}}}},
        "n":{"type":"string"},"z":{"type":"object"}}}"#;

    #[test]
    fn unknown_fields_come_as_upstream_finds_them() {
        let schema = Schema::compile(Some(&parse(SCHEMA.as_bytes()).unwrap()), false).unwrap();
        let mut unknown = Vec::new();
        let mut object = parse(
            br#"{"y":1,"e":{"metadata":{"b":1,"a":1}},"z":{"x":1},"d":{"f":1,"metadata":{"c":1}},"a":1}"#,
        )
        .unwrap();
        schema.reshape(&mut object, Some(&mut unknown)).unwrap();
        let pruned = ["a", "d.f", "y", "z.x"];
        let coerced = ["d.metadata.c", "e.metadata.a", "e.metadata.b"];
        assert_eq!(unknown, [&pruned[..], &coerced[..]].concat());
    }

    #[test]
    fn metadata_that_is_null_is_there_before_defaults_are() {
        let schema = Schema::compile(Some(&parse(SCHEMA.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(br#"{"d":{"metadata":null},"e":{"metadata":null},"n":null}"#).unwrap();
        let mut read = object.clone();
        schema.reshape(&mut object, None).unwrap();
        schema.fill_defaults(&mut object).unwrap();
        schema.refresh(&mut read).unwrap();
        assert_eq!(object.to_string(), r#"{"d":{"metadata":{}},"e":{"metadata":{}}}"#);
        assert_eq!(object, read);
        let mut absent = parse(br#"{"d":{}}"#).unwrap();
        schema.refresh(&mut absent).unwrap();
        assert_eq!(absent.to_string(), r#"{"d":{"metadata":{"name":"n"}}}"#);
    }
}
