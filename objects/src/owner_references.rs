//! The owners that an object names: twice (apiserver `pkg/endpoints/handlers/rest.go`, `dedupOwnerReferencesAndAddWarning`, 1.37),
//! or others than before (`plugin/pkg/admission/gc/gc_admission.go`).

use std::collections::{HashMap, HashSet};

use kindom_api::Value;

/// The moment at which owner references are checked. Upstream's warnings name it, as mutating admission may have added some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the body of a create or an update.
    Body,
    /// In a patched object.
    Patched,
}

/// Removes repeated equal owner references from a decoded object. Returns a warning for the client if there were any;
/// references that differ in more than their uid stay, for validation to judge.
#[must_use]
pub fn dedup(object: &mut Value, origin: Origin) -> Option<String> {
    let references = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    if references.len() < 2 {
        return None;
    }
    let (mut seen, mut repeated) = (HashSet::new(), Vec::new());
    references.retain(|reference| {
        let is_new = seen.insert(reference.to_vec());
        if !is_new {
            repeated.push(reference.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        is_new
    });
    if repeated.is_empty() {
        return None;
    }
    let when = match origin {
        Origin::Body => "",
        Origin::Patched => " after mutating admission happens",
    };
    let uids = repeated.join(", ");
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}

fn references(object: &Value) -> &[Value] {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).unwrap_or_default()
}

/// `true` if an object has other owners than before; `old` is `None` for a new one (`isChangingOwnerReference`).
#[must_use]
pub fn differ(new: &Value, old: Option<&Value>) -> bool {
    references(new) != old.map_or_else(Default::default, references)
}

/// The references that hold up the end of their owner, and did not before (`newBlockingOwnerDeletionRefs`).
#[must_use]
pub fn newly_blocking<'a>(new: &'a Value, old: Option<&Value>) -> Vec<&'a Value> {
    let blocks =
        |reference: &Value| reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true);
    let before = old.map_or_else(Default::default, references).iter();
    let before: HashMap<&str, bool> = before.map(|old| (old.text_at(&["uid"]), blocks(old))).collect();
    let is_new = |reference: &&Value| before.get(reference.text_at(&["uid"])) != Some(&true);
    references(new).iter().filter(|reference| blocks(reference)).filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::{Origin, dedup, differ, newly_blocking};

    #[test]
    fn owners_that_change_and_those_that_are_newly_held_up() {
        let object = |references: &str| {
            parse(format!(r#"{{"metadata":{{"ownerReferences":[{references}]}}}}"#).as_bytes()).unwrap()
        };
        let (none, bare) = (object(""), parse(b"{}").unwrap());
        let one = |blocks: &str| object(&format!(r#"{{"uid":"1"{blocks}}}"#));
        let (free, blocking) = (one(""), one(r#","blockOwnerDeletion":true"#));
        let not = one(r#","blockOwnerDeletion":false"#);
        for (new, old, has_changed, newly) in [
            (&none, None, false, 0),
            (&free, None, true, 0),
            (&blocking, None, true, 1),
            (&bare, Some(&none), false, 0),
            (&free, Some(&bare), true, 0),
            (&none, Some(&blocking), true, 0),
            (&blocking, Some(&free), true, 1),
            (&blocking, Some(&not), true, 1),
            (&blocking, Some(&blocking), false, 0),
            (&blocking, Some(&object(r#"{"uid":"2","blockOwnerDeletion":true}"#)), true, 1),
        ] {
            assert_eq!(differ(new, old), has_changed, "{new} after {old:?}");
            assert_eq!(newly_blocking(new, old).len(), newly, "{new} after {old:?}");
        }
    }

    #[test]
    fn only_equal_references_are_repetitions() {
        let check = |references: &str, left: &str, uids: Option<&str>| {
            let mut object =
                parse(format!(r#"{{"metadata":{{"ownerReferences":{references}}}}}"#).as_bytes()).unwrap();
            let warning = dedup(&mut object, Origin::Body);
            assert_eq!(object.at(&["metadata", "ownerReferences"]).unwrap().to_string(), left);
            assert_eq!(warning.as_deref().and_then(|t| t.rsplit_once(": ")).map(|(_, uids)| uids), uids);
        };
        check(r#"[{"uid":"1"}]"#, r#"[{"uid":"1"}]"#, None);
        check(r#"[{"uid":"1"},{"uid":"2"}]"#, r#"[{"uid":"1"},{"uid":"2"}]"#, None);
        check(
            r#"[{"name":"a","uid":"1"},{"name":"b","uid":"1"}]"#,
            r#"[{"name":"a","uid":"1"},{"name":"b","uid":"1"}]"#,
            None,
        );
        check(
            r#"[{"uid":"1"},{"uid":"2"},{"uid":"1"},{"uid":"1"}]"#,
            r#"[{"uid":"1"},{"uid":"2"}]"#,
            Some("1, 1"),
        );
        assert_eq!(dedup(&mut parse(b"{}").unwrap(), Origin::Patched), None);
    }
}
