//! Sets of fields after their type has changed (`typed/reconcile_schema.go`).

use kindom_schema::merge::{ListRelation, MergeType};

use super::{Atom, atom, field_type};
use crate::set::Node;
use crate::{PathElement, Set};

/// A set in which what its type has made atomic since is one field; none if it stays as it is.
pub(crate) fn reconcile<'a>(set: &Set<'a>, ty: MergeType<'_>) -> Option<Set<'a>> {
    match atom(ty, None).0? {
        Atom::Scalar(_) => None,
        Atom::Map(map) => {
            if map.is_deduced() {
                return None;
            }
            below(set, |element| match element {
                PathElement::Field(name) => field_type(map, name),
                _ => map.element(),
            })
        }
        Atom::List(list) => below(set, |_| Some(list.element())),
    }
}

fn below<'a, 't>(
    set: &Set<'a>,
    type_of: impl Fn(&PathElement<'a>) -> Option<MergeType<'t>>,
) -> Option<Set<'a>> {
    let mut changed: Option<Set<'a>> = None;
    for (i, entry) in set.entries().iter().enumerate() {
        let Some(ty) = type_of(&entry.element) else { continue };
        let node = if entry.at.below.is_empty() {
            None
        } else if is_atomic(ty) {
            Some(Node::LEAF)
        } else {
            reconcile(&entry.at.below, ty).map(|below| Node { member: entry.at.member, below })
        };
        if let Some(node) = node {
            let changed = changed.get_or_insert_with(|| set.clone());
            changed.replace(i, node);
        }
    }
    changed
}

fn is_atomic(ty: MergeType<'_>) -> bool {
    match atom(ty, None).0 {
        Some(Atom::Map(map)) => !map.is_deduced() && map.is_atomic(),
        Some(Atom::List(list)) => matches!(list.relation(), ListRelation::Atomic),
        _ => false,
    }
}
