//! The tree that Go's parser makes of an expression, and the limits that it puts on it (`regexp/syntax/parse.go`, Go 1.26).
//!
//! Whether Go takes an expression depends on what its parser allocates on the way: literals that follow each other are
//! one node, nodes are used again, alternatives share what they begin with, and the size of a node is the one it had when
//! it was last asked for. So this keeps the same stack, the same free list and the same sizes.

use std::sync::Arc;

use super::class::{self, LAST, Range};

/// How high a tree may be (`maxHeight`).
pub(super) const HEIGHT_MAX: u32 = 1000;
/// How many instructions an expression may have (`maxSize`): 128 MiB of 40 bytes.
const SIZE_MAX: i64 = (128 << 20) / 40;
/// How many runes all nodes may have together, two for each range of a class (`maxRunes`): 128 MiB of 4 bytes.
const RUNES_MAX: usize = (128 << 20) / 4;
/// The most repetitions, also of nested ones multiplied.
const REPEAT_MAX: i32 = 1000;
/// How many ranges the classes of an expression may take in memory, at 8 bytes each. A bound of ours: 6,000 classes, all
/// different, of the size of `\pL`.
const STORED_MAX: usize = 4 << 20;

/// How often nodes may be looked at for their sizes and heights and moved, a bound of ours: each is a few times, but for
/// alternatives that begin alike at every length, on which Go spends the cube of their count.
const WORK_MAX: usize = 64 << 20;

/// The place of a node.
pub(super) type Id = u32;

/// What a node is, in Go's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Nothing,
    Empty,
    Literal,
    Class,
    AnyButNewline,
    Any,
    BeginLine,
    EndLine,
    BeginText,
    EndText,
    WordBoundary,
    NoWordBoundary,
    Capture,
    Star,
    Plus,
    Quest,
    Repeat,
    Concat,
    Alternate,
    /// On the stack only, as is a bar.
    LeftParen,
    Bar,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: Op,
    /// Of a literal: whether case does not matter.
    pub(super) fold: bool,
    /// Of a repetition: whether fewer are preferred.
    pub(super) lazy: bool,
    /// Of a parenthesis: whether it captures.
    captures: bool,
    /// Of a parenthesis: the flags to go back to.
    flags: Flags,
    pub(super) min: i32,
    /// Less than 0: any number.
    pub(super) max: i32,
    pub(super) with: With,
}

/// What else a node has.
#[derive(Debug)]
pub(super) enum With {
    None,
    Rune(u32),
    /// Runes, of which the first so many have gone to a common beginning.
    Runes(Vec<u32>, usize),
    /// Ranges, and how many there were when they were last clean.
    Class(Arc<Vec<Range>>, usize),
    Sub(Id),
    Subs(Vec<Id>),
}

/// The flags of a place in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) fold: bool,
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
    pub(super) lazy: bool,
}

/// Why Go does not take an expression whatever its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Large,
    Deep,
}

/// Why a repetition is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRepeated {
    Limit(Limit),
    NothingToRepeat,
    TooOften,
}

/// The tree while it grows.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    free: Vec<Id>,
    stack: Vec<Id>,
    pub(super) flags: Flags,
    runes: usize,
    repeats: i64,
    /// By node; 0 is unknown. Kept when a node is used again.
    sizes: Option<Vec<i64>>,
    heights: Option<Vec<u32>>,
    stored: usize,
    work: usize,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            stack: Vec::new(),
            flags: Flags::default(),
            runes: 0,
            repeats: 1,
            sizes: None,
            heights: None,
            stored: 0,
            work: 0,
        }
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "an id is the place of a node that was added, and none is removed"
    )]
    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    #[allow(clippy::indexing_slicing, reason = "as in `node`")]
    fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    pub(super) fn op(&self, id: Id) -> Op {
        self.node(id).op
    }

    fn add(&mut self, op: Op, with: With) -> Id {
        let node = Node {
            op,
            fold: self.flags.fold,
            lazy: false,
            captures: false,
            flags: self.flags,
            min: 0,
            max: 0,
            with,
        };
        if let Some(id) = self.free.pop() {
            *self.node_mut(id) = node;
            return id;
        }
        self.nodes.push(node);
        // A text has at most 3 MB, and each of its bytes makes a few nodes.
        Id::try_from(self.nodes.len() - 1).unwrap_or(Id::MAX)
    }

    fn reuse(&mut self, id: Id) {
        if let Some(height) = self.heights.as_mut().and_then(|heights| heights.get_mut(id as usize)) {
            *height = 0;
        }
        self.free.push(id);
    }

    /// The runes of a literal.
    pub(super) fn literal_runes(&self, id: Id) -> &[u32] {
        match &self.node(id).with {
            With::Rune(rune) => std::slice::from_ref(rune),
            With::Runes(runes, from) => runes.get(*from..).unwrap_or_default(),
            _ => &[],
        }
    }

    pub(super) fn class_ranges(&self, id: Id) -> &[Range] {
        match &self.node(id).with {
            With::Class(ranges, _) => ranges,
            _ => &[],
        }
    }

    pub(super) fn subs(&self, id: Id) -> &[Id] {
        match &self.node(id).with {
            With::Sub(sub) => std::slice::from_ref(sub),
            With::Subs(subs) => subs,
            _ => &[],
        }
    }

    fn rune_count(&self, id: Id) -> usize {
        match &self.node(id).with {
            With::Class(ranges, _) => ranges.len() * 2,
            With::Rune(_) | With::Runes(..) => self.literal_runes(id).len(),
            _ => 0,
        }
    }

    /// The nodes below a root, each behind all that it has.
    pub(super) fn bottom_up(&self, root: Id) -> Vec<Id> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            order.push(id);
            open.extend_from_slice(self.subs(id));
        }
        order.reverse();
        order
    }

    // Limits.

    fn check(&mut self, id: Id) -> Result<(), Limit> {
        self.work += self.subs(id).len() + 1;
        if self.runes > RUNES_MAX || self.work > WORK_MAX {
            return Err(Limit::Large);
        }
        self.check_size(id)?;
        self.check_height(id)
    }

    fn check_size(&mut self, id: Id) -> Result<(), Limit> {
        if self.sizes.is_none() && !self.starts_sizes(id) {
            return Ok(());
        }
        if self.sizes.is_none() {
            self.sizes = Some(Vec::new());
            for id in self.stack.clone() {
                if self.size(id, true) > SIZE_MAX {
                    return Err(Limit::Large);
                }
            }
        }
        if self.size(id, true) > SIZE_MAX { Err(Limit::Large) } else { Ok(()) }
    }

    /// `true` once the tree is large enough for sizes to matter.
    fn starts_sizes(&mut self, id: Id) -> bool {
        let node = self.node(id);
        if node.op == Op::Repeat {
            let times = i64::from(if node.max == -1 { node.min } else { node.max }).max(1);
            self.repeats = if times > SIZE_MAX / self.repeats { SIZE_MAX } else { self.repeats * times };
        }
        self.nodes.len() as i64 >= SIZE_MAX / self.repeats
    }

    /// Recurses as deeply as the tree is high, which is bounded.
    fn size(&mut self, id: Id, anew: bool) -> i64 {
        let known = self.sizes.as_ref().and_then(|sizes| sizes.get(id as usize)).copied().unwrap_or(0);
        if !anew && known > 0 {
            return known;
        }
        let of_sub = |tree: &mut Self| {
            let sub = tree.subs(id).first().copied();
            sub.map_or(0, |sub| tree.size(sub, false))
        };
        let size = match self.op(id) {
            Op::Literal => self.literal_runes(id).len() as i64,
            Op::Capture | Op::Star => of_sub(self).saturating_add(2),
            Op::Plus | Op::Quest => of_sub(self).saturating_add(1),
            Op::Concat | Op::Alternate => {
                let mut sum: i64 = 0;
                let count = self.subs(id).len();
                for at in 0..count {
                    if let Some(sub) = self.subs(id).get(at).copied() {
                        sum = sum.saturating_add(self.size(sub, false));
                    }
                }
                if self.op(id) == Op::Alternate { sum.saturating_add(count as i64 - 1) } else { sum }
            }
            Op::Repeat => {
                let sub = of_sub(self);
                let Node { min, max, .. } = *self.node(id);
                let (min, max) = (i64::from(min), i64::from(max));
                match max {
                    -1 if min == 0 => sub.saturating_add(2),
                    -1 => sub.saturating_mul(min).saturating_add(1),
                    max => sub.saturating_mul(max).saturating_add(max - min),
                }
            }
            _ => 1,
        };
        let size = size.max(1);
        if let Some(sizes) = &mut self.sizes {
            if sizes.len() <= id as usize {
                sizes.resize(self.nodes.len(), 0);
            }
            if let Some(place) = sizes.get_mut(id as usize) {
                *place = size;
            }
        }
        size
    }

    fn check_height(&mut self, id: Id) -> Result<(), Limit> {
        if self.nodes.len() < HEIGHT_MAX as usize {
            return Ok(());
        }
        if self.heights.is_none() {
            self.heights = Some(Vec::new());
            for id in self.stack.clone() {
                if self.height(id, true) > HEIGHT_MAX {
                    return Err(Limit::Deep);
                }
            }
        }
        if self.height(id, true) > HEIGHT_MAX { Err(Limit::Deep) } else { Ok(()) }
    }

    fn height(&mut self, id: Id, anew: bool) -> u32 {
        let known = self.heights.as_ref().and_then(|heights| heights.get(id as usize)).copied().unwrap_or(0);
        if !anew && known > 0 {
            return known;
        }
        let mut height = 1;
        for at in 0..self.subs(id).len() {
            if let Some(sub) = self.subs(id).get(at).copied() {
                height = height.max(self.height(sub, false) + 1);
            }
        }
        if let Some(heights) = &mut self.heights {
            if heights.len() <= id as usize {
                heights.resize(self.nodes.len(), 0);
            }
            if let Some(place) = heights.get_mut(id as usize) {
                *place = height;
            }
        }
        height
    }

    // The stack.

    fn push(&mut self, id: Id) -> Result<(), Limit> {
        self.runes += self.rune_count(id);
        let as_literal = match self.class_ranges(id) {
            _ if self.op(id) != Op::Class => None,
            [(a, b)] if a == b => Some((*a, false)),
            [(a, b)] if a + 1 == *b && class::orbit(*a) == [*a, *b] => Some((*a, true)),
            [(a, b), (c, d)] if a == b && c == d && class::orbit(*a) == [*a, *c] => Some((*a, true)),
            _ => None,
        };
        if let Some((rune, fold)) = as_literal {
            if self.join_literals(Some((rune, fold))) {
                return Ok(());
            }
            let node = self.node_mut(id);
            (node.op, node.fold, node.with) = (Op::Literal, fold, With::Rune(rune));
        } else {
            self.join_literals(None);
        }
        self.stack.push(id);
        self.check(id)
    }

    /// Joins the two topmost nodes if both are literals. The place that becomes free takes a rune, if there is one.
    fn join_literals(&mut self, next: Option<(u32, bool)>) -> bool {
        let [.., second, first] = self.stack[..] else { return false };
        let (a, b) = (self.node(first), self.node(second));
        if a.op != Op::Literal || b.op != Op::Literal || a.fold != b.fold {
            return false;
        }
        let end = std::mem::replace(&mut self.node_mut(first).with, With::None);
        let end: &[u32] = match &end {
            With::Rune(rune) => std::slice::from_ref(rune),
            With::Runes(runes, from) => runes.get(*from..).unwrap_or_default(),
            _ => &[],
        };
        let node = self.node_mut(second);
        if let With::Rune(rune) = node.with {
            node.with = With::Runes(vec![rune], 0);
        }
        if let With::Runes(runes, _) = &mut node.with {
            runes.extend_from_slice(end);
        }
        if let Some((rune, fold)) = next {
            let node = self.node_mut(first);
            (node.fold, node.with) = (fold, With::Rune(rune));
            return true;
        }
        self.stack.pop();
        self.reuse(first);
        false
    }

    pub(super) fn literal(&mut self, rune: u32) -> Result<(), Limit> {
        let rune = match class::orbit(rune) {
            [first, ..] if self.flags.fold => *first,
            _ => rune,
        };
        let id = self.add(Op::Literal, With::Rune(rune));
        self.push(id)
    }

    /// A node that only its kind tells.
    pub(super) fn simple(&mut self, op: Op) -> Result<(), Limit> {
        let id = self.add(op, With::None);
        self.push(id)
    }

    pub(super) fn open(&mut self, captures: bool) -> Result<(), Limit> {
        let id = self.add(Op::LeftParen, With::None);
        self.node_mut(id).captures = captures;
        self.push(id)
    }

    pub(super) fn class(&mut self, ranges: Arc<Vec<Range>>, own: bool) -> Result<(), Limit> {
        if own {
            self.store(ranges.len())?;
        }
        let count = ranges.len();
        let id = self.add(Op::Class, With::Class(ranges, count));
        self.push(id)
    }

    /// Go makes a node for a class before it reads it, and gives it back if it is none.
    pub(super) fn no_class(&mut self) {
        let id = self.add(Op::Class, With::None);
        self.reuse(id);
    }

    fn store(&mut self, ranges: usize) -> Result<(), Limit> {
        self.stored += ranges;
        if self.stored > STORED_MAX { Err(Limit::Large) } else { Ok(()) }
    }

    pub(super) fn repeat(&mut self, op: Op, min: i32, max: i32, lazy: bool) -> Result<(), NotRepeated> {
        let Some(sub) = self.stack.last().copied().filter(|id| self.op(*id) < Op::LeftParen) else {
            return Err(NotRepeated::NothingToRepeat);
        };
        let id = self.add(op, With::Sub(sub));
        let node = self.node_mut(id);
        (node.min, node.max, node.lazy) = (min, max, lazy);
        self.stack.pop();
        self.stack.push(id);
        self.check(id).map_err(NotRepeated::Limit)?;
        if op == Op::Repeat && (min >= 2 || max >= 2) && !self.may_repeat(id, REPEAT_MAX) {
            return Err(NotRepeated::TooOften);
        }
        Ok(())
    }

    /// Whether nothing is repeated more than so many times, repetitions multiplied.
    fn may_repeat(&self, id: Id, most: i32) -> bool {
        // On a stack of its own: it is asked before the height is known.
        let mut open = vec![(id, most)];
        while let Some((id, mut most)) = open.pop() {
            let node = self.node(id);
            if node.op == Op::Repeat {
                let times = if node.max < 0 { node.min } else { node.max };
                if node.max == 0 {
                    continue;
                }
                if times > most {
                    return false;
                }
                if times > 0 {
                    most /= times;
                }
            }
            open.extend(self.subs(id).iter().map(|sub| (*sub, most)));
        }
        true
    }

    /// Takes what is on the stack above the topmost parenthesis or bar.
    fn above(&mut self) -> Vec<Id> {
        let pseudo = self.stack.iter().rposition(|id| self.op(*id) >= Op::LeftParen);
        self.stack.split_off(pseudo.map_or(0, |at| at + 1))
    }

    fn concat(&mut self) -> Result<(), Limit> {
        self.join_literals(None);
        let subs = self.above();
        let id = if subs.is_empty() {
            self.add(Op::Empty, With::None)
        } else {
            self.collapse(subs, Op::Concat, 0)?
        };
        self.push(id)
    }

    fn alternate(&mut self) -> Result<(), Limit> {
        let subs = self.above();
        if let Some(last) = subs.last() {
            self.clean(*last);
        }
        let id = if subs.is_empty() {
            self.add(Op::Nothing, With::None)
        } else {
            self.collapse(subs, Op::Alternate, 0)?
        };
        self.push(id)
    }

    pub(super) fn bar(&mut self) -> Result<(), Limit> {
        self.concat()?;
        if !self.swap_bar()? {
            self.simple(Op::Bar)?;
        }
        Ok(())
    }

    /// Moves the topmost node below the bar under it, if there is one. Two of one character each become one class.
    fn swap_bar(&mut self) -> Result<bool, Limit> {
        let [ref below @ .., bar, top] = self.stack[..] else { return Ok(false) };
        if self.op(bar) != Op::Bar {
            return Ok(false);
        }
        let below = below.last().copied();
        if let Some(mut kept) = below
            && self.is_class(top)
            && self.is_class(kept)
        {
            let mut other = top;
            if self.op(other) > self.op(kept) {
                std::mem::swap(&mut other, &mut kept);
            }
            self.merge(kept, other)?;
            self.reuse(other);
            self.stack.truncate(self.stack.len() - 3);
            self.stack.extend([kept, bar]);
            return Ok(true);
        }
        if let Some(below) = below {
            self.clean(below);
        }
        self.stack.truncate(self.stack.len() - 2);
        self.stack.extend([top, bar]);
        Ok(true)
    }

    fn finish_alternatives(&mut self) -> Result<(), Limit> {
        self.concat()?;
        if self.swap_bar()? {
            self.stack.pop();
        }
        self.alternate()
    }

    /// A closing parenthesis; `false` if none is open.
    pub(super) fn close(&mut self) -> Result<bool, Limit> {
        self.finish_alternatives()?;
        let [.., open, group] = self.stack[..] else { return Ok(false) };
        if self.op(open) != Op::LeftParen {
            return Ok(false);
        }
        self.stack.truncate(self.stack.len() - 2);
        let node = self.node_mut(open);
        self.flags = node.flags;
        if !self.node(open).captures {
            return self.push(group).map(|()| true);
        }
        let node = self.node_mut(open);
        (node.op, node.with) = (Op::Capture, With::Sub(group));
        self.push(open).map(|()| true)
    }

    /// The whole tree; `None` if a parenthesis is open.
    pub(super) fn finish(&mut self) -> Result<Option<Id>, Limit> {
        self.finish_alternatives()?;
        Ok(if let [root] = self.stack[..] { Some(root) } else { None })
    }

    // Classes.

    /// Whether a node is one character, of a choice or not.
    fn is_class(&self, id: Id) -> bool {
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
    fn merge(&mut self, id: Id, other: Id) -> Result<(), Limit> {
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

    fn clean(&mut self, id: Id) {
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

    // What alternatives have in common.

    /// One node of all these, in which none is of the same kind as itself.
    fn collapse(&mut self, subs: Vec<Id>, op: Op, depth: u32) -> Result<Id, Limit> {
        if let [one] = subs[..] {
            return Ok(one);
        }
        let id = self.add(op, With::None);
        let mut flat = Vec::with_capacity(subs.len());
        for sub in subs {
            if self.op(sub) == op {
                if let With::Subs(inner) = std::mem::replace(&mut self.node_mut(sub).with, With::None) {
                    flat.extend(inner);
                }
                self.reuse(sub);
            } else {
                flat.push(sub);
            }
        }
        if op == Op::Alternate {
            flat = self.factor(flat, depth)?;
            if let [one] = flat[..] {
                self.reuse(id);
                return Ok(one);
            }
        }
        self.node_mut(id).with = With::Subs(flat);
        Ok(id)
    }

    fn factor(&mut self, subs: Vec<Id>, depth: u32) -> Result<Vec<Id>, Limit> {
        // Each level makes the tree two higher.
        if depth > HEIGHT_MAX / 2 {
            return Err(Limit::Deep);
        }
        if subs.len() < 2 {
            return Ok(subs);
        }
        let subs = self.factor_literals(subs, depth)?;
        let subs = self.factor_classes(subs, depth)?;
        let mut subs = self.factor_characters(subs)?;
        // Of empty ones that follow each other one is left.
        subs.dedup_by(|next, kept| self.op(*next) == Op::Empty && self.op(*kept) == Op::Empty);
        Ok(subs)
    }

    fn leading_literal(&self, id: Id) -> (&[u32], bool) {
        let first = if self.op(id) == Op::Concat { self.subs(id).first().copied() } else { None };
        let id = first.unwrap_or(id);
        if self.op(id) == Op::Literal { (self.literal_runes(id), self.node(id).fold) } else { (&[], false) }
    }

    /// `abc|abd` becomes `ab(?:c|d)`.
    fn factor_literals(&mut self, subs: Vec<Id>, depth: u32) -> Result<Vec<Id>, Limit> {
        let mut out = Vec::with_capacity(subs.len());
        let mut rest = &subs[..];
        while let [first, others @ ..] = rest {
            let (text, fold) = self.leading_literal(*first);
            let mut common = text.len();
            let mut count = 1;
            for other in others {
                let (other, other_fold) = self.leading_literal(*other);
                let same = text.iter().take(common).zip(other).take_while(|(a, b)| a == b).count();
                if same == 0 || fold != other_fold {
                    break;
                }
                common = same;
                count += 1;
            }
            let (run, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            if run.len() == 1 {
                out.extend_from_slice(run);
                continue;
            }
            let text = text.get(..common).unwrap_or_default().to_vec();
            let prefix = self.add(Op::Literal, With::Runes(text, 0));
            self.node_mut(prefix).fold = fold;
            let mut ends = Vec::with_capacity(run.len());
            for id in run {
                let id = self.without_literal(*id, common);
                self.check(id)?;
                ends.push(id);
            }
            let suffix = self.collapse(ends, Op::Alternate, depth + 1)?;
            out.push(self.add(Op::Concat, With::Subs(vec![prefix, suffix])));
        }
        Ok(out)
    }

    fn without_literal(&mut self, id: Id, count: usize) -> Id {
        if self.op(id) == Op::Concat {
            let Some(first) = self.subs(id).first().copied() else { return id };
            let first = self.without_literal(first, count);
            if self.op(first) != Op::Empty {
                return id;
            }
            self.reuse(first);
            return self.without_first(id);
        }
        let left = self.literal_runes(id).len().saturating_sub(count);
        let node = self.node_mut(id);
        if left == 0 {
            (node.op, node.with) = (Op::Empty, With::None);
        } else if let With::Runes(_, from) = &mut node.with {
            *from += count;
        }
        id
    }

    /// What remains of a sequence without its first node, which others have now.
    fn without_first(&mut self, id: Id) -> Id {
        let node = self.node_mut(id);
        let With::Subs(subs) = &mut node.with else { return id };
        if !subs.is_empty() {
            subs.remove(0);
        }
        match subs[..] {
            [] => {
                (node.op, node.with) = (Op::Empty, With::None);
                id
            }
            [one] => {
                self.reuse(id);
                one
            }
            _ => id,
        }
    }

    fn leading_node(&self, id: Id) -> Option<Id> {
        match self.op(id) {
            Op::Empty => None,
            Op::Concat => self.subs(id).first().copied().filter(|first| self.op(*first) != Op::Empty),
            _ => Some(id),
        }
    }

    /// Whether both are the same character of a choice, or as many of them.
    fn same_class(&self, a: Id, b: Id) -> bool {
        let (first, second) = (self.node(a), self.node(b));
        if first.op != second.op {
            return false;
        }
        match first.op {
            Op::Repeat => {
                let (&[a], &[b]) = (self.subs(a), self.subs(b)) else { return false };
                let same = (first.lazy, first.min, first.max) == (second.lazy, second.min, second.max);
                same && first.min == first.max && self.op(a) != Op::Repeat && self.same_class(a, b)
            }
            Op::Literal => {
                self.is_class(a)
                    && first.fold == second.fold
                    && self.literal_runes(a) == self.literal_runes(b)
            }
            Op::Class => match (&first.with, &second.with) {
                (With::Class(a, _), With::Class(b, _)) => Arc::ptr_eq(a, b) || a == b,
                _ => false,
            },
            Op::AnyButNewline | Op::Any => true,
            _ => false,
        }
    }

    /// `[a-c]x|[a-c]y` becomes `[a-c](?:x|y)`.
    fn factor_classes(&mut self, subs: Vec<Id>, depth: u32) -> Result<Vec<Id>, Limit> {
        let mut out = Vec::with_capacity(subs.len());
        let mut rest = &subs[..];
        while let [first, others @ ..] = rest {
            let leading = self.leading_node(*first);
            let same = |other: &&Id| match (leading, self.leading_node(**other)) {
                (Some(a), Some(b)) => self.same_class(a, b),
                _ => false,
            };
            let count = 1 + others.iter().take_while(same).count();
            let (run, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            let (Some(prefix), 2..) = (leading, run.len()) else {
                out.extend_from_slice(run);
                continue;
            };
            let mut ends = Vec::with_capacity(run.len());
            for (at, id) in run.iter().enumerate() {
                let id = self.without_class(*id, at > 0);
                self.check(id)?;
                ends.push(id);
            }
            let suffix = self.collapse(ends, Op::Alternate, depth + 1)?;
            out.push(self.add(Op::Concat, With::Subs(vec![prefix, suffix])));
        }
        Ok(out)
    }

    fn without_class(&mut self, id: Id, reuse: bool) -> Id {
        if self.op(id) == Op::Concat {
            if reuse && let Some(first) = self.subs(id).first().copied() {
                self.reuse(first);
            }
            return self.without_first(id);
        }
        if reuse {
            self.reuse(id);
        }
        self.add(Op::Empty, With::None)
    }

    /// `a|b` becomes `[ab]`.
    fn factor_characters(&mut self, mut subs: Vec<Id>) -> Result<Vec<Id>, Limit> {
        let mut out = Vec::with_capacity(subs.len());
        let mut rest = &mut subs[..];
        while !rest.is_empty() {
            let count = rest.iter().take_while(|id| self.is_class(**id)).count();
            let (run, behind) = rest.split_at_mut_checked(count.max(1)).unwrap_or_default();
            rest = behind;
            if run.len() > 1 {
                // The first of the most complex ones takes the others in.
                let mut most = 0;
                for at in 1..run.len() {
                    let weight = |at: usize| run.get(at).map(|id| (self.op(*id), self.rune_count(*id)));
                    if weight(most) < weight(at) {
                        most = at;
                    }
                }
                run.swap(0, most);
            }
            let Some((kept, others)) = run.split_first() else { break };
            for other in others {
                self.merge(*kept, *other)?;
                self.reuse(*other);
            }
            if !others.is_empty() {
                self.clean(*kept);
            }
            out.push(*kept);
        }
        Ok(out)
    }
}
