//! kindom asks a real host who users are, what they may do, and which namespaces there are.

use std::net::SocketAddr;

use kindom_integration::{Client, Host, Proxy, ServerOptions};
use serde_json::{Value, json};

use super::Behind;
use super::behind::API_SERVICES;
use crate::support::{crd, eventually, object, register};

pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Gives the extension server the roles that docs/aggregation.md names.
const RIGHTS: [&[&str]; 4] = [
    &[
        "create",
        "clusterrolebinding",
        "kindom:auth-delegator",
        "--clusterrole=system:auth-delegator",
        "--user=kindom",
    ],
    &[
        "-n",
        "kube-system",
        "create",
        "rolebinding",
        "kindom:auth-reader",
        "--role=extension-apiserver-authentication-reader",
        "--user=kindom",
    ],
    &["create", "clusterrole", "kindom:namespaces", "--verb=list,watch", "--resource=namespaces"],
    &[
        "create",
        "clusterrolebinding",
        "kindom:namespaces",
        "--clusterrole=kindom:namespaces",
        "--user=kindom",
    ],
];

/// Jane reads widgets; their type is not known yet.
const JANE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-widgets, namespace: default}
rules:
- {apiGroups: [example.com], resources: [widgets], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane-reads-widgets, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-widgets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";

pub(super) fn widget(name: &str) -> Value {
    object("example.com", "Widget", name, json!({}))
}

async fn behind() -> Option<Behind> {
    let host = Host::start().await.unwrap()?;
    let address = host.address();
    Some(behind_at(host, address, &[]).await)
}

/// kindom behind a host that it asks at an address.
pub(super) async fn behind_at(host: Host, address: SocketAddr, args: &[&str]) -> Behind {
    let admin = host.admin_caller().unwrap();
    for rights in RIGHTS {
        admin.kubectl(rights).await.unwrap();
    }
    admin.kubectl_with(&["apply", "-f", "-"], JANE).await.unwrap().success().unwrap();
    let kubeconfig = host.caller("kindom", None).unwrap().kubeconfig().to_owned();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace(&host.address().to_string(), &address.to_string())).unwrap();
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    let options = ServerOptions::default()
        .args(&["--authentication-kubeconfig", &kubeconfig, "--authorization-kubeconfig", &kubeconfig])
        .args(&["--authorization-webhook-cache-unauthorized-ttl=0s", "--namespaces-from-host"])
        .args(&["--tls-san", "kindom.kindom-system.svc"])
        .args(args);
    let behind = Behind::of(host, options).await;
    register(&behind.server.client().unwrap(), &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    behind.publish().await;
    behind
}

/// Both refuse in the same words.
async fn refused_alike(direct: &Client, through: &Client, method: &str, path: &str) {
    let body = widget("a");
    let ask = async |client: &Client| client.request(method, path).json(&body).send().await.unwrap();
    let (direct, through) = (ask(direct).await, ask(through).await);
    assert_eq!((direct.status, through.status), (403, 403), "{} {}", direct.text(), through.text());
    assert_eq!(direct.json(), through.json());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_host_knows_users_and_decides() {
    let Some(behind) = behind().await else { return };
    let (host, server) = (&behind.host, &behind.server);
    // Jane, by a certificate of the host's authority: directly, and through the host.
    let jane = host.certificate("jane", None).unwrap();
    let direct = server.client_with_certificate(jane.certificate.as_bytes(), jane.key.as_bytes()).unwrap();
    let through = host.client("jane", None, false).unwrap();
    for client in [&direct, &through] {
        client.get(WIDGETS).await.unwrap().expect_status(200).unwrap();
    }
    refused_alike(&direct, &through, "POST", WIDGETS).await;
    refused_alike(&direct, &through, "DELETE", &format!("{WIDGETS}/a")).await;
    refused_alike(&direct, &through, "GET", "/apis/example.com/v1/widgets").await;
    // The members of system:masters, by the same authority.
    let admin = host.admin().unwrap();
    admin.post(WIDGETS, &widget("a")).await.unwrap().expect_status(201).unwrap();
    // A service account, by its token.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    admin.post(accounts, &account).await.unwrap().expect_status(201).unwrap();
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = admin.post(&format!("{accounts}/robot/token"), &request).await.unwrap();
    let token = token.expect_status(201).unwrap().at("/status/token").as_str().unwrap().to_owned();
    let robot = server.anonymous().unwrap().with_token(&token);
    let forbidden = robot.get(WIDGETS).await.unwrap().expect_status(403).unwrap();
    assert_eq!(
        forbidden.at("/message"),
        "widgets.example.com is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"widgets\" in \
         API group \"example.com\" in the namespace \"default\""
    );
    let binding =
        ["create", "rolebinding", "robot-reads", "--role=reads-widgets", "--serviceaccount=default:robot"];
    host.admin_caller().unwrap().kubectl(&binding).await.unwrap();
    eventually("the host lets the robot read", async || {
        (robot.get(WIDGETS).await.unwrap().status == 200).then_some(())
    })
    .await;
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &who).await.unwrap();
    let who = who.expect_status(201).unwrap().at("/status/userInfo");
    assert_eq!(who["username"], "system:serviceaccount:default:robot");
    assert!(who["groups"].as_array().unwrap().contains(&json!("system:serviceaccounts:default")), "{who}");
    let cut = &token[..token.len() - 4];
    let stranger = server.anonymous().unwrap().with_token(cut);
    assert_eq!(stranger.get(WIDGETS).await.unwrap().status, 401);
    // Nobody in particular may read the version, by the host's RBAC, and no widgets.
    let nobody = server.anonymous().unwrap();
    nobody.get("/version").await.unwrap().expect_status(200).unwrap();
    assert_eq!(nobody.get(WIDGETS).await.unwrap().status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_hosts_namespaces_are_ours() {
    let Some(behind) = behind().await else { return };
    let (admin, here) = (behind.host.admin().unwrap(), behind.server.client().unwrap());
    let namespaces = "/api/v1/namespaces";
    let team = format!("{namespaces}/team");
    let widgets = WIDGETS.replace("default", "team");
    let missing = admin.post(&widgets, &widget("a")).await.unwrap();
    let configmap = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let configmaps = format!("{team}/configmaps");
    let of_host = admin.post(&configmaps, &configmap).await.unwrap();
    assert_eq!((missing.status, missing.json()), (404, of_host.json()));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let made = admin.post(namespaces, &object).await.unwrap().expect_status(201).unwrap();
    eventually("it is here", async || (here.get(&team).await.unwrap().status == 200).then_some(())).await;
    assert_eq!(
        here.get(&team).await.unwrap().at("/metadata/labels/kindom.dev~1host-uid"),
        made.at("/metadata/uid")
    );
    admin.post(&widgets, &widget("a")).await.unwrap().expect_status(201).unwrap();
    // No controller runs beside the host, so it stays as long as the test lets it.
    admin.delete(&team).await.unwrap().expect_status(200).unwrap();
    eventually("it is drained", async || {
        (here.get(&format!("{widgets}/a")).await.unwrap().status == 404).then_some(())
    })
    .await;
    let refused = admin.post(&widgets, &widget("a")).await.unwrap();
    let of_host = admin.post(&configmaps, &configmap).await.unwrap();
    let text = |of: &str, answer: &kindom_integration::Answer| {
        answer.at("/message").as_str().unwrap().replacen(of, "objects", 1)
    };
    assert_eq!((refused.status, of_host.status), (403, 403));
    assert_eq!(text("widgets.example.com", &refused), text("configmaps", &of_host));
    assert_eq!(refused.at("/details/causes"), of_host.at("/details/causes"));
    let mut ending = admin.get(&team).await.unwrap().json();
    ending["spec"]["finalizers"] = json!([]);
    admin.put(&format!("{team}/finalize"), &ending).await.unwrap().expect_status(200).unwrap();
    eventually("it is gone", async || (here.get(&team).await.unwrap().status == 404).then_some(())).await;
}

/// Waits until an APIService is there and as asked; returns it.
async fn registered(host: &Client, name: &str, ready: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{API_SERVICES}/{name}");
    eventually(name, async || {
        let found = host.get(&path).await.unwrap();
        (found.status == 200 && ready(&found.json())).then(|| found.json())
    })
    .await
}

/// B-45: the server registers what it serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_host_is_told_of_our_groups() {
    let Some(host) = Host::start().await.unwrap() else { return };
    let (caller, admin) = (host.admin_caller().unwrap(), host.admin().unwrap());
    for rights in RIGHTS {
        caller.kubectl(rights).await.unwrap();
    }
    let kubeconfig = host.caller("kindom", None).unwrap().kubeconfig().to_string_lossy().into_owned();
    let front = Proxy::start(&[host.address()]).await.unwrap();
    let port = front.address().port();
    let server = ServerOptions::default()
        .args(&["--authentication-kubeconfig", &kubeconfig, "--authorization-kubeconfig", &kubeconfig])
        .args(&["--register-api-services", &format!("kindom-system/kindom:{port}")])
        .args(&["--tls-san", "kindom.kindom-system.svc"])
        .start()
        .await
        .unwrap();
    front.aim(&[server.address().unwrap()]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kindom-system"}});
    admin.post("/api/v1/namespaces", &namespace).await.unwrap().expect_status(201).unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kindom"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let services = "/api/v1/namespaces/kindom-system/services";
    admin.post(services, &service).await.unwrap().expect_status(201).unwrap();
    let here = server.client().unwrap();
    register(&here, &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    // Without the right to: the log says so once.
    let log = || std::fs::read_to_string(server.log_path()).unwrap();
    let forbidden = "APIServices on the host: apiservices.apiregistration.k8s.io is forbidden: User \"kindom\" cannot list";
    eventually("the log says so", async || log().contains(forbidden).then_some(())).await;
    // Somebody else's.
    let taken = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.taken.example.com"},
        "spec": {"group": "taken.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"name": "other", "namespace": "default"}}});
    admin.post(API_SERVICES, &taken).await.unwrap().expect_status(201).unwrap();
    register(&here, &crd("taken.example.com", "things", "Thing", "Namespaced")).await;
    // Another version of a group of the host's own would be the preferred one there.
    let mut roles = crd("rbac.authorization.k8s.io", "roles", "Role", "Namespaced");
    roles["spec"]["versions"][0]["name"] = json!("v9");
    roles["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    register(&here, &roles).await;
    caller
        .kubectl(&[
            "create",
            "clusterrole",
            "kindom:api-services",
            "--verb=get,list,create,patch,delete",
            "--resource=apiservices.apiregistration.k8s.io",
        ])
        .await
        .unwrap();
    caller
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "kindom:api-services",
            "--clusterrole=kindom:api-services",
            "--user=kindom",
        ])
        .await
        .unwrap();
    let is_available = |service: &Value| {
        let conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Available" && c["status"] == "True")
    };
    for name in ["v1.example.com", "v1.apiextensions.kindom.dev", "v1beta1.apiextension.k8s.io"] {
        let found = registered(&admin, name, is_available).await;
        assert_eq!(found["metadata"]["labels"]["kindom.dev/registered-for"], "kindom.kindom-system");
    }
    eventually("through the host", async || (admin.get(WIDGETS).await.unwrap().status == 200).then_some(()))
        .await;
    let named = "v1.taken.example.com: the group is somebody else's there, and is left alone";
    eventually("the log names it", async || log().contains(named).then_some(())).await;
    assert_eq!(admin.get(&format!("{API_SERVICES}/v9.rbac.authorization.k8s.io")).await.unwrap().status, 404);
    let found = admin.get(&format!("{API_SERVICES}/v1.taken.example.com")).await.unwrap();
    assert_eq!(found.at("/spec/service/name"), "other");
    assert_eq!(log().matches(forbidden).count(), 1, "once");
    // Changed by hand, it is made good; and it goes with the type.
    let changed = json!({"spec": {"groupPriorityMinimum": 5}});
    admin
        .merge_patch(&format!("{API_SERVICES}/v1.example.com"), &changed)
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    register(&here, &crd("more.example.com", "more", "More", "Namespaced")).await;
    registered(&admin, "v1.example.com", |service| service["spec"]["groupPriorityMinimum"] == 1000).await;
    registered(&admin, "v1.more.example.com", is_available).await;
    let registrations = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    here.delete(&format!("{registrations}/widgets.example.com")).await.unwrap().expect_status(200).unwrap();
    eventually("it goes with its type", async || {
        let found = admin.get(&format!("{API_SERVICES}/v1.example.com")).await.unwrap();
        (found.status == 404).then_some(())
    })
    .await;
    let others = admin.get(API_SERVICES).await.unwrap().json();
    let names = crate::support::names(&others);
    assert!(
        names.contains(&"v1.taken.example.com".to_owned()) && names.contains(&"v1.apps".to_owned()),
        "{names:?}"
    );
}
