//! The holders of short names, over all groups. Pure.
//!
//! Within a group only one type has a short name (`claims`). Across groups several may, but a user who types the name can
//! only mean one of them; so the author of the second registration gets a warning that names the first.

use std::collections::{BTreeMap, HashMap};

use kindom_api::field::go_quote;

/// The most holders of one name that a warning lists.
const HOLDERS_LISTED_MAX: usize = 3;

/// Short names and the types that hold them. A look-up costs the same however many types there are.
#[derive(Debug, Default)]
pub(crate) struct ShortNames {
    /// By short name: the holders (`widgets.example.com`) and their groups.
    holders: HashMap<String, BTreeMap<String, String>>,
    /// By holder.
    held: HashMap<String, Vec<String>>,
}

impl ShortNames {
    /// Replaces the short names that a type holds.
    pub(crate) fn set(&mut self, holder: &str, group: &str, names: &[String]) {
        self.remove(holder);
        for name in names {
            self.holders.entry(name.clone()).or_default().insert(holder.to_owned(), group.to_owned());
        }
        if !names.is_empty() {
            self.held.insert(holder.to_owned(), names.to_vec());
        }
    }

    /// A type is gone.
    pub(crate) fn remove(&mut self, holder: &str) {
        for name in self.held.remove(holder).unwrap_or_default() {
            if let Some(holders) = self.holders.get_mut(&name) {
                holders.remove(holder);
                if holders.is_empty() {
                    self.holders.remove(&name);
                }
            }
        }
    }

    /// Returns true if a type holds exactly these names, so that [`Self::set`] would change nothing.
    pub(crate) fn is_set(&self, holder: &str, names: &[String]) -> bool {
        self.held.get(holder).map_or(&[][..], Vec::as_slice) == names
    }

    /// Forgets the types that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.held.keys().filter(|holder| !is_there(holder)).cloned().collect();
        for holder in gone {
            self.remove(&holder);
        }
    }

    /// The types of other groups that hold a name, in alphabetical order.
    pub(crate) fn elsewhere<'a>(&'a self, group: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
        let holders = self.holders.get(name).into_iter().flatten();
        holders.filter(move |(_, of)| *of != group).map(|(holder, _)| holder.as_str())
    }
}

/// The warning for a registration's author about a short name that these types hold too; `None` without holders.
pub(crate) fn warning(index: usize, name: &str, holders: &[&str]) -> Option<String> {
    let listed: Vec<&str> = holders.iter().take(HOLDERS_LISTED_MAX).copied().collect();
    let (last, first) = listed.split_last()?;
    let holders = match holders.len().saturating_sub(HOLDERS_LISTED_MAX) {
        0 if first.is_empty() => (*last).to_owned(),
        0 => format!("{} and {last}", first.join(", ")),
        more => format!("{} and {more} more", listed.join(", ")),
    };
    let name = go_quote(name);
    Some(format!(
        "spec.names.shortNames[{index}]: {name} is a short name of {holders} too; clients may take it for either"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning_of(names: &ShortNames, group: &str, name: &str) -> String {
        let holders: Vec<&str> = names.elsewhere(group, name).collect();
        warning(0, name, &holders).unwrap_or_default()
    }

    #[test]
    fn only_other_groups_are_told_and_only_while_they_hold_it() {
        let mut names = ShortNames::default();
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        names.set("apples.a.io", "a.io", &list(&["ap", "x"]));
        assert_eq!(warning_of(&names, "a.io", "ap"), "");
        assert_eq!(
            warning_of(&names, "b.io", "ap"),
            "spec.names.shortNames[0]: \"ap\" is a short name of apples.a.io too; clients may take it for either"
        );
        names.set("apples.c.io", "c.io", &list(&["ap"]));
        assert!(warning_of(&names, "b.io", "ap").contains("of apples.a.io and apples.c.io too"));
        for group in ["d.io", "e.io"] {
            names.set(&format!("apples.{group}"), group, &list(&["ap"]));
        }
        assert!(
            warning_of(&names, "b.io", "ap")
                .contains("of apples.a.io, apples.c.io, apples.d.io and 1 more too")
        );
        assert!(names.is_set("apples.a.io", &list(&["ap", "x"])) && names.is_set("none", &[]));
        names.set("apples.a.io", "a.io", &list(&["x"]));
        names.remove("apples.c.io");
        names.retain(|holder| holder.ends_with(".a.io"));
        assert_eq!(warning_of(&names, "b.io", "ap"), "");
        assert!(warning_of(&names, "b.io", "x").contains("apples.a.io"));
        names.remove("apples.a.io");
        assert!(names.held.is_empty() && names.holders.is_empty());
    }
}
