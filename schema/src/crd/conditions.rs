//! The conditions that depend on a registration alone, each computed by one pure function.

use kindom_api::crd::{CustomResourceDefinition, condition};
use kindom_api::faces::{Face, REGISTERED_THROUGH};
use kindom_api::field::{Error, ErrorList, Path, aggregate};
use kindom_api::meta::Condition;

use super::{ApiApproval, api_approval_state, conversion, structural};

/// Returns true if the conversion webhook's CA bundle is unusable. Such a registration does not become Established: the
/// condition's reason is then `InvalidCABundle` (`pkg/controller/establish`).
#[must_use]
pub fn has_invalid_ca_bundle(crd: &CustomResourceDefinition) -> bool {
    conversion::has_invalid_ca_bundle(crd)
}

/// NonStructuralSchema, which only registrations that came in by v1beta1 can have; none if all is well
/// (`pkg/controller/nonstructuralschema`). It has no time and no generation yet.
#[must_use]
pub fn non_structural_schema_condition(crd: &CustomResourceDefinition) -> Option<Condition> {
    let v1beta1 = crd.metadata.annotations.get(REGISTERED_THROUGH).map(String::as_str);
    if v1beta1 != Some(Face::V1beta1.api_version()) && !crd.spec.preserve_unknown_fields {
        // The other faces let no such schema in, and a walk over all of it costs.
        return None;
    }
    let spec = Path::new("spec");
    let mut errors = ErrorList::new();
    if crd.spec.preserve_unknown_fields {
        errors.push(Error::invalid(&spec.child("preserveUnknownFields"), true, "must be false"));
    }
    let versions = spec.child("versions");
    for (i, version) in crd.spec.versions.iter().enumerate() {
        let Some(schema) = version.open_api_v3_schema() else { continue };
        if let Err(text) = structural::unsupported(schema) {
            let message = format!("failed to check validation schema for version {}: {text}", version.name);
            return Some(Condition::new(
                condition::NON_STRUCTURAL_SCHEMA,
                "Unknown",
                "StructuralError",
                message,
            ));
        }
        let at = versions.index(i);
        let at = at.child("schema");
        errors.extend(structural::validate(schema, &at.child("openAPIV3Schema")));
    }
    (!errors.is_empty())
        .then(|| Condition::new(condition::NON_STRUCTURAL_SCHEMA, "True", "Violations", aggregate(&errors)))
}

/// KubernetesAPIApprovalPolicyConformant; none if the group does not belong to the Kubernetes project
/// (`pkg/controller/apiapproval`). It has no time and no generation yet.
#[must_use]
pub fn api_approval_condition(crd: &CustomResourceDefinition) -> Option<Condition> {
    let (status, reason, message) = match api_approval_state(crd) {
        ApiApproval::NotNeeded => return None,
        ApiApproval::Missing(text) => ("False", "MissingAnnotation", text),
        ApiApproval::Invalid(text) => ("False", "InvalidAnnotation", text),
        ApiApproval::Approved(text) => ("True", "ApprovedAnnotation", text),
        ApiApproval::Bypassed(text) => ("False", "UnapprovedAnnotation", text),
    };
    Some(Condition::new(condition::API_APPROVED, status, reason, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindom_api::json::parse;

    fn crd(group: &str, annotation: &str, schema: &str) -> CustomResourceDefinition {
        let tree = format!(
            r#"{{"metadata":{{"annotations":{{"api-approved.kubernetes.io":"{annotation}"}}}},"spec":{{"group":"{group}","versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        );
        kindom_api::crd::decode_crd(&parse(tree.as_bytes()).unwrap()).unwrap().0
    }

    #[test]
    fn approval() {
        let check = |group: &str, annotation: &str, want: &str| {
            let condition = api_approval_condition(&crd(group, annotation, "{}"));
            let got =
                condition.map_or("none".to_owned(), |c| format!("{} {}: {}", c.status, c.reason, c.message));
            assert_eq!(got, want, "{group} {annotation}");
        };
        check("example.com", "", "none");
        check("notk8s.io", "", "none");
        let missing = "False MissingAnnotation: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        check("k8s.io", "", missing);
        check("a.kubernetes.io", "", missing);
        check("a.k8s.io", "unapproved, x", "False UnapprovedAnnotation: not approved: \"unapproved, x\"");
        check("a.k8s.io", "https://h/x", "True ApprovedAnnotation: approved in https://h/x");
        check(
            "a.k8s.io",
            "yes",
            "False InvalidAnnotation: protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        );
    }

    #[test]
    fn structure() {
        let check = |schema: &str, want: &str| {
            let mut crd = crd("example.com", "", schema);
            assert_eq!(non_structural_schema_condition(&crd), None, "v1 does not let it in");
            let v1beta1 = Face::V1beta1.api_version().to_owned();
            crd.metadata.annotations.insert(REGISTERED_THROUGH.to_owned(), v1beta1);
            let condition = non_structural_schema_condition(&crd);
            let got =
                condition.map_or("none".to_owned(), |c| format!("{} {}: {}", c.status, c.reason, c.message));
            assert_eq!(got, want, "{schema}");
        };
        check(r#"{"type":"object"}"#, "none");
        check(
            r#"{"type":"object","properties":{"a":{}}}"#,
            "True Violations: spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        );
        check(
            r#"{"$schema":"x"}"#,
            "Unknown StructuralError: failed to check validation schema for version v1: OpenAPIV3Schema 'schema' is not supported",
        );
    }
}
