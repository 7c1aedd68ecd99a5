//! Values as messages print them (Go's `%v` of a `ref.Val`).

use std::fmt;

use kindom_formats::go;

use crate::value::{List, Map, Value, time};

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Uint(n) => write!(f, "{n}"),
            Self::Double(x) => f.write_str(&go::float(*x)),
            Self::String(text) => f.write_str(text.as_str()),
            Self::Bytes(bytes) => {
                f.write_str("[")?;
                separated(f, bytes.iter(), " ")?;
                f.write_str("]")
            }
            Self::Duration(span) => f.write_str(&time::duration_text(*span)),
            Self::Timestamp(at) => f.write_str(&time::rfc3339(*at)),
            Self::List(list) => print_list(f, list),
            Self::Map(map) => print_map(f, map),
            Self::Type(of) => write!(f, "{}", crate::value::runtime_name(of)),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Opaque(opaque) => write!(f, "{opaque:?}"),
            Self::Message(message) => f.write_str(&message.name),
        }
    }
}

fn separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    by: &str,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        if i > 0 {
            f.write_str(by)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

fn print_list(f: &mut fmt::Formatter<'_>, list: &List<'_>) -> fmt::Result {
    f.write_str("[")?;
    match list {
        List::Tree(items, _) => separated(f, items.iter(), ", ")?,
        List::Owned(items) | List::Added(items, _) => separated(f, items.iter(), ", ")?,
    }
    f.write_str("]")
}

fn print_map(f: &mut fmt::Formatter<'_>, map: &Map<'_>) -> fmt::Result {
    match map {
        Map::Tree(map, _) => {
            f.write_str("{")?;
            for (i, (key, value)) in map.iter().enumerate() {
                write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
            }
        }
        Map::Owned(entries) => {
            f.write_str("{")?;
            for (i, (key, value)) in entries.iter().enumerate() {
                write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
            }
        }
    }
    f.write_str("}")
}
