//! Values as messages print them (Go's `%v` of a `ref.Val`).

use std::fmt;

use kindom_formats::go;

use crate::value::{List, Map, Value, time};

/// The most bytes of a list or map that are printed: values that few others make can be without end.
const BYTES_MAX: usize = 4096;

/// A writer that takes so many bytes more.
struct Limited<'w, 'f> {
    to: &'w mut fmt::Formatter<'f>,
    left: usize,
}

impl fmt::Write for Limited<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (taken, is_whole) = match self.left.checked_sub(text.len()) {
            Some(left) => {
                self.left = left;
                (text, true)
            }
            None => (text.get(..text.floor_char_boundary(self.left)).unwrap_or_default(), false),
        };
        if !is_whole {
            self.left = 0;
        }
        self.to.write_str(taken)?;
        if is_whole { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A value whose length nobody bounds.
struct Whole<'v, 'a>(&'v Value<'a>);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(self, Self::List(_) | Self::Map(_) | Self::Optional(Some(_))) {
            return Whole(self).fmt(f);
        }
        let mut limited = Limited { to: f, left: BYTES_MAX };
        match fmt::write(&mut limited, format_args!("{}", Whole(self))) {
            Err(_) if limited.left == 0 => Ok(()),
            done => done,
        }
    }
}

impl fmt::Display for Whole<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Uint(n) => write!(f, "{n}"),
            Value::Double(x) => f.write_str(&go::float(*x)),
            Value::String(text) => f.write_str(text.as_str()),
            Value::Bytes(bytes) => {
                f.write_str("[")?;
                separated(f, bytes.iter(), " ")?;
                f.write_str("]")
            }
            Value::Duration(span) => f.write_str(&time::duration_text(*span)),
            Value::Timestamp(at) => f.write_str(&time::rfc3339(*at)),
            Value::List(list) => print_list(f, list),
            Value::Map(map) => print_map(f, map),
            Value::Type(of) => write!(f, "{}", crate::value::runtime_name(of)),
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional({})", Whole(value)),
            Value::Opaque(opaque) => write!(f, "{opaque:?}"),
            Value::Message(message) => f.write_str(&message.name),
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
        List::Owned(items) | List::Added(items, _) => separated(f, items.iter().map(Whole), ", ")?,
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
                write!(f, "{}{}: {}", if i > 0 { ", " } else { "" }, Whole(key), Whole(value))?;
            }
        }
    }
    f.write_str("}")
}
