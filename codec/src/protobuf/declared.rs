//! The messages of a kind that is declared ([`Declaration`]), in place of a line in the catalogue.

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Embedded, Field as Declared, Shape, Struct};
use kindom_api::meta::OBJECT_META;

use super::catalogue::{META_V1_LIST_META, META_V1_OBJECT_META};
use super::{Field, Kind, Many, Message, Presence};

/// The messages of a kind: of an object, and of a list of objects.
#[derive(Debug)]
pub struct Messages {
    object: &'static Message,
    list: Message,
}

impl Messages {
    /// Derives the messages of a declared kind. They stay in memory, as the declaration does: call it once for each.
    /// `None` if a field has no number, or a type that has no protobuf.
    #[must_use]
    pub fn of(declaration: &Declaration) -> Option<Self> {
        let object = message(declaration.shape)?;
        let fields = [
            Field(1, "ListMeta", "metadata", Kind::Of(&META_V1_LIST_META), Many::One, Presence::Keep),
            Field(2, "Items", "items", Kind::Of(object), Many::Several, Presence::Keep),
        ];
        let name = format!("{}List", declaration.kind);
        Some(Self { object, list: Message(name.leak(), Vec::from(fields).leak()) })
    }

    /// The message of an object.
    #[must_use]
    pub fn object(&self) -> &Message {
        self.object
    }

    /// The message of a list of objects.
    #[must_use]
    pub fn list(&self) -> &Message {
        &self.list
    }
}

fn message(of: &'static Struct) -> Option<&'static Message> {
    if std::ptr::eq(of, &OBJECT_META) {
        return Some(&META_V1_OBJECT_META);
    }
    let on_the_wire: Vec<_> = of.fields.iter().filter(|field| !field.is_type_meta()).collect();
    message_of(of.name(), &on_the_wire, 0)
}

/// The message of fields that stand in so many embedded structs, or in more.
fn message_of(name: &'static str, of: &[&'static Declared], depth: usize) -> Option<&'static Message> {
    let mut fields = Vec::new();
    for together in of.chunk_by(|a, b| a.embedded.get(depth) == b.embedded.get(depth)) {
        match together.first()?.embedded.get(depth) {
            Some(Embedded { number, name }) => {
                let message = message_of(name, together, depth + 1)?;
                fields.push(Field(*number, name, "", Kind::Of(message), Many::One, Presence::Keep));
            }
            None => fields.extend(together.iter().map(|one| field(one)).collect::<Option<Vec<_>>>()?),
        }
    }
    fields.sort_by_key(|field| field.0);
    Some(Box::leak(Box::new(Message(name, fields.leak()))))
}

fn field(of: &'static Declared) -> Option<Field> {
    let (many, kind) = match &of.shape {
        Shape::Pointer(to) => (Many::Pointer, kind(to)?),
        Shape::List(item) => (Many::Several, kind(item)?),
        Shape::Map(value) | Shape::Named(_, Shape::Map(value)) => (Many::Map, kind(value)?),
        one => (Many::One, kind(one)?),
    };
    let presence = if of.omit_empty { Presence::Omit } else { Presence::Keep };
    let numbered = of.number > 0;
    numbered.then(|| Field(of.number, of.go_name().leak(), of.name, kind, many, presence))
}

fn kind(of: &'static Shape) -> Option<Kind> {
    Some(match of {
        Shape::String(_) => Kind::Text,
        Shape::Bool => Kind::Bool,
        Shape::Int32 => Kind::Int32,
        Shape::Int64 => Kind::Int64,
        Shape::Float => Kind::Double,
        Shape::Bytes => Kind::Bytes,
        Shape::Time => Kind::Time,
        Shape::MicroTime => Kind::MicroTime,
        Shape::Quantity => Kind::Quantity,
        Shape::IntOrString => Kind::IntOrString,
        Shape::Json => Kind::Json,
        Shape::Struct(of) => Kind::Of(message(of)?),
        // A list where one value stands: Go has a named slice, which is a message of its own.
        Shape::List(Shape::String(_)) => Kind::Texts,
        Shape::Named(_, of) => kind(of)?,
        Shape::List(_) | Shape::Map(_) | Shape::Pointer(_) | Shape::Custom(..) => return None,
    })
}
