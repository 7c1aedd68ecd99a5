//! The choice of segments that are packed together: pure.
//!
//! # Two reasons to pack
//! - *Dead weight*: half of what a segment weighs is not needed any more; or four neighbours are small.
//! - *Deletes*: a delete is needed as long as an older segment may hold a put of its key. So deletes pile up, in packs too,
//!   until all older segments are *clean*: a pack is clean up to the revision at which it was compacted, and a segment
//!   whose every put is live up to now. A *sweep* makes them so, from the oldest on, and drops the deletes.
//!
//! # What it costs
//! A pack of dead weight writes at most as much as it frees. A sweep begins once the deletes weigh a quarter of what is live
//! in the segments that it rewrites, and a quarter of a segment: it writes at most four bytes for each byte of deletes that
//! it frees, and each segment once. So the stored bytes are at most twice the live ones, plus a quarter for deletes, plus a
//! constant; and reclaiming writes at most about five times the bytes that are written anyway.

use std::ops::Range;

use crate::Revision;

/// So many neighbours that are small are packed although they are not dead.
const SMALL_SEGMENTS: usize = 4;

/// On a full disk a segment is packed if that frees at least so many bytes; less in small segments.
const FREED_MIN: u64 = 4096;

/// A segment whose last revision is compacted.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) is_pack: bool,
    /// The weight of its puts, of those that the index still refers to, and of its deletes.
    pub(super) puts: u64,
    pub(super) live: u64,
    pub(super) deletes: u64,
    /// In a pack: the revision that it was made at.
    pub(super) swept: Revision,
    /// The bytes of its file.
    pub(super) bytes: u64,
    /// It cannot be read well enough to be packed.
    pub(super) stuck: bool,
}

impl View {
    /// The most that a pack of it weighs.
    fn size(&self) -> u64 {
        self.live + self.deletes
    }

    /// The most bytes that a pack of it alone has.
    fn bytes_at_most(&self) -> u64 {
        // Weights leave out most of a key, so this is a guess; and the pack has other frames.
        let share = self.bytes * self.size() / (self.puts + self.deletes).max(1);
        self.bytes.min(share + share / 8) + self.bytes / 64
    }

    /// The deletes of a pack do not count: they were needed when it was made, and a sweep sees to them.
    fn is_dead(&self) -> bool {
        self.live * 2 < self.puts + if self.is_pack { 0 } else { self.deletes }
    }

    /// Up to where no put in it has a later delete that is compacted. `compacted` was read before the weights.
    fn clean(&self, compacted: Revision) -> Revision {
        if self.live == self.puts { compacted } else { self.swept }
    }

    fn wants_sweep(&self, target: Revision) -> bool {
        self.swept < target && (self.deletes > 0 || self.live < self.puts)
    }
}

/// Neighbours to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) range: Range<usize>,
    /// A delete at or before this revision is not needed: no older segment holds a put of its key.
    pub(super) clean_before: Revision,
}

/// The bounds of a choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) compacted: Revision,
    /// A pack becomes about so large at most.
    pub(super) segment_bytes: u64,
}

/// Chooses from all compacted segments, the oldest first. `sweep` is the revision of the sweep under way.
pub(super) fn choose(views: &[View], bounds: Bounds, sweep: &mut Option<Revision>) -> Option<Choice> {
    if sweep.is_none() && is_due(views, bounds) {
        *sweep = Some(bounds.compacted);
    }
    if let Some(target) = *sweep {
        let run = neighbours(views, bounds, |view| view.wants_sweep(target), |_| true);
        if run.is_some() {
            return run;
        }
        *sweep = None;
    }
    let small = |view: &View| view.size() < bounds.segment_bytes / 4;
    let is_worth_it = |run: &[View]| run.len() >= SMALL_SEGMENTS || run.iter().any(View::is_dead);
    neighbours(views, bounds, |view| view.is_dead() || small(view), is_worth_it)
}

/// Chooses on a full disk: the segment whose pack frees the most, however much that writes, of those whose pack fits into
/// `room` bytes. What frees less than this is left alone.
pub(super) fn choose_to_free(views: &[View], bounds: Bounds, room: u64) -> Option<Choice> {
    let least = FREED_MIN.min(bounds.segment_bytes / 1024);
    let mut clean_before = Revision(u64::MAX);
    let mut best: Option<(u64, Choice)> = None;
    for (at, view) in views.iter().enumerate() {
        let deletes = if clean_before >= bounds.compacted { view.deletes } else { 0 };
        let freed = view.puts.saturating_sub(view.live) + deletes;
        let fits = !view.stuck && view.bytes_at_most() <= room;
        if fits && freed >= least && best.as_ref().is_none_or(|(most, _)| freed > *most) {
            best = Some((freed, Choice { range: at..at + 1, clean_before }));
        }
        clean_before = clean_before.min(view.clean(bounds.compacted));
    }
    best.map(|(_, choice)| choice)
}

fn is_due(views: &[View], bounds: Bounds) -> bool {
    // Behind a segment that is stuck, no delete would go.
    let reach = views.iter().position(|view| view.stuck).unwrap_or(views.len());
    let reached = || views.iter().take(reach);
    let last = reached().rposition(|view| view.deletes > 0 && view.swept < bounds.compacted);
    let Some(last) = last else { return false };
    let wanted = || reached().take(last + 1).filter(|view| view.wants_sweep(bounds.compacted));
    let deletes: u64 = wanted().map(|view| view.deletes).sum();
    let live: u64 = wanted().map(|view| view.live).sum();
    deletes * 4 >= bounds.segment_bytes && deletes * 4 >= live
}

/// The oldest run of neighbours that are all `wanted`, together small enough, and worth it.
fn neighbours(
    views: &[View],
    bounds: Bounds,
    wanted: impl Fn(&View) -> bool,
    is_worth_it: impl Fn(&[View]) -> bool,
) -> Option<Choice> {
    let found = |range: Range<usize>| {
        let run = views.get(range.clone()).filter(|run| !run.is_empty() && is_worth_it(run))?;
        let older = views.iter().take(views.len().min(range.start));
        let clean_before = older.map(|view| view.clean(bounds.compacted)).min();
        debug_assert!(run.iter().all(|view| !view.stuck));
        Some(Choice { range, clean_before: clean_before.unwrap_or(Revision(u64::MAX)) })
    };
    let (mut start, mut size) = (0, 0);
    for (at, view) in views.iter().enumerate() {
        let joins = !view.stuck && wanted(view);
        if joins && (start == at || size + view.size() <= bounds.segment_bytes) {
            size += view.size();
            continue;
        }
        if let Some(choice) = found(start..at) {
            return Some(choice);
        }
        // One that did not fit begins a run of its own.
        (start, size) = if joins { (at, view.size()) } else { (at + 1, 0) };
    }
    found(start..views.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(puts: u64, live: u64, deletes: u64) -> View {
        View {
            is_pack: false,
            puts,
            live,
            deletes,
            swept: Revision::ZERO,
            bytes: puts + deletes,
            stuck: false,
        }
    }

    fn pack(live: u64, deletes: u64, swept: u64) -> View {
        View {
            is_pack: true,
            puts: live,
            live,
            deletes,
            swept: Revision(swept),
            bytes: live + deletes,
            stuck: false,
        }
    }

    const BOUNDS: Bounds = Bounds { compacted: Revision(9), segment_bytes: 1000 };

    fn choice(views: &[View]) -> Option<(Range<usize>, u64)> {
        let mut sweep = None;
        choose(views, BOUNDS, &mut sweep).map(|choice| (choice.range, choice.clean_before.0))
    }

    #[test]
    fn dead_ones_are_packed_with_their_neighbours_that_are_small() {
        assert_eq!(choice(&[]), None);
        assert_eq!(choice(&[log(900, 800, 0), log(900, 900, 0)]), None);
        assert_eq!(choice(&[log(900, 800, 0), log(900, 100, 0), log(100, 100, 0)]), Some((1..3, 0)));
        assert_eq!(choice(&[log(900, 100, 0), log(900, 400, 0)]), Some((0..2, u64::MAX)));
        // Only together with what fits.
        assert_eq!(choice(&[log(1900, 800, 0), log(900, 400, 0)]), Some((0..1, u64::MAX)));
    }

    #[test]
    fn deletes_go_once_all_that_is_older_is_clean() {
        // Fully live: clean as it is.
        assert_eq!(choice(&[pack(900, 0, 2), pack(10, 240, 3)]), None);
        assert_eq!(choice(&[pack(900, 0, 2), pack(10, 250, 3)]), Some((1..2, 9)));
        // With something dead in it, the oldest is rewritten first, and then the deletes go.
        let old = View { puts: 1000, ..pack(900, 0, 2) };
        assert_eq!(choice(&[old, pack(10, 250, 3)]), Some((0..1, u64::MAX)));
        // Not if that costs more than four times the deletes.
        let olds = [old; 2];
        assert_eq!(choice(&[&olds[..], &[pack(10, 250, 3)]].concat()), None);
        assert!(choice(&[&olds[..], &[pack(10, 500, 3)]].concat()).is_some());
        // A segment that was swept at this revision is not swept again.
        assert_eq!(choice(&[old, pack(10, 250, 9)]), None);
    }

    #[test]
    fn a_sweep_ends() {
        let mut views: Vec<View> =
            (0..20).map(|n| View { puts: 400, ..pack(300, if n > 10 { 400 } else { 0 }, 3) }).collect();
        let (mut sweep, mut written) = (None, 0);
        while let Some(Choice { range, clean_before }) = choose(&views, BOUNDS, &mut sweep) {
            let run = views.get(range.clone()).unwrap();
            let live = run.iter().map(|view| view.live).sum();
            let deletes = run.iter().map(|view| view.deletes).sum();
            written += live;
            let left = if clean_before >= Revision(9) { 0 } else { deletes };
            views.splice(range, [pack(live, left, 9)]);
        }
        assert_eq!(views.iter().map(|view| view.deletes).sum::<u64>(), 0);
        assert_eq!(written, 20 * 300, "each is written once");
    }

    #[test]
    fn what_is_stuck_stays_and_the_rest_goes_on() {
        let stuck = View { stuck: true, ..log(900, 10, 0) };
        assert_eq!(choice(&[stuck, log(900, 10, 0)]), Some((1..2, 0)));
        assert_eq!(choice(&[stuck, pack(0, 900, 3)]), None, "no sweep would free these");
    }

    #[test]
    fn on_a_full_disk_what_frees_the_most_is_packed() {
        let choice = |views: &[View], room| {
            choose_to_free(views, BOUNDS, room).map(|choice| (choice.range, choice.clean_before.0))
        };
        // However little of it is dead; but it has to fit.
        let views = [log(900, 800, 0), log(950, 820, 0), log(900, 880, 0)];
        assert_eq!(choice(&views, 1000), Some((1..2, 0)));
        assert_eq!(choice(&views, 920), Some((0..1, u64::MAX)));
        assert_eq!(choice(&views, 900), None);
        assert_eq!(choice(&[log(900, 80, 0)], 104), Some((0..1, u64::MAX)), "what is dead takes no room");
        assert_eq!(choice(&[log(900, 80, 0)], 103), None);
        let stuck = View { stuck: true, ..log(900, 100, 0) };
        assert_eq!(choice(&[stuck, log(900, 600, 0)], 1000), Some((1..2, 0)));
        // Nothing is packed for next to nothing.
        let bounds = Bounds { segment_bytes: 64 << 20, ..BOUNDS };
        let large = |dead| [log(1_000_000, 1_000_000 - dead, 0)];
        assert_eq!(choose_to_free(&large(FREED_MIN - 1), bounds, 2_000_000), None);
        assert!(choose_to_free(&large(FREED_MIN), bounds, 2_000_000).is_some());
        // Deletes count once all that is older is clean.
        assert_eq!(choice(&[pack(900, 0, 2), pack(10, 240, 9)], 1000), Some((1..2, 9)));
        let dead = View { puts: 910, ..pack(900, 0, 2) };
        assert_eq!(choice(&[dead, pack(10, 240, 9)], 1000), Some((0..1, u64::MAX)));
    }
}
