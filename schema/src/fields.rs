//! The fields that a node describes, laid out for walks that visit all of them.
//!
//! Objects and schemas both have their names sorted, so a walk goes along both at once ([`Cursor`]) and compares eight
//! bytes at a time, as numbers. The texts of the names lie in one piece: most schemas are names for the greater part.
//!
//! For `{"properties":{"b":…,"a":…},"required":["c","b"]}`:
//!
//! ```text
//! text      "abc"
//! ends       1 2 3     of each name: first those of properties, by name, then what else is required
//! heads      a b       the first eight bytes of those of properties
//! tails      0 0       their last eight bytes, of names that have as many
//! nodes      a b
//! required   2 1       in the schema's order, which is that of errors
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use kindom_api::Value;

use crate::node::Node;

/// The number of bytes of a name in its head.
const HEAD: usize = size_of::<u64>();

/// The most names that a cursor steps over before it searches: objects have most of the fields that their schemas name.
const STEPS_MAX: usize = 16;

/// Properties, required fields and additional properties.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    text: Box<str>,
    ends: Box<[u32]>,
    heads: Box<[u64]>,
    tails: Box<[u64]>,
    nodes: Box<[Node]>,
    required: Box<[u32]>,
    /// The number of properties with a default.
    defaults: u32,
    additional: Additional,
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Not said: any for the validator, none for pruning.
    #[default]
    Unset,
    /// `false`: none for the validator; for pruning, fields stay and lose their content.
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

/// The first eight bytes as a number, zeros for missing ones, so that numbers order as their names do; names that differ
/// later are equal here.
#[inline]
fn head(name: &str) -> u64 {
    let bytes = name.as_bytes();
    if let Some(first) = bytes.first_chunk::<HEAD>() {
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

/// The last eight bytes as a number; 0 for names that have not as many, which are all in their heads.
#[inline]
fn tail(name: &str) -> u64 {
    name.as_bytes().last_chunk::<HEAD>().map_or(0, |last| u64::from_be_bytes(*last))
}

/// The range of a name in the text.
fn place(ends: &[u32], index: usize) -> Option<Range<usize>> {
    let end = |index: usize| usize::try_from(*ends.get(index)?).ok();
    Some(index.checked_sub(1).and_then(end).unwrap_or(0)..end(index)?)
}

impl Fields {
    /// `properties` are sorted by name, each there once; so is each of `required`.
    pub(crate) fn new(properties: Vec<(&str, Node)>, required: &[&str], additional: Additional) -> Self {
        let mut fields = Self { additional, ..Self::default() };
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(properties.len()));
        let mut add = |name: &str| {
            text.push_str(name);
            ends.push(index(text.len()));
            index(ends.len() - 1)
        };
        let place = |name: &str| properties.binary_search_by(|(property, _)| (*property).cmp(name));
        let places: Vec<_> = required.iter().map(|name| place(name)).collect();
        for (name, _) in &properties {
            add(name);
        }
        fields.required = required
            .iter()
            .zip(places)
            .map(|(name, place)| place.map_or_else(|_| add(name), index))
            .collect();
        (fields.text, fields.ends) = (text.into(), ends.into());
        fields.heads = properties.iter().map(|(name, _)| head(name)).collect();
        fields.tails = properties.iter().map(|(name, _)| tail(name)).collect();
        fields.nodes = properties.into_iter().map(|(_, node)| node).collect();
        fields.defaults = index(fields.nodes.iter().filter(|node| node.default.is_some()).count());
        for index in &fields.required {
            if let Some(node) = usize::try_from(*index).ok().and_then(|index| fields.nodes.get_mut(index)) {
                node.required = true;
            }
        }
        fields
    }

    /// `true` if there are no properties.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The properties, by name.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().enumerate().map(|(i, node)| (self.name(i), node))
    }

    /// The properties that have a default, by name.
    pub(crate) fn defaulted(&self) -> impl Iterator<Item = (&str, &Value, &Node)> {
        let defaulted = self.nodes.iter().enumerate();
        defaulted.filter_map(|(i, node)| node.default.as_deref().map(|default| (self.name(i), default, node)))
    }

    /// The properties, by name, to be completed.
    pub(crate) fn properties_mut(&mut self) -> impl Iterator<Item = (&str, &mut Node)> {
        let (text, ends) = (&*self.text, &*self.ends);
        self.nodes.iter_mut().enumerate().map(move |(i, node)| {
            let place = place(ends, i).unwrap_or_default();
            (text.get(place).unwrap_or(""), node)
        })
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let head = head(name);
        let first = self.heads.partition_point(|other| *other < head);
        self.nodes.get(self.among_equals(first, head, name).ok()?)
    }

    /// The names of required fields, in the schema's order.
    pub(crate) fn required(&self) -> impl ExactSizeIterator<Item = &str> {
        self.required.iter().map(|index| usize::try_from(*index).map_or("", |index| self.name(index)))
    }

    /// The number of properties with a default.
    pub(crate) fn defaults(&self) -> usize {
        usize::try_from(self.defaults).unwrap_or(usize::MAX)
    }

    pub(crate) fn additional(&self) -> &Additional {
        &self.additional
    }

    pub(crate) fn additional_mut(&mut self) -> &mut Additional {
        &mut self.additional
    }

    fn name(&self, index: usize) -> &str {
        self.place(index).and_then(|place| self.text.get(place)).unwrap_or("")
    }

    fn place(&self, index: usize) -> Option<Range<usize>> {
        place(&self.ends, index)
    }

    /// `true` if a name is another that has the same head.
    #[inline]
    fn is(&self, index: usize, other: &str) -> bool {
        let place = self.place(index).unwrap_or_default();
        place.len() == other.len()
            && self.tails.get(index) == Some(&tail(other))
            // Head and tail cover a name of twice eight bytes.
            && (other.len() <= 2 * HEAD || self.text.as_bytes().get(place) == Some(other.as_bytes()))
    }

    /// Compares a name to another one that has the same head.
    fn order(&self, index: usize, other: &str) -> Ordering {
        let place = self.place(index).unwrap_or_default();
        if place.len() <= HEAD && other.len() <= HEAD {
            // All of both is in their heads.
            return place.len().cmp(&other.len());
        }
        self.text.as_bytes().get(place).unwrap_or_default().cmp(other.as_bytes())
    }

    /// The index of a name, from the first on with its head; else that of the first name behind it.
    fn among_equals(&self, first: usize, head: u64, name: &str) -> Result<usize, usize> {
        let mut at = first;
        while self.heads.get(at) == Some(&head) {
            match self.order(at, name) {
                Ordering::Less => at += 1,
                Ordering::Equal => return Ok(at),
                Ordering::Greater => break,
            }
        }
        Err(at)
    }
}

/// No document has four gigabytes.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
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

    /// The property of this name. Names have to be asked for in order, each once.
    #[inline]
    pub(crate) fn property(&mut self, name: &str) -> Option<&'n Node> {
        let fields = self.fields?;
        let head = head(name);
        let from = self.at + before(fields.heads.get(self.at..).unwrap_or_default(), head);
        self.at = from;
        if fields.heads.get(from) != Some(&head) {
            return None;
        }
        if fields.is(from, name) {
            self.at = from + 1;
            return fields.nodes.get(from);
        }
        let place = fields.among_equals(from, head, name);
        self.at = place.map_or_else(|at| at, |at| at + 1);
        fields.nodes.get(place.ok()?)
    }

    /// The schema of a field: that of its name, else that of additional properties (`getSchemaForField`).
    pub(crate) fn field(&mut self, name: &str) -> Option<&'n Node> {
        self.property(name).or_else(|| self.fields?.additional.schema())
    }
}

/// The number of sorted heads that are smaller than another.
#[inline]
fn before(heads: &[u64], head: u64) -> usize {
    let near = heads.iter().take(STEPS_MAX).take_while(|other| **other < head).count();
    if near < STEPS_MAX { near } else { heads.partition_point(|other| *other < head) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Additional, Cursor, Fields, head};
    use crate::node::Node;
    use kindom_formats::Format;

    /// Nodes that differ in their format.
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
            for name in &asked {
                let found = cursor.property(name);
                prop_assert_eq!(found.is_some(), names.contains(name));
                prop_assert_eq!(fields.property(name).is_some(), names.contains(name));
                if let (Some(found), Some(same)) = (found, fields.property(name)) {
                    prop_assert!(std::ptr::eq(found, same));
                }
            }
        }
    }
}
