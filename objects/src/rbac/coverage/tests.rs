use kindom_api::json;
use proptest::prelude::*;

use super::*;

/// `verbs groups resources [names]`, or `verbs /path,/path`; lists are divided by commas, and `-` is the empty text.
fn rule(text: &str) -> PolicyRule {
    let list = |text: &str| -> Vec<String> {
        text.split(',').map(|value| if value == "-" { String::new() } else { value.to_owned() }).collect()
    };
    let mut parts = text.split(' ');
    let mut rule = PolicyRule { verbs: list(parts.next().unwrap()), ..PolicyRule::default() };
    match (parts.next().unwrap(), parts.next(), parts.next()) {
        (urls, None, _) => rule.non_resource_urls = list(urls),
        (groups, Some(resources), names) => {
            (rule.api_groups, rule.resources) = (list(groups), list(resources));
            rule.resource_names = names.map(list).unwrap_or_default();
        }
    }
    rule
}

fn rules(text: &str) -> Vec<PolicyRule> {
    text.split("; ").filter(|text| !text.is_empty()).map(rule).collect()
}

#[track_caller]
fn check(owner: &str, servant: &str, lacks: &str) {
    assert_eq!(missing(&rules(owner), &rules(servant)).unwrap(), rules(lacks));
}

/// The cases of upstream's documentation: several rules together grant what one does not, and wildcards.
#[test]
fn a_permission_is_granted_by_any_one_rule() {
    check("get v1 builds", "get v1 builds", "");
    check("delete v1 a,b; update v1 a; update v1 b", "delete,update v1 a,b", "");
    check("delete,update v1 a,b; delete v1 pods", "delete,update v1 a,b,pods", "update v1 pods");
    check("get * roles", "get g1,g2 roles", "");
    check("get g roles", "get * roles", "get * roles");
    check("* v1 roles", "watch,list v1 roles", "");
    check("get,list v1 roles", "* v1 roles", "* v1 roles");
    check("get v1 *", "get v1 roles,roles/status", "");
    check("get v1 roles", "get v1 *", "get v1 *");
    check("get v1 */scale", "get v1 foo/scale,foo/status,foo", "get v1 foo/status; get v1 foo");
    check("get v1 foo/scale", "get v1 */scale", "get v1 */scale");
    check("get - pods", "get -,apps pods", "get apps pods");
    check("", "get,list a,b x", "get a x; list a x; get b x; list b x");
}

#[test]
fn names_of_objects_narrow_a_rule() {
    check("get v1 pods", "get v1 pods a,b", "");
    check("get v1 pods a", "get v1 pods", "get v1 pods");
    check("get v1 pods a; get v1 pods b", "get v1 pods a,b,c", "get v1 pods c");
    check("get v1 pods *", "get v1 pods a", "get v1 pods a");
}

#[test]
fn paths_are_granted_by_their_beginning() {
    check("get /apis", "get /apis", "");
    check("get /apis/*", "get /apis/v1,/apis", "get /apis");
    check("get *", "get /a,/b/*", "");
    check("get /a/**", "get /a/b", "");
    check("get /a/b/*", "get /a/*", "get /a/*");
    check("get /a; post /b", "get,post /a,/b", "post /a; get /b");
    let mut named = rule("get *");
    named.resource_names = vec!["x".to_owned()];
    assert_eq!(missing(&[named], &rules("get /a")).unwrap(), rules("get /a"));
}

/// Of a rule that grants nothing, nothing is missing.
#[test]
fn a_rule_without_a_product_grants_nothing() {
    for empty in [PolicyRule::default(), PolicyRule { verbs: Vec::new(), ..rule("get g r n") }] {
        assert_eq!(missing(&[], &[empty]).unwrap(), []);
    }
    let without_groups = PolicyRule { api_groups: Vec::new(), ..rule("get g r") };
    assert_eq!(missing(&[], &[without_groups]).unwrap(), []);
}

fn many(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

/// A product of 10^15 permissions is compared at once with a rule that grants it, and refused elsewhere.
#[test]
fn a_giant_product_is_bounded() {
    let giant = PolicyRule {
        verbs: many("v", 10_000),
        api_groups: many("g", 1000),
        resources: many("r", 10_000),
        resource_names: many("n", 10_000),
        non_resource_urls: Vec::new(),
    };
    let servant = std::slice::from_ref(&giant);
    assert_eq!(missing(&rules("* * *"), servant), Ok(Vec::new()));
    assert_eq!(missing(servant, servant), Ok(Vec::new()));
    assert_eq!(missing(&[], servant), Err(TooManyPermissions));
    assert_eq!(missing(&rules("* g1 r1"), servant), Err(TooManyPermissions));
    let but_one = PolicyRule { verbs: many("v", 9_999), ..giant.clone() };
    assert_eq!(missing(&[but_one], servant), Err(TooManyPermissions));
    let each =
        many("g", 1000).into_iter().map(|group| PolicyRule { api_groups: vec![group], ..giant.clone() });
    let each: Vec<_> = each.take(3).collect();
    assert_eq!(missing(&each, servant), Err(TooManyPermissions));
    // Each verb would repeat the name.
    let long =
        PolicyRule { verbs: many("v", 10_000), resource_names: vec!["n".repeat(1 << 20)], ..rule("v g r") };
    assert_eq!(missing(&[], &[long]), Err(TooManyPermissions));
    let paths = PolicyRule { non_resource_urls: many("/p", 50_000), ..rule("get /a") };
    assert_eq!(missing(std::slice::from_ref(&paths), std::slice::from_ref(&paths)), Err(TooManyPermissions));
    let rest = vec![rule("get g r"); 20_000];
    let other = vec![rule("list g r"); 20_000];
    assert_eq!(missing(&rest, &other), Err(TooManyPermissions));
}

#[test]
fn compacted_rules_differ_in_more_than_verbs() {
    let all = rules("get b x; list a,b x; get /p; list a x; get b x n; watch b x; get a x");
    assert_eq!(compact(all), rules("list a,b x; get /p; list,get a x; get,watch b x; get b x n"));
}

#[test]
fn a_rule_is_shown_as_upstream_shows_it() {
    let show = |text: &str| compact_string(&rule(text));
    let quoted = r#"{APIGroups:["" "apps"], Resources:["a"], ResourceNames:["n\"1"], Verbs:["get" "list"]}"#;
    assert_eq!(show("get,list -,apps a n\"1"), quoted);
    assert_eq!(show("get /a"), r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#);
    assert_eq!(compact_string(&PolicyRule::default()), "{}");
}

#[test]
fn a_rule_is_read_and_written() {
    let role =
        br#"{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":null},{"verbs":null}]}"#;
    let read = PolicyRule::list(&json::parse(role).unwrap());
    assert_eq!(read, [rule("get - pods"), PolicyRule::default()]);
    let written: Vec<String> = read.iter().map(|rule| rule.to_tree().to_string()).collect();
    assert_eq!(written, [r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}"#, r#"{"verbs":[]}"#]);
    assert_eq!(PolicyRule::list(&Value::Null), []);
}

/// `Covers`, word for word.
fn naive(owner: &[PolicyRule], servant: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut atoms = Vec::new();
    let one = |value: &String| vec![value.clone()];
    for rule in servant {
        let names = rule.resource_names.iter().map(one);
        let names: Vec<_> = if rule.resource_names.is_empty() { vec![Vec::new()] } else { names.collect() };
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    atoms.extend(names.iter().map(|names| PolicyRule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: names.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &rule.non_resource_urls {
            atoms.extend(rule.verbs.iter().map(|verb| PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..PolicyRule::default()
            }));
        }
    }
    atoms.retain(|atom| !owner.iter().any(|owner| covers(owner, atom)));
    atoms
}

fn covers(owner: &PolicyRule, atom: &PolicyRule) -> bool {
    let has = |set: &[String], value: &str| set.iter().any(|own| own == value);
    let has_all = |set: &[String], values: &[String]| values.iter().all(|value| has(set, value));
    let has_resource = |resource: &String| {
        has(&owner.resources, resource)
            || resource.split_once('/').is_some_and(|(_, part)| has(&owner.resources, &format!("*/{part}")))
    };
    let has_url = |url: &String| {
        let covers =
            |own: &String| own == url || own.ends_with('*') && url.starts_with(own.trim_end_matches('*'));
        owner.non_resource_urls.iter().any(covers)
    };
    (has(&owner.verbs, "*") || has_all(&owner.verbs, &atom.verbs))
        && (has(&owner.api_groups, "*") || has_all(&owner.api_groups, &atom.api_groups))
        && (has(&owner.resources, "*") || atom.resources.iter().all(has_resource))
        && atom.non_resource_urls.iter().all(has_url)
        && (owner.resource_names.is_empty()
            || !atom.resource_names.is_empty() && has_all(&owner.resource_names, &atom.resource_names))
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let list = |values: &'static [&'static str], most| {
        proptest::collection::vec(proptest::sample::select(values).prop_map(str::to_owned), 0..=most)
    };
    let lists = (
        list(&["get", "list", "*"], 3),
        list(&["", "apps", "*"], 2),
        list(&["a", "b", "a/x", "b/x", "*/x", "*"], 3),
        list(&["n", "m", "*"], 2),
        list(&["/", "/a", "/a/b", "/a/*", "/*", "*"], 2),
    );
    lists.prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls,
    })
}

proptest! {
    #[test]
    fn missing_is_as_one_by_one(
        owner in proptest::collection::vec(any_rule(), 0..5),
        servant in proptest::collection::vec(any_rule(), 0..4),
    ) {
        prop_assert_eq!(missing(&owner, &servant), Ok(naive(&owner, &servant)));
    }

    #[test]
    fn nothing_of_the_union_is_missing(
        owner in proptest::collection::vec(any_rule(), 0..5),
        servant in proptest::collection::vec(any_rule(), 0..4),
    ) {
        let lacks = missing(&owner, &servant).unwrap();
        let union = [owner, compact(lacks)].concat();
        prop_assert_eq!(missing(&union, &servant), Ok(Vec::new()));
    }
}
