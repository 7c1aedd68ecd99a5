//! The rules of flow schemas and priority levels (`pkg/apis/flowcontrol/validation/validation.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{name_is_dns_label, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;

use super::FlowKind;
use crate::kinds::fields::{items, number, part, present, text, texts};

/// The highest precedence (`FlowSchemaMaxMatchingPrecedence`).
const PRECEDENCE_MAX: i64 = 10_000;
/// The most queues of a level.
const QUEUES_MAX: i64 = 10_000_000;
/// The bits of the hash that deals a hand of queues (`shufflesharding.MaxHashBits`).
const HASH_BITS: f64 = 60.0;
const EXEMPT: &str = "exempt";
/// The bytes of the largest spec that an error shows.
const SHOWN_BYTES_MAX: usize = 64 << 10;
/// An annotation of `v1beta3`.
const KEEPS_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const EVERYTHING: &str = "*";

/// `ValidateFlowSchema`, `ValidatePriorityLevelConfiguration`
pub(super) fn validate(kind: FlowKind, object: &Value) -> ErrorList {
    let metadata = part(object, "metadata");
    let mut errors = validate_object_meta(metadata, false, &name_is_dns_subdomain, &Path::new("metadata"));
    match kind {
        FlowKind::FlowSchema => schema(object, &mut errors),
        FlowKind::PriorityLevel => {
            if metadata.at(&["annotations", KEEPS_ZERO]).is_some() {
                let at = Path::new("metadata");
                let why = format!("annotation '{KEEPS_ZERO}' is forbidden");
                errors.push(Error::forbidden(&at.child("annotations"), why));
            }
            level(object, &mut errors);
        }
    }
    mandatory(kind, object, &mut errors);
    errors.append(&mut status(object));
    errors
}

/// The error in a spec that differs from one that nobody may change.
fn mandatory(kind: FlowKind, object: &Value, errors: &mut ErrorList) {
    let name = object.text_at(&["metadata", "name"]);
    let Some(default) = kind.defaults().get(name).filter(|default| default.is_mandatory) else { return };
    if errors.is_full() || kind.is_fixed(object, default) {
        return;
    }
    let but = match kind {
        FlowKind::PriorityLevel if name == EXEMPT => " except the 'spec.exempt' field",
        _ => "",
    };
    let why = format!("spec of '{name}'{but} must equal the fixed value");
    let (spec, at) = (part(object, "spec"), Path::new("spec"));
    // Upstream's form of a spec may be thirty times as long as a client's.
    errors.push(match spec.to_vec().len() > SHOWN_BYTES_MAX {
        true => Error::invalid_part(&at, why),
        false => Error::invalid_raw(&at, kind.declared().internal(&["spec"], spec), why),
    });
}

/// `ValidateFlowSchemaStatus`, `ValidatePriorityLevelConfigurationStatus`
pub(super) fn status(object: &Value) -> ErrorList {
    let (mut errors, mut seen, path) = (ErrorList::new(), BTreeSet::new(), Path::new("status"));
    let all = path.child("conditions");
    for (index, condition) in items(part(object, "status"), "conditions").iter().enumerate() {
        let (kind, at) = (text(condition, "type"), all.index(index));
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&at.child("type"), kind));
        }
        if kind.is_empty() {
            errors.push(Error::required(&at.child("type"), ""));
        }
    }
    errors
}

/// `ValidateFlowSchemaSpec`
fn schema(object: &Value, errors: &mut ErrorList) {
    let (spec, path) = (part(object, "spec"), Path::new("spec"));
    let (precedence, at) =
        (number(spec, "matchingPrecedence").unwrap_or_default(), path.child("matchingPrecedence"));
    let name = object.text_at(&["metadata", "name"]);
    let wrong = [
        (precedence <= 0, "must be a positive value".to_owned()),
        (precedence > PRECEDENCE_MAX, format!("must not be greater than {PRECEDENCE_MAX}")),
        (
            precedence == 1 && name != EXEMPT,
            "only the schema named 'exempt' may have matchingPrecedence 1".to_owned(),
        ),
    ];
    let wrong = wrong.into_iter().filter(|(is_so, _)| *is_so);
    errors.extend(wrong.map(|(_, why)| Error::invalid(&at, precedence, why)));
    if let Some(method) = present(spec, "distinguisherMethod") {
        let kind = text(method, "type");
        if !matches!(kind, "ByNamespace" | "ByUser") {
            let at = path.child("distinguisherMethod");
            // Upstream prints its own form of the method.
            let shown = FlowKind::FlowSchema.declared().internal(&["spec", "distinguisherMethod"], method);
            errors.push(Error::not_supported_raw(&at.child("type"), shown, &["ByNamespace", "ByUser"]));
        }
    }
    let (level, at) =
        (spec.text_at(&["priorityLevelConfiguration", "name"]), path.child("priorityLevelConfiguration"));
    match level {
        "" => errors.push(Error::required(&at.child("name"), "must reference a priority level")),
        level => texts(name_is_dns_subdomain(level, false), level, &at.child("name"), errors),
    }
    let all = path.child("rules");
    for (index, value) in items(spec, "rules").iter().enumerate() {
        rule(value, &all.index(index), errors);
        if errors.is_full() {
            return;
        }
    }
}

/// `ValidateFlowSchemaPolicyRulesWithSubjects`
fn rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (subjects, all) = (items(rule, "subjects"), at.child("subjects"));
    for (index, value) in subjects.iter().enumerate() {
        subject(value, &all.index(index), errors);
    }
    if subjects.is_empty() {
        errors.push(Error::required(&all, "subjects must contain at least one value"));
    }
    let (resources, paths) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(at, why));
    }
    let all = at.child("resourceRules");
    for (index, value) in resources.iter().enumerate() {
        resource_rule(value, &all.index(index), errors);
    }
    let all = at.child("nonResourceRules");
    for (index, value) in paths.iter().enumerate() {
        path_rule(value, &all.index(index), errors);
    }
}

/// `ValidateFlowSchemaSubject`
fn subject(subject: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    const KINDS: [(&str, &str); 3] =
        [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = text(subject, "kind");
    let Some((_, field)) = KINDS.into_iter().find(|(name, _)| *name == kind) else {
        errors.push(Error::not_supported(&at.child("kind"), kind, &KINDS.map(|(name, _)| name)));
        return;
    };
    let of = at.child(field);
    match present(subject, field) {
        None => {
            let why = format!("{field} is required when subject kind is '{kind}'");
            errors.push(Error::required(&of, why));
        }
        Some(named) => {
            let (name, at) = (text(named, "name"), of.child("name"));
            if name.is_empty() {
                errors.push(Error::required(&at, ""));
            } else if kind == "ServiceAccount" && name != EVERYTHING {
                texts(name_is_dns_subdomain(name, false), name, &at, errors);
            }
            if kind == "ServiceAccount" {
                let (namespace, at) = (text(named, "namespace"), of.child("namespace"));
                match namespace {
                    "" => errors.push(Error::required(&at, "must specify namespace for service account")),
                    namespace => texts(name_is_dns_label(namespace, false), namespace, &at, errors),
                }
            }
        }
    }
    for field in ["serviceAccount", "user", "group"] {
        let other = KINDS.into_iter().find(|(name, of)| *of == field && *name != kind);
        if let Some((name, field)) = other.filter(|(_, field)| present(subject, field).is_some()) {
            let why = format!("{field} is forbidden when subject kind is not '{name}'");
            errors.push(Error::forbidden(&at.child(field), why));
        }
    }
}

fn words<'a>(of: &'a Value, field: &str) -> Vec<&'a str> {
    items(of, field).iter().map(|word| word.as_str().unwrap_or_default()).collect()
}

fn verbs(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (verbs, at) = (words(rule, "verbs"), at.child("verbs"));
    if verbs.is_empty() {
        errors.push(Error::required(&at, "verbs must contain at least one value"));
    } else if verbs.contains(&EVERYTHING) {
        alone(rule, "verbs", "verbs", &at, errors);
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(Error::not_supported(&at, part(rule, "verbs").clone(), &VERBS));
    }
}

/// The error in a list with everything and something.
fn alone(rule: &Value, field: &str, what: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let all = words(rule, field);
    if all.len() > 1 && all.contains(&EVERYTHING) {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(at, part(rule, field).clone(), why));
    }
}

/// `ValidateFlowSchemaResourcePolicyRule`
fn resource_rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    verbs(rule, at, errors);
    for (field, what, one) in
        [("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")]
    {
        let at = at.child(field);
        if items(rule, field).is_empty() {
            errors.push(Error::required(&at, format!("resource rules must supply at least one {one}")));
        }
        alone(rule, field, what, &at, errors);
    }
    let (namespaces, at) = (words(rule, "namespaces"), at.child("namespaces"));
    let is_of_cluster = part(rule, "clusterScope") == &Value::Bool(true);
    if namespaces.is_empty() && !is_of_cluster {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(Error::required(&at, why));
    } else if namespaces.contains(&EVERYTHING) {
        alone(rule, "namespaces", "namespaces", &at, errors);
    } else {
        for (index, namespace) in namespaces.into_iter().enumerate() {
            let wrong = name_is_dns_label(namespace, false).into_iter();
            let wrong =
                wrong.map(|why| format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
            texts(wrong.collect(), namespace, &at.index(index), errors);
        }
    }
}

/// `ValidateFlowSchemaNonResourcePolicyRule`
fn path_rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    verbs(rule, at, errors);
    let (urls, at) = (words(rule, "nonResourceURLs"), at.child("nonResourceURLs"));
    if urls.is_empty() {
        errors.push(Error::required(&at, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&EVERYTHING) {
        alone(rule, "nonResourceURLs", "non-resource URLs", &at, errors);
    } else {
        for (index, url) in urls.into_iter().enumerate() {
            errors.extend(url_error(url).map(|why| Error::invalid(&at.index(index), url, why)));
        }
    }
}

/// `ValidateNonResourceURLPath`
fn url_error(url: &str) -> Option<&'static str> {
    let beneath = url.strip_suffix('*').unwrap_or(url);
    if url.is_empty() {
        return Some("must not be empty");
    }
    if url == "/" {
        return None;
    }
    let wrong = [
        (!url.starts_with('/'), "must start with slash"),
        (url.contains(' '), "must not contain white-space"),
        (url.contains("//"), "must not contain double slash"),
        (beneath.contains('*'), "wildcard can only do suffix matching"),
        (beneath != url && !beneath.ends_with('/'), "wildcard can only do suffix matching"),
    ];
    wrong.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
}

/// `ValidatePriorityLevelConfigurationSpec`
fn level(object: &Value, errors: &mut ErrorList) {
    let (spec, path) = (part(object, "spec"), Path::new("spec"));
    let (kind, of_kind) = (text(spec, "type"), path.child("type"));
    if (object.text_at(&["metadata", "name"]) == EXEMPT) != (kind == "Exempt") {
        errors.push(Error::invalid(&of_kind, kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    let (exempt, limited) = (present(spec, "exempt"), present(spec, "limited"));
    let (of_exempt, of_limited) = (path.child("exempt"), path.child("limited"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(Error::forbidden(&of_limited, ""));
            }
            if let Some(exempt) = exempt {
                shares(exempt, &of_exempt, errors);
                lendable(exempt, &of_exempt, errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(Error::forbidden(&of_exempt, ""));
            }
            match limited {
                None => errors.push(Error::required(&of_limited, "")),
                Some(limited) => validate_limited(limited, &of_limited, errors),
            }
        }
        kind => {
            errors.push(match kind {
                "" => Error::required(&of_kind, ""),
                kind => Error::not_supported(&of_kind, kind, &["Exempt", "Limited"]),
            });
            // Neither part is of such a type, as upstream's declared rules say.
            if limited.is_some() {
                errors.push(Error::forbidden(&of_limited, ""));
            }
            if exempt.is_some() {
                errors.push(Error::forbidden(&of_exempt, ""));
            }
        }
    }
}

fn shares(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field = "nominalConcurrencyShares";
    if let Some(shares) = number(of, field).filter(|shares| *shares < 0) {
        errors.push(Error::invalid(&at.child(field), shares, "must be a non-negative integer"));
    }
}

fn lendable(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field = "lendablePercent";
    if let Some(percent) = number(of, field).filter(|percent| !(0..=100).contains(percent)) {
        errors.push(Error::invalid(&at.child(field), percent, "must be between 0 and 100, inclusive"));
    }
}

/// `ValidateLimitedPriorityLevelConfiguration`
fn validate_limited(limited: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    shares(limited, at, errors);
    let (response, of_response) = (part(limited, "limitResponse"), at.child("limitResponse"));
    let (queuing, of_queuing) = (present(response, "queuing"), of_response.child("queuing"));
    let of_kind = of_response.child("type");
    match (text(response, "type"), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => errors.push(Error::forbidden(&of_queuing, "")),
        ("Queue", None) => errors.push(Error::required(&of_queuing, "")),
        ("Queue", Some(queuing)) => validate_queuing(queuing, &of_queuing, errors),
        (kind, queuing) => {
            errors.push(match kind {
                "" => Error::required(&of_kind, ""),
                kind => Error::not_supported(&of_kind, kind, &["Queue", "Reject"]),
            });
            if queuing.is_some() {
                errors.push(Error::forbidden(&of_queuing, ""));
            }
        }
    }
    lendable(limited, at, errors);
    let field = "borrowingLimitPercent";
    if let Some(percent) = number(limited, field).filter(|percent| *percent < 0) {
        errors.push(Error::invalid(
            &at.child(field),
            percent,
            "if specified, must be a non-negative integer",
        ));
    }
}

/// `ValidatePriorityLevelQueuingConfiguration`
fn validate_queuing(queuing: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let amount = |field| number(queuing, field).unwrap_or_default();
    let [limit, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(amount);
    let bits =
        entropy_bits(i32::try_from(queues).unwrap_or(i32::MAX), i32::try_from(hand).unwrap_or(i32::MAX));
    let mut wrong =
        |field, value: i64, why: String| errors.push(Error::invalid(&at.child(field), value, why));
    if limit <= 0 {
        wrong("queueLengthLimit", limit, "must be positive".to_owned());
    }
    if queues <= 0 {
        wrong("queues", queues, "must be positive".to_owned());
    } else if queues > QUEUES_MAX {
        wrong("queues", queues, format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        wrong("handSize", hand, "must be positive".to_owned());
    } else if hand > queues {
        wrong("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if bits > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        wrong("handSize", hand, why);
    }
}

/// `shufflesharding.RequiredEntropyBits`
fn entropy_bits(deck: i32, hand: i32) -> f64 {
    (f64::from(deck).log2() * f64::from(hand)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_is_no_larger_than_the_hash_can_deal() {
        let fits = |deck, hand| entropy_bits(deck, hand) <= HASH_BITS;
        assert!(fits(1, 1) && fits(64, 10) && fits(128, 8) && fits(10_000_000, 2));
        assert!(!fits(64, 11) && !fits(512, 7) && !fits(10_000_000, 3) && !fits(i32::MAX, i32::MAX));
    }
}
