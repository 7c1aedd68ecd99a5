//! The names that a kind may have, and those that follow from them: for the derive macro `Resource`, and for the tools that make
//! projects.

/// The longest label of a domain name, bytes (RFC 1035).
const LABEL: usize = 63;
/// The longest domain name that Kubernetes takes, bytes (`validation.DNS1123SubdomainMaxLength`).
const NAME: usize = 253;

/// The plural of a lower-case name, as Kubernetes' tools guess it (`meta.UnsafeGuessKindToResource` of apimachinery, 1.37).
#[must_use]
pub fn plural(singular: &str) -> String {
    match singular {
        "endpoints" => return singular.to_owned(),
        _ if singular.ends_with('s') => return format!("{singular}es"),
        _ => {}
    }
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    }
}

/// The reason why a group cannot be one (B-12).
#[must_use]
pub fn refuse_group(group: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        (1..=LABEL).contains(&label.len())
            && label.chars().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if group.chars().any(char::is_uppercase) {
        return Some("a group has no capital letters");
    }
    match group.len() <= NAME && group.contains('.') && group.split('.').all(is_label) {
        true => None,
        false => Some("a group is a domain name with a dot, such as sails.example.com"),
    }
}

/// The reason why a version cannot be one (B-13).
#[must_use]
pub fn refuse_version(version: &str) -> Option<&'static str> {
    let number =
        |text: &str| !text.is_empty() && !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit());
    let is_one = version.strip_prefix('v').is_some_and(|rest| {
        let staged = ["alpha", "beta"].into_iter().find_map(|stage| rest.split_once(stage));
        match staged {
            Some((major, minor)) => number(major) && number(minor),
            None => number(rest),
        }
    });
    (!is_one).then_some("a version is alpha, beta or stable: v1alpha1, v1beta1 or v1")
}

/// The reason why a kind cannot be one (B-15).
#[must_use]
pub fn refuse_kind(kind: &str) -> Option<&'static str> {
    let is_camel =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(|c| c.is_ascii_alphanumeric());
    (!is_camel || kind.len() > LABEL)
        .then_some("a kind is in UpperCamelCase, such as Sloop, and has at most 63 letters and digits")
}

/// The reason why a plural, singular or short name cannot be one.
#[must_use]
pub fn refuse_label(name: &str) -> Option<&'static str> {
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.ends_with('-')
        && name.len() <= LABEL;
    (!is_label).then_some(
        "a name has at most 63 lower-case letters, digits and dashes, begins with a letter, and ends with no dash",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_kubernetes_tools() {
        let plurals = ["sloop", "policy", "harness", "endpoints"].map(plural);
        assert_eq!(plurals, ["sloops", "policies", "harnesses", "endpoints"]);
    }

    #[test]
    fn b12_b13_b15_names_of_other_forms_are_refused() {
        assert_eq!(refuse_group("sails.example.com"), None);
        for group in ["", "sails", "Sails.example.com", "sails..com", "-a.com", "a_b.com"] {
            assert!(refuse_group(group).is_some(), "{group}");
        }
        for version in ["v1", "v12", "v1alpha1", "v2beta10"] {
            assert_eq!(refuse_version(version), None, "{version}");
        }
        for version in
            ["", "1", "v", "v0", "v1gamma1", "v1alpha", "valpha1", "v1beta0", "V1", "v1alpha1beta1"]
        {
            assert!(refuse_version(version).is_some(), "{version}");
        }
        assert_eq!(refuse_kind("SloopV2"), None);
        for kind in ["", "sloop", "2Sloop", "Sloop_A"] {
            assert!(refuse_kind(kind).is_some(), "{kind}");
        }
        assert_eq!(refuse_label("sl"), None);
        for name in ["", "Sl", "1s", "s-", "s.l"] {
            assert!(refuse_label(name).is_some(), "{name}");
        }
        let (longest, long) = ("s".repeat(63), "s".repeat(64));
        assert_eq!(refuse_label(&longest), None);
        assert!(refuse_label(&long).is_some());
        assert_eq!(refuse_group(&format!("{longest}.com")), None);
        assert!(refuse_group(&format!("{long}.com")).is_some());
        assert!(refuse_group(&["abc"; 64].join(".")).is_some());
        assert!(refuse_kind(&format!("S{longest}")).is_some());
    }
}
