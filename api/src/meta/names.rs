//! The rules for names. Each check returns upstream's texts of all errors; an empty list means valid (apimachinery
//! `pkg/util/validation` and `pkg/api/validate/content`, 1.37).

const SUBDOMAIN_FMT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const KEY_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(text: &str, max: usize, unit: &str) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} {unit}"))
}

fn regex_text(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples = examples.iter().map(|e| format!("'{e}', ")).collect::<Vec<_>>().join(" or ");
    format!("{message} (e.g. {examples}regex used for validation is '{regex}')")
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label(text: &str) -> bool {
    let end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_key_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A DNS label that may start with a digit, at most 63 characters: a namespace's name.
#[must_use]
pub fn is_dns1123_label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "characters").into_iter().collect();
    if !is_label(text) {
        wrong.push(if text.split('.').all(is_label) {
            "must not contain dots".to_owned()
        } else {
            regex_text(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// The name of a port, at most 15 characters (`IsValidPortName`).
#[must_use]
pub fn is_port_name(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 15, "characters").into_iter().collect();
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let mut refuse = |is_wrong: bool, why: &str| {
        if is_wrong {
            wrong.push(why.to_owned());
        }
    };
    refuse(
        text.is_empty() || !text.bytes().all(fits),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    refuse(!text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    refuse(text.contains("--"), "must not contain consecutive hyphens");
    refuse(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    wrong
}

/// The number of a port (`IsValidPortNum`).
#[must_use]
pub fn is_port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}

/// The name of an environment variable (`IsRelaxedEnvVarName`).
#[must_use]
pub fn is_env_name(text: &str) -> Vec<String> {
    let fits = |b: u8| matches!(b, b' '..=b'~') && b != b'=';
    match text {
        "" => vec!["environment variable name must be non-empty".to_owned()],
        text if text.bytes().all(fits) => Vec::new(),
        _ => vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        ],
    }
}

/// The name of a header of HTTP (`IsHTTPHeaderName`).
#[must_use]
pub fn is_header_name(text: &str) -> Vec<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if !text.is_empty() && text.bytes().all(fits) {
        return Vec::new();
    }
    vec![regex_text(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A number of hundredths: `25%` (`IsValidPercent`).
#[must_use]
pub fn is_percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_text(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// A key in the data of a ConfigMap: the name of a file, at most 253 characters (`IsConfigMapKey`).
#[must_use]
pub fn is_config_map_key(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "characters").into_iter().collect();
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fits) {
        wrong.push(regex_text(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// DNS labels with dots between, at most 253 characters: most names, and API groups.
#[must_use]
pub fn is_dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain(text, "characters")
}

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, unit).into_iter().collect();
    if !text.split('.').all(is_label) {
        wrong.push(regex_text(SUBDOMAIN_TEXT, SUBDOMAIN_FMT, &["example.com"]));
    }
    wrong
}

/// The same in the words of declarative validation (`LongName` of apimachinery `pkg/api/validate/strfmt.go`).
#[must_use]
pub fn is_long_name(text: &str) -> Vec<String> {
    subdomain(text, "bytes")
}

/// The same, where capitals are taken, too (`LongNameCaseless`).
#[must_use]
pub fn is_long_name_caseless(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "bytes").into_iter().collect();
    if !text.to_ascii_lowercase().split('.').all(is_label) {
        let rule = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        wrong.push(regex_text(rule, SUBDOMAIN_FMT, &["Example.com"]));
    }
    wrong
}

/// The reason of a condition (`IsValidConditionReason`).
#[must_use]
pub fn is_condition_reason(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let is_end = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let fits = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|b| is_end(b) || matches!(b, b',' | b':'));
    if fits {
        return Vec::new();
    }
    vec![regex_text(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// A DNS subdomain behind `*.` (`IsWildcardDNS1123Subdomain`).
#[must_use]
pub fn is_wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "characters").into_iter().collect();
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        wrong.push(regex_text(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN_FMT}"),
            &["*.example.com"],
        ));
    }
    wrong
}

/// DNS labels with dots between, in which there may be underscores (`IsDNS1123SubdomainWithUnderscore`).
#[must_use]
pub fn is_dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, "characters").into_iter().collect();
    let is_label = |label: &str| {
        let end = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let label = label.strip_prefix('_').unwrap_or(label);
        end(label.bytes().next())
            && end(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    if !text.split('.').all(is_label) {
        wrong.push(regex_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    wrong
}

/// A DNS label that starts with a letter, at most 63 characters: plural names, versions.
#[must_use]
pub fn is_dns1035_label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "characters").into_iter().collect();
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(regex_text(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// A label's key, an annotation's key or a finalizer: a name of at most 63 characters, with a DNS subdomain and `/`
/// before it or not.
#[must_use]
pub fn is_qualified_name(text: &str) -> Vec<String> {
    let key_text = || {
        regex_text(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            KEY_FMT,
            &["MyName", "my.name", "123-abc"],
        )
    };
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key_text()
            )];
        }
        Some(("", name)) => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            wrong.extend(subdomain(prefix, "bytes").into_iter().map(|text| format!("prefix part {text}")));
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, 63, "bytes").map(|text| format!("name part {text}")));
    if !is_key_name(name) {
        wrong.push(format!("name part {}", key_text()));
    }
    wrong
}

/// A label's value: empty, or at most 63 characters.
#[must_use]
pub fn is_label_value(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "bytes").into_iter().collect();
    if !text.is_empty() && !is_key_name(text) {
        wrong.push(regex_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A name that can stand in a URL path; with `prefix`, the beginning of one.
#[must_use]
pub fn is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].into_iter().filter(|c| name.contains(c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// A prefix stands for a name that goes on, so a dash at its end is fine. Upstream cuts two bytes and puts one letter.
fn mask_trailing_dash(name: &str) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let kept = rest.as_bytes().split_last().map_or(&[][..], |(_, kept)| kept);
            format!("{}a", String::from_utf8_lossy(kept)).into()
        }
        _ => name.into(),
    }
}

/// A [`super::NameValidator`]: a DNS subdomain, as most types want it.
#[must_use]
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    if prefix { is_dns1123_subdomain(&mask_trailing_dash(name)) } else { is_dns1123_subdomain(name) }
}

/// A [`super::NameValidator`]: a DNS label that starts with a letter.
#[must_use]
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    if prefix { is_dns1035_label(&mask_trailing_dash(name)) } else { is_dns1035_label(name) }
}

/// A [`super::NameValidator`]: a DNS label, as namespaces want it.
#[must_use]
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    if prefix { is_dns1123_label(&mask_trailing_dash(name)) } else { is_dns1123_label(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for good in ["a", "0", "a-b", "123-abc", &"x".repeat(63)] {
            assert!(is_dns1123_label(good).is_empty(), "{good}");
        }
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        for bad in ["", "-a", "a-", "A", "a_b", "ä", "a..b", ".", "a b"] {
            let wrong = is_dns1123_label(bad);
            assert_eq!(wrong.len(), 1, "{bad}");
            assert!(wrong[0].ends_with(
                "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ));
        }
        assert_eq!(is_dns1123_label(&"x".repeat(64)), ["must be no more than 63 characters"]);
        assert!(is_dns1035_label("a1").is_empty());
        assert_eq!(is_dns1035_label("1a").len(), 1);
        assert_eq!(is_dns1035_label("").len(), 1);
    }

    #[test]
    fn qualified_names() {
        for good in ["a", "A_b.c", "example.com/x", "kubernetes.io/a-b"] {
            assert!(is_qualified_name(good).is_empty(), "{good}");
        }
        assert!(is_qualified_name("a/b/c")[0].starts_with("a valid label key must consist of"));
        assert_eq!(is_qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(is_qualified_name("a/")[0], "name part must be non-empty");
        assert_eq!(is_qualified_name("a/").len(), 2);
        assert!(is_qualified_name("A/b")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert_eq!(is_qualified_name(&"x".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(is_label_value("").is_empty());
        assert_eq!(is_label_value("-").len(), 1);
    }

    #[test]
    fn prefixes_may_end_in_a_dash() {
        assert!(name_is_dns_subdomain("abc-", true).is_empty());
        assert_eq!(name_is_dns_subdomain("abc-", false).len(), 1);
        assert_eq!(name_is_dns_subdomain("-", true).len(), 1);
        assert_eq!(name_is_dns_label("é-", true).len(), 1);
        assert_eq!(name_is_dns_label("éa-", true).len(), 1);
        assert_eq!(is_path_segment("..", false), ["may not be '..'"]);
        assert_eq!(is_path_segment("a/%", true), ["may not contain '/'", "may not contain '%'"]);
    }
}
