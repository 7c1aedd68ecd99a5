//! The schemas of built-in types, and of the metadata of all types, compiled once.
//!
//! They are those that OpenAPI publishes. Some contain themselves, so references stay, as numbers.

use std::num::NonZeroU8;
use std::sync::LazyLock;

use kindom_api::declaration::Declaration;
use kindom_api::{Value, object};

use super::{MergeType, Type, View};
use crate::compile::{References, compile_with};
use crate::node::Node;
use crate::openapi::{BuiltInType, RAW, models, whole};

const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The merge type of a built-in type that is not declared: registrations in their three faces, and `Scale`. `None` if there is
/// no such type.
#[must_use]
pub fn built_in(group: &str, version: &str, kind: &str) -> Option<MergeType<'static>> {
    let is = |known: &BuiltInType| (known.group, known.version, known.kind) == (group, version, kind);
    let node = named(BUILT_IN.types.iter().find(|(known, _)| is(known))?.1)?;
    Some(of_built_in(node))
}

fn of_built_in(node: &Node) -> MergeType<'_> {
    MergeType(Type::Node(View { node, open: false, open_everywhere: false, resource: true, named: true }))
}

/// The compiled schema of a declared kind.
#[derive(Debug)]
pub struct Declared(Node);

impl Declared {
    /// Compiles the schema that a declaration publishes.
    #[must_use]
    pub fn of(declaration: &Declaration) -> Self {
        // The declaration is part of the program; each is compiled by a test.
        let compiled = compile_with(&whole(declaration), &BUILT_IN.references);
        Self(compiled.map(|(node, _)| node).unwrap_or_default())
    }

    /// The merge type of the kind's objects.
    #[must_use]
    pub fn merge_type(&self) -> MergeType<'_> {
        of_built_in(&self.0)
    }
}

/// The schema of `ObjectMeta`.
pub(super) fn object_meta() -> Option<&'static Node> {
    BUILT_IN.object_meta.and_then(named)
}

/// The schema that a node refers to.
pub(super) fn named(reference: NonZeroU8) -> Option<&'static Node> {
    BUILT_IN.nodes.get(usize::from(reference.get()) - 1)
}

struct BuiltIn {
    references: References,
    nodes: Box<[Node]>,
    types: Box<[(BuiltInType, NonZeroU8)]>,
    object_meta: Option<NonZeroU8>,
}

static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(|| {
    let (models, types) = models();
    let references: References =
        (1..).map_while(NonZeroU8::new).zip(&models).map(|(at, (name, _))| (name.clone(), at)).collect();
    // The texts are part of the program, and a test compiles them.
    let compile = |name: &str, schema: &Value| {
        // A text or a number is any scalar.
        let scalar = schema.get("oneOf").map(|_| object! { "type": "string", "format": "int-or-string" });
        // Any JSON has one owner, and so has whatever is in it.
        let raw = name.ends_with(RAW).then(|| {
            object! { "additionalProperties": object! { "$ref": name }, "x-kubernetes-map-type": "atomic" }
        });
        let schema = scalar.as_ref().or(raw.as_ref()).unwrap_or(schema);
        compile_with(schema, &references).map(|(node, _)| node).unwrap_or_default()
    };
    BuiltIn {
        nodes: models.iter().map(|(name, schema)| compile(name, schema)).collect(),
        types: types
            .into_iter()
            .filter_map(|known| references.get(&known.model).copied().map(|at| (known, at)))
            .collect(),
        object_meta: references.get(OBJECT_META).copied(),
        references,
    }
});

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, built_in};
    use crate::compile::{References, compile_with};
    use crate::openapi::models;

    #[test]
    fn all_schemas_have_a_number_and_compile() {
        let (models, types) = models();
        assert!(models.len() < 256 && models.len() == BUILT_IN.nodes.len());
        for (name, schema) in &models {
            compile_with(schema, &References::new()).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        }
        assert_eq!(types.len(), BUILT_IN.types.len());
        assert!(BUILT_IN.object_meta.is_some());
    }

    #[test]
    fn a_type_is_known_by_all_its_names() {
        assert!(built_in("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition").is_some());
        assert!(built_in("", "v1", "Pod").is_none());
        assert!(built_in("apiextensions.k8s.io", "v2", "CustomResourceDefinition").is_none());
        assert!(built_in("x", "v1", "CustomResourceDefinition").is_none());
    }
}
