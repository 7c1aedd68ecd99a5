//! The admission plugins that are rules of built-in kinds, and EventRateLimit. What kube-apiserver answers with them is in
//! `expectations/plugins`.

use futures::StreamExt as _;
use futures::future::join_all;
use kindom_integration::{Client, Server, ServerOptions, count};
use serde_json::{Value, json};

use crate::support::{namespace, refused, until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const RANGES: &str = "/api/v1/namespaces/default/limitranges";

async fn started(args: &[&str]) -> (Server, Client) {
    let args: Vec<&str> = ["--profile=kubernetes"].iter().chain(args).copied().collect();
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

async fn create(client: &Client, collection: &str, object: &Value) -> Value {
    client.post(collection, object).await.unwrap().expect_status(201).unwrap().json()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "example.com/a:1"}]},
    })
}

fn range(name: &str, limit: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [limit]}})
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_pod_waits_for_the_account_of_its_new_namespace() {
    let (_server, client) = started(&[]).await;
    let one = |n: usize| {
        let client = client.clone();
        async move {
            let name = format!("new-{n}");
            namespace(&client, &name).await;
            create(&client, &format!("/api/v1/namespaces/{name}/pods"), &pod("first")).await
        }
    };
    // A few at once, as each account has to come within two seconds.
    let made = futures::stream::iter(0..count(10, 100)).map(one).buffered(2).collect::<Vec<_>>().await;
    for made in made {
        assert_eq!(made["spec"]["serviceAccountName"], "default", "{made}");
        let volume = made["spec"]["volumes"][0]["name"].as_str().unwrap();
        assert!(volume.starts_with("kube-api-access-") && volume.len() == 21, "{volume}");
        assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], volume);
    }
    // A namespace that is not there is no reason to wait.
    let nowhere = client.post("/api/v1/namespaces/nowhere/pods", &pod("first")).await;
    refused(nowhere, 404, "NotFound", "namespaces \"nowhere\" not found");
}

#[tokio::test]
async fn a_pod_without_an_account_is_refused() {
    let (_server, client) = started(&["--controllers=*,-serviceaccount-controller"]).await;
    let why = "error looking up service account default/default: serviceaccount \"default\" not found";
    refused(client.post(PODS, &pod("one")).await, 403, "Forbidden", why);
    // One that comes at the same time is found, whichever is first.
    let (made, _) = tokio::join!(async { create(&client, PODS, &pod("two")).await }, async {
        create(&client, "/api/v1/namespaces/default/serviceaccounts", &account("default")).await
    },);
    assert_eq!(made["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn kubectl_meets_limits_and_priorities() {
    let (server, client) = started(&[]).await;
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [
        range("usual", &json!({"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}})),
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": true},
    ]});
    server.kubectl_with(&["apply", "-f", "-"], &manifest.to_string()).await.unwrap();
    let shown = server.kubectl(&["describe", "limits", "usual"]).await.unwrap();
    assert!(shown.contains("Container"), "{shown}");
    server.kubectl(&["run", "small", "--image=example.com/a:1"]).await.unwrap();
    let made = client.get(&format!("{PODS}/small")).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(made["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "500m"}));
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["priorityClassName"], "usual");
    let overrides =
        r#"{"spec":{"containers":[{"name":"large","image":"a","resources":{"limits":{"cpu":"2"}}}]}}"#;
    let large = ["run", "large", "--image=example.com/a:1", "--overrides", overrides];
    let why = server.kubectl(&large).await.unwrap_err().to_string();
    assert!(
        why.contains("pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"),
        "{why}"
    );
}

/// The account and the class that a policy names are looked at, and not those of the client's object.
#[tokio::test]
async fn what_a_policy_changes_is_looked_at_again() {
    let (_server, client) = started(&[]).await;
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "account"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            }]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
                "expression": "Object{spec: Object.spec{serviceAccountName: object.metadata.labels['account']}}",
            }}],
            "reinvocationPolicy": "Never",
        },
    });
    create(&client, &format!("{policies}/mutatingadmissionpolicies"), &policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "account"}, "spec": {"policyName": "account"},
    });
    create(&client, &format!("{policies}/mutatingadmissionpolicybindings"), &binding).await;
    until(&client, "/api/v1/namespaces/default/serviceaccounts", "default", |_| true).await;
    create(&client, "/api/v1/namespaces/default/serviceaccounts", &account("other")).await;
    let of = |name: &str, account: &str| {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"account": account});
        pod
    };
    let made = create(&client, PODS, &of("one", "other")).await;
    assert_eq!(made["spec"]["serviceAccountName"], "other");
    let why = "error looking up service account default/none: serviceaccount \"none\" not found";
    refused(client.post(PODS, &of("two", "none")).await, 403, "Forbidden", why);
}

#[tokio::test]
async fn plugins_are_switched_off() {
    let args = [
        "--disable-admission-plugins=ServiceAccount,LimitRanger,Priority,DefaultTolerationSeconds,TaintNodesByCondition",
        "--enable-admission-plugins=NodeRestriction,RuntimeClass",
    ];
    let (_server, client) = started(&args).await;
    create(&client, RANGES, &range("none", &json!({"type": "Container", "max": {"cpu": "1m"}}))).await;
    let made = create(&client, PODS, &pod("plain")).await;
    for field in ["serviceAccountName", "volumes", "priority", "preemptionPolicy", "tolerations"] {
        assert!(made["spec"][field].is_null(), "{field}: {made}");
    }
    assert_eq!(made["spec"]["containers"][0]["resources"], json!({}));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    assert!(create(&client, "/api/v1/nodes", &node).await["spec"]["taints"].is_null());
    let mut with_overhead = pod("overhead");
    with_overhead["spec"]["overhead"] = json!({"cpu": "1"});
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    refused(client.post(PODS, &with_overhead).await, 403, "Forbidden", why);
}

/// Ranges that no write could read in time refuse the pods of their own namespace, and nothing else.
#[tokio::test]
async fn hostile_ranges_refuse_their_own_namespace_alone() {
    let (_server, client) = started(&[]).await;
    namespace(&client, "hostile").await;
    let names = (0..2_000).map(|n| (format!("example.com/resource-{n}"), json!("1")));
    let many: serde_json::Map<String, Value> = names.collect();
    let hostile = "/api/v1/namespaces/hostile";
    for n in 0..5 {
        let limit = json!({"type": "Container", "default": many});
        create(&client, &format!("{hostile}/limitranges"), &range(&format!("r{n}"), &limit)).await;
    }
    let refusal = client.post(&format!("{hostile}/pods"), &pod("one")).await;
    let why = "the LimitRange objects that it looks at have more than 262144 bytes";
    refused(refusal, 403, "Forbidden", why);
    create(&client, PODS, &pod("one")).await;
    create(
        &client,
        &format!("{hostile}/configmaps"),
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
    )
    .await;
}

/// Pods that would have their ranges set or compare millions of amounts, or their class compare thousands of tolerations, are refused
/// before that.
#[tokio::test]
async fn hostile_pods_are_refused_before_they_are_filled_in() {
    let (_server, client) = started(&[]).await;
    let many: serde_json::Map<String, Value> =
        (0..1_000).map(|n| (format!("example.com/r{n}"), json!("1"))).collect();
    create(&client, RANGES, &range("many", &json!({"type": "Container", "default": many}))).await;
    let mut crowded = pod("crowded");
    crowded["spec"]["containers"] =
        (0..5_000).map(|n| json!({"name": format!("c{n}"), "image": "i"})).collect::<Vec<_>>().into();
    let why = "the LimitRanges have too many amounts for each of its 5000 containers";
    refused(client.post(PODS, &crowded).await, 403, "Forbidden", why);
    client.delete(&format!("{RANGES}/many")).await.unwrap().expect_status(200).unwrap();
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "some"}, "handler": "h",
        "scheduling": {"tolerations": [{"operator": "Exists", "key": "a"}]},
    });
    create(&client, "/apis/node.k8s.io/v1/runtimeclasses", &class).await;
    let mut tolerant = pod("tolerant");
    tolerant["spec"]["runtimeClassName"] = json!("some");
    tolerant["spec"]["tolerations"] =
        (0..20_000).map(|n| json!({"key": format!("k{n}"), "operator": "Exists"})).collect::<Vec<_>>().into();
    let why = "pod rejected: it has more than 500 tolerations with those of its RuntimeClass";
    refused(client.post(PODS, &tolerant).await, 403, "Forbidden", why);
    create(&client, PODS, &pod("one")).await;
}

fn event(name: &str, about: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": about},
        "source": {"component": "test"},
    })
}

#[tokio::test]
async fn events_come_as_often_as_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    let limits = "limits: [{type: SourceAndObject, qps: 1, burst: 3, cacheSize: 100}]";
    std::fs::write(
        &file,
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration: \
             {{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, {limits}}}\n"
        ),
    )
    .unwrap();
    let file = format!("--admission-control-config-file={}", file.display());
    let (_server, client) = started(&["--enable-admission-plugins=EventRateLimit", &file]).await;
    let events = "/api/v1/namespaces/default/events";
    // The bucket fills up with one a second, so that most of a crowd is refused however long it takes.
    let begun = tokio::time::Instant::now();
    let crowd = (0..50).map(|n| {
        let client = client.clone();
        async move { client.post(events, &event(&format!("e{n}"), "noisy")).await.unwrap() }
    });
    let answers = join_all(crowd).await;
    let most = 3 + usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert!((3..=most).contains(&made), "{made} of at most {most}");
    let late = answers.iter().find(|answer| answer.status != 201).unwrap();
    assert_eq!(late.status, 429);
    let status = late.json();
    assert_eq!(
        status["message"],
        "Too many requests: limit reached on type SourceAndObject for key testPoddefaultnoisy"
    );
    assert_eq!(status["reason"], "TooManyRequests");
    assert!(!late.headers.contains_key("retry-after"));
    // Another object's events, dry runs and other kinds are not concerned.
    create(&client, events, &event("other", "quiet")).await;
    for n in 0..5 {
        let dry =
            client.post(&format!("{events}?dryRun=All"), &event(&format!("dry{n}"), "dry")).await.unwrap();
        assert_eq!(dry.status, 201);
    }
    // In the later group, too.
    let later = "/apis/events.k8s.io/v1/namespaces/default/events";
    let refusals = join_all((0..6).map(|n| {
        let client = client.clone();
        let one = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": format!("later{n}")},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "test", "reportingInstance": "test-1",
            "action": "a", "reason": "r", "type": "Normal", "regarding": {"kind": "Pod", "namespace": "default", "name": "later"},
        });
        async move { client.post(later, &one).await.unwrap().status }
    }))
    .await;
    assert!(refusals.contains(&429) && refusals.contains(&201), "{refusals:?}");
    assert_eq!(client.get(events).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_wrong_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    std::fs::write(&file, "{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration}").unwrap();
    let file = format!("--admission-control-config-file={}", file.display());
    let refused =
        async |args: &[&str]| ServerOptions::default().args(args).start().await.err().unwrap().to_string();
    let why = refused(&["--enable-admission-plugins=EventRateLimit", &file]).await;
    let expected =
        "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty";
    assert!(why.contains(expected), "{why}");
    // One that never ends.
    let why = refused(&["--admission-control-config-file=/dev/zero"]).await;
    assert!(why.contains("\"/dev/zero\" [it is larger than 16 MiB]"), "{why}");
    let why = refused(&["--admission-control-config-file=/nowhere/at/all"]).await;
    assert!(why.contains("unable to read admission control configuration from \"/nowhere/at/all\""), "{why}");
}
