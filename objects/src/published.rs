//! The published description of a type, and the types that expressions see by it.

use kindom_api::{Value, json};
use kindom_cel::decl::Decl;
use kindom_schema::openapi::{
    DeclaredEndpoint, GroupVersionDoc, TypeDoc, preserves_unknown_fields, selectable_fields,
    structural_schema, type_of_objects,
};

use crate::{Declared, Subresource, TypeSpec};

impl TypeSpec {
    /// The description of a version in a document. `registration` is the stored one, if the type has one.
    #[must_use]
    pub fn published<'a>(
        &'a self,
        version: &'a str,
        registration: &'a Value,
    ) -> (GroupVersionDoc<'a>, TypeDoc<'a>) {
        let doc = TypeDoc {
            plural: &self.names.plural,
            kind: &self.names.kind,
            list_kind: &self.names.list_kind,
            namespaced: self.namespaced(),
            schema: structural_schema(registration, version),
            preserve_unknown_fields: preserves_unknown_fields(registration),
            status: self.subresources(version).any(|of| of == Subresource::Status),
            scale: self.subresources(version).any(|of| of == Subresource::Scale),
            declared: self.declared_endpoints(version),
            selectable_fields: selectable_fields(registration, version),
            built_in: self.is_typed(),
            only_created: self.strategy.answers_creates(),
            clears: self.strategy.allows_delete_collection(),
            declaration: self.version(version).and_then(|v| v.declared).map(Declared::declaration),
            strategic_merge_patch: self.strategy.go_type(self, version).is_some(),
        };
        (GroupVersionDoc { group: &self.group, version }, doc)
    }

    /// The type that expressions see of objects of a version, by what is published of it, under a name for messages; none if it is
    /// not known.
    pub(crate) fn type_for_expressions(&self, version: &str, name: &str) -> Option<Decl> {
        let registration = match &self.registration {
            Some(of) => json::parse_own(of.object.json()).ok()?,
            None => Value::Null,
        };
        let (gv, doc) = self.published(version, &registration);
        type_of_objects(&gv, &doc, name)
    }

    /// The subresources that a registration declares, with their verbs.
    fn declared_endpoints<'s>(&'s self, version: &'s str) -> Vec<DeclaredEndpoint<'s>> {
        let declared = self.subresources(version).filter(|of| matches!(of, Subresource::Declared(_)));
        let endpoint = |of: Subresource| DeclaredEndpoint {
            name: of.name().to_owned(),
            verbs: self.verbs_of(version, of),
            is_part: self.part(version, of).is_some(),
        };
        declared.map(endpoint).collect()
    }
}
