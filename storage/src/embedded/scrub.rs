//! The scrub: reads sealed segments, so that damage is found before a client needs the damaged value.
//!
//! It reads segments from their first byte to their last, a few batches at a time, at the caller's pace. It takes a lock
//! only to look if a damaged value is live.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::finding::{DamagedOf, Finding, Standing};
use super::frame::{LoggedOp, Record};
use super::segment::{FIRST_FRAME, Location, Rest, Segment, SegmentId, search_past};
use super::{Core, Embedded};
use crate::{Key, Revision};

/// The work of the scrubs of an [`Embedded`] store since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Passes over everything that is sealed, ended ones.
    pub passes: u64,
    /// Bytes of batches.
    pub bytes: u64,
    /// The number of damages found by the last complete pass, or by the pass under way if that is more.
    pub damaged: u64,
}

/// [`ScrubCounts`], counting.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    passes: AtomicU64,
    bytes: AtomicU64,
    damaged: AtomicU64,
}

/// One pass over everything that is sealed when it begins.
pub struct Scrub {
    store: Embedded,
    /// By their ids: a segment that is packed meanwhile is not kept on the disk for the sake of this.
    todo: VecDeque<SegmentId>,
    at: u64,
    found: u64,
}

/// The outcome of a step.
#[derive(Debug, Default)]
pub struct Scrubbed {
    /// So many bytes.
    pub bytes: u64,
    /// The damages found.
    pub findings: Vec<Finding>,
}

impl Embedded {
    /// Begins a pass.
    #[must_use]
    pub fn scrub(&self) -> Scrub {
        let segments = self.core().local.state.read().loader.in_order();
        let sealed = segments.iter().filter(|segment| segment.sealed.get().is_some());
        let todo = sealed.map(|segment| segment.id()).collect();
        Scrub { store: self.clone(), todo, at: FIRST_FRAME, found: 0 }
    }

    /// Counts what scrubs have read and found.
    #[must_use]
    pub fn scrub_counts(&self) -> ScrubCounts {
        let scrubs = &self.core().scrubs;
        ScrubCounts {
            passes: scrubs.passes.load(Ordering::Relaxed),
            bytes: scrubs.bytes.load(Ordering::Relaxed),
            damaged: scrubs.damaged.load(Ordering::Relaxed),
        }
    }
}

impl Scrub {
    /// Reads about so many bytes more, one batch at least. Blocks for as long as that takes. None at the end.
    ///
    /// # Cancel safety
    /// A pass that is dropped counts as none.
    pub fn step(&mut self, bytes_max: u64) -> Option<Scrubbed> {
        let mut step = Scrubbed::default();
        let store = self.store.clone();
        let core = store.core();
        while step.bytes < bytes_max {
            let Some(id) = self.todo.front() else { break };
            let segment = core.local.state.read().loader.get(*id).cloned();
            let sealed = segment.as_ref().and_then(|segment| Some((segment, *segment.sealed.get()?)));
            let Some((segment, extent)) = sealed.filter(|(_, extent)| self.at < extent.end) else {
                self.todo.pop_front();
                self.at = FIRST_FRAME;
                continue;
            };
            let from = self.at;
            self.at = batch(core, segment, from, extent.end, &mut step.findings);
            step.bytes += self.at - from;
        }
        let scrubs = &core.scrubs;
        scrubs.bytes.fetch_add(step.bytes, Ordering::Relaxed);
        self.found += step.findings.len() as u64;
        if step.bytes > 0 {
            scrubs.damaged.fetch_max(self.found, Ordering::Relaxed);
            return Some(step);
        }
        scrubs.damaged.store(self.found, Ordering::Relaxed);
        scrubs.passes.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Reads the batch at an offset; answers where to go on.
fn batch(core: &Core, segment: &Segment, at: u64, end: u64, findings: &mut Vec<Finding>) -> u64 {
    let finding = |offset, of, what: String| Finding { file: segment.name(), offset, of, what };
    let frame = match segment.frame_at(at, end) {
        Ok(Some(frame)) => frame,
        unreadable => {
            let why = unreadable.err().map(|error| format!(" ({error})")).unwrap_or_default();
            findings.push(finding(
                at,
                None,
                format!("a batch cannot be read{why}; values in it may be readable by the segment's hint"),
            ));
            // What cannot be read behind it belongs to the same finding.
            return match search_past(segment, at + 8, |_, _| {}) {
                Ok(Rest::Batch { offset, .. }) => offset.min(end),
                Ok(Rest::Empty | Rest::Torn) | Err(_) => end,
            };
        }
    };
    for record in &frame.records {
        let Record::Txn { revision, ops } = record else { continue };
        for op in ops.iter().filter(|op| !op.is_whole()) {
            let LoggedOp { key, value: Some((placed, _)), .. } = op else { continue };
            let key = Key::new(key.clone());
            let location = Location::new(segment.id(), *placed);
            let standing = standing(core, &key, *revision, location);
            let damaged = DamagedOf { key, revision: *revision, standing };
            findings.push(finding(placed.offset, Some(damaged), "it has a wrong checksum".to_owned()));
        }
    }
    frame.end
}

/// The use that the index has for a value at this place.
fn standing(core: &Core, key: &Key, revision: Revision, location: Location) -> Standing {
    let index = &core.local.state.read().index;
    if index.find(key, revision).is_none_or(|record| record.value != Some(location)) {
        Standing::Dead
    } else if index.live(key).is_some_and(|live| live.revision == revision) {
        Standing::Live
    } else {
        Standing::History
    }
}
