//! ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings, `admissionregistration.k8s.io/v1`: expressions that judge
//! writes and change objects ([`admission`](crate::admission)).
//!
//! Sources: `pkg/registry/admissionregistration/{validatingadmissionpolicy,mutatingadmissionpolicy}/strategy.go` and those of their
//! bindings, `pkg/apis/admissionregistration/validation`, `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/printers/internalversion`
//! (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_schema::columns::{Columns, age, name_column};

use crate::declared::Declared;
use crate::kinds::admission_match::{RESERVED, STATIC};
use crate::kinds::fields::{default_nil, items, part, present, present_mut, text};
use crate::kinds::generation;
use crate::kinds::metadata_update;
use crate::kinds::status::{is_of_status, keep_metadata, keep_other_part, reset};
use crate::kinds::table_column;
use crate::parameters::ParameterRead;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod mutating;
mod parameters;
mod rules;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The effect of policies on writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// They change objects.
    Mutating,
    /// They judge them.
    Validating,
}

static POLICIES: [Declared; 2] = [
    Declared::catalogued(API_VERSION, "MutatingAdmissionPolicy"),
    Declared::catalogued(API_VERSION, "ValidatingAdmissionPolicy"),
];
static BINDINGS: [Declared; 2] = [
    Declared::catalogued(API_VERSION, "MutatingAdmissionPolicyBinding"),
    Declared::catalogued(API_VERSION, "ValidatingAdmissionPolicyBinding"),
];

impl Effect {
    /// The declaration of a kind.
    fn declared(self, kinds: &'static [Declared; 2]) -> &'static [Declared] {
        let [mutating, validating] = kinds;
        std::slice::from_ref(match self {
            Self::Mutating => mutating,
            Self::Validating => validating,
        })
    }
}

/// All four kinds as built-in types.
pub(super) fn admission_policies() -> Vec<TypeSpec> {
    let column = |name: &str, kind: &str, description: &str| table_column(name, kind, 0, description);
    let policies = |number: &str, about: &str| {
        vec![
            name_column(),
            column(number, "integer", about),
            column(
                "ParamKind",
                "string",
                "ParamKind specifies the kind of resources used to parameterize this policy",
            ),
            column("Age", "string", ""),
        ]
    };
    let about = "PolicyName indicates the policy definition which the policy binding binded to";
    let bindings = || {
        vec![
            name_column(),
            column("PolicyName", "string", about),
            column(
                "ParamRef",
                "string",
                "ParamRef indicates the param resource which sets the configuration param",
            ),
            column("Age", "string", ""),
        ]
    };
    let spec = |plural, kind, columns, strategy| {
        let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
        let names = Names { categories: vec!["api-extensions".into()], ..Names::of_kind(plural, kind) };
        TypeSpec::built_in("admissionregistration.k8s.io", names, Scope::Cluster, versions, strategy)
    };
    let mutations = "Mutation indicates the number of mutations rules defined in this configuration";
    let validations = "Validations indicates the number of validation rules defined in this configuration";
    vec![
        spec(
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            Columns::rows(policies("Validations", validations), |of, now| policy_row(of, "validations", now)),
            Arc::new(Policies(Effect::Validating)),
        ),
        spec(
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            Columns::rows(bindings(), binding_row),
            Arc::new(PolicyBindings(Effect::Validating)),
        ),
        spec(
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            Columns::rows(policies("Mutations", mutations), |of, now| policy_row(of, "mutations", now)),
            Arc::new(Policies(Effect::Mutating)),
        ),
        spec(
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            Columns::rows(bindings(), binding_row),
            Arc::new(PolicyBindings(Effect::Mutating)),
        ),
    ]
}

/// `printValidatingAdmissionPolicy`, `printMutatingAdmissionPolicy`
fn policy_row(policy: &Value, counted: &str, now: i64) -> Vec<Value> {
    let spec = part(policy, "spec");
    let kind = match present(spec, "paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")),
        None => "<unset>".to_owned(),
    };
    let count = i64::try_from(items(spec, counted).len()).unwrap_or(i64::MAX);
    row(policy, [Value::Int(count), kind.into()], now)
}

/// `printValidatingAdmissionPolicyBinding`, `printMutatingAdmissionPolicyBinding`
fn binding_row(binding: &Value, now: i64) -> Vec<Value> {
    let spec = part(binding, "spec");
    let params = match present(spec, "paramRef") {
        None => "<unset>".to_owned(),
        Some(of) => match (text(of, "name"), text(of, "namespace"), present(of, "selector")) {
            ("", _, Some(selector)) => go_selector(selector),
            ("", _, None) => "<unset>".to_owned(),
            (name, "", _) => format!("*/{name}"),
            (name, namespace, _) => format!("{namespace}/{name}"),
        },
    };
    row(binding, [text(spec, "policyName").into(), params.into()], now)
}

fn row(of: &Value, cells: [Value; 2], now: i64) -> Vec<Value> {
    let metadata = part(of, "metadata");
    let mut row = vec![text(metadata, "name").into()];
    row.extend(cells);
    row.push(age(text(metadata, "creationTimestamp"), now).into());
    row
}

/// A selector as Go's code for protobuf prints it.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<(&str, &str)> = crate::kinds::keyed::entries(selector, "matchLabels").collect();
    labels.sort_unstable();
    let labels: String = labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let requirement = |of: &Value| {
        let values: Vec<&str> = items(of, "values").iter().filter_map(Value::as_str).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text(of, "key"),
            text(of, "operator"),
            values.join(" ")
        )
    };
    let requirements: String = items(selector, "matchExpressions").iter().map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

/// `SetDefaults_MatchResources`
fn fill_match(of: &mut Value, field: &str) {
    let Some(resources) = present_mut(of, field) else { return };
    default_nil(resources, "matchPolicy", "Equivalent");
    default_nil(resources, "namespaceSelector", Value::Object(kindom_api::Map::new()));
    default_nil(resources, "objectSelector", Value::Object(kindom_api::Map::new()));
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in crate::kinds::fields::items_mut(resources, field) {
            default_nil(rule, "scope", "*");
        }
    }
}

fn reserved(object: &Value) -> bool {
    text(part(object, "metadata"), "name").ends_with(STATIC)
}

fn refuse_reserved(object: &Value, errors: &mut ErrorList) {
    if reserved(object) {
        let name = text(part(object, "metadata"), "name");
        errors.push(Error::invalid(&Path::new("metadata").child("name"), name, RESERVED));
    }
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    match old.is_some() && reserved(object) {
        true => vec![format!("metadata.name: {RESERVED}")],
        false => Vec::new(),
    }
}

/// The rules of policies.
struct Policies(Effect);

impl Policies {
    /// The errors in a policy, or in one that replaces `old`.
    fn errors(&self, policy: &Value, old: Option<&Value>) -> ErrorList {
        match self.0 {
            Effect::Mutating => mutating::validate_policy(policy, old),
            Effect::Validating => rules::validate_policy(&POLICIES[1], policy, old),
        }
    }
}

impl Strategy for Policies {
    fn declared(&self) -> &'static [Declared] {
        self.0.declared(&POLICIES)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn subresources(&self) -> &'static [Subresource] {
        match self.0 {
            Effect::Validating => &[Subresource::Status],
            Effect::Mutating => &[],
        }
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        match (self.0, is_of_status(cx)) {
            (Effect::Mutating, _) => &[],
            (Effect::Validating, true) => &["spec", "metadata"],
            (Effect::Validating, false) => &["status"],
        }
    }

    fn parameters_read(&self, policy: &Value, old: Option<&Value>) -> Option<ParameterRead> {
        parameters::of_policy(policy, old)
    }

    fn fill_defaults(&self, policy: &mut Value) {
        let Some(spec) = present_mut(policy, "spec") else { return };
        default_nil(spec, "failurePolicy", "Fail");
        fill_match(spec, "matchConstraints");
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, policy: &mut Value) {
        if self.0 == Effect::Validating {
            reset(cx, policy);
        }
        generation::first(policy);
    }

    fn validate(&self, _: &RuleContext<'_>, policy: &Value) -> ErrorList {
        let mut errors = self.errors(policy, None);
        refuse_reserved(policy, &mut errors);
        errors
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, policy: &mut Value, old: &Value) {
        if self.0 == Effect::Validating {
            keep_other_part(cx, policy, old);
        }
        match is_of_status(cx) {
            true => keep_metadata(policy, old),
            false => generation::next_if_changed(policy, old, "spec"),
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        policy: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => rules::validate_status(policy),
            false => {
                let mut errors = self.errors(policy, Some(old));
                errors.extend(metadata_update(policy, old));
                errors
            }
        }
    }

    fn warnings(&self, _: &RuleContext<'_>, policy: &Value, old: Option<&Value>) -> Vec<String> {
        warnings(policy, old)
    }
}

/// The rules of bindings.
struct PolicyBindings(Effect);

impl PolicyBindings {
    fn errors(&self, binding: &Value) -> ErrorList {
        match self.0 {
            Effect::Mutating => mutating::validate_binding(binding),
            Effect::Validating => rules::validate_binding(binding),
        }
    }
}

impl Strategy for PolicyBindings {
    fn declared(&self) -> &'static [Declared] {
        self.0.declared(&BINDINGS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn parameters_read(&self, binding: &Value, _: Option<&Value>) -> Option<ParameterRead> {
        parameters::of_binding(self.0, binding)
    }

    fn fill_defaults(&self, binding: &mut Value) {
        if let Some(spec) = present_mut(binding, "spec") {
            fill_match(spec, "matchResources");
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, binding: &mut Value) {
        generation::first(binding);
    }

    fn validate(&self, _: &RuleContext<'_>, binding: &Value) -> ErrorList {
        let mut errors = self.errors(binding);
        refuse_reserved(binding, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, binding: &mut Value, old: &Value) {
        generation::next_if_changed(binding, old, "spec");
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        binding: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = self.errors(binding);
        errors.extend(metadata_update(binding, old));
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, binding: &Value, old: Option<&Value>) -> Vec<String> {
        warnings(binding, old)
    }
}
