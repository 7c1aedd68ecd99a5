//! The admission plugins that concern claims: `LimitRanger`, `DefaultStorageClass`, `PersistentVolumeClaimResize`
//! (`plugin/pkg/admission/{limitranger,storage/storageclass/setdefault,storage/persistentvolume/resize}/admission.go`, 1.37).

use kindom_api::Value;
use kindom_api::quantity::Quantity;

use super::{CLASS, class};
use crate::RuleContext;
use crate::kinds::fields::{default_nil, part, present, text};
use crate::kinds::limit_range::bounds::{LimitBounds, refuse_any};
use crate::kinds::limit_range::limits;
use crate::kinds::resources::amounts;
use crate::plugins::{Look, OtherKind, Plugin, default_class};

/// The annotations of the default class.
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn looks_at(cx: &RuleContext<'_>, claim: &Value, old: Option<&Value>) -> Vec<Look> {
    let mut looks = Vec::new();
    if is_limited(cx, old) {
        looks.push(Look::All(OtherKind::LimitRange));
    }
    if needs_class(cx, claim, old) {
        looks.push(Look::All(OtherKind::StorageClass));
    } else if let Some(old) = grows(cx, claim, old)
        && class(old) == class(claim)
    {
        let name = class(claim).to_owned();
        looks.push(Look::Named { kind: OtherKind::StorageClass, name, is_expected: false });
    }
    looks
}

pub(super) fn admit(cx: &RuleContext<'_>, claim: &mut Value, old: Option<&Value>) {
    if needs_class(cx, claim, old)
        && let Some(class) = default_class(cx.others, OtherKind::StorageClass, &IS_DEFAULT)
        && let Some(spec) = claim.get_mut("spec")
    {
        default_nil(spec, "storageClassName", class);
    }
}

pub(super) fn judge(cx: &RuleContext<'_>, claim: &Value, old: Option<&Value>) -> Result<(), String> {
    if is_limited(cx, old) {
        let requests = amounts(part(part(part(claim, "spec"), "resources"), "requests"));
        for range in cx.others.all(OtherKind::LimitRange) {
            let mut errors = Vec::new();
            for limit in limits(range).iter().filter(|limit| text(limit, "type") == "PersistentVolumeClaim") {
                LimitBounds::of(limit).violations_of_requests(&requests, &mut errors);
            }
            refuse_any(errors)?;
        }
    }
    match grows(cx, claim, old) {
        Some(old) => judge_growth(cx, claim, old),
        None => Ok(()),
    }
}

/// True for the claim itself, unless it goes.
fn is_limited(cx: &RuleContext<'_>, old: Option<&Value>) -> bool {
    let goes = |old: &Value| old.at(&["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null());
    cx.others.has(Plugin::LimitRanger) && cx.subresource.is_none() && !old.is_some_and(goes)
}

fn needs_class(cx: &RuleContext<'_>, claim: &Value, old: Option<&Value>) -> bool {
    cx.others.has(Plugin::DefaultStorageClass)
        && cx.subresource.is_none()
        && old.is_none()
        && claim.at(&["metadata", "annotations", CLASS]).is_none()
        && present(part(claim, "spec"), "storageClassName").is_none()
}

fn storage(claim: &Value) -> Quantity {
    let storage = claim.text_at(&["spec", "resources", "requests", "storage"]);
    Quantity::parse(storage).unwrap_or_else(|_| Quantity::of_count(0))
}

/// The former state of a claim that asks for more than it did.
fn grows<'a>(cx: &RuleContext<'_>, claim: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let is_on = cx.others.has(Plugin::PersistentVolumeClaimResize) && cx.subresource.is_none();
    old.filter(|old| is_on && storage(claim).compare(&storage(old)).is_gt())
}

fn judge_growth(cx: &RuleContext<'_>, claim: &Value, old: &Value) -> Result<(), String> {
    if old.text_at(&["status", "phase"]) != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let of_old = Some(class(old)).filter(|of_old| !of_old.is_empty() && *of_old == class(claim));
    let found = of_old.and_then(|name| cx.others.named(OtherKind::StorageClass, name));
    let allows = |class: &Value| part(class, "allowVolumeExpansion") == &Value::Bool(true);
    match found.is_some_and(allows) {
        true => Ok(()),
        false => Err("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                      support resize"
            .to_owned()),
    }
}
