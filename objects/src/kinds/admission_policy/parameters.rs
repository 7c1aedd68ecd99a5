//! The parameters that whoever writes a policy or a binding has to be able to read: the server reads them for him
//! (`pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz.go`, 1.37).

use kindom_api::Value;

use super::Effect;
use crate::kinds::fields::{part, present, text};
use crate::parameters::{ParameterKind, ParameterRead};

/// Those of a policy that has another kind of parameters than before.
pub(super) fn of_policy(policy: &Value, old: Option<&Value>) -> Option<ParameterRead> {
    let kind = |of: &Value| {
        let kind = present(part(of, "spec"), "paramKind")?;
        Some((text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned()))
    };
    let wanted = kind(policy)?;
    if old.and_then(kind).is_some_and(|before| before == wanted) {
        return None;
    }
    let (api_version, kind) = wanted;
    Some(ParameterRead {
        field: "paramKind",
        verb: "get",
        namespace: "*".to_owned(),
        name: "*".to_owned(),
        kind: ParameterKind::Named { api_version, kind },
        is_of_changes: false,
    })
}

/// Those of a binding, at each write of it: upstream compares references to the same values as different.
pub(super) fn of_binding(effect: Effect, binding: &Value) -> Option<ParameterRead> {
    let spec = part(binding, "spec");
    let reference = present(spec, "paramRef")?;
    let name = text(reference, "name");
    Some(ParameterRead {
        field: "paramRef",
        verb: if name.is_empty() { "list" } else { "get" },
        namespace: text(reference, "namespace").to_owned(),
        name: name.to_owned(),
        kind: ParameterKind::OfPolicy(text(spec, "policyName").to_owned()),
        is_of_changes: effect == Effect::Mutating,
    })
}
