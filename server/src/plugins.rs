//! Admission plugins by kube-apiserver's names (`pkg/kubeapiserver/options/plugins.go`, apiserver `pkg/server/options/admission.go`,
//! 1.37).

use std::path::PathBuf;

use clap::Args;
use kindom_objects::plugins::{Plugin, Plugins};
use kindom_resource_actor::{Disabled, EventLimits};

use crate::BoxError;
use crate::admission_file::AdmissionFile;
use crate::webhooks::WebhookUsersOf;

/// The plugins that there are here beside the rules of kinds ([`Plugin`]), and that can be switched off.
const CERTIFICATE_APPROVAL: &str = "CertificateApproval";
const CERTIFICATE_SIGNING: &str = "CertificateSigning";
const MUTATING_POLICIES: &str = "MutatingAdmissionPolicy";
const MUTATING_WEBHOOKS: &str = "MutatingAdmissionWebhook";
const VALIDATING_POLICIES: &str = "ValidatingAdmissionPolicy";
const VALIDATING_WEBHOOKS: &str = "ValidatingAdmissionWebhook";
const RESOURCE_QUOTA: &str = "ResourceQuota";
const SWITCHED: [&str; 7] = [
    CERTIFICATE_APPROVAL,
    CERTIFICATE_SIGNING,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    RESOURCE_QUOTA,
];

/// The plugins that are off unless they are switched on.
const EVENT_RATE_LIMIT: &str = "EventRateLimit";
const OWNER_PERMISSIONS: &str = "OwnerReferencesPermissionEnforcement";
const OPTIONAL: [&str; 2] = [EVENT_RATE_LIMIT, OWNER_PERMISSIONS];

/// Those that are always on: what they do is part of the rules of kinds.
const ALWAYS: [&str; 1] = ["NamespaceLifecycle"];

/// Kubernetes' others, which there are not.
const OTHERS: [&str; 19] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "PodGroupProtection",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "StorageObjectInUseProtection",
];

/// The admission plugins that a server is told of.
#[derive(Debug, Default, Args)]
pub(crate) struct PluginFlags {
    /// The admission plugins to switch on, by kube-apiserver's names. Those that there are here are on, but for EventRateLimit
    /// and OwnerReferencesPermissionEnforcement.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = plugin)]
    pub(crate) enable_admission_plugins: Vec<String>,
    /// The admission plugins to switch off. All that there are here can be but NamespaceLifecycle; other names have no effect, and
    /// the log says so.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = plugin)]
    pub(crate) disable_admission_plugins: Vec<String>,
    /// The configurations of admission plugins: an AdmissionConfiguration, JSON or YAML. It gives EventRateLimit its limits, and
    /// MutatingAdmissionWebhook and ValidatingAdmissionWebhook the kubeconfig of the users that webhooks see.
    #[arg(long, value_name = "FILE")]
    pub(crate) admission_control_config_file: Option<PathBuf>,
}

/// True for a plugin that can be switched off.
fn is_switched(name: &str) -> bool {
    SWITCHED.contains(&name)
        || OPTIONAL.contains(&name)
        || Plugin::ALL.iter().any(|plugin| plugin.name() == name)
}

fn plugin(name: &str) -> Result<String, String> {
    // Go takes an empty text for an empty list.
    let is_known = name.is_empty() || is_switched(name) || ALWAYS.contains(&name) || OTHERS.contains(&name);
    if is_known { Ok(name.to_owned()) } else { Err(format!("plugin {name:?} is unknown")) }
}

impl PluginFlags {
    /// Checks that no plugin is switched on and off.
    ///
    /// # Errors
    /// One is; kube-apiserver's text.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut both: Vec<&str> = self.enable_admission_plugins.iter().map(String::as_str).collect();
        both.retain(|name| self.disables(name));
        both.sort_unstable();
        both.dedup();
        match both.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            )),
        }
    }

    fn enables(&self, name: &str) -> bool {
        self.enable_admission_plugins.iter().any(|enabled| enabled == name)
    }

    fn disables(&self, name: &str) -> bool {
        self.disable_admission_plugins.iter().any(|disabled| disabled == name)
    }

    /// The plugins that have no effect, with the flag that names them.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let is_other = |name: &&String| OTHERS.contains(&name.as_str());
        let is_not_off = |name: &&String| !name.is_empty() && !is_switched(name);
        let on = self.enable_admission_plugins.iter().filter(is_other);
        let off = self.disable_admission_plugins.iter().filter(is_not_off);
        let on = on.map(|name| ("enable-admission-plugins", name.as_str()));
        on.chain(off.map(|name| ("disable-admission-plugins", name.as_str())))
    }

    /// The configurations of plugins.
    ///
    /// # Errors
    /// A file that cannot be read, or is wrong.
    pub(crate) fn file(&self) -> Result<AdmissionFile, BoxError> {
        let file = AdmissionFile::read(self.admission_control_config_file.as_deref())?;
        let is_read =
            |name: &&str| ![EVENT_RATE_LIMIT, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS].contains(name);
        for name in file.names().filter(is_read) {
            tracing::warn!(
                plugin = name,
                "admission-control-config-file: this plugin has no configuration here"
            );
        }
        Ok(file)
    }

    /// The users that this server is for webhooks.
    ///
    /// # Errors
    /// A configuration that cannot be read, or is wrong.
    pub(crate) fn webhook_users(file: &AdmissionFile) -> Result<WebhookUsersOf, BoxError> {
        let of = |plugin| file.webhook_users(plugin);
        Ok(WebhookUsersOf { mutating: of(MUTATING_WEBHOOKS)?, validating: of(VALIDATING_WEBHOOKS)? })
    }

    /// The rates at which events may come; `None` for any.
    ///
    /// # Errors
    /// A configuration that cannot be read, or is wrong.
    pub(crate) fn event_limits(
        &self,
        file: &AdmissionFile,
        seed: &str,
    ) -> Result<Option<EventLimits>, BoxError> {
        if self.enables(EVENT_RATE_LIMIT) { file.event_limits(seed).map(Some) } else { Ok(None) }
    }

    /// The rules of kinds that are on.
    pub(crate) fn on(&self) -> Plugins {
        Plugins::all_but(|plugin| self.disables(plugin.name()))
    }

    /// The parts of admission that are off.
    pub(crate) fn disabled(&self) -> Disabled {
        Disabled {
            mutating_policies: self.disables(MUTATING_POLICIES),
            mutating_webhooks: self.disables(MUTATING_WEBHOOKS),
            validating_policies: self.disables(VALIDATING_POLICIES),
            validating_webhooks: self.disables(VALIDATING_WEBHOOKS),
            owner_permissions: !self.enables(OWNER_PERMISSIONS),
            certificate_approval: self.disables(CERTIFICATE_APPROVAL),
            certificate_signing: self.disables(CERTIFICATE_SIGNING),
        }
    }

    /// `true` if quotas refuse what goes beyond them.
    pub(crate) fn enforces_quotas(&self) -> bool {
        !self.disables(RESOURCE_QUOTA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_known_by_kubernetes_names() {
        let rules = Plugin::ALL.map(Plugin::name);
        for name in SWITCHED.iter().chain(&OPTIONAL).chain(&ALWAYS).chain(&OTHERS).chain(&rules) {
            assert_eq!(plugin(name), Ok((*name).to_owned()));
        }
        assert_eq!(plugin("Nobody"), Err("plugin \"Nobody\" is unknown".to_owned()));
        assert_eq!(
            SWITCHED.len() + OPTIONAL.len() + ALWAYS.len() + OTHERS.len() + rules.len(),
            39,
            "as many as AllOrderedPlugins"
        );
    }

    #[test]
    fn nothing_is_on_and_off() {
        let flags = |on: &[&str], off: &[&str]| {
            let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            PluginFlags {
                enable_admission_plugins: texts(on),
                disable_admission_plugins: texts(off),
                admission_control_config_file: None,
            }
        };
        assert_eq!(flags(&["ResourceQuota"], &["LimitRanger"]).check(), Ok(()));
        let both = flags(&["Priority", "LimitRanger", "NodeRestriction"], &["LimitRanger", "Priority"]);
        let why =
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped";
        assert_eq!(both.check(), Err(why.to_owned()));
        let some =
            flags(&["ResourceQuota", "NodeRestriction"], &["NamespaceLifecycle", "MutatingAdmissionWebhook"]);
        let without: Vec<_> = some.without_effect().collect();
        assert_eq!(
            without,
            [
                ("enable-admission-plugins", "NodeRestriction"),
                ("disable-admission-plugins", "NamespaceLifecycle")
            ]
        );
        assert!(some.enforces_quotas() && some.disabled().mutating_webhooks);
        // Off by default, and no rule of a kind.
        assert!(some.disabled().owner_permissions);
        let guards = flags(&[OWNER_PERMISSIONS], &[]);
        assert!(!guards.disabled().owner_permissions && guards.without_effect().next().is_none());
        let on = flags(&[], &["ServiceAccount"]).on();
        assert!(!on.has(Plugin::ServiceAccount) && on.has(Plugin::LimitRanger));
    }
}
