use std::sync::Arc;

use kindom_api::{GroupVersionKind, GroupVersionResource, User, Value, json, object};

use super::{
    AdmissionRefusal, Attributes, Check, Checks, Decision, Hook, Inputs, Labels, Operation, Pending, Place,
    Policy, PolicyChange, Undecided, read, review, review_request,
};

/// Knows no answer.
#[derive(Debug)]
struct Nobody;

impl Checks for Nobody {
    fn decision(&self, _: &Check) -> Option<Decision> {
        None
    }
}

/// Allows whatever is asked.
#[derive(Debug)]
struct Anybody;

impl Checks for Anybody {
    fn decision(&self, _: &Check) -> Option<Decision> {
        Some(Decision { allowed: true, ..Decision::default() })
    }
}

fn inputs<'i>(request: &'i Value, object: &'i Value, checks: &'i Arc<dyn Checks>) -> Inputs<'i> {
    Inputs { request, object: Some(object), old: None, namespace: None, params: None, checks }
}

fn place(version: &str) -> Place {
    Place {
        resource: GroupVersionResource::new("example.com", version, "widgets"),
        kind: GroupVersionKind::new("example.com", version, "Widget"),
    }
}

fn attributes(user: &User) -> Attributes<'_> {
    Attributes {
        operation: Operation::Create,
        place: place("v1"),
        subresource: "",
        namespace: "default",
        name: "one",
        user,
        dry_run: false,
        options: object! { "kind": "CreateOptions" },
    }
}

fn hook(webhook: &str) -> Hook {
    let webhook = json::parse(webhook.as_bytes()).unwrap();
    let configuration = object! { "metadata": object! { "name": "c" }, "webhooks": vec![webhook] };
    Hook::of_configuration(&configuration).remove(0)
}

fn of_rule(rule: &str) -> Hook {
    hook(&format!(r#"{{"name":"a.b.c","matchPolicy":"Equivalent","rules":[{rule}]}}"#))
}

#[test]
fn rules_name_writes() {
    let user = User::default();
    let check = |rule: &str, change: &dyn Fn(&mut Attributes<'_>), named: bool| {
        let mut attributes = attributes(&user);
        change(&mut attributes);
        assert_eq!(of_rule(rule).matching.place(&attributes, || &[]).is_some(), named, "{rule}");
    };
    let rule = |operations: &str, groups: &str, versions: &str, resources: &str, scope: &str| {
        format!(
            r#"{{"operations":[{operations}],"apiGroups":[{groups}],"apiVersions":[{versions}],"resources":[{resources}],"scope":"{scope}"}}"#
        )
    };
    let any = r#""*""#;
    check(&rule(any, any, any, any, "*"), &|_| {}, true);
    check(&rule(r#""UPDATE","CREATE""#, any, any, any, "*"), &|_| {}, true);
    check(&rule(r#""UPDATE""#, any, any, any, "*"), &|_| {}, false);
    check(&rule(any, r#""""#, any, any, "*"), &|_| {}, false);
    check(&rule(any, any, r#""v2""#, any, "*"), &|_| {}, false);
    check(&rule(any, any, any, r#""things","widgets""#, "*"), &|_| {}, true);
    let status = |attributes: &mut Attributes<'_>| attributes.subresource = "status";
    check(&rule(any, any, any, any, "*"), &status, false);
    check(&rule(any, any, any, r#""*/*""#, "*"), &status, true);
    check(&rule(any, any, any, r#""widgets/*""#, "*"), &|_| {}, true);
    check(&rule(any, any, any, r#""*/status""#, "*"), &status, true);
    check(&rule(any, any, any, any, "Cluster"), &|_| {}, false);
    check(&rule(any, any, any, any, "Namespaced"), &|_| {}, true);
    let at_cluster = |attributes: &mut Attributes<'_>| attributes.namespace = "";
    check(&rule(any, any, any, any, "Cluster"), &at_cluster, true);
    let namespace = |attributes: &mut Attributes<'_>| {
        attributes.place.resource = GroupVersionResource::new("", "v1", "namespaces");
    };
    check(&rule(any, any, any, any, "Cluster"), &namespace, true);
    check(&rule(any, any, any, any, "Namespaced"), &namespace, false);
}

#[test]
fn an_equivalent_version_counts_unless_the_own_does() {
    let (user, equivalents) = (User::default(), [place("v1beta1"), place("v1beta2")]);
    let rule = |version: &str| {
        format!(
            r#"{{"operations":["*"],"apiGroups":["example.com"],"apiVersions":["{version}"],"resources":["widgets"]}}"#
        )
    };
    let attributes = attributes(&user);
    let found = |hook: &Hook| hook.matching.place(&attributes, || &equivalents).cloned();
    assert_eq!(found(&of_rule(&rule("v1beta2"))), Some(place("v1beta2")));
    assert_eq!(found(&of_rule(&rule("*"))), Some(place("v1")));
    assert_eq!(found(&of_rule(&rule("v3"))), None);
    let exact = hook(&format!(r#"{{"name":"a.b.c","matchPolicy":"Exact","rules":[{}]}}"#, rule("v1beta2")));
    assert_eq!(found(&exact), None);
}

#[test]
fn selectors_look_at_both_objects() {
    let labelled = |value: &str| object! { "metadata": object! { "labels": object! { "a": value } } };
    let selecting = hook(
        r#"{"name":"a.b.c","objectSelector":{"matchLabels":{"a":"x"}},"namespaceSelector":{"matchLabels":{"a":"n"}}}"#,
    );
    let (x, y, n) = (labelled("x"), labelled("y"), labelled("n"));
    let selects = |labels: Labels<'_>, new: Option<&Value>, old: Option<&Value>| {
        let of = |object: Option<&Value>| match object {
            Some(value) => selecting.matching.selects(labels, Labels::Own(value), Labels::None),
            None => false,
        };
        of(new) || of(old)
    };
    assert!(selects(Labels::None, Some(&x), None) && selects(Labels::None, Some(&y), Some(&x)));
    assert!(!selects(Labels::None, Some(&y), None));
    assert!(selects(Labels::Own(&n), Some(&x), None) && !selects(Labels::Own(&y), Some(&x), None));
}

#[test]
fn conditions_decide_and_fail() {
    let user = User::default();
    let request = review_request(&attributes(&user), &place("v1"));
    let object = object! { "spec": object! { "size": 5 } };
    let holds = |conditions: &str, policy: &str| {
        let conditions = conditions
            .split(';')
            .map(|expression| format!(r#"{{"name":"n","expression":{}}}"#, Value::from(expression)));
        let conditions = conditions.collect::<Vec<_>>().join(",");
        let hook = hook(&format!(
            r#"{{"name":"a.b.c","failurePolicy":"{policy}","matchConditions":[{conditions}]}}"#
        ));
        let checks: Arc<dyn Checks> = Arc::new(Nobody);
        let inputs = inputs(&request, &object, &checks);
        hook.conditions.hold(&inputs)
    };
    assert_eq!(holds("object.spec.size == 5;request.operation == 'CREATE'", "Fail"), Ok(true));
    assert_eq!(holds("oldObject == null", "Fail"), Ok(true));
    let missing = "expression 'object.x' resulted in error: no such key: x";
    assert_eq!(
        holds("object.x == 1", "Fail"),
        Err(Undecided::Failed(missing.replace("object.x'", "object.x == 1'")))
    );
    assert_eq!(holds("object.x == 1", "Ignore"), Ok(false));
    // One that does not hold decides, whatever fails.
    assert_eq!(holds("object.x == 1;object.spec.size > 5", "Fail"), Ok(false));
    let Err(Undecided::Failed(both)) = holds("object.x == 1;object.y == 1", "Fail") else {
        panic!("both fail");
    };
    assert!(both.starts_with("[expression 'object.x == 1'") && both.ends_with("no such key: y]"), "{both}");
    let dear = format!(
        "{}.all(a, {0}.all(b, {0}.all(c, {0}.all(d, a + b + c + d > 0))))",
        "[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3]"
    );
    assert!(holds(&dear, "Fail").is_err());
    // Nobody has answered yet, whatever else fails.
    let asks = "object.x == 1;authorizer.path('/x').check('get').allowed()";
    assert_eq!(holds(asks, "Fail"), Err(Undecided::Pending));
    assert_eq!(holds(asks, "Ignore"), Err(Undecided::Pending));
}

#[test]
fn reviews_are_read_back() {
    let user = User { name: "u \"x\"".to_owned(), ..User::default() };
    let request = review_request(&attributes(&user), &place("v1beta1"));
    let object = object! { "kind": "Widget" };
    let body = json::parse(&review("v1", "id", &request, Some(&object), None)).unwrap();
    assert_eq!(body.text_at(&["request", "userInfo", "username"]), "u \"x\"");
    assert_eq!(body.text_at(&["request", "kind", "version"]), "v1beta1");
    assert_eq!(body.text_at(&["request", "requestKind", "version"]), "v1");
    assert_eq!(body.at(&["request", "object"]), Some(&object));
    assert_eq!(body.at(&["request", "oldObject"]), Some(&Value::Null));

    let answer = |response: &str| {
        let body = format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"id",{response}}}}}"#
        );
        read("v1", "id", true, body.as_bytes())
    };
    assert!(answer(r#""allowed":true"#).unwrap().allowed);
    // [{"op":"add","path":"/spec","value":{"a":1}}]
    let patch = r#""allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMiLCJ2YWx1ZSI6eyJhIjoxfX1d""#;
    let patched = answer(patch).unwrap().patched(object.clone()).unwrap();
    assert_eq!(patched.to_string(), r#"{"kind":"Widget","spec":{"a":1}}"#);
    let refused = answer(r#""allowed":false,"status":{"message":"no","code":999}"#).unwrap();
    let refusal = AdmissionRefusal::Denied { hook: "h".to_owned(), result: refused.result };
    assert_eq!(refusal.code(), 400);
    for wrong in ["", "x", "[]", "{", "null", "\u{0}", "{\"kind\":1}", "{\"apiVersion\":\"a/b/c\"}"] {
        assert!(read("v1", "id", true, wrong.as_bytes()).is_err(), "{wrong}");
    }
}

fn policy(spec: &str) -> Policy {
    let spec = json::parse(spec.as_bytes()).unwrap();
    Policy::of(&object! { "metadata": object! { "name": "p" }, "spec": spec })
}

/// The messages of a policy's findings on an object.
fn findings(policy: &Policy, checks: &Arc<dyn Checks>) -> Result<Vec<String>, Pending> {
    let user = User::default();
    let request = review_request(&attributes(&user), &place("v1"));
    let object = object! { "spec": object! { "size": 5 } };
    let found = policy.judge(&inputs(&request, &object, checks))?;
    Ok(found.findings.into_iter().map(|finding| finding.message).collect())
}

#[test]
fn composed_variables_are_evaluated_when_they_are_needed() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    let lazy = policy(
        r#"{"variables":[{"name":"bad","expression":"object.x"},{"name":"size","expression":"object.spec.size"},
            {"name":"twice","expression":"int(variables.size) * 2"}],
            "validations":[{"expression":"true || variables.bad"},{"expression":"variables.twice == 10"},
                {"expression":"variables.twice == 11","messageExpression":"'it is ' + string(variables.twice)"},
                {"expression":"has(variables.size) && variables.?size.orValue(7) == 6"},
                {"expression":"has(variables.bad) || true"},{"expression":"!has(variables.bad)"},{"expression":"dyn(variables).size == 5"}]}"#,
    );
    let bad = "composited variable \"bad\" fails to evaluate: no such key: x";
    let expected = [
        "it is 10".to_owned(),
        "failed expression: has(variables.size) && variables.?size.orValue(7) == 6".to_owned(),
        format!("expression '!has(variables.bad)' resulted in error: {bad}"),
        // All of them are looked at.
        format!("expression 'dyn(variables).size == 5' resulted in error: {bad}"),
    ];
    assert_eq!(findings(&lazy, &anybody), Ok(expected.to_vec()));
}

#[test]
fn conditions_cost_together_and_know_the_requests_resource() {
    let user = User::default();
    let object = object! { "spec": object! { "size": 5 } };
    let checks: Arc<dyn Checks> = Arc::new(Anybody);
    let request = review_request(&attributes(&user), &place("v1beta1"));
    let holds = |conditions: &[&str]| {
        let condition = |expression: &&str| object! { "name": "n", "expression": *expression };
        let conditions = Value::from(conditions.iter().map(condition).collect::<Vec<_>>());
        let hook = hook(&object! { "name": "a.b.c", "matchConditions": conditions }.to_string());
        hook.conditions.hold(&inputs(&request, &object, &checks))
    };
    assert_eq!(holds(&["request.resource.version == 'v1' && request.kind.version == 'v1beta1'"]), Ok(true));
    let list = format!("[{}]", vec!["1"; 300].join(","));
    let dear = format!("{list}.all(a, {list}.all(b, a == b))");
    let mut conditions = vec!["false"];
    conditions.extend(vec![dear.as_str(); 12]);
    assert!(matches!(holds(&conditions), Err(Undecided::Failed(why)) if why.contains("cost budget")));
    assert_eq!(holds(&["object.spec.x == 1", "false"]), Ok(false));
}

#[test]
fn a_long_chain_of_variables_needs_no_deep_stack() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    let next = |n: usize| format!(r#"{{"name":"v{n}","expression":"variables.v{}"}}"#, n - 1);
    let chain: Vec<String> = (1..20_000).map(next).collect();
    let spec = format!(
        r#"{{"variables":[{{"name":"v0","expression":"1"}},{}],"validations":[{{"expression":"variables.v19999 == 2"}}]}}"#,
        chain.join(",")
    );
    let message = "failed expression: variables.v19999 == 2".to_owned();
    assert_eq!(findings(&policy(&spec), &anybody), Ok(vec![message]));
}

#[test]
fn what_is_evaluated_again_and_again_is_bounded() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    // Each variable is missed behind something dear, which is then done once more.
    let list = format!("[{}]", vec!["1"; 200].join(","));
    let dear = format!("{list}.all(a, {list}.all(b, a == b))");
    let variable = |n: usize| format!(r#"{{"name":"v{n}","expression":"true"}}"#);
    let variables: Vec<String> = (0..1000).map(variable).collect();
    let uses: Vec<String> = (0..1000).map(|n| format!("variables.v{n}")).collect();
    let spec = format!(
        r#"{{"variables":[{}],"validations":[{{"expression":"{dear} && {}"}}]}}"#,
        variables.join(","),
        uses.join(" && ")
    );
    let found = findings(&policy(&spec), &anybody).unwrap();
    assert!(found.len() == 1 && found[0].ends_with("actual cost limit exceeded"), "{found:?}");
}

#[test]
fn lists_that_double_are_stopped() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    let next =
        |n: usize| format!(r#"{{"name":"v{n}","expression":"variables.v{0} + variables.v{0}"}}"#, n - 1);
    let doubling: Vec<String> = (1..60).map(next).collect();
    for first in ["['x']", "dyn('xxxx')"] {
        let spec = format!(
            r#"{{"variables":[{{"name":"v0","expression":"{first}"}},{}],"validations":[{{"expression":"dyn(variables.v59) == 1"}}]}}"#,
            doubling.join(",")
        );
        let found = findings(&policy(&spec), &anybody).unwrap();
        assert!(found.len() == 1 && found[0].contains("fails to evaluate"), "{found:?}");
    }
}

/// A policy of variables, each made of the one before it, written as `PREVIOUS`.
fn chained(count: usize, first: &str, each: &str, validation: &str) -> Policy {
    let next = |n: usize| {
        let each = each.replace("PREVIOUS", &format!("variables.v{}", n - 1));
        format!(r#"{{"name":"v{n}","expression":"{each}"}}"#)
    };
    let variables: Vec<String> = (1..count).map(next).collect();
    policy(&format!(
        r#"{{"variables":[{{"name":"v0","expression":"{first}"}},{}],"validations":[{{"expression":"{validation}"}}]}}"#,
        variables.join(",")
    ))
}

#[test]
fn values_do_not_nest_ever_deeper_through_variables() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    let nested = format!("{}dyn(PREVIOUS){}", "[".repeat(50), "]".repeat(50));
    for each in
        [nested.as_str(), "{'a': dyn(PREVIOUS)}", "optional.of(dyn(PREVIOUS))", "[1].map(x, dyn(PREVIOUS))"]
    {
        let policy = chained(3000, "dyn(1)", each, "dyn(variables.v2999) == dyn(1)");
        let found = findings(&policy, &anybody).unwrap();
        assert!(
            found.len() == 1 && found[0].contains("fails to compile: compilation failed: values nest"),
            "{found:?}"
        );
    }
    let shallow = chained(3000, "[dyn(1)]", "[PREVIOUS[0]]", "variables.v200 == [dyn(1)]");
    assert_eq!(findings(&shallow, &anybody), Ok(vec![]));
}

#[test]
fn errors_and_objects_of_many_variables_stay_small() {
    let anybody: Arc<dyn Checks> = Arc::new(Anybody);
    let failing = chained(20_000, "object.x", "PREVIOUS", "variables.v19999 == 1");
    let found = findings(&failing, &anybody).unwrap();
    assert!(found.len() == 1 && found[0].len() < 2048, "{}", found[0].len());
    let whole = chained(5000, "1", "size(dyn(variables))", "variables.v4999 == 1");
    let found = findings(&whole, &anybody).unwrap();
    assert!(found.len() == 1 && found[0].ends_with("actual cost limit exceeded"), "{found:?}");
    let many = vec![r#"{"expression":"false","messageExpression":"'no'"}"#; 20_000].join(",");
    let found = findings(&policy(&format!(r#"{{"validations":[{many}]}}"#)), &anybody).unwrap();
    assert_eq!(found.len(), 20_000);
}

#[test]
fn a_decision_is_waited_for() {
    let (nobody, anybody): (Arc<dyn Checks>, Arc<dyn Checks>) = (Arc::new(Nobody), Arc::new(Anybody));
    for asks in ["may", "variables.may", "object.x == 1 || variables.may", "[1].all(x, variables.may)"] {
        let spec = r#"{"failurePolicy":"Ignore","variables":[{"name":"may","expression":"MAY"}],"validations":[{"expression":"ASKS"}]}"#;
        let may = "authorizer.group('').resource('pods').check('get').allowed()";
        let asks = if asks == "may" { may } else { asks };
        let policy = policy(&spec.replace("MAY", may).replace("ASKS", asks));
        assert_eq!(findings(&policy, &nobody), Err(Pending), "{asks}");
        assert_eq!(findings(&policy, &anybody), Ok(vec![]), "{asks}");
    }
}

/// A policy that makes one change, with these variables.
fn changing(patch_type: &str, expression: &str, variables: &[(&str, String)]) -> Policy {
    let of = object! { "expression": expression };
    let mutation = match patch_type {
        "JSONPatch" => object! { "patchType": patch_type, "jsonPatch": of },
        _ => object! { "patchType": patch_type, "applyConfiguration": of },
    };
    let variable =
        |(name, expression): &(&str, String)| object! { "name": *name, "expression": expression.as_str() };
    let variables: Vec<Value> = variables.iter().map(variable).collect();
    let spec = object! { "mutations": vec![mutation], "variables": variables };
    Policy::of(&object! { "metadata": object! { "name": "p" }, "spec": spec })
}

/// The change that a policy makes of an object, as text.
fn change(policy: &Policy, tree: &str) -> Result<String, String> {
    let checks: Arc<dyn Checks> = Arc::new(Anybody);
    let (request, tree) = (object! { "kind": object! {} }, json::parse(tree.as_bytes()).unwrap());
    let inputs = inputs(&request, &tree, &checks);
    match policy.change(policy.mutations.first().unwrap(), &inputs).unwrap()? {
        PolicyChange::Apply(configuration) => Ok(configuration.to_string()),
        patch @ PolicyChange::Patch(_) => patch
            .of(&tree, None)
            .map(|made| made.map_or_else(|| "unchanged".to_owned(), |made| made.to_string())),
    }
}

fn applied(expression: &str) -> Result<String, String> {
    change(&changing("ApplyConfiguration", expression, &[]), r#"{"a":{"b":[1,{"c":null}]}}"#)
}

/// Some of the language's values can be part of a configuration; an error names the others.
#[test]
fn configurations_are_made_of_values() {
    for (expression, made) in [
        ("Object{}", "{}"),
        ("Object{a: 1, b: 'x', c: true, d: 1.5}", r#"{"a":1,"b":"x","c":true,"d":1.5}"#),
        ("Object{a: Object.a{b: [Object.a.b{c: 1}]}}", r#"{"a":{"b":[{"c":1}]}}"#),
        ("Object{a: {'b': object.a}}", r#"{"a":{"b":{"b":[1,{"c":null}]}}}"#),
        ("Object{a: object.a.b + [2]}", r#"{"a":[1,{"c":null},2]}"#),
        ("Object{a: optional.of(1), ?b: optional.none()}", r#"{"a":1}"#),
        ("Object{a: 1, a: 2}", r#"{"a":2}"#),
    ] {
        assert_eq!(applied(expression).as_deref(), Ok(made), "{expression}");
    }
    let cannot = "error applying patch: failed to convert patch object to typed object: ";
    for (expression, why) in [
        ("Object{a: null}", ".a: an ApplyConfiguration cannot have a value of type null_type"),
        ("Object{a: [1u]}", ".a[0]: an ApplyConfiguration cannot have a value of type uint"),
        ("Object{a: Object.a{b: b'x'}}", ".a.b: an ApplyConfiguration cannot have a value of type bytes"),
        (
            "Object{a: timestamp('2026-01-01T00:00:00Z')}",
            ".a: an ApplyConfiguration cannot have a value of type google.protobuf.Timestamp",
        ),
        (
            "Object{a: duration('1s')}",
            ".a: an ApplyConfiguration cannot have a value of type google.protobuf.Duration",
        ),
        (
            "Object{a: quantity('1')}",
            ".a: an ApplyConfiguration cannot have a value of type kubernetes.Quantity",
        ),
        ("Object{a: {1: 2}}", ".a: an ApplyConfiguration cannot have a map whose keys are of type int"),
        ("Object{a: [[1]]}", ".a[0]: an ApplyConfiguration cannot have a list within a list or map"),
        ("Object{a: [{'b': 1}]}", ".a[0]: an ApplyConfiguration cannot have a map within a list or map"),
        ("Object{a: {'b': [1]}}", ".a.b: an ApplyConfiguration cannot have a list within a list or map"),
        ("Object{a: 1.0 / 0.0}", ".a: an ApplyConfiguration cannot have a value of type double"),
        ("Object{a: JSONPatch{}}", ".a: an ApplyConfiguration cannot have a value of type JSONPatch"),
        ("Object{a: optional.none()}", ".a: an ApplyConfiguration cannot have a value of type optional_type"),
    ] {
        assert_eq!(applied(expression), Err(format!("{cannot}{why}")), "{expression}");
    }
}

/// Few values that hold each other can be a tree without end: no operation of a patch, and not all together, unfolds them.
#[test]
fn what_expressions_make_is_bounded() {
    let mut variables = vec![("v0", "dyn(['x'])".to_owned())];
    let names: Vec<String> = (1..100).map(|at| format!("v{at}")).collect();
    for (before, name) in std::iter::once("v0").chain(names.iter().map(String::as_str)).zip(&names) {
        variables.push((name, format!("dyn([variables.{before}, variables.{before}])")));
    }
    let too_large = "the expression made a value of more than 3145728 bytes";
    let bound = |expression: &str| change(&changing("JSONPatch", expression, &variables), r#"{"a":{}}"#);
    let add = "[JSONPatch{op: 'add', path: '/a', value: variables.v99}]";
    assert!(bound(add).unwrap_err().ends_with(too_large));
    let add = "[JSONPatch{op: 'add', path: '/a', value: Object.a{b: variables.v99}}]";
    assert!(bound(add).unwrap_err().ends_with(too_large));
    // 2^15 texts in each of 40 operations.
    let many = "lists.range(40).map(x, JSONPatch{op: 'add', path: '/a', value: variables.v15})";
    assert!(bound(many).unwrap_err().ends_with(too_large));
    // A name of a type is as long as it is written, wherever it stands.
    let name = "a".repeat(50_000);
    let names = format!("Object{{a: lists.range(2000).map(x, type(Object.{name}{{}}))}}");
    let named = change(&changing("ApplyConfiguration", &names, &[]), "{}").unwrap_err();
    assert!(named.ends_with(too_large), "{named:.200}");
    let fields = format!("[Object{{{name}: 1}}].map(m, Object{{a: lists.range(2000).map(x, m)}})[0]");
    let named = change(&changing("ApplyConfiguration", &fields, &[]), "{}").unwrap_err();
    assert!(named.ends_with(too_large), "{named:.200}");
    // A text that is read from a message is not another one.
    let read = "Object{a: size(lists.range(9000).map(x, JSONPatch{path: object.t}.path))}";
    let long = format!(r#"{{"t":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(change(&changing("ApplyConfiguration", read, &[]), &long).as_deref(), Ok(r#"{"a":9000}"#));
    let select = "Object{a: Object{b: variables.v99}.b}";
    let selected = change(&changing("ApplyConfiguration", select, &variables), "{}").unwrap_err();
    assert!(selected.contains("cost limit exceeded"), "{selected}");
    let equal = "Object{a: Object{b: variables.v99} == Object{b: variables.v99}}";
    let compared = change(&changing("ApplyConfiguration", equal, &variables), "{}").unwrap_err();
    assert!(compared.contains("cost limit exceeded"), "{compared}");
}
