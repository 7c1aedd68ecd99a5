//! What a node says of an object's fields, laid out for walks that look at all of them.
//!
//! Objects and schemas both have their names sorted, so a walk goes along both at once ([`Cursor`]) and compares eight
//! bytes at a time, as numbers. The texts of the names lie in one piece: most schemas are names for the greater part.
//!
//! For `{"properties":{"b":…,"a":…},"required":["c","b"]}`:
//!
//! ```text
//! text      "abc"
//! names     a b c      those of properties first, by name; then what else is required
//! nodes     a b        as the names, but only for properties
//! required  2 1        in the schema's order, which is that of errors
//! ```

use std::cmp::Ordering;

use crate::node::Node;

/// How many names a cursor steps over before it searches: objects have most of what their schemas name.
const STEPS_MAX: usize = 8;

/// Properties, required fields and additional properties.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    text: Box<str>,
    names: Box<[Name]>,
    nodes: Box<[Node]>,
    required: Box<[u32]>,
    additional: Additional,
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Not said: any for the validator, none for pruning.
    #[default]
    Unset,
    /// `false`: none for the validator; for pruning, fields stay and lose what they hold.
    No,
    /// `true`: any for the validator; for pruning as for `No`.
    Any,
    Schema(Box<Node>),
}

impl Additional {
    pub(crate) fn schema(&self) -> Option<&Node> {
        if let Self::Schema(node) = self { Some(node) } else { None }
    }
}

#[derive(Debug, Clone, Copy)]
struct Name {
    /// See [`head`].
    head: u64,
    /// Where it stands in the text.
    start: u32,
    len: u32,
}

/// The first eight bytes as a number, zeros for what is missing, so that numbers order as their names do; names that
/// differ later are equal here.
fn head(name: &str) -> u64 {
    let bytes = name.as_bytes();
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The last four overlap the first four, and are moved to where they belong.
        let (first, last) = (u64::from(u32::from_be_bytes(*first)), u64::from(u32::from_be_bytes(*last)));
        return first << 32 | (last << (8 * (8 - bytes.len())) & u64::from(u32::MAX));
    }
    match *bytes {
        [a, b, c] => u64::from_be_bytes([a, b, c, 0, 0, 0, 0, 0]),
        [a, b] => u64::from_be_bytes([a, b, 0, 0, 0, 0, 0, 0]),
        [a] => u64::from_be_bytes([a, 0, 0, 0, 0, 0, 0, 0]),
        _ => 0,
    }
}

impl Fields {
    /// `properties` are sorted by name, each there once; so is each of `required`.
    pub(crate) fn new(properties: Vec<(&str, Node)>, required: &[&str], additional: Additional) -> Self {
        let mut fields = Self { additional, ..Self::default() };
        let (mut text, mut names) = (String::new(), Vec::with_capacity(properties.len()));
        let mut add = |name: &str| {
            names.push(Name { head: head(name), start: offset(text.len()), len: offset(name.len()) });
            text.push_str(name);
            offset(names.len() - 1)
        };
        let place = |name: &str| properties.binary_search_by(|(property, _)| (*property).cmp(name));
        let places: Vec<_> = required.iter().map(|name| place(name)).collect();
        for (name, _) in &properties {
            add(name);
        }
        fields.required = required
            .iter()
            .zip(places)
            .map(|(name, place)| place.map_or_else(|_| add(name), offset))
            .collect();
        fields.nodes = properties.into_iter().map(|(_, node)| node).collect();
        for index in &fields.required {
            if let Some(node) = usize::try_from(*index).ok().and_then(|index| fields.nodes.get_mut(index)) {
                node.required = true;
            }
        }
        (fields.text, fields.names) = (text.into(), names.into());
        fields
    }

    /// The properties, by name.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.names.iter().map(|name| self.text_of(name)).zip(&self.nodes)
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let properties = self.names.get(..self.nodes.len())?;
        let head = head(name);
        let at = properties.binary_search_by(|other| self.order(other, head, name)).ok()?;
        self.nodes.get(at)
    }

    /// The names of required fields, in the schema's order.
    pub(crate) fn required(&self) -> impl ExactSizeIterator<Item = &str> {
        let name = |index: &u32| self.names.get(usize::try_from(*index).ok()?);
        self.required.iter().map(move |index| name(index).map_or("", |name| self.text_of(name)))
    }

    pub(crate) fn additional(&self) -> &Additional {
        &self.additional
    }

    pub(crate) fn additional_mut(&mut self) -> &mut Additional {
        &mut self.additional
    }

    fn text_of(&self, name: &Name) -> &str {
        let range = || Some(usize::try_from(name.start).ok()?..usize::try_from(name.start + name.len).ok()?);
        range().and_then(|range| self.text.get(range)).unwrap_or("")
    }

    /// How a name of this schema stands to another, whose head is given too.
    fn order(&self, name: &Name, head: u64, other: &str) -> Ordering {
        let short = |len: usize| len <= size_of::<u64>();
        name.head.cmp(&head).then_with(|| match usize::try_from(name.len) {
            Ok(len) if short(len) && short(other.len()) => len.cmp(&other.len()),
            _ => self.text_of(name).cmp(other),
        })
    }
}

/// No document has four gigabytes.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Goes along the properties of a node as a walk goes along the fields of an object. Made by [`Node::cursor`].
pub(crate) struct Cursor<'n> {
    fields: Option<&'n Fields>,
    at: usize,
}

impl<'n> Cursor<'n> {
    pub(crate) fn new(fields: Option<&'n Fields>) -> Self {
        Self { fields, at: 0 }
    }

    /// The property of this name, and those that were stepped over since the one before. Names have to be asked for in
    /// order, each once.
    pub(crate) fn advance(&mut self, name: &str) -> (&'n [Node], Option<&'n Node>) {
        let Some(fields) = self.fields else { return (&[], None) };
        let names = fields.names.get(..fields.nodes.len()).unwrap_or_default();
        let (from, head) = (self.at, head(name));
        let mut found = None;
        while let Some(next) = names.get(self.at) {
            match fields.order(next, head, name) {
                Ordering::Less if self.at - from < STEPS_MAX => self.at += 1,
                Ordering::Less => {
                    let rest = names.get(self.at..).unwrap_or_default();
                    self.at += rest.partition_point(|next| fields.order(next, head, name).is_lt());
                }
                Ordering::Equal => {
                    found = fields.nodes.get(self.at);
                    break;
                }
                Ordering::Greater => break,
            }
        }
        let over = fields.nodes.get(from..self.at).unwrap_or_default();
        self.at += usize::from(found.is_some());
        (over, found)
    }

    /// As [`Self::advance`], without those that were stepped over.
    pub(crate) fn property(&mut self, name: &str) -> Option<&'n Node> {
        self.advance(name).1
    }

    /// The schema of a field: that of its name, else that of additional properties (`getSchemaForField`).
    pub(crate) fn field(&mut self, name: &str) -> Option<&'n Node> {
        self.property(name).or_else(|| self.fields?.additional.schema())
    }

    /// Those that no name was asked for any more.
    pub(crate) fn rest(&self) -> &'n [Node] {
        self.fields.and_then(|fields| fields.nodes.get(self.at..)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Additional, Cursor, Fields, head};
    use crate::node::Node;
    use kindom_formats::Format;

    /// Nodes that can be told apart by their format.
    fn fields<'a>(properties: &[&'a str], required: &[&'a str]) -> Fields {
        let node = |_: &&str| Node { format: Some(Format::Date), ..Node::default() };
        let properties = properties.iter().map(|name| (*name, node(name))).collect();
        Fields::new(properties, required, Additional::Unset)
    }

    #[test]
    fn required_names_keep_their_order() {
        let fields = fields(&["a", "b"], &["z", "b", "c"]);
        assert_eq!(fields.required().collect::<Vec<_>>(), ["z", "b", "c"]);
        let required: Vec<bool> = fields.properties().map(|(_, node)| node.required).collect();
        assert_eq!(required, [false, true]);
        assert!(fields.property("c").is_none(), "which is required, but no property");
        assert!(Cursor::new(Some(&fields)).property("z").is_none());
    }

    #[test]
    fn heads_order_as_names_do() {
        let mut names = [
            "",
            "\0",
            "a",
            "ab",
            "ab\0",
            "abc",
            "abcd",
            "abcde",
            "abcdefg",
            "abcdefgh",
            "abcdefghi",
            "b",
            "é",
        ];
        names.sort_unstable();
        assert!(names.is_sorted_by_key(|name| head(name)));
        assert_eq!(head("abcde"), u64::from_be_bytes(*b"abcde\0\0\0"));
        assert_eq!(head("abcdefg"), u64::from_be_bytes(*b"abcdefg\0"));
        assert_eq!(head("abcd"), u64::from_be_bytes(*b"abcd\0\0\0\0"));
    }

    proptest! {
        /// Names of few letters, so that they are often equal or begin alike.
        #[test]
        fn a_cursor_finds_what_a_search_finds(
            names in prop::collection::btree_set("[ab\0]{0,3}(prefix..)?[ab]{0,3}", 0..40),
            asked in prop::collection::btree_set("[ab\0]{0,3}(prefix..)?[ab]{0,3}", 0..40),
        ) {
            let sorted: Vec<&str> = names.iter().map(String::as_str).collect();
            let fields = fields(&sorted, &[]);
            let mut cursor = Cursor::new(Some(&fields));
            let mut seen = 0;
            for name in &asked {
                let (over, found) = cursor.advance(name);
                prop_assert_eq!(found.is_some(), names.contains(name));
                prop_assert_eq!(fields.property(name).is_some(), names.contains(name));
                if let (Some(found), Some(same)) = (found, fields.property(name)) {
                    prop_assert!(std::ptr::eq(found, same));
                }
                seen += over.len() + usize::from(found.is_some());
                prop_assert_eq!(seen, sorted.iter().filter(|known| **known <= name.as_str()).count());
            }
            prop_assert_eq!(seen + cursor.rest().len(), names.len());
        }
    }
}
