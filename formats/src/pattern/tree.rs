//! The tree that Go's parser makes of an expression, and the limits that it puts on it (`regexp/syntax/parse.go`, Go 1.26).
//!
//! Whether Go takes an expression depends on what its parser allocates on the way: literals that follow each other are
//! one node, nodes are used again, alternatives share what they begin with, and the size of a node is the one it had when
//! it was last asked for. So this keeps the same stack, the same free list and the same sizes.

mod classes;
mod factor;
mod limits;

use std::sync::Arc;

use super::class::{self, Range};
pub(super) use limits::Limit;

/// The place of a node.
pub(super) type Id = u32;

/// The kinds of nodes, in Go's order.
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
    /// In a literal: `true` if case does not matter.
    pub(super) fold: bool,
    /// In a repetition: `true` if fewer are preferred.
    pub(super) lazy: bool,
    /// In a parenthesis: `true` if it captures.
    captures: bool,
    /// In a parenthesis: the flags that hold again behind it.
    flags: Flags,
    pub(super) min: i32,
    /// Less than 0: any number.
    pub(super) max: i32,
    pub(super) with: With,
}

/// The contents of a node.
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

/// The reason why the parser refuses a repetition.
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

    /// Pushes a node that has nothing but its kind.
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

    /// Adds and frees a node for text that looked like a class and is none: Go makes the node before it reads the class.
    pub(super) fn no_class(&mut self) {
        let id = self.add(Op::Class, With::None);
        self.reuse(id);
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
        if op == Op::Repeat && (min >= 2 || max >= 2) && !self.may_repeat(id) {
            return Err(NotRepeated::TooOften);
        }
        Ok(())
    }

    /// Takes the nodes above the topmost parenthesis or bar of the stack.
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
}
