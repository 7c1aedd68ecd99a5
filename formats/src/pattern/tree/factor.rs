//! Alternatives are factored: a beginning that they share is written once, and `abc|abd` is `ab(?:c|d)`.

use std::sync::Arc;

use super::limits::{HEIGHT_MAX, Limit};
use super::{Id, Op, Tree, With};

impl Tree {
    /// One node of all these, in which none is of the same kind as itself.
    pub(super) fn collapse(&mut self, subs: Vec<Id>, op: Op, depth: u32) -> Result<Id, Limit> {
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

    /// The rest of a sequence without its first node, which others have now.
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

    /// `true` if both are the same character of a choice, or as many of them.
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
