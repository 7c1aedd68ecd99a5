//! Ingress, `networking.k8s.io/v1`. It is kept for the controllers that serve it.
//!
//! Sources: `pkg/registry/networking/ingress/strategy.go`, `pkg/apis/networking/validation/validation.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::collections::BTreeSet;
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{ErrorList, Path};
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, part, present, text};
use crate::kinds::generation;
use crate::kinds::status::{is_of_status, keep_other_part, reset};
use crate::kinds::{AGE, ip};
use crate::plugins::{Look, OtherKind, Plugin, default_class};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod rules;

static INGRESS: Declared = Declared::catalogued("networking.k8s.io/v1", "Ingress");
/// The annotation that named a class before there was a field for it.
const CLASS: &str = "kubernetes.io/ingress.class";
/// The annotation of the default class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
const SHOWN_HOSTS_MAX: usize = 3;

/// Ingresses as a built-in type.
pub(super) fn ingresses() -> TypeSpec {
    let class = "The name of the IngressClass resource that should be used for additional configuration";
    let of_hosts = "Hosts that incoming requests are matched against before the ingress rule";
    let of_address = "Address is a list containing ingress points for the load-balancer";
    let of_ports = "Ports of TLS configurations that open";
    let columns = Columns::printed(&[
        ("Class", class, ".spec.ingressClassName", Printed::Computed(class_name)),
        ("Hosts", of_hosts, ".spec.rules", Printed::Computed(hosts)),
        ("Address", of_address, ".status.loadBalancer", Printed::Computed(address)),
        ("Ports", of_ports, ".spec.tls", Printed::Computed(ports)),
        AGE,
    ]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { short_names: vec!["ing".into()], ..Names::of_kind("ingresses", "Ingress") };
    TypeSpec::built_in("networking.k8s.io", names, Scope::Namespaced, versions, Arc::new(Ingresses))
}

fn class_name(ingress: &Value) -> Value {
    let name = present(part(ingress, "spec"), "ingressClassName").and_then(Value::as_str);
    name.unwrap_or("<none>").into()
}

/// `formatHosts`
fn hosts(ingress: &Value) -> Value {
    let rules = items(part(ingress, "spec"), "rules");
    let (mut shown, mut has_more) = (Vec::new(), false);
    for rule in rules {
        has_more |= shown.len() == SHOWN_HOSTS_MAX;
        match text(rule, "host") {
            host if !has_more && !host.is_empty() => shown.push(host),
            _ => {}
        }
    }
    match (shown.join(","), has_more) {
        (shown, false) if shown.is_empty() => "*".into(),
        (shown, false) => shown.into(),
        (shown, true) => format!("{shown} + {} more...", rules.len().saturating_sub(SHOWN_HOSTS_MAX)).into(),
    }
}

/// The points at which a load balancer is reached.
fn points(ingress: &Value) -> &[Value] {
    let balancer = ingress.at(&["status", "loadBalancer"]).unwrap_or(&Value::Null);
    items(balancer, "ingress")
}

/// `ingressLoadBalancerStatusStringer`, as for wide tables.
fn address(ingress: &Value) -> Value {
    let names = points(ingress).iter().map(|point| match text(point, "ip") {
        "" => text(point, "hostname"),
        ip => ip,
    });
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    Vec::from_iter(names).join(",").into()
}

/// `formatPorts`
fn ports(ingress: &Value) -> Value {
    if items(part(ingress, "spec"), "tls").is_empty() { "80".into() } else { "80, 443".into() }
}

fn needs_class(cx: &RuleContext<'_>, ingress: &Value) -> bool {
    cx.others.has(Plugin::DefaultIngressClass)
        && present(part(ingress, "spec"), "ingressClassName").is_none()
        && ingress.at(&["metadata", "annotations", CLASS]).is_none()
}

/// The rules of Ingresses.
struct Ingresses;

impl Strategy for Ingresses {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&INGRESS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["extensions/v1beta1", "networking.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn looks_at(&self, cx: &RuleContext<'_>, ingress: &Value, old: Option<&Value>) -> Vec<Look> {
        match old.is_none() && needs_class(cx, ingress) {
            true => vec![Look::All(OtherKind::IngressClass)],
            false => Vec::new(),
        }
    }

    /// `DefaultIngressClass` (`plugin/pkg/admission/network/defaultingressclass`)
    fn admit(&self, cx: &RuleContext<'_>, ingress: &mut Value, old: Option<&Value>) -> Result<(), String> {
        if old.is_none()
            && needs_class(cx, ingress)
            && let Some(class) = default_class(cx.others, OtherKind::IngressClass, &[IS_DEFAULT])
            && let Some(spec) = ingress.get_mut("spec")
        {
            default_nil(spec, "ingressClassName", class);
        }
        Ok(())
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, ingress: &mut Value) {
        reset(cx, ingress);
        generation::first(ingress);
    }

    fn validate(&self, _: &RuleContext<'_>, ingress: &Value) -> ErrorList {
        rules::validate_create(ingress)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, ingress: &mut Value, old: &Value) {
        keep_other_part(cx, ingress, old);
        if !is_of_status(cx) {
            generation::next_if_changed(ingress, old, "spec");
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        ingress: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => rules::validate_status_update(ingress, old),
            false => rules::validate_update(ingress, old),
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) {
            let at = Path::new("status");
            let balancer = at.child("loadBalancer");
            let at = balancer.child("ingress");
            let warning = |(index, point)| ip::warning(text(point, "ip"), &at.index(index));
            return points(ingress).iter().enumerate().filter_map(warning).collect();
        }
        let has_annotation = ingress.at(&["metadata", "annotations", CLASS]).is_some();
        let has_class = present(part(ingress, "spec"), "ingressClassName").is_some();
        let is_old = old.is_none() && has_annotation && !has_class;
        let warning =
            || format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        is_old.then(warning).into_iter().collect()
    }
}
