//! The admission plugins of kube-apiserver that are rules of built-in kinds, and the objects of other kinds that they look at.
//!
//! A kind says by [`Strategy::looks_at`](crate::Strategy::looks_at) which objects it needs for a write, the driver reads them, and
//! [`Strategy::admit`](crate::Strategy::admit) and [`Strategy::judge`](crate::Strategy::judge) find them in [`Others`].
//!
//! Sources: `pkg/kubeapiserver/options/plugins.go`, `plugin/pkg/admission` (1.37).

use kindom_api::{GroupVersionKind, Value};

/// A plugin, by the name that kube-apiserver's flags have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// Nobody asks for a client's certificate of the server's masters.
    CertificateSubjectRestriction,
    /// An Ingress without a class gets the default one.
    DefaultIngressClass,
    /// A PersistentVolumeClaim without a class gets the default one.
    DefaultStorageClass,
    /// A Pod stays for a while on a node that is in trouble.
    DefaultTolerationSeconds,
    /// Pods and claims get the defaults of LimitRanges, and keep within their limits.
    LimitRanger,
    /// A bound claim grows where its class allows that.
    PersistentVolumeClaimResize,
    /// A Pod gets the priority of its class; one class is the default.
    Priority,
    /// A Pod gets the overhead and the nodes of its RuntimeClass.
    RuntimeClass,
    /// A Pod gets a ServiceAccount that exists, and its token.
    ServiceAccount,
    /// A new Node is not ready.
    TaintNodesByCondition,
}

impl Plugin {
    /// All of them; each is on by default.
    pub const ALL: [Self; 10] = [
        Self::CertificateSubjectRestriction,
        Self::DefaultIngressClass,
        Self::DefaultStorageClass,
        Self::DefaultTolerationSeconds,
        Self::LimitRanger,
        Self::PersistentVolumeClaimResize,
        Self::Priority,
        Self::RuntimeClass,
        Self::ServiceAccount,
        Self::TaintNodesByCondition,
    ];

    /// The name in kube-apiserver's flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CertificateSubjectRestriction => "CertificateSubjectRestriction",
            Self::DefaultIngressClass => "DefaultIngressClass",
            Self::DefaultStorageClass => "DefaultStorageClass",
            Self::DefaultTolerationSeconds => "DefaultTolerationSeconds",
            Self::LimitRanger => "LimitRanger",
            Self::PersistentVolumeClaimResize => "PersistentVolumeClaimResize",
            Self::Priority => "Priority",
            Self::RuntimeClass => "RuntimeClass",
            Self::ServiceAccount => "ServiceAccount",
            Self::TaintNodesByCondition => "TaintNodesByCondition",
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins(u16);

impl Plugins {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// All but those that a condition is true of.
    #[must_use]
    pub fn all_but(is_off: impl Fn(Plugin) -> bool) -> Self {
        let on = Plugin::ALL.into_iter().filter(|plugin| !is_off(*plugin));
        Self(on.fold(0, |set, plugin| set | plugin.bit()))
    }

    /// True if the plugin is among them.
    #[must_use]
    pub fn has(self, plugin: Plugin) -> bool {
        self.0 & plugin.bit() != 0
    }
}

/// A kind whose objects the rules of another one look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKind {
    /// `networking.k8s.io`
    IngressClass,
    /// Of the core group, in the object's namespace.
    LimitRange,
    /// `scheduling.k8s.io`
    PriorityClass,
    /// `node.k8s.io`
    RuntimeClass,
    /// Of the core group, in the object's namespace.
    ServiceAccount,
    /// `storage.k8s.io`
    StorageClass,
}

impl OtherKind {
    /// The group, the version and the kind.
    #[must_use]
    pub fn gvk(self) -> GroupVersionKind {
        let (group, kind) = match self {
            Self::IngressClass => ("networking.k8s.io", "IngressClass"),
            Self::LimitRange => ("", "LimitRange"),
            Self::PriorityClass => ("scheduling.k8s.io", "PriorityClass"),
            Self::RuntimeClass => ("node.k8s.io", "RuntimeClass"),
            Self::ServiceAccount => ("", "ServiceAccount"),
            Self::StorageClass => ("storage.k8s.io", "StorageClass"),
        };
        GroupVersionKind::new(group, "v1", kind)
    }
}

/// The objects that a write looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// All of a kind: of the object's namespace, or of the cluster.
    All(OtherKind),
    /// The one of this name.
    Named {
        /// Its kind.
        kind: OtherKind,
        /// Its name.
        name: String,
        /// It comes into being by itself, and the write may wait for a moment for it.
        is_expected: bool,
    },
}

/// The objects of other kinds that a write looks at, and the plugins that are on.
#[derive(Debug)]
pub struct Others {
    /// Those that are on.
    pub plugins: Plugins,
    /// The namespace of the write; empty at cluster scope.
    pub namespace: String,
    /// The end of a generated name.
    pub name_suffix: String,
    /// The objects that were found, by kind.
    pub found: Vec<(OtherKind, Value)>,
}

impl Others {
    /// No plugin, and nothing looked at: a write of the server itself.
    pub const NONE: &'static Self = &Self::of(Plugins::NONE);

    /// Nothing that has been looked at yet.
    #[must_use]
    pub const fn of(plugins: Plugins) -> Self {
        Self { plugins, namespace: String::new(), name_suffix: String::new(), found: Vec::new() }
    }

    /// True if the plugin is on.
    #[must_use]
    pub fn has(&self, plugin: Plugin) -> bool {
        self.plugins.has(plugin)
    }

    /// The objects of a kind that were found, by name.
    pub fn all(&self, kind: OtherKind) -> impl Iterator<Item = &Value> {
        self.found.iter().filter(move |(of, _)| *of == kind).map(|(_, object)| object)
    }

    /// The object of a kind and a name, if it was found.
    #[must_use]
    pub fn named(&self, kind: OtherKind, name: &str) -> Option<&Value> {
        self.all(kind).find(|object| object.text_at(&["metadata", "name"]) == name)
    }
}

/// The default class of a kind: of those that an annotation says it of, the newest, and then the first by name
/// (`GetDefaultClass`).
pub(crate) fn default_class<'a>(
    others: &'a Others,
    kind: OtherKind,
    annotations: &[&str],
) -> Option<&'a str> {
    let is_default = |class: &&Value| {
        annotations.iter().any(|annotation| class.text_at(&["metadata", "annotations", annotation]) == "true")
    };
    // Times are texts of one length.
    let key = |class: &&'a Value| {
        (
            std::cmp::Reverse(class.text_at(&["metadata", "creationTimestamp"])),
            class.text_at(&["metadata", "name"]),
        )
    };
    others.all(kind).filter(is_default).min_by_key(key).map(|class| class.text_at(&["metadata", "name"]))
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    #[test]
    fn plugins_are_a_set() {
        let set = Plugins::all_but(|plugin| plugin == Plugin::Priority);
        for plugin in Plugin::ALL {
            assert_eq!(set.has(plugin), plugin != Plugin::Priority, "{}", plugin.name());
            assert!(!Plugins::NONE.has(plugin));
        }
    }

    #[test]
    fn the_newest_default_class_counts() {
        let class = |name: &str, at: &str, is_default: &str| {
            let annotations = object! { "is-default": is_default };
            let metadata = object! { "name": name, "creationTimestamp": at, "annotations": annotations };
            (OtherKind::StorageClass, object! { "metadata": metadata })
        };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
        let mut others = Others::of(Plugins::NONE);
        let first = |others: &Others| {
            default_class(others, OtherKind::StorageClass, &["is-default"]).map(str::to_owned)
        };
        assert_eq!(first(&others), None);
        others.found = vec![class("a", old, "true"), class("b", new, "yes")];
        assert_eq!(first(&others).as_deref(), Some("a"));
        others.found.extend([class("d", new, "true"), class("c", new, "true")]);
        assert_eq!(first(&others).as_deref(), Some("c"));
    }
}
