//! A declared kind, with everything that is derived from its declaration.

use std::sync::OnceLock;

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Shape, Struct};
use kindom_api::{Map, Value, json};
use kindom_codec::protobuf::{self, Message, Messages};
use kindom_schema::merge::{self, MergeType};

use crate::{Translated, catalogue};

/// A declared kind. Its protobuf and the merging of its values are derived when they are first needed.
#[derive(Debug)]
pub struct Declared {
    source: Source,
    messages: OnceLock<Option<Messages>>,
    merging: OnceLock<merge::Declared>,
}

/// The place of a declaration.
#[derive(Debug)]
enum Source {
    /// With its kind.
    Kind(Declaration),
    /// In the table of built-in kinds, by apiVersion and kind; read when it is first needed.
    Catalogue(&'static str, &'static str, OnceLock<Declaration>),
}

impl Declared {
    /// A kind, by its declaration.
    #[must_use]
    pub const fn new(declaration: Declaration) -> Self {
        Self::of(Source::Kind(declaration))
    }

    /// A kind of the table of built-in kinds: `"v1", "Secret"`. One that is not there has no fields.
    #[must_use]
    pub const fn catalogued(api_version: &'static str, kind: &'static str) -> Self {
        Self::of(Source::Catalogue(api_version, kind, OnceLock::new()))
    }

    const fn of(source: Source) -> Self {
        Self { source, messages: OnceLock::new(), merging: OnceLock::new() }
    }

    /// The declaration.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        match &self.source {
            Source::Kind(declaration) => declaration,
            Source::Catalogue(api_version, kind, found) => found.get_or_init(|| {
                static NOTHING: Struct = Struct::new("", &[]);
                let none = Declaration { api_version, kind, go_package: "", shape: &NOTHING };
                catalogue::declaration(api_version, kind).unwrap_or(none)
            }),
        }
    }

    /// The description of a field, by the names that lead to it; empty if there is no such field.
    #[must_use]
    pub fn text_of(&self, path: &[&str]) -> &'static str {
        let (mut of, mut text) = (self.declaration().shape, "");
        for name in path {
            let Some(field) = of.fields.iter().find(|field| field.name == *name) else { return "" };
            text = field.text;
            match &field.shape {
                Shape::Struct(inner) | Shape::Pointer(Shape::Struct(inner)) => of = inner,
                _ => {}
            }
        }
        text
    }

    /// A value of the field at a path as Kubernetes' own form of the kind prints in errors: by the names of Go's fields, with
    /// all of them.
    pub(crate) fn internal(&self, path: &[&str], value: &Value) -> String {
        let mut text = String::new();
        match self.field_at(path) {
            Some(shape) => print(shape, Some(value), &mut text),
            None => text.push_str(&value.to_string()),
        }
        text
    }

    /// The same of an item of a list.
    pub(crate) fn internal_item(&self, path: &[&str], item: &Value) -> String {
        let list = self.internal(path, &Value::from(vec![item.clone()]));
        list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default().to_owned()
    }

    fn field_at(&self, path: &[&str]) -> Option<Shape> {
        path.iter().try_fold(Shape::Struct(self.declaration().shape), |shape, name| {
            let of = structure(shape)?;
            of.fields.iter().find(|field| field.name == *name).map(|field| field.shape)
        })
    }

    /// The struct of the field at a path, behind a pointer or not.
    pub(crate) fn shape_at(&self, path: &[&str]) -> Option<&'static Struct> {
        structure(self.field_at(path)?)
    }

    /// The struct of the items of the list at a path.
    pub(crate) fn item_at(&self, path: &[&str]) -> Option<&'static Struct> {
        item(self.field_at(path)?)
    }

    /// The version that it declares: `v1`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        let api_version = match &self.source {
            Source::Kind(declaration) => declaration.api_version,
            Source::Catalogue(api_version, ..) => api_version,
        };
        api_version.rsplit('/').next().unwrap_or_default()
    }

    /// Its protobuf; `None` if it declares no numbers.
    #[must_use]
    pub fn messages(&self) -> Option<&Messages> {
        self.messages.get_or_init(|| Messages::of(self.declaration())).as_ref()
    }

    /// The protobuf of a tree that is an object of the kind, or a list of them, by its own apiVersion and kind.
    #[must_use]
    pub fn message_of(&self, tree: &Value) -> Option<&Message> {
        let text = |field| tree.get(field).and_then(Value::as_str).unwrap_or_default();
        let declaration = self.declaration();
        let is_ours = text("apiVersion") == declaration.api_version;
        match text("kind").strip_prefix(declaration.kind).filter(|_| is_ours)? {
            "" => self.messages().map(Messages::object),
            "List" => self.messages().map(Messages::list),
            _ => None,
        }
    }

    /// The merge type of its objects.
    #[must_use]
    pub fn merge_type(&self) -> MergeType<'_> {
        self.merging.get_or_init(|| merge::Declared::of(self.declaration())).merge_type()
    }

    /// `true` if a top-level field of two objects is the same as soon as it is stored (`apiequality.Semantic.DeepEqual`).
    pub(crate) fn is_same(&self, object: &Value, old: &Value, field: &str) -> bool {
        let [new, old] = [object, old].map(|object| {
            let mut stored = Map::new();
            stored.insert(field, object.get(field).cloned().unwrap_or(Value::Null));
            let mut stored = Value::Object(stored);
            self.declaration().shape.forget_empty(&mut stored);
            stored
        });
        new == old
    }

    /// The JSON of an object that another API server stored, in protobuf or JSON; `fill_defaults` gets the decoded tree.
    ///
    /// # Errors
    /// The reason why it is no object of the kind.
    pub(crate) fn translate(
        &self,
        bytes: &[u8],
        fill_defaults: impl FnOnce(&mut Value),
    ) -> Result<Translated, String> {
        let other_form = protobuf::is_protobuf(bytes);
        let (tree, mut unknown) = if other_form {
            let messages = self.messages().ok_or("the kind has no protobuf")?;
            protobuf::decode_telling(bytes, messages.object()).map_err(|e| e.to_string())?
        } else {
            (json::parse(bytes).map_err(|e| e.to_string())?, Vec::new())
        };
        let text = |field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default();
        if tree.as_object().is_none() {
            return Err("it is no JSON object".to_owned());
        }
        let declaration = self.declaration();
        if (text("apiVersion"), text("kind")) != (declaration.api_version, declaration.kind) {
            return Err(format!(
                "no kind {:?} is registered for version {:?}",
                text("kind"),
                text("apiVersion")
            ));
        }
        let mut decoded = declaration.shape.decode(&tree).map_err(|e| e.to_string())?;
        unknown.extend(decoded.unknown_fields);
        fill_defaults(&mut decoded.value);
        Ok(Translated { json: decoded.value.to_vec(), other_form, unknown })
    }
}

/// The struct of a field, behind a pointer or not.
fn structure(shape: Shape) -> Option<&'static Struct> {
    match shape {
        Shape::Struct(of) => Some(of),
        Shape::Pointer(inner) | Shape::Named(_, inner) => structure(*inner),
        _ => None,
    }
}

/// The struct of the items of a list.
fn item(shape: Shape) -> Option<&'static Struct> {
    match shape {
        Shape::List(inner) => structure(*inner),
        Shape::Pointer(inner) | Shape::Named(_, inner) => item(*inner),
        _ => None,
    }
}

/// The struct of the items of a field of a struct that is a list.
pub(crate) fn item_of(of: &'static Struct, field: &str) -> Option<&'static Struct> {
    item(of.fields.iter().find(|known| known.name == field)?.shape)
}

/// Prints a value as Go's encoder does: with the fields of structs in Go's order, not in that of their names.
pub(crate) fn print_versioned(of: &'static Struct, value: &Value) -> String {
    let mut text = String::new();
    print_ordered(Shape::Struct(of), value, &mut text);
    text
}

fn print_ordered(shape: Shape, value: &Value, text: &mut String) {
    match (shape, value) {
        (Shape::Pointer(of) | Shape::Named(_, of), value) => print_ordered(*of, value, text),
        (Shape::Struct(of), Value::Object(map)) => {
            let mut before = '{';
            for field in of.fields {
                let Some(value) = map.get(field.name) else { continue };
                text.push(before);
                text.push_str(&format!("\"{}\":", field.name));
                print_ordered(field.shape, value, text);
                before = ',';
            }
            text.push_str(if before == '{' { "{}" } else { "}" });
        }
        (Shape::List(of), Value::Array(items)) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print_ordered(*of, item, text);
            }
            text.push(']');
        }
        (Shape::Map(of), Value::Object(map)) => {
            let mut before = '{';
            for (key, value) in map.iter() {
                text.push(before);
                text.push_str(&format!("{}:", Value::from(key)));
                print_ordered(*of, value, text);
                before = ',';
            }
            text.push_str(if before == '{' { "{}" } else { "}" });
        }
        (_, value) => text.push_str(&value.to_string()),
    }
}

/// Prints a value in Kubernetes' own form, as [`Declared::internal`] has it.
fn print(shape: Shape, value: Option<&Value>, text: &mut String) {
    let value = value.filter(|value| !value.is_null());
    match (shape, value) {
        (Shape::Named(_, inner), value) => print(*inner, value, text),
        (Shape::Pointer(inner), Some(value)) => print(*inner, Some(value), text),
        // Types of meta/v1 have JSON names in every form.
        (Shape::Struct(of), value) if !of.go_package.ends_with("/meta/v1") => {
            let mut before = '{';
            for field in of.fields {
                text.push(before);
                text.push_str(&format!("\"{}\":", field.go_name()));
                print(field.shape, value.and_then(|value| value.get(field.name)), text);
                before = ',';
            }
            text.push_str(if before == '{' { "{}" } else { "}" });
        }
        (Shape::List(inner), Some(Value::Array(items))) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                print(*inner, Some(item), text);
            }
            text.push(']');
        }
        (_, Some(value)) => text.push_str(&value.to_string()),
        (Shape::String(_), None) => text.push_str("\"\""),
        (Shape::Bool, None) => text.push_str("false"),
        (Shape::Int32 | Shape::Int64 | Shape::Float, None) => text.push('0'),
        (_, None) => text.push_str("null"),
    }
}
