//! CertificateSigningRequest, `certificates.k8s.io/v1`: a request for a certificate, which somebody approves and a signer
//! answers.
//!
//! Sources: `pkg/registry/certificates/certificates/strategy.go`, `pkg/apis/certificates/validation`,
//! `pkg/apis/certificates/v1/conversion.go`, `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, User, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::fields::{items, part, text};
use crate::kinds::status::{self, keep};
use crate::kinds::user_info::user_info;
use crate::plugins::Plugin;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod printed;
mod request;
mod rules;

pub(super) use rules::validate_signer;

static SIGNING_REQUEST: Declared =
    Declared::catalogued("certificates.k8s.io/v1", "CertificateSigningRequest");

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
/// The fields of the spec that say who asks; the server sets them.
const OF_USER: [&str; 4] = ["username", "uid", "groups", "extra"];

/// CertificateSigningRequests as a built-in type.
pub(super) fn signing_requests() -> TypeSpec {
    let columns = Columns::rows(printed::columns(), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names {
        short_names: vec!["csr".into()],
        ..Names::of_kind("certificatesigningrequests", "CertificateSigningRequest")
    };
    TypeSpec::built_in("certificates.k8s.io", names, Scope::Cluster, versions, Arc::new(SigningRequests))
}

/// The rules of CertificateSigningRequests.
struct SigningRequests;

/// Puts back the stored conditions of a type, unless some were added or removed (`preserveConditionInstances`).
fn preserve(request: &mut Value, old: &Value, kind: &str) {
    let of_kind = |condition: &&Value| text(condition, "type") == kind;
    let stored: Vec<Value> =
        items(part(old, "status"), "conditions").iter().filter(of_kind).cloned().collect();
    let conditions = items(part(request, "status"), "conditions");
    if conditions.iter().filter(of_kind).count() != stored.len() {
        return;
    }
    let mut stored = stored.into_iter();
    for condition in conditions_mut(request).filter(|condition| text(condition, "type") == kind) {
        if let Some(stored) = stored.next() {
            *condition = stored;
        }
    }
}

/// Says who asks, whatever the client wrote.
fn set_user(request: &mut Value, user: &User) {
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else { return };
    OF_USER.into_iter().for_each(|field| drop(spec.remove(field)));
    for (field, value) in user_info(user).as_object().into_iter().flat_map(Map::iter) {
        spec.insert(field, value.clone());
    }
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    let status = request.get_mut("status").and_then(|status| status.get_mut("conditions"));
    status.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets the times that conditions lack (`populateConditionTimestamps`).
fn set_times(request: &mut Value, old: &Value, now: &str) {
    let old = items(part(old, "status"), "conditions");
    for condition in conditions_mut(request) {
        if text(condition, "lastUpdateTime").is_empty()
            && let Some(condition) = condition.as_object_mut()
        {
            condition.insert("lastUpdateTime", now);
        }
        if !text(condition, "lastTransitionTime").is_empty() {
            continue;
        }
        let same = |field| move |a: &Value, b: &Value| text(a, field) == text(b, field);
        let (same_type, same_status) = (same("type"), same("status"));
        let since = old.iter().find(|old| {
            same_type(old, condition)
                && same_status(old, condition)
                && !text(old, "lastTransitionTime").is_empty()
        });
        let since = since.map_or(now, |old| text(old, "lastTransitionTime")).to_owned();
        if let Some(condition) = condition.as_object_mut() {
            condition.insert("lastTransitionTime", since);
        }
    }
}

impl Strategy for SigningRequests {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SIGNING_REQUEST)
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::new(".spec.signerName")]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Approval, Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        match cx.subresource {
            Some(Subresource::Status) => &["spec", "status.conditions"],
            Some(Subresource::Approval) => &["spec", "status.certificate"],
            _ => &["spec", "status"],
        }
    }

    fn judge(&self, cx: &RuleContext<'_>, request: &Value, old: Option<&Value>) -> Result<(), String> {
        match old.is_none() && cx.others.has(Plugin::CertificateSubjectRestriction) {
            true => rules::refuse_masters(request),
            false => Ok(()),
        }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, request: &mut Value) {
        set_user(request, cx.user);
        status::reset(cx, request);
    }

    fn validate(&self, _: &RuleContext<'_>, request: &Value) -> ErrorList {
        rules::validate(request, None)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, request: &mut Value, old: &Value) {
        keep(request, old, "spec");
        match cx.subresource {
            Some(Subresource::Status) => {
                preserve(request, old, APPROVED);
                preserve(request, old, DENIED);
                set_times(request, old, cx.now);
            }
            Some(Subresource::Approval) => {
                set_times(request, old, cx.now);
                let null = Value::Null;
                let old = old.get("status").unwrap_or(&null);
                if let Some(status) = request.get_mut("status") {
                    keep(status, old, "certificate");
                }
            }
            _ => keep(request, old, "status"),
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        request: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate_update(request, old, cx.subresource)
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    #[test]
    fn a_request_says_who_made_it() {
        let claimed =
            object! { "username": "mallory", "uid": "7", "groups": vec![Value::from("a")], "usages": "b" };
        let mut request = object! { "spec": claimed };
        let user = User { name: "alice".into(), groups: vec!["devs".into()], ..User::default() };
        set_user(&mut request, &user);
        let expected = object! { "username": "alice", "groups": vec![Value::from("devs")], "usages": "b" };
        assert_eq!(request.get("spec"), Some(&expected));
    }

    #[test]
    fn a_condition_has_times_and_keeps_those_of_its_status() {
        let (before, now) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let condition = |kind: &str| object! { "type": kind, "status": "True" };
        let with = |conditions: Vec<Value>| object! { "status": object! { "conditions": conditions } };
        let mut stored = condition("Approved");
        stored.as_object_mut().unwrap().insert("lastTransitionTime", before);
        let mut request = with(vec![condition("Approved"), condition("Failed")]);
        set_times(&mut request, &with(vec![stored]), now);
        let times = |index: usize, field| {
            text(&items(part(&request, "status"), "conditions")[index], field).to_owned()
        };
        assert_eq!([times(0, "lastUpdateTime"), times(0, "lastTransitionTime")], [now, before]);
        assert_eq!([times(1, "lastUpdateTime"), times(1, "lastTransitionTime")], [now, now]);
    }
}
