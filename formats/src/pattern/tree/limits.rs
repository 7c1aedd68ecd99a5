//! The limits that Go's parser puts on a tree, and those of ours. Sizes and heights are the ones that Go knows at this point.

use super::{Id, Node, Op, Tree};

/// The highest tree (`maxHeight`).
pub(super) const HEIGHT_MAX: u32 = 1000;
/// The most instructions of an expression (`maxSize`): 128 MiB of 40 bytes.
const SIZE_MAX: i64 = (128 << 20) / 40;
/// The most runes of all nodes together, two for each range of a class (`maxRunes`): 128 MiB of 4 bytes.
const RUNES_MAX: usize = (128 << 20) / 4;
/// The most repetitions, also of nested ones multiplied.
const REPEAT_MAX: i32 = 1000;
/// The most ranges that the classes of an expression take in memory, at 8 bytes each. A bound of ours: 6,000 classes, all
/// different, of the size of `\pL`.
const STORED_MAX: usize = 4 << 20;

/// The most looks at nodes for their sizes and heights, and moves of nodes, a bound of ours: each is a few times, but for
/// alternatives that begin alike at every length, on which Go spends the cube of their count.
const WORK_MAX: usize = 64 << 20;

/// The limit that an expression meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Limit {
    Large,
    Deep,
}

impl Tree {
    /// Holds a node that was made or changed to the limits.
    pub(super) fn check(&mut self, id: Id) -> Result<(), Limit> {
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

    /// Counts ranges that are not shared.
    pub(super) fn store(&mut self, ranges: usize) -> Result<(), Limit> {
        self.stored += ranges;
        if self.stored > STORED_MAX { Err(Limit::Large) } else { Ok(()) }
    }

    /// `true` if nothing is repeated more than [`REPEAT_MAX`] times, repetitions multiplied.
    pub(super) fn may_repeat(&self, id: Id) -> bool {
        // Uses a stack of its own instead of recursion: the height is not checked yet.
        let mut open = vec![(id, REPEAT_MAX)];
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
}
