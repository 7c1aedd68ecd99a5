//! Sets of fields (`fieldpath/set.go`).

use std::cmp::Ordering;

use crate::{PathElement, fields_v1};

/// A set of paths to fields, as a tree. A path in the set does not include the paths below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set<'a> {
    /// Sorted by element; each is a member or has something below it.
    entries: Vec<Entry<'a>>,
}

/// The part of a set at an element: the element itself, paths through it, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) element: PathElement<'a>,
    pub(crate) at: Node<'a>,
}

/// The part of a set at and below one element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    /// `true` if the element itself is in the set.
    pub(crate) member: bool,
    /// The paths below it.
    pub(crate) below: Set<'a>,
}

impl Node<'_> {
    /// An element with nothing below it.
    pub(crate) const LEAF: Self = Self { member: true, below: Set { entries: Vec::new() } };

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl<'a> Set<'a> {
    /// The set of no field.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Returns true if the set has no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.at.member) + entry.at.below.len()).sum()
    }

    /// Returns true if a path is in the set.
    #[must_use]
    pub fn has(&self, path: &[PathElement<'_>]) -> bool {
        match path {
            [] => false,
            [last] => self.at(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.at(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Returns true if every field of this set is in `other` as well.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.entries.iter().all(|entry| {
            let there = other.at(&entry.element);
            there.is_some_and(|there| {
                (there.member || !entry.at.member) && entry.at.below.is_within(&there.below)
            })
        })
    }

    /// Returns true if every field of this set is in `other`, in the same words: equal numbers may print differently.
    pub(crate) fn is_said_by(&self, other: &Self) -> bool {
        self.entries.iter().all(|entry| {
            let Some(there) = other.find(&entry.element).ok().and_then(|i| other.entries.get(i)) else {
                return false;
            };
            let same_text = match &entry.element {
                PathElement::Field(_) | PathElement::Index(_) => true,
                PathElement::Key(_) | PathElement::Value(_) => {
                    fields_v1::key(&entry.element) == fields_v1::key(&there.element)
                }
            };
            same_text && (there.at.member || !entry.at.member) && entry.at.below.is_said_by(&there.at.below)
        })
    }

    /// Returns true if both sets have a path in common.
    pub(crate) fn meets(&self, other: &Set<'_>) -> bool {
        other.entries.iter().any(|entry| {
            let there = self.at(&entry.element);
            there.is_some_and(|there| (there.member && entry.at.member) || there.below.meets(&entry.at.below))
        })
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement<'a>]) {
        match path {
            [] => {}
            [last] => self.node_mut(last.clone()).member = true,
            [first, rest @ ..] => self.node_mut(first.clone()).below.insert(rest),
        }
    }

    /// All paths, those of members of a map or list before those below them.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<PathElement<'a>>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement<'a>>, out: &mut Vec<Vec<PathElement<'a>>>) {
        for entry in self.entries.iter().filter(|entry| entry.at.member) {
            let mut path = prefix.clone();
            path.push(entry.element.clone());
            out.push(path);
        }
        for entry in self.entries.iter().filter(|entry| !entry.at.below.is_empty()) {
            prefix.push(entry.element.clone());
            entry.at.below.collect(prefix, out);
            prefix.pop();
        }
    }

    fn find(&self, element: &PathElement<'_>) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.element.cmp(element))
    }

    /// The part of the set at an element.
    pub(crate) fn at(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        self.find(element).ok().and_then(|i| self.entries.get(i)).map(|entry| &entry.at)
    }

    pub(crate) fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// The part of the set at an element, inserted if it is new; the caller then makes the element a member or puts paths
    /// below it.
    pub(crate) fn node_mut(&mut self, element: PathElement<'a>) -> &mut Node<'a> {
        // Mostly in order.
        let last = self.entries.last().map_or(Ordering::Less, |last| last.element.cmp(&element));
        let at = match last {
            Ordering::Less => Err(self.entries.len()),
            Ordering::Equal => Ok(self.entries.len() - 1),
            Ordering::Greater => self.find(&element),
        };
        let i = match at {
            Ok(i) => i,
            Err(i) => {
                self.entries.insert(i, Entry { element, at: Node::default() });
                i
            }
        };
        match self.entries.get_mut(i) {
            Some(entry) => &mut entry.at,
            None => unreachable!("invariant: the index was found or inserted just above"),
        }
    }

    /// Adds the node at an element, unless it is empty.
    pub(crate) fn put(&mut self, element: PathElement<'a>, node: Node<'a>) {
        if node.is_empty() {
            return;
        }
        let there = self.node_mut(element);
        if there.is_empty() {
            *there = node;
        } else {
            there.member |= node.member;
            there.below = there.below.union(&node.below);
        }
    }

    /// Adds the node at an element behind all others, unless it is empty.
    pub(crate) fn push(&mut self, element: PathElement<'a>, node: Node<'a>) {
        debug_assert!(self.entries.last().is_none_or(|last| last.element < element));
        if !node.is_empty() {
            self.entries.push(Entry { element, at: node });
        }
    }

    /// The set of no field, with room for so many elements.
    pub(crate) fn with_room(elements: usize) -> Self {
        Self { entries: Vec::with_capacity(elements) }
    }

    /// Puts something else at an entry's element, which is not nothing.
    pub(crate) fn replace(&mut self, i: usize, node: Node<'a>) {
        if let Some(entry) = self.entries.get_mut(i) {
            entry.at = node;
        }
    }

    /// The fields that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member || b.member, below: a.below.union(&b.below) },
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Node::default(),
        })
    }

    /// The union of both sets, without a copy if one of them is empty.
    pub(crate) fn with(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => self.union(&other),
        }
    }

    /// The fields that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return Self::new();
        }
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => {
                Node { member: a.member && b.member, below: a.below.intersection(&b.below) }
            }
            _ => Node::default(),
        })
    }

    /// The fields of this set that are not in `other`. A field below a field of `other` stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member && !b.member, below: a.below.difference(&b.below) },
            (Some(a), None) => a.clone(),
            _ => Node::default(),
        })
    }

    /// The fields of this set that are neither in `other` nor below a field of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) if !b.member => {
                Node { member: a.member, below: a.below.recursive_difference(&b.below) }
            }
            (Some(a), None) => a.clone(),
            _ => Node::default(),
        })
    }

    /// Lets `change` remove paths of the node at each element.
    pub(crate) fn keep(&mut self, mut change: impl FnMut(&PathElement<'a>, &mut Node<'a>)) {
        self.entries.retain_mut(|entry| {
            change(&entry.element, &mut entry.at);
            !entry.at.is_empty()
        });
    }

    /// Without the fields of these names, and all below them. A name may be two, `status.conditions`, of a field in a field.
    pub(crate) fn without_fields(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| self.forget(name));
        self
    }

    fn forget(&mut self, name: &str) {
        let is =
            |entry: &Entry<'_>, name| matches!(entry.element, PathElement::Field(field) if field == name);
        let Some((first, rest)) = name.split_once('.') else {
            return self.entries.retain(|entry| !is(entry, name));
        };
        for entry in self.entries.iter_mut().filter(|entry| is(entry, first)) {
            entry.at.below.forget(rest);
        }
        self.entries.retain(|entry| !is(entry, first) || !entry.at.is_empty());
    }

    fn zip(&self, other: &Self, join: impl Fn(Option<&Node<'a>>, Option<&Node<'a>>) -> Node<'a>) -> Self {
        let mut out = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let mut push = |element: &PathElement<'a>, node: Node<'a>| {
            if !node.is_empty() {
                out.push(Entry { element: element.clone(), at: node });
            }
        };
        let (mut ours, mut theirs) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.element.cmp(&b.element),
            };
            let a = if order.is_le() { ours.next() } else { None };
            let b = if order.is_ge() { theirs.next() } else { None };
            if let Some(one) = a.or(b) {
                push(&one.element, join(a.map(|entry| &entry.at), b.map(|entry| &entry.at)));
            }
        }
        Self { entries: out }
    }
}
