//! Rules and the requests that they allow (`plugin/pkg/auth/authorizer/rbac/rbac.go`, `pkg/apis/rbac/v1/evaluation_helpers.go`, 1.37).

use super::coverage::PolicyRule;

const ALL: &str = "*";

/// The action that a user wishes to take, apart from its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish<'a> {
    /// On a resource.
    Resource {
        /// Such as `list`.
        verb: &'a str,
        /// The API group; empty for the core group.
        group: &'a str,
        /// The plural.
        resource: &'a str,
        /// Empty if there is none.
        subresource: &'a str,
        /// Empty for a collection.
        name: &'a str,
    },
    /// On a path that is no resource's.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

impl Wish<'_> {
    /// `RuleAllows`
    #[must_use]
    pub fn is_allowed_by(&self, rule: &PolicyRule) -> bool {
        match *self {
            Self::Resource { verb, group, resource, subresource, name } => {
                has(&rule.verbs, verb)
                    && has(&rule.api_groups, group)
                    && rule.resources.iter().any(|own| matches_resource(own, resource, subresource))
                    && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|own| own == name))
            }
            Self::Path { verb, path } => {
                has(&rule.verbs, verb) && rule.non_resource_urls.iter().any(|url| matches_path(url, path))
            }
        }
    }
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|own| own == ALL || own == text)
}

/// `ResourceMatches`, without joining the resource to its subresource.
fn matches_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    // Neither has to be free of slashes: a review may ask about anything.
    let behind = |start: &str| rule.strip_prefix(start).and_then(|rest| rest.strip_prefix('/'));
    behind(resource) == Some(subresource) || behind(ALL) == Some(subresource)
}

/// `NonResourceURLMatches`
fn matches_path(url: &str, path: &str) -> bool {
    url == ALL || url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyRule {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            resource_names: owned(names),
            ..PolicyRule::default()
        }
    }

    fn on<'a>(
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        name: &'a str,
    ) -> Wish<'a> {
        Wish::Resource { verb, group, resource, subresource, name }
    }

    #[test]
    fn rules_allow_what_they_name() {
        let pods = rule(&["get", "list"], &[""], &["pods"], &[]);
        assert!(on("get", "", "pods", "", "a").is_allowed_by(&pods));
        assert!(!on("watch", "", "pods", "", "a").is_allowed_by(&pods));
        assert!(!on("get", "apps", "pods", "", "a").is_allowed_by(&pods));
        assert!(!on("get", "", "pods", "status", "a").is_allowed_by(&pods));
        assert!(!on("get", "", "", "", "a").is_allowed_by(&pods));
        let named = rule(&["get"], &[""], &["pods"], &["a", "b"]);
        assert!(on("get", "", "pods", "", "b").is_allowed_by(&named));
        assert!(!on("get", "", "pods", "", "").is_allowed_by(&named));
        let all = rule(&["*"], &["*"], &["*"], &[]);
        assert!(on("x", "y", "z", "w", "v").is_allowed_by(&all));
        assert!(!Wish::Path { verb: "get", path: "/" }.is_allowed_by(&all));
        assert!(!on("get", "", "pods", "", "").is_allowed_by(&PolicyRule::default()));
    }

    #[test]
    fn subresources_are_named_with_their_resource_or_for_all() {
        let allows = |resource: &str, wanted: &str, subresource: &str| {
            on("get", "", wanted, subresource, "").is_allowed_by(&rule(&["get"], &[""], &[resource], &[]))
        };
        assert!(allows("pods/status", "pods", "status"));
        assert!(allows("*/status", "pods", "status"));
        assert!(allows("*", "pods", "status"));
        assert!(!allows("pods/*", "pods", "status"));
        assert!(!allows("*/scale", "pods", "status"));
        assert!(!allows("*/status", "status", ""));
        assert!(!allows("pods/status", "pods", ""));
        assert!(!allows("*/", "pods", ""));
    }

    #[test]
    fn paths_may_end_with_anything() {
        let allows = |url: &str, path: &str| {
            let rule = PolicyRule {
                verbs: vec!["get".to_owned()],
                non_resource_urls: vec![url.to_owned()],
                ..PolicyRule::default()
            };
            Wish::Path { verb: "get", path }.is_allowed_by(&rule)
        };
        assert!(allows("*", "/metrics") && allows("/apis/*", "/apis/a/b") && allows("/apis**", "/apis"));
        assert!(!allows("/apis/*", "/apis") && !allows("/apis", "/apis/") && !allows("/*/a", "/b/a"));
    }
}
