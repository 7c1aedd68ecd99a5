//! The rules of a cluster role that has an aggregation rule: those of the roles that its selectors select. Pure.
//!
//! A selected role may itself aggregate. Its rules are then taken from where they come from, not from where they are stored: so
//! the outcome depends on no other outcome, one look settles any chain, and a circle ends and keeps no rule alive that none but
//! the circle has. Without a circle that is what upstream comes to after as many writes as the chain is long.
//!
//! # Example
//! `a` selects `b` and `x`, `b` selects `a` and `y`. Then `a` has the rules of `y` and `x`, and `b` those of `x` and `y`.

use std::collections::{BTreeMap, HashMap, HashSet};

use kindom_objects::rbac::coverage::PolicyRule;

/// The places of the roles that each role with an aggregation rule selects: selector by selector, and by name. A role's place is
/// that among all, in the order of names.
#[derive(Debug, Default)]
pub(super) struct Selected(pub(super) BTreeMap<usize, Vec<usize>>);

impl Selected {
    /// The roles without an aggregation rule whose rules a role gets, each once, in the order of the rules.
    pub(super) fn sources(&self, place: usize) -> Vec<usize> {
        let (mut seen, mut sources) = (HashSet::from([place]), Vec::new());
        let places = |place| self.0.get(&place).map(|places| places.iter());
        // A stack of its own: a chain may be as long as there are roles.
        let mut stack: Vec<_> = places(place).into_iter().collect();
        while let Some(top) = stack.last_mut() {
            let Some(next) = top.next() else {
                stack.pop();
                continue;
            };
            // A role that was there before has nothing to add.
            if seen.insert(*next) {
                match places(*next) {
                    Some(places) => stack.push(places),
                    None => sources.push(*next),
                }
            }
        }
        sources
    }
}

/// The rules of several roles, each once, in the order in which they came.
#[derive(Debug)]
pub(super) struct Union {
    /// The number of rules before each.
    rules: HashMap<PolicyRule, usize>,
    /// The rest of the bytes that their texts may have.
    bytes: usize,
}

impl Union {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { rules: HashMap::new(), bytes: bytes_max }
    }

    /// Adds the rules of one more role; none if all together are larger than they may be.
    pub(super) fn and(mut self, rules: Vec<PolicyRule>) -> Option<Self> {
        for rule in rules {
            let bytes = text(&rule);
            let before = self.rules.len();
            if *self.rules.entry(rule).or_insert(before) == before {
                self.bytes = self.bytes.checked_sub(bytes)?;
            }
        }
        Some(self)
    }

    pub(super) fn into_rules(self) -> Vec<PolicyRule> {
        let mut rules: Vec<_> = self.rules.into_iter().collect();
        rules.sort_unstable_by_key(|(_, before)| *before);
        rules.into_iter().map(|(rule, _)| rule).collect()
    }
}

/// The bytes of a rule's text, which are fewer than those of its JSON.
fn text(rule: &PolicyRule) -> usize {
    let lists =
        [&rule.verbs, &rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls];
    lists.into_iter().flatten().map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(verb: usize) -> PolicyRule {
        PolicyRule { verbs: vec![format!("v{verb}")], ..PolicyRule::default() }
    }

    /// The rules that a role gets. Of the roles in their order, `Ok` has the places that one selects, and `Err` its rules.
    fn aggregated(
        all: &[Result<Vec<usize>, Vec<usize>>],
        place: usize,
        bytes_max: usize,
    ) -> Option<Vec<PolicyRule>> {
        let selected = all.iter().enumerate().filter_map(|(place, role)| Some((place, role.clone().ok()?)));
        let sources = Selected(selected.collect()).sources(place).into_iter();
        let rules = sources.map(|source| all[source].clone().unwrap_err().into_iter().map(rule).collect());
        rules.into_iter().try_fold(Union::new(bytes_max), Union::and).map(Union::into_rules)
    }

    #[track_caller]
    fn check(all: &[Result<Vec<usize>, Vec<usize>>], place: usize, want: &[usize]) {
        let want = want.iter().copied().map(rule).collect();
        assert_eq!(aggregated(all, place, 1 << 20), Some(want));
    }

    #[test]
    fn rules_come_in_order_and_once() {
        let all = [Ok(vec![2, 0, 1, 3]), Err(vec![1, 2, 1]), Err(vec![3, 2]), Ok(vec![1, 4]), Err(vec![5])];
        check(&all, 0, &[3, 2, 1, 5]);
        check(&all, 3, &[1, 2, 5]);
    }

    #[test]
    fn a_circle_ends_and_keeps_nothing_of_its_own() {
        let all = [Ok(vec![1, 3]), Ok(vec![2, 4]), Ok(vec![0, 1]), Err(vec![1]), Err(vec![2])];
        check(&all, 0, &[2, 1]);
        check(&all, 1, &[1, 2]);
        check(&all, 2, &[2, 1]);
        check(&[Ok(vec![1]), Ok(vec![0])], 0, &[]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let mut all: Vec<_> = (1..100_000).map(|next| Ok(vec![next])).collect();
        all.push(Err(vec![7]));
        check(&all, 0, &[7]);
    }

    #[test]
    fn rules_that_fit_no_object_are_none() {
        let all = [Ok(vec![1]), Err((0..100).collect())];
        assert_eq!(aggregated(&all, 0, 289), None);
        assert_eq!(aggregated(&all, 0, 290).map(|rules| rules.len()), Some(100));
    }

    proptest! {
        /// Without circles it is the outcome of upstream's controller, which reads the rules that it stored before.
        #[test]
        fn a_tree_of_roles_settles_as_upstream_does(
            all in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(0..8_usize, 0..4).prop_map(Ok),
                    proptest::collection::vec(0..6_usize, 0..4).prop_map(Err),
                ],
                8,
            )
        ) {
            // Each selects only later ones.
            let all: Vec<Result<Vec<usize>, Vec<usize>>> = all.into_iter().enumerate().map(|(place, role)| {
                role.map(|selected| selected.into_iter().filter(|other| *other > place).collect())
            }).collect();
            let mut stored: Vec<Vec<usize>> =
                all.iter().map(|role| role.clone().err().unwrap_or_default()).collect();
            for _ in 0..all.len() {
                for (place, role) in all.iter().enumerate() {
                    if let Ok(selected) = role {
                        let mut new = Vec::new();
                        for rule in selected.iter().flat_map(|other| &stored[*other]) {
                            if !new.contains(rule) {
                                new.push(*rule);
                            }
                        }
                        stored[place] = new;
                    }
                }
            }
            for (place, _) in all.iter().enumerate().filter(|(_, role)| role.is_ok()) {
                let want = stored[place].iter().copied().map(rule).collect();
                prop_assert_eq!(aggregated(&all, place, 1 << 20), Some(want));
            }
        }
    }
}
