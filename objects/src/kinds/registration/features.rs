//! Fields of registrations that can be switched off, as Kubernetes' feature gates do (S-10).
//!
//! While a feature is off, its fields are dropped from a new registration, and from an updated one unless it had some of
//! them before: a feature in use stays in use (`dropDisabledFields` of the strategies upstream).

use kindom_api::crd::CustomResourceDefinition;
use kindom_api::faces::SUB_RESOURCES;

/// A feature with fields of its own. All are on unless they are switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// `subresources`, by whatever name and on whichever face.
    CustomResourceSubresources,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 1] = [Self::CustomResourceSubresources];

    /// As `--feature-gates` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CustomResourceSubresources => "CustomResourceSubresources",
        }
    }

    fn is_used_by(self, crd: &CustomResourceDefinition) -> bool {
        match self {
            Self::CustomResourceSubresources => {
                crd.spec.versions.iter().any(|version| version.subresources.is_some())
                    || crd.metadata.annotations.contains_key(SUB_RESOURCES)
            }
        }
    }

    fn drop_from(self, crd: &mut CustomResourceDefinition) {
        match self {
            Self::CustomResourceSubresources => {
                for version in &mut crd.spec.versions {
                    version.subresources = None;
                }
                crd.metadata.annotations.remove(SUB_RESOURCES);
            }
        }
    }
}

/// Drops the fields of features that are off from what replaces `old`, none for a create.
pub(crate) fn drop_disabled(
    disabled: &[Feature],
    new: &mut CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
) {
    for feature in disabled {
        if !old.is_some_and(|old| feature.is_used_by(old)) {
            feature.drop_from(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::crd::{Subresources, Version};

    use super::*;

    fn crd(with: bool, hidden: bool) -> CustomResourceDefinition {
        let mut crd = CustomResourceDefinition::default();
        let subresources = with.then(Subresources::default);
        crd.spec.versions = vec![Version::default(), Version { subresources, ..Version::default() }].into();
        if hidden {
            crd.metadata.annotations.insert(SUB_RESOURCES.to_owned(), "{}".to_owned());
        }
        crd
    }

    #[test]
    fn what_is_off_is_dropped_unless_it_was_there() {
        let feature = Feature::CustomResourceSubresources;
        let check = |new: (bool, bool), old: Option<(bool, bool)>, kept: bool| {
            let (mut new, old) = (crd(new.0, new.1), old.map(|(with, hidden)| crd(with, hidden)));
            drop_disabled(&[feature], &mut new, old.as_ref());
            assert_eq!(feature.is_used_by(&new), kept);
        };
        check((true, false), None, false);
        check((false, true), None, false);
        check((true, true), Some((false, false)), false);
        check((true, false), Some((true, false)), true);
        check((true, true), Some((false, true)), true);
        let mut on = crd(true, false);
        drop_disabled(&[], &mut on, None);
        assert!(feature.is_used_by(&on));
    }
}
