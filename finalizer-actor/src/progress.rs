//! The progress of a drain: its text, and the moments at which it is written. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// So many different finalizers are counted by name; what else there is counts as "others".
const FINALIZERS_MAX: usize = 64;
/// The most finalizers that are listed, those that hold most first.
const FINALIZERS_LISTED: usize = 8;
/// The most names of objects that are listed.
pub(crate) const NAMES_LISTED: usize = 3;
/// A name longer than this, in characters, is cut.
const NAME_CHARS_MAX: usize = 128;
/// With at most this many objects left, every change is worth a write.
const FEW: usize = 8;
/// The longest that a change which was not worth a write of its own waits for one.
pub(crate) const WRITTEN_AFTER: Duration = Duration::from_secs(3);

/// The objects held by finalizers: their number, and how many each finalizer holds.
///
/// It is exact for as long as every object that is taken out was put in before, since a finalizer that found no place
/// of its own never gets one later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) objects: usize,
    by_name: BTreeMap<String, usize>,
    others: usize,
    full: bool,
}

impl Tally {
    /// One more object, which these hold.
    pub(crate) fn put(&mut self, finalizers: &[String]) {
        self.objects += 1;
        for finalizer in finalizers {
            self.full |= self.by_name.len() == FINALIZERS_MAX && !self.by_name.contains_key(finalizer);
            match self.by_name.get_mut(finalizer) {
                Some(count) => *count += 1,
                None if self.full => self.others += 1,
                None => drop(self.by_name.insert(finalizer.clone(), 1)),
            }
        }
    }

    /// One object less, which these held.
    pub(crate) fn take(&mut self, finalizers: &[String]) {
        self.objects = self.objects.saturating_sub(1);
        for finalizer in finalizers {
            match self.by_name.get_mut(finalizer) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => drop(self.by_name.remove(finalizer)),
                None => self.others = self.others.saturating_sub(1),
            }
        }
    }

    /// Each finalizer with the number of objects it holds; those without a place of their own are left out.
    pub(crate) fn finalizers(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_name.iter().map(|(name, count)| (name.as_str(), *count))
    }

    fn listed(&self) -> String {
        let mut by_count: Vec<_> = self.finalizers().collect();
        by_count.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let mut parts: Vec<String> = by_count
            .iter()
            .take(FINALIZERS_LISTED)
            .map(|(name, count)| format!("{} in {}", cut(name), objects(*count)))
            .collect();
        let more = by_count.len().saturating_sub(FINALIZERS_LISTED);
        if more > 0 || self.others > 0 {
            parts.push(if self.others > 0 { "and others".into() } else { format!("and {more} more") });
        }
        parts.join(", ")
    }
}

fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}

fn cut(name: &str) -> String {
    let mut chars = name.chars();
    let mut head: String = chars.by_ref().take(NAME_CHARS_MAX).collect();
    if chars.next().is_some() {
        head.push('…');
    }
    head
}

/// The condition's message: upstream's text (`crd_finalizer.go`, 1.37) and the details that it lacks. `names` are some of
/// the remaining objects.
pub(crate) fn message(left: usize, names: &[String], tally: &Tally) -> String {
    let verb = if left == 1 { "remains" } else { "remain" };
    let mut message = format!("CustomResource deletion is in progress: {} {verb}", objects(left));
    if !names.is_empty() {
        let shown: Vec<String> = names.iter().take(NAMES_LISTED).map(|name| cut(name)).collect();
        let more = left.saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        message = format!("{message} ({}{more})", shown.join(", "));
    }
    let held = tally.listed();
    if !held.is_empty() {
        message = format!("{message}, held by finalizers: {held}");
    }
    message
}

/// Decides when progress is worth a write: each write changes the registration, and every write of its objects then has to
/// read that again. 100,000 objects make some forty.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The number in the last report.
    last: Option<usize>,
}

impl Pace {
    /// Returns true if `left` is worth reporting: a quarter less than the last report, or only a few.
    pub(crate) fn due(&self, left: usize) -> bool {
        self.last.is_none_or(|last| left <= FEW || left.abs_diff(last).saturating_mul(4) >= last)
    }

    /// Notes that `left` was written.
    pub(crate) fn reported(&mut self, left: usize) {
        self.last = Some(left);
    }

    /// Forgets the last report: it is no longer stored.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(finalizers: &[&str]) -> Vec<String> {
        finalizers.iter().map(|f| (*f).to_owned()).collect()
    }

    #[test]
    fn the_message_names_objects_and_finalizers() {
        let mut tally = Tally::default();
        assert_eq!(message(7, &[], &tally), "CustomResource deletion is in progress: 7 objects remain");
        tally.put(&list(&["g.io/x"]));
        let one = "CustomResource deletion is in progress: 1 object remains (ns/a), held by finalizers: g.io/x in 1 object";
        assert_eq!(message(1, &list(&["ns/a"]), &tally), one);
        for _ in 0..4 {
            tally.put(&list(&["g.io/x", "g.io/y"]));
        }
        let names = list(&["ns/a", "ns/b", "ns/c", "ns/d"]);
        let five = "CustomResource deletion is in progress: 5 objects remain (ns/a, ns/b, ns/c and 2 more), held by finalizers: g.io/x in 5 objects, g.io/y in 4 objects";
        assert_eq!(message(5, &names, &tally), five);
    }

    #[test]
    fn a_message_is_short_whatever_is_stored() {
        let mut tally = Tally::default();
        for i in 0..1000 {
            tally.put(&[format!("{i}{}", "f".repeat(10_000))]);
        }
        let names = vec!["n".repeat(4000); 10];
        assert!(message(1000, &names, &tally).len() < 2500);
        assert!(message(1000, &names, &tally).ends_with("and others"));
        assert_eq!(tally.by_name.len(), FINALIZERS_MAX);
    }

    #[test]
    fn a_tally_comes_back_to_nothing() {
        let mut tally = Tally::default();
        let finalizers = |i: usize| vec![format!("f{}", i % 100), "all".to_owned()];
        (0..500).for_each(|i| tally.put(&finalizers(i)));
        (0..250).for_each(|i| tally.take(&finalizers(i)));
        (500..600).for_each(|i| tally.put(&finalizers(i)));
        assert_eq!((tally.objects, tally.by_name.get("all")), (350, Some(&350)));
        (250..600).for_each(|i| tally.take(&finalizers(i)));
        assert_eq!(tally, Tally { full: true, ..Tally::default() });
    }

    #[test]
    fn a_large_drain_is_told_some_tens_of_times() {
        let mut pace = Pace::default();
        let reports = (0..=100_000).rev().filter(|left| {
            let due = pace.due(*left);
            if due {
                pace.reported(*left);
            }
            due
        });
        let reports = reports.count();
        assert!((20..60).contains(&reports), "{reports}");
    }
}
