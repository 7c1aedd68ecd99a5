//! The policy: rules, of which the first that names a request says how much of it is recorded.
//!
//! Sources: apiserver `pkg/audit/policy/{reader,checker}.go`, `pkg/apis/audit/validation/validation.go` (1.37).

use kindom_api::field::{Error, ErrorList, Path, aggregate};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::{User, Value};
use kindom_codec::manifests;
use serde::{Deserialize, Deserializer};

use crate::event::{Level, Stage};

/// A policy, as `--audit-policy-file` names one.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    /// For a request that no rule names.
    otherwise: Decided,
}

/// The decision of a policy about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// The amount of information in its events.
    pub level: Level,
    /// Bits of stages without events.
    omitted: u8,
    /// Objects are recorded without their managedFields.
    pub omits_managed_fields: bool,
}

impl Decided {
    /// Returns true if a stage has no event.
    #[must_use]
    pub fn omits(self, stage: Stage) -> bool {
        self.omitted & bit(stage) != 0
    }
}

/// A request, as rules name it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// None if no credentials held.
    pub user: Option<&'a User>,
    /// For a path, the method in small letters.
    pub verb: &'a str,
    /// The thing that it is about.
    pub place: Place<'a>,
}

/// The thing that a request is about.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// A resource; empty texts stand for what the request does not name.
    Resource {
        /// The group; empty for the core group.
        group: &'a str,
        /// The plural.
        resource: &'a str,
        /// The subresource.
        subresource: &'a str,
        /// The namespace.
        namespace: &'a str,
        /// The object's name.
        name: &'a str,
    },
    /// Another path.
    Path(&'a str),
}

#[derive(Debug)]
struct Rule {
    decided: Decided,
    wanted: SentRule,
}

fn bit(stage: Stage) -> u8 {
    1 << Stage::ALL.iter().position(|known| *known == stage).unwrap_or_default()
}

fn bits(stages: &[String]) -> u8 {
    let known = Stage::ALL.into_iter().filter(|stage| stages.iter().any(|name| name == stage.name()));
    known.map(bit).fold(0, |all, bit| all | bit)
}

/// A field that is null is as one that is not there.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentPolicy {
    #[serde(default, deserialize_with = "or_default")]
    rules: Vec<SentRule>,
    #[serde(default, deserialize_with = "or_default")]
    omit_stages: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentRule {
    #[serde(default, deserialize_with = "or_default")]
    level: String,
    #[serde(default, deserialize_with = "or_default")]
    users: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    user_groups: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<GroupResources>,
    #[serde(default, deserialize_with = "or_default")]
    namespaces: Vec<String>,
    #[serde(default, deserialize_with = "or_default", rename = "nonResourceURLs")]
    paths: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupResources {
    #[serde(default, deserialize_with = "or_default")]
    group: String,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    resource_names: Vec<String>,
}

/// The fields of a policy, of a rule, and of the resources of a rule.
const FIELDS: [&[&str]; 3] = [
    &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"],
    &[
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    ],
    &["group", "resources", "resourceNames"],
];

/// The paths of fields that nobody knows.
fn unknown(value: &Value, at: &Path, fields: &[&[&str]], found: &mut Vec<String>) {
    let Some((known, below)) = fields.split_first() else { return };
    for (field, value) in value.as_object().into_iter().flat_map(kindom_api::Map::iter) {
        let at = at.child(field);
        if !known.contains(&field) {
            found.push(at.to_string());
        } else if matches!(field, "rules" | "resources")
            && !below.is_empty()
            && let Some(items) = value.as_array()
        {
            items.iter().enumerate().for_each(|(index, item)| unknown(item, &at.index(index), below, found));
        }
    }
}

impl Policy {
    /// Reads a policy. A field that nobody knows is logged and passed over.
    ///
    /// # Errors
    /// Says what is wrong, in upstream's words where it validates.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, String> {
        let failed = |why: String| format!("loading audit policy file: {why}: from file {name}");
        let mut documents =
            manifests::parse(name, bytes).map_err(|why| failed(format!("failed decoding: {why}")))?;
        let [(_, document)] = documents.as_mut_slice() else {
            return Err(failed(format!(
                "failed decoding: it has {} documents; one is read",
                documents.len()
            )));
        };
        let (version, kind) = (document.text_at(&["apiVersion"]), document.text_at(&["kind"]));
        if (version, kind) != ("audit.k8s.io/v1", "Policy") {
            let why = format!("failed decoding: no kind {kind:?} is registered for version {version:?}");
            return Err(failed(why));
        }
        let mut strange = Vec::new();
        unknown(document, &Path::root(), &FIELDS, &mut strange);
        if !strange.is_empty() {
            tracing::warn!(file = name, fields = strange.join(", "), "the audit policy has unknown fields");
        }
        let sent: SentPolicy = kindom_api::json::from_value(document)
            .map_err(|why| failed(format!("failed decoding: {why}")))?;
        let errors = validate(&sent);
        if !errors.is_empty() {
            return Err(failed(aggregate(&errors)));
        }
        if sent.rules.is_empty() {
            return Err(failed("loaded illegal policy with 0 rules".to_owned()));
        }
        let (omitted, omits_managed_fields) = (bits(&sent.omit_stages), sent.omit_managed_fields);
        let rules = sent.rules.into_iter().map(|wanted| Rule {
            decided: Decided {
                level: level(&wanted.level).unwrap_or(Level::None),
                omitted: omitted | bits(&wanted.omit_stages),
                omits_managed_fields: wanted.omit_managed_fields.unwrap_or(omits_managed_fields),
            },
            wanted,
        });
        let otherwise = Decided { level: Level::None, omitted, omits_managed_fields };
        Ok(Self { rules: rules.collect(), otherwise })
    }

    /// Decides about a request.
    #[must_use]
    pub fn decide(&self, subject: &Subject<'_>) -> Decided {
        let rule = self.rules.iter().find(|rule| rule.wanted.names(subject));
        rule.map_or(self.otherwise, |rule| rule.decided)
    }
}

fn level(name: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.name() == name)
}

fn validate(policy: &SentPolicy) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_stages(&policy.omit_stages, &Path::new("omitStages"), &mut errors);
    for (index, rule) in policy.rules.iter().enumerate() {
        let rules = Path::new("rules");
        let at = rules.index(index);
        match level(&rule.level) {
            Some(_) => {}
            None if rule.level.is_empty() => errors.push(Error::required(&at.child("level"), "")),
            None => {
                let known = Level::ALL.map(Level::name);
                errors.push(Error::not_supported(&at.child("level"), &*rule.level, &known));
            }
        }
        let of_paths = at.child("nonResourceURLs");
        for (index, path) in rule.paths.iter().enumerate().filter(|(_, path)| *path != "*") {
            let at = of_paths.index(index);
            if !path.starts_with('/') {
                let why = "non-resource URL rules must begin with a '/' character";
                errors.push(Error::invalid(&at, path.as_str(), why));
            }
            if path.strip_suffix(|_: char| true).is_some_and(|begin| begin.contains('*')) {
                let why = "non-resource URL wildcards '*' must be the final character of the rule";
                errors.push(Error::invalid(&at, path.as_str(), why));
            }
        }
        let of_resources = at.child("resources");
        for named in &rule.resources {
            if !named.group.is_empty() && named.group != "*" {
                let wrong = name_is_dns_subdomain(&named.group, false);
                if !wrong.is_empty() {
                    let at = of_resources.child("group");
                    errors.push(Error::invalid(&at, named.group.as_str(), wrong.join(",")));
                }
            }
            if !named.resource_names.is_empty() && named.resources.is_empty() {
                let why = "using resourceNames requires at least one resource";
                let at = of_resources.child("resourceNames");
                errors.push(Error::invalid(&at, texts(&named.resource_names), why));
            }
        }
        validate_stages(&rule.omit_stages, &at.child("omitStages"), &mut errors);
        let names_resources = !(rule.resources.is_empty() && rule.namespaces.is_empty());
        if names_resources && !rule.paths.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&of_paths, texts(&rule.paths), why));
        }
    }
    errors
}

fn texts(all: &[String]) -> Value {
    Value::from(all.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>())
}

fn validate_stages(stages: &[String], at: &Path, errors: &mut ErrorList) {
    let known = Stage::ALL.map(Stage::name);
    for (index, stage) in stages.iter().enumerate().filter(|(_, stage)| !known.contains(&stage.as_str())) {
        let why = format!("allowed stages are {}", known.join(","));
        errors.push(Error::invalid(&at.index(index), stage.as_str(), why));
    }
}

fn has(all: &[String], one: &str) -> bool {
    all.iter().any(|text| text == one)
}

impl SentRule {
    /// `ruleMatches`
    fn names(&self, subject: &Subject<'_>) -> bool {
        if !self.users.is_empty() && !subject.user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_groups = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !subject.user.is_some_and(in_groups) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, subject.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.names_resource(&subject.place);
        }
        match subject.place {
            _ if self.paths.is_empty() => true,
            Place::Path(path) => self.paths.iter().any(|pattern| names_path(pattern, path)),
            Place::Resource { .. } => false,
        }
    }

    fn names_resource(&self, place: &Place<'_>) -> bool {
        let &Place::Resource { group, resource, subresource, namespace, name } = place else { return false };
        if !self.namespaces.is_empty() && !has(&self.namespaces, namespace) {
            return false;
        }
        let is_named = |pattern: &str| {
            let own = match pattern.strip_prefix(resource) {
                Some("") => subresource.is_empty(),
                Some("/*") => true,
                Some(below) => !subresource.is_empty() && below.strip_prefix('/') == Some(subresource),
                None => false,
            };
            own || pattern == "*"
                || !subresource.is_empty() && pattern.strip_prefix("*/") == Some(subresource)
        };
        let in_group = |named: &&GroupResources| named.group == group || named.group == "*";
        self.resources.is_empty()
            || self.resources.iter().filter(in_group).any(|named| {
                named.resources.is_empty()
                    || (named.resource_names.is_empty() || has(&named.resource_names, name))
                        && named.resources.iter().any(|pattern| is_named(pattern))
            })
    }
}

/// `pathMatches`
fn names_path(pattern: &str, path: &str) -> bool {
    pattern == "*"
        || pattern == path
        || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Policy, String> {
        Policy::read("policy.yaml", text.as_bytes())
    }

    fn policy(rules: &str) -> Policy {
        read(&format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: {rules}}}")).unwrap()
    }

    fn user() -> User {
        User { name: "jane".to_owned(), groups: vec!["dev".to_owned(), "ops".to_owned()], ..User::default() }
    }

    fn place<'a>(group: &'a str, resource: &'a str, subresource: &'a str) -> Place<'a> {
        Place::Resource { group, resource, subresource, namespace: "here", name: "one" }
    }

    fn level(policy: &Policy, place: Place<'_>) -> Level {
        let user = user();
        policy.decide(&Subject { user: Some(&user), verb: "get", place }).level
    }

    /// The table of `TestChecker` is upstream's; these are the corners of `ruleMatches`.
    #[test]
    fn a_rule_names_requests() {
        let pod = place("", "pods", "");
        let log = place("", "pods", "log");
        let path = Place::Path("/healthz/ping");
        for (rule, names) in [
            ("", [true, true, true]),
            ("users: [jane]", [true, true, true]),
            ("users: [joe]", [false, false, false]),
            ("userGroups: [none, ops]", [true, true, true]),
            ("userGroups: [none]", [false, false, false]),
            ("verbs: [get, list]", [true, true, true]),
            ("verbs: [list]", [false, false, false]),
            ("namespaces: [here]", [true, true, false]),
            ("namespaces: [there, '']", [false, false, false]),
            ("resources: [{}]", [true, true, false]),
            ("resources: [{group: '*'}]", [true, true, false]),
            ("resources: [{group: apps}]", [false, false, false]),
            ("resources: [{resources: [pods]}]", [true, false, false]),
            ("resources: [{resources: [pods/log]}]", [false, true, false]),
            ("resources: [{resources: [pods/*]}]", [true, true, false]),
            ("resources: [{resources: ['*/log']}]", [false, true, false]),
            ("resources: [{resources: ['*']}]", [true, true, false]),
            ("resources: [{resources: ['*/*']}]", [false, false, false]),
            ("resources: [{resources: [pods/]}]", [false, false, false]),
            ("resources: [{resources: [pod]}]", [false, false, false]),
            ("resources: [{resources: [pods, pods/log], resourceNames: [one]}]", [true, true, false]),
            ("resources: [{resources: [pods], resourceNames: [two]}]", [false, false, false]),
            ("resources: [{group: apps}, {resources: [pods]}]", [true, false, false]),
            ("nonResourceURLs: ['*']", [false, false, true]),
            ("nonResourceURLs: [/healthz/ping]", [false, false, true]),
            ("nonResourceURLs: [/healthz*]", [false, false, true]),
            ("nonResourceURLs: [/healthz]", [false, false, false]),
        ] {
            let policy = policy(&format!("[{{level: Metadata, {rule}}}]"));
            let named = [pod, log, path].map(|place| level(&policy, place) == Level::Metadata);
            assert_eq!(named, names, "{rule}");
        }
    }

    #[test]
    fn nobody_is_no_user_of_a_rule() {
        let policy =
            policy("[{level: Metadata, users: ['']}, {level: Metadata, userGroups: [x]}, {level: Request}]");
        let subject = Subject { user: None, verb: "get", place: Place::Path("/") };
        assert_eq!(policy.decide(&subject).level, Level::Request);
    }

    #[test]
    fn the_first_rule_decides_and_has_what_the_policy_says() {
        let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], omitManagedFields: true, rules: [
            {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}, {level: None, verbs: [get]},
            {level: RequestResponse, verbs: [list]}]}";
        let policy = read(text).unwrap();
        let decide = |verb| policy.decide(&Subject { user: None, verb, place: Place::Path("/") });
        let got = decide("get");
        assert_eq!((got.level, got.omits_managed_fields), (Level::Request, false));
        let omitted = |decided: Decided| Stage::ALL.map(|stage| decided.omits(stage));
        assert_eq!(omitted(got), [true, false, false, true]);
        let listed = decide("list");
        assert_eq!((listed.level, listed.omits_managed_fields), (Level::RequestResponse, true));
        assert_eq!(omitted(listed), [true, false, false, false]);
        assert_eq!(decide("watch").level, Level::None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let why = |rules: &str| {
            let read = read(&format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, {rules}}}")).unwrap_err();
            let why = read.strip_prefix("loading audit policy file: ").unwrap();
            why.strip_suffix(": from file policy.yaml").unwrap().to_owned()
        };
        assert_eq!(why("rules: []"), "loaded illegal policy with 0 rules");
        assert_eq!(why("rules: [{}]"), "rules[0].level: Required value");
        assert_eq!(
            why("omitStages: [Odd], rules: [{level: None, omitStages: [Panic, Odd]}]"),
            "[omitStages[0]: Invalid value: \"Odd\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, \
             rules[0].omitStages[1]: Invalid value: \"Odd\": allowed stages are \
             RequestReceived,ResponseStarted,ResponseComplete,Panic]"
        );
        assert_eq!(
            why("rules: [{level: None, nonResourceURLs: ['/a*b'], namespaces: [c]}]"),
            "[rules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of \
             the rule, rules[0].nonResourceURLs: Invalid value: [\"/a*b\"]: rules cannot apply to both regular resources and \
             non-resource URLs]"
        );
        assert_eq!(
            why("rules: [{level: None, resources: [{resourceNames: [a]}]}]"),
            "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
        );
        assert!(
            why("rules: [{level: None, resources: [{group: a/v1}]}]")
                .starts_with("rules[0].resources.group: ")
        );
        assert!(why("rules: {}").starts_with("failed decoding: "));
        for (text, wanted) in [
            ("{kind: Policy, apiVersion: audit.k8s.io/v1beta1}", "for version \"audit.k8s.io/v1beta1\""),
            ("{a: b", "failed decoding: "),
            ("", "it has 0 documents"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn unknown_fields_are_found_and_passed_over() {
        let text = b"{apiVersion: a, rulez: 1, rules: [{level: None, resources: [{grup: x}], more: 1}], metadata: {any: 1}}";
        let (_, tree) = manifests::parse("policy.yaml", text).unwrap().remove(0);
        let mut found = Vec::new();
        unknown(&tree, &Path::root(), &FIELDS, &mut found);
        found.sort();
        assert_eq!(found, ["rules[0].more", "rules[0].resources[0].grup", "rulez"]);
        assert_eq!(level(&policy("[{level: Metadata, none: 1}]"), Place::Path("/")), Level::Metadata);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}", rule in "[a-z:\\[\\]{}, '\"*/]{0,80}") {
            drop(read(&text));
            drop(read(&format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: None, {rule}}}]}}")));
        }
    }
}
