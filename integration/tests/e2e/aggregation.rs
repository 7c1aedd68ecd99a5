//! Behind the aggregation layer: a cluster's aggregator forwards its users' requests, with their names in headers (B-02).

use base64::Engine as _;
use kindom_integration::{Answer, Client, Server, ServerOptions};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::authority::{Authority, Files};
use crate::support::{AGGREGATED, crd, register};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A server that trusts the front proxies of a host, and the host's proxy.
struct Aggregated {
    files: Files,
    proxies: Authority,
    server: Server,
}

impl Aggregated {
    async fn start() -> Self {
        Self::start_with(ServerOptions::default()).await
    }

    async fn start_with(options: ServerOptions) -> Self {
        let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
        files.write("proxies.crt", &proxies.certificate.pem());
        let server = options
            .args(&["--requestheader-client-ca-file", &files.arg("proxies.crt"), "-v"])
            .args(&["--requestheader-allowed-names", "front-proxy-client"])
            .start()
            .await
            .unwrap();
        register(&server.client().unwrap(), &crd("example.com", "widgets", "Widget", "Namespaced")).await;
        Self { files, proxies, server }
    }

    /// A client with a certificate of this name.
    fn client(&self, authority: &Authority, name: &str) -> Client {
        let (certificate, key) = authority.issue(name, ExtendedKeyUsagePurpose::ClientAuth);
        self.server.client_with_certificate(certificate.as_bytes(), key.as_bytes()).unwrap()
    }

    fn proxy(&self) -> Client {
        self.client(&self.proxies, "front-proxy-client")
    }

    /// The users that the server has seen, in turn.
    fn users(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.server.log_path()).unwrap();
        let answered = log.lines().filter(|line| line.contains("answered") && line.contains(WIDGETS));
        let user = |line: &str| {
            let (_, rest) = line.split_once("user=\"").or_else(|| line.split_once("user="))?;
            rest.split(['"', ' ', '}']).next().map(str::to_owned)
        };
        answered.filter_map(user).collect()
    }
}

async fn ask(client: &Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request = client.request("GET", path);
    headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send().await.unwrap()
}

const JANE: [(&str, &str); 2] = [("X-Remote-User", "jane"), ("X-Remote-Group", "dev")];

#[tokio::test]
async fn a_request_is_that_of_the_user_whom_the_proxy_names() {
    let host = Aggregated::start().await;
    let (proxy, admin) = (host.proxy(), host.server.client().unwrap());
    ask(&proxy, WIDGETS, &JANE).await.expect_status(200).unwrap();
    // Who is no proxy may write what he likes.
    assert_eq!(ask(&host.server.anonymous().unwrap(), WIDGETS, &JANE).await.status, 403);
    ask(&admin, WIDGETS, &JANE).await.expect_status(200).unwrap();
    assert_eq!(host.users(), ["jane", "system:anonymous", "kubernetes-admin"]);
    for stranger in [
        host.client(&host.proxies, "somebody"),
        host.client(&Authority::new("front-proxy-ca"), "front-proxy-client"),
    ] {
        let refused = ask(&stranger, WIDGETS, &JANE).await;
        assert_eq!((refused.status, refused.at("/reason")), (401, json!("Unauthorized")));
    }
    // A proxy that names nobody is nobody.
    assert_eq!(ask(&proxy, WIDGETS, &JANE[1..]).await.status, 401);
    let nobody = [("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")];
    let forbidden = ask(&proxy, WIDGETS, &nobody).await;
    let message = "widgets.example.com is forbidden: User \"system:anonymous\" cannot list resource \"widgets\" in API \
                   group \"example.com\" in the namespace \"default\"";
    assert_eq!((forbidden.status, forbidden.at("/message")), (403, json!(message)));
}

/// A client of the host asks who it is here, and learns everything that the proxy said of it.
#[tokio::test]
async fn a_user_of_the_host_is_told_who_it_is() {
    let host = Aggregated::start().await;
    let proxy = host.proxy();
    let request = proxy.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let request = request.header("X-Remote-User", "jane").header("X-Remote-Group", "dev");
    let request = request.header("X-Remote-Extra-Scopes", "read").header("X-Remote-Extra-Scopes", "write");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = request.json(&review).send().await.unwrap().expect_status(201).unwrap();
    let user = json!({
        "username": "jane",
        "groups": ["dev", "system:authenticated"],
        "extra": {"scopes": ["read", "write"]},
    });
    assert_eq!(answer.at("/status/userInfo"), user);
}

#[tokio::test]
async fn an_authority_that_is_replaced_counts_at_once() {
    let host = Aggregated::start().await;
    let (before, later) = (host.proxy(), Authority::new("front-proxy-ca"));
    ask(&before, WIDGETS, &JANE).await.expect_status(200).unwrap();
    host.files.write("proxies.crt", &later.certificate.pem());
    host.server.hang_up().unwrap();
    let after = host.client(&later, "front-proxy-client");
    crate::support::eventually("the new proxy counts", async || {
        (ask(&after, WIDGETS, &JANE).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(ask(&before, WIDGETS, &JANE).await.status, 401, "on the connection that was open");
}

/// The host has Kubernetes' own groups itself, and would take ours for them.
#[tokio::test]
async fn a_host_is_shown_our_groups_alone() {
    let host = Aggregated::start().await;
    let (proxy, admin) = (host.proxy(), host.server.client().unwrap());
    // As the aggregator asks for them, without groups.
    let aggregator = [("X-Remote-User", "system:aggregator")];
    let keys = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let v3 = ask(&proxy, "/openapi/v3", &aggregator).await.expect_status(200).unwrap();
    let ours =
        ["apis/apiextension.k8s.io/v1beta1", "apis/apiextensions.kindom.dev/v1", "apis/example.com/v1"];
    assert_eq!(keys(v3.at("/paths")), ours);
    let all = ask(&admin, "/openapi/v3", &[]).await;
    assert!(all.json()["paths"].get("api/v1").is_some() && all.header("etag") != v3.header("etag"));
    let v2 = ask(&proxy, "/openapi/v2", &aggregator).await.json();
    let paths = keys(v2["paths"].clone());
    assert!(paths.contains(&format!("{}/{{name}}", WIDGETS.replace("default", "{namespace}"))), "{paths:?}");
    let foreign =
        |path: &String| path.starts_with("/api/") || path.starts_with("/apis/apiextensions.k8s.io/");
    assert!(!paths.iter().any(foreign), "{paths:?}");

    let accept = [("X-Remote-User", "system:kube-aggregator"), ("Accept", AGGREGATED)];
    let discovery = ask(&proxy, "/apis", &accept).await.expect_status(200).unwrap();
    assert_eq!(discovery.header("content-type"), AGGREGATED);
    let names = |answer: &Answer| {
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|group| group["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&discovery), ["apiextension.k8s.io", "apiextensions.kindom.dev", "example.com"]);
    let again = [accept[0], accept[1], ("If-None-Match", discovery.header("etag"))];
    assert_eq!(ask(&proxy, "/apis", &again).await.status, 304);
    assert_eq!(ask(&proxy, "/apis/example.com/v1", &aggregator).await.status, 200);
    assert_eq!(ask(&proxy, "/apis/coordination.k8s.io/v1", &aggregator).await.status, 404);
    assert_eq!(ask(&proxy, "/openapi/v3/api/v1", &aggregator).await.status, 404);
    let own = names(&ask(&admin, "/apis", &[("Accept", AGGREGATED)]).await);
    assert!(own.iter().any(|name| name == "coordination.k8s.io"), "{own:?}");
    assert!(!own.iter().any(|name| name == "apiextensions.kindom.dev"), "registrations once: {own:?}");
    // It is types that are shown or not, not groups: one that is registered in a group of ours is everybody's.
    register(&admin, &crd("apiextensions.kindom.dev", "extras", "Extra", "Cluster")).await;
    let resources = async |client: &Client, headers: &[(&str, &str)]| {
        let list = ask(client, "/apis/apiextensions.kindom.dev/v1", headers).await.json();
        let resources = list["resources"].as_array().unwrap().clone();
        resources.iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(resources(&admin, &[]).await, ["extras"]);
    let both = resources(&proxy, &aggregator).await;
    assert!(both.contains(&"extras".to_owned()) && both.contains(&"customresourcedefinitions".to_owned()));
}

/// The host asks every few seconds, and takes all groups of a server that does not answer for gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_told_of_our_groups_while_the_store_is_away() {
    let mut etcd = kindom_integration::Etcd::start().await.unwrap();
    let host = Aggregated::start_with(ServerOptions::default().etcd(&etcd.endpoints())).await;
    let proxy = host.proxy();
    let aggregator = [("X-Remote-User", "system:kube-aggregator"), ("Accept", AGGREGATED)];
    let asked = ["/apis", "/apis/example.com/v1", "/openapi/v3", "/openapi/v3/apis/example.com/v1"];
    let mut before = Vec::new();
    for path in asked {
        let headers = if path == "/apis" { &aggregator[..] } else { &aggregator[..1] };
        before.push(ask(&proxy, path, headers).await.expect_status(200).unwrap().text());
    }
    etcd.kill9(0).unwrap();
    for (path, known) in asked.iter().zip(before) {
        let headers = if *path == "/apis" { &aggregator[..] } else { &aggregator[..1] };
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), ask(&proxy, path, headers));
        let answer = answer.await.expect("within the aggregator's limit").expect_status(200).unwrap();
        assert_eq!(answer.text(), known, "{path}");
    }
}

/// `apiextensions.k8s.io` is the host's own: a registration comes in by the same face in a group of ours.
#[tokio::test]
async fn a_type_is_registered_through_the_host() {
    const AGGREGATED_CRDS: &str = "/apis/apiextensions.kindom.dev/v1/customresourcedefinitions";
    let host = Aggregated::start().await;
    let (proxy, admin) = (host.proxy(), host.server.client().unwrap());
    let as_jane = |method: &str, path: &str| {
        let request = proxy.request(method, path);
        JANE.iter().fold(request, |request, (name, value)| request.header(name, value))
    };
    let mut registration = crd("example.com", "gadgets", "Gadget", "Namespaced");
    registration["apiVersion"] = json!("apiextensions.kindom.dev/v1");
    let path = format!("{AGGREGATED_CRDS}/gadgets.example.com");
    let apply = format!("{path}?fieldManager=jane");
    let applied = as_jane("PATCH", &apply)
        .body("application/apply-patch+yaml", registration.to_string())
        .send()
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    assert_eq!(applied.at("/apiVersion"), registration["apiVersion"]);
    let entry = &applied.at("/metadata/managedFields/0");
    assert_eq!((&entry["manager"], &entry["apiVersion"]), (&json!("jane"), &registration["apiVersion"]));
    let stored = crate::support::condition(&admin, "gadgets.example.com", "Established", "True").await;
    assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1");
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}});
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    as_jane("POST", &gadgets).json(&gadget).send().await.unwrap().expect_status(201).unwrap();

    let mut events = JANE
        .iter()
        .fold(proxy.request("GET", &format!("{AGGREGATED_CRDS}?watch=true")), |r, (name, value)| {
            r.header(name, value)
        })
        .stream()
        .await
        .unwrap();
    let seen = [events.event().await.unwrap(), events.event().await.unwrap()];
    assert!(seen.iter().all(|event| event["object"]["apiVersion"] == registration["apiVersion"]), "{seen:?}");

    // Both show the same object, and a write by one is a write to it.
    let shown = as_jane("GET", &path).send().await.unwrap().expect_status(200).unwrap().json();
    let alike =
        |tree: &Value| (tree["spec"].clone(), tree["status"].clone(), tree["metadata"]["uid"].clone());
    assert_eq!(alike(&shown), alike(&stored));
    let mut update = shown.clone();
    update["spec"]["names"]["shortNames"] = json!(["gad"]);
    as_jane("PUT", &path).json(&update).send().await.unwrap().expect_status(200).unwrap();
    let list = as_jane("GET", AGGREGATED_CRDS).send().await.unwrap().json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["apiVersion"], registration["apiVersion"]);
    // The items of a typed list have no type, as in Go.
    assert!(items.len() == 2 && items.iter().all(|item| item.get("apiVersion").is_none()), "{items:?}");
    // Applied again by the other name, nothing conflicts and nothing changes.
    registration["apiVersion"] = json!("apiextensions.k8s.io/v1");
    let direct = format!("{}/gadgets.example.com?fieldManager=jane", crate::support::CRDS);
    let again =
        admin.request("PATCH", &direct).body("application/apply-patch+yaml", registration.to_string());
    let again = again.send().await.unwrap().expect_status(200).unwrap();
    assert_eq!(again.at("/spec/names/shortNames"), json!(["gad"]));
    let wrong = as_jane("POST", AGGREGATED_CRDS).json(&registration).send().await.unwrap();
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    as_jane("DELETE", &path).send().await.unwrap().expect_status(200).unwrap();
    crate::support::until_gone(&admin, crate::support::CRDS, "gadgets.example.com").await;
    assert_eq!(as_jane("GET", &gadgets).send().await.unwrap().status, 404);
}

/// A cluster's administrator applies them (B-45).
#[tokio::test]
async fn the_manifests_name_each_group_version() {
    let host = Aggregated::start().await;
    let kubeconfig = host.server.kubeconfig();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(kindom_integration::tools::kindom().unwrap());
        command.args(["aggregation", "manifests", "--kubeconfig"]).arg(&kubeconfig).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let documents = |text: &str| {
        let documents = kindom_codec::documents(text.as_bytes()).unwrap();
        let json = |document: &kindom_api::Value| serde_json::from_slice(&document.to_vec()).unwrap();
        documents.iter().map(json).collect::<Vec<Value>>()
    };
    let all = documents(&run(&["--namespace", "extensions"]));
    let names: Vec<&str> = all.iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect();
    let expected = ["kindom", "v1beta1.apiextension.k8s.io", "v1.apiextensions.kindom.dev", "v1.example.com"];
    assert_eq!(names, expected);
    let service = &all[3]["spec"];
    assert_eq!(service["service"], json!({"name": "kindom", "namespace": "extensions", "port": 443}));
    assert_eq!((&service["groupPriorityMinimum"], &service["versionPriority"]), (&json!(1000), &json!(100)));
    let bundle = service["caBundle"].as_str().unwrap();
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap();
    let own = std::fs::read(host.server.data_dir().join("pki/ca.crt")).unwrap();
    assert_eq!(String::from_utf8(pem).unwrap(), String::from_utf8(own).unwrap());
    let outside = documents(&run(&["--external-name", "kindom.example.org", "--service-port", "6443"]));
    assert_eq!(outside[0]["spec"], json!({"type": "ExternalName", "externalName": "kindom.example.org"}));
    assert_eq!(outside[3]["spec"]["service"]["port"], 6443);
}
