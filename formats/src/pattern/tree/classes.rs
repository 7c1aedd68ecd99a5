//! Nodes that are one character of a choice, and how they become one.

use std::sync::Arc;

use super::limits::Limit;
use super::{Id, Op, Tree, With};
use crate::pattern::class::{self, LAST, Range};

impl Tree {
    /// `true` if a node is one character, of a choice or not.
    pub(super) fn is_class(&self, id: Id) -> bool {
        match self.op(id) {
            Op::Literal => self.literal_runes(id).len() == 1,
            Op::Class | Op::AnyButNewline | Op::Any => true,
            _ => false,
        }
    }

    fn takes(&self, id: Id, rune: u32) -> bool {
        match self.op(id) {
            Op::Literal => self.literal_runes(id) == [rune],
            Op::Class => self.class_ranges(id).iter().any(|(low, high)| (*low..=*high).contains(&rune)),
            Op::AnyButNewline => rune != u32::from('\n'),
            Op::Any => true,
            _ => false,
        }
    }

    /// Adds to `id` what `other` takes, which is of no later kind.
    pub(super) fn merge(&mut self, id: Id, other: Id) -> Result<(), Limit> {
        match self.op(id) {
            Op::AnyButNewline if self.takes(other, u32::from('\n')) => self.node_mut(id).op = Op::Any,
            Op::Class => {
                let mut added = self.ranges_of(other);
                if let With::Class(ranges, _) = &self.node(id).with
                    && Arc::strong_count(ranges) > 1
                {
                    let count = ranges.len();
                    self.store(count)?;
                }
                if let With::Class(ranges, cleaned) = &mut self.node_mut(id).with {
                    let ranges = Arc::make_mut(ranges);
                    ranges.append(&mut added);
                    if ranges.len() > *cleaned * 2 + 1024 {
                        class::clean(ranges);
                        *cleaned = ranges.len();
                    }
                }
            }
            Op::Literal => {
                let same = self.literal_runes(id) == self.literal_runes(other);
                if !same || self.node(id).fold != self.node(other).fold {
                    let mut ranges = self.ranges_of(id);
                    ranges.append(&mut self.ranges_of(other));
                    let node = self.node_mut(id);
                    (node.op, node.with) = (Op::Class, With::Class(Arc::new(ranges), 0));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ranges_of(&self, id: Id) -> Vec<Range> {
        let mut ranges = self.class_ranges(id).to_vec();
        if self.op(id) == Op::Literal {
            for rune in self.literal_runes(id) {
                ranges.push((*rune, *rune));
                if self.node(id).fold {
                    ranges.extend(class::orbit(*rune).iter().map(|rune| (*rune, *rune)));
                }
            }
        }
        ranges
    }

    pub(super) fn clean(&mut self, id: Id) {
        const NEWLINE: u32 = '\n' as u32;
        if self.op(id) != Op::Class {
            return;
        }
        let node = self.node_mut(id);
        let With::Class(ranges, cleaned) = &mut node.with else { return };
        if ranges.len() != *cleaned {
            let ranges = Arc::make_mut(ranges);
            class::clean(ranges);
            *cleaned = ranges.len();
        }
        let op = match ranges[..] {
            [(0, LAST)] => Op::Any,
            [(0, before), (after, LAST)] if before + 1 == NEWLINE && after == NEWLINE + 1 => {
                Op::AnyButNewline
            }
            _ => return,
        };
        (node.op, node.with) = (op, With::None);
    }
}
