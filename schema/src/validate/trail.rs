//! The place of the walk, as kube-openapi names it: fields of maps by a point, whatever the key. The text is built only for
//! an error.

use std::fmt;

#[derive(Clone, Copy)]
pub(super) enum Trail<'a> {
    /// The object.
    Root,
    /// A field that the schema names.
    Field(&'a Trail<'a>, &'a str),
    /// Another field: its point is there even at the root.
    Extra(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Trail::Root, name) => f.write_str(name),
            Self::Field(parent, name) | Self::Extra(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
