//! An extension server asks its host who its users are and what they may do (B-02).

mod authors;
mod namespaces;
mod owners;

use kindom_integration::{Answer as Answered, Client, HarnessError, Server, ServerOptions};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::declared_subresources::Echo;
use crate::stand_in::{ACCESS_REVIEWS, Answer, CONFIG_MAPS, CREDENTIAL, StandIn, TOKEN_REVIEWS};
use crate::support::{crd, eventually, object, refused, register};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const ROBOT: &str = "system:serviceaccount:default:robot";

/// A server behind a host, and the host's authorities.
struct Extension {
    host: StandIn,
    users: Authority,
    proxies: Authority,
    server: Server,
}

fn config_map(users: &Authority, proxies: &Authority) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": users.certificate.pem(),
            "requestheader-client-ca-file": proxies.certificate.pem(),
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    })
}

fn behind(host: &StandIn) -> ServerOptions {
    let kubeconfig = host.kubeconfig();
    ServerOptions::default().args(&[
        "--authentication-kubeconfig",
        &kubeconfig,
        "--authorization-kubeconfig",
        &kubeconfig,
        "-v",
    ])
}

impl Extension {
    async fn start(args: &[&str]) -> Self {
        let host = StandIn::start().await;
        let (users, proxies) = (Authority::new("host-users"), Authority::new("front-proxy-ca"));
        host.put(CONFIG_MAPS, &config_map(&users, &proxies));
        let server = behind(&host).args(args).start().await.unwrap();
        register(&server.client().unwrap(), &crd("example.com", "widgets", "Widget", "Namespaced")).await;
        Self { host, users, proxies, server }
    }

    fn with_token(&self, token: &str) -> Client {
        self.server.anonymous().unwrap().with_token(token)
    }

    fn with_certificate(&self, authority: &Authority, name: &str) -> Client {
        let (certificate, key) = authority.issue(name, ExtendedKeyUsagePurpose::ClientAuth);
        self.server.client_with_certificate(certificate.as_bytes(), key.as_bytes()).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.server.log_path()).unwrap()
    }
}

/// The status of a TokenReview of the robot's token.
fn robot() -> Value {
    json!({"authenticated": true, "user": {
        "username": ROBOT, "uid": "7", "groups": ["system:serviceaccounts"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
    }})
}

/// Answers token reviews of `good`, and access as `allows` says.
fn decide(host: &StandIn, good: &'static str, mut allows: impl FnMut(&Value) -> Value + Send + 'static) {
    host.decide(move |path, spec| match path {
        TOKEN_REVIEWS if spec["token"] == good => Answer::review(robot()),
        TOKEN_REVIEWS => Answer::review(json!({"authenticated": false})),
        _ => Answer::review(allows(spec)),
    });
}

async fn ask(client: &Client, path: &str) -> Answered {
    client.get(path).await.unwrap()
}

fn widget(name: &str) -> Value {
    object("example.com", "Widget", name, json!({}))
}

fn unauthorized(answer: &Answered) {
    assert_eq!((answer.status, answer.at("/message")), (401, json!("Unauthorized")), "{}", answer.text());
}

#[tokio::test]
async fn a_token_of_the_host_is_that_of_its_user() {
    let extension = Extension::start(&[]).await;
    let (host, client) = (&extension.host, extension.with_token("the-robots-token"));
    decide(host, "the-robots-token", |spec| {
        let reads = ["get", "list", "watch"].iter().any(|verb| spec["resourceAttributes"]["verb"] == *verb);
        let asks = spec["resourceAttributes"]["resource"] == "selfsubjectreviews";
        match &spec["resourceAttributes"]["verb"] {
            verb if verb == "delete" => json!({"allowed": false, "denied": true, "reason": "keep it"}),
            _ => json!({"allowed": reads || asks}),
        }
    });
    for _ in 0..5 {
        ask(&client, WIDGETS).await.expect_status(200).unwrap();
    }
    let user = json!({"user": ROBOT, "uid": "7", "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]}});
    let attributes = json!({"namespace": "default", "verb": "list", "group": "example.com", "version": "v1",
        "resource": "widgets"});
    let mut expected = user.clone();
    expected["resourceAttributes"] = attributes;
    assert_eq!(host.asked(ACCESS_REVIEWS), [expected], "once, as upstream asks");
    assert_eq!(host.asked(TOKEN_REVIEWS), [json!({"token": "the-robots-token"})]);
    // The host's refusals, in its words.
    let cannot = |verb: &str, name: &str| {
        format!(
            "widgets.example.com {name}is forbidden: User \"{ROBOT}\" cannot {verb} resource \"widgets\" in API group \
             \"example.com\" in the namespace \"default\""
        )
    };
    refused(client.post(WIDGETS, &widget("a")).await, 403, "Forbidden", &cannot("create", ""));
    let kept = format!("{}: keep it", cannot("delete", "\"a\" "));
    refused(client.delete(&format!("{WIDGETS}/a")).await, 403, "Forbidden", &kept);
    let selected = format!("{WIDGETS}?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx");
    ask(&client, &selected).await.expect_status(200).unwrap();
    let asked = host.asked(ACCESS_REVIEWS).pop().unwrap()["resourceAttributes"].clone();
    assert_eq!(asked["name"], "x");
    assert_eq!(
        (&asked["labelSelector"]["requirements"], &asked["fieldSelector"]["requirements"]),
        (
            &json!([{"key": "a", "operator": "In", "values": ["b"]}]),
            &json!([{"key": "metadata.name", "operator": "In", "values": ["x"]}])
        )
    );
    ask(&client, "/metrics").await.expect_status(403).unwrap();
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &who).await.unwrap();
    let who = who.expect_status(201).unwrap().at("/status/userInfo");
    assert_eq!((&who["username"], &who["uid"], &who["extra"]), (&user["user"], &user["uid"], &user["extra"]));
    // Others.
    unauthorized(&ask(&extension.with_token("nobodys-token"), WIDGETS).await);
    unauthorized(&ask(&extension.with_token("nobodys-token"), WIDGETS).await);
    assert_eq!(host.asked(TOKEN_REVIEWS).len(), 2, "a refusal is remembered too");
    let nobody = extension.server.anonymous().unwrap();
    ask(&nobody, WIDGETS).await.expect_status(200).unwrap();
    let asked = host.asked(ACCESS_REVIEWS).pop().unwrap();
    assert_eq!(
        (&asked["user"], &asked["groups"]),
        (&json!("system:anonymous"), &json!(["system:unauthenticated"]))
    );
    let before = host.asked(ACCESS_REVIEWS).len();
    for open in ["/healthz", "/livez", "/readyz"] {
        ask(&nobody, open).await.expect_status(200).unwrap();
    }
    extension.server.client().unwrap().get(WIDGETS).await.unwrap().expect_status(200).unwrap();
    assert_eq!(host.asked(ACCESS_REVIEWS).len(), before, "open paths, and system:masters");
    let impersonating =
        client.request("GET", WIDGETS).header("Impersonate-User", "jane").send().await.unwrap();
    assert_eq!(impersonating.status, 403);
    assert!(host.credentials().iter().all(|credential| *credential == format!("Bearer {CREDENTIAL}")));
    let log = extension.log();
    assert!(log.contains(ROBOT), "{log}");
    for secret in ["the-robots-token", "nobodys-token", CREDENTIAL] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// The page of metrics has rows that are there only behind a host.
#[tokio::test]
async fn reviews_are_counted() {
    let extension = Extension::start(&[]).await;
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    for _ in 0..2 {
        ask(&extension.with_token("good"), WIDGETS).await.expect_status(200).unwrap();
    }
    let metrics = ask(&extension.with_token("good"), "/metrics").await.expect_status(200).unwrap().text();
    for line in [
        "apiserver_delegated_authn_request_total{code=\"201\"} 1",
        "apiserver_delegated_authn_request_duration_seconds_count{code=\"201\"} 1",
        "apiserver_delegated_authz_request_total{code=\"201\"} 2",
        "apiserver_delegated_authz_request_duration_seconds_count{code=\"201\"} 2",
        "authentication_token_cache_request_total{status=\"hit\"} 2",
        "authentication_token_cache_request_total{status=\"miss\"} 1",
        "kindom_delegated_authz_cache_request_total{status=\"hit\"} 1",
        "kindom_delegated_authz_cache_request_total{status=\"miss\"} 2",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn certificates_count_by_the_hosts_word() {
    let extension = Extension::start(&[]).await;
    let host = &extension.host;
    decide(host, "", |spec| json!({"allowed": spec["user"] == "jane"}));
    let proxied = async |proxy: &Client, user: &str, group: &str| {
        let request =
            proxy.request("GET", WIDGETS).header("X-Remote-User", user).header("X-Remote-Group", group);
        request.header("X-Remote-Uid", "9").send().await.unwrap()
    };
    let jane = extension.with_certificate(&extension.users, "jane");
    ask(&jane, WIDGETS).await.expect_status(200).unwrap();
    ask(&extension.with_certificate(&extension.users, "joe"), WIDGETS).await.expect_status(403).unwrap();
    // What the host has authorized already is asked for again, as upstream's servers do.
    let proxy = extension.with_certificate(&extension.proxies, "front-proxy-client");
    assert_eq!(proxied(&proxy, "jane", "dev").await.status, 200);
    let asked = host.asked(ACCESS_REVIEWS).pop().unwrap();
    assert_eq!(
        (&asked["user"], &asked["uid"], &asked["groups"]),
        (&json!("jane"), &json!("9"), &json!(["dev", "system:authenticated"]))
    );
    assert_eq!(proxied(&proxy, "joe", "dev").await.status, 403);
    assert_eq!(proxied(&proxy, "joe", "system:masters").await.status, 200);
    let stranger = extension.with_certificate(&extension.proxies, "somebody");
    unauthorized(&proxied(&stranger, "jane", "dev").await);
    unauthorized(&ask(&extension.with_certificate(&Authority::new("host-users"), "jane"), WIDGETS).await);
    // Broken, then gone: what was known holds.
    let map = config_map(&extension.users, &extension.proxies);
    let mut broken = map.clone();
    broken["data"]["requestheader-allowed-names"] = json!("front-proxy-client");
    broken["data"]["client-ca-file"] = json!("");
    host.put(CONFIG_MAPS, &broken);
    eventually("the log says so", async || {
        extension.log().contains("client-ca-file is missing; requestheader-allowed-names").then_some(())
    })
    .await;
    host.delete(CONFIG_MAPS, "extension-apiserver-authentication");
    eventually("the log says so", async || extension.log().contains("it does not exist").then_some(())).await;
    ask(&jane, WIDGETS).await.expect_status(200).unwrap();
    assert_eq!(proxied(&proxy, "jane", "dev").await.status, 200);
    // Other authorities count at once, and the former ones no longer, on connections that are open.
    let (users, proxies) = (Authority::new("host-users"), Authority::new("front-proxy-ca"));
    host.put(CONFIG_MAPS, &config_map(&users, &proxies));
    eventually("the new authority counts", async || {
        (ask(&extension.with_certificate(&users, "jane"), WIDGETS).await.status == 200).then_some(())
    })
    .await;
    let new = extension.with_certificate(&proxies, "front-proxy-client");
    assert_eq!(proxied(&new, "jane", "dev").await.status, 200);
    unauthorized(&ask(&jane, WIDGETS).await);
    unauthorized(&proxied(&proxy, "jane", "dev").await);
    // A certificate that a user has from the host is no proxy's, whatever it is called.
    let named = extension.with_certificate(&users, "front-proxy-client");
    assert_eq!(proxied(&named, "jane", "dev").await.status, 403);
}

#[tokio::test]
async fn flags_count_before_the_hosts_word() {
    let host = StandIn::start().await;
    let (users, proxies, own) =
        (Authority::new("host-users"), Authority::new("front-proxy-ca"), Authority::new("own-users"));
    host.put(CONFIG_MAPS, &config_map(&users, &proxies));
    host.files.write("own.crt", &own.certificate.pem());
    let server = behind(&host).args(&["--client-ca-file", &host.files.arg("own.crt")]).start().await.unwrap();
    register(&server.client().unwrap(), &crd("example.com", "widgets", "Widget", "Namespaced")).await;
    let extension = Extension { host, users, proxies, server };
    decide(&extension.host, "", |_| json!({"allowed": true}));
    ask(&extension.with_certificate(&own, "jane"), WIDGETS).await.expect_status(200).unwrap();
    unauthorized(&ask(&extension.with_certificate(&extension.users, "jane"), WIDGETS).await);
    let proxy = extension.with_certificate(&extension.proxies, "front-proxy-client");
    let proxied = proxy.request("GET", WIDGETS).header("X-Remote-User", "jane").send().await.unwrap();
    assert_eq!(proxied.status, 200);
}

#[tokio::test]
async fn a_start_needs_the_hosts_word_unless_it_is_tolerated() {
    let mut host = StandIn::start().await;
    let map = config_map(&Authority::new("host-users"), &Authority::new("front-proxy-ca"));
    let failed = async |options: ServerOptions| match options.start().await {
        Err(HarnessError::NotRunning { log, .. }) => log,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it serves"),
    };
    let mut broken = map.clone();
    broken["data"]["requestheader-username-headers"] = json!("{}");
    host.put(CONFIG_MAPS, &broken);
    let log = failed(behind(&host)).await;
    assert!(log.contains("requestheader-username-headers is no list"), "{log}");
    host.go_away();
    let log = failed(behind(&host)).await;
    assert!(log.contains("--authentication-kubeconfig: "), "{log}");
    let server = behind(&host).args(&["--authentication-skip-lookup"]).start().await.unwrap();
    drop(server);
    let server = behind(&host).args(&["--authentication-tolerate-lookup-failure"]).start().await.unwrap();
    let (users, proxies) = (Authority::new("host-users"), Authority::new("front-proxy-ca"));
    let extension = Extension { host, users, proxies, server };
    let jane = extension.with_certificate(&extension.users, "jane");
    unauthorized(&ask(&jane, "/version").await);
    let Extension { mut host, users, proxies, server } = extension;
    host.put(CONFIG_MAPS, &config_map(&users, &proxies));
    decide(&host, "", |_| json!({"allowed": true}));
    host.come_back().await;
    eventually("the host's word counts once it can be had", async || {
        (ask(&jane, "/version").await.status == 200).then_some(())
    })
    .await;
    drop(server);
}

#[tokio::test]
async fn a_burst_of_one_token_asks_once() {
    let extension = Extension::start(&[]).await;
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    let clients: Vec<Client> = (0..50).map(|_| extension.with_token("good")).collect();
    let asked = futures::future::join_all(clients.iter().map(|client| ask(client, WIDGETS))).await;
    for answer in asked {
        answer.expect_status(200).unwrap();
    }
    assert_eq!(extension.host.asked(TOKEN_REVIEWS).len(), 1);
    assert_eq!(extension.host.asked(ACCESS_REVIEWS).len(), 1);
}

#[tokio::test]
async fn failures_of_the_host_refuse_and_pass() {
    let mut extension = Extension::start(&["--authentication-token-webhook-cache-ttl=0s"]).await;
    let admin = extension.server.client().unwrap();
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    let client = extension.with_token("good");
    ask(&client, WIDGETS).await.expect_status(200).unwrap();
    let known = extension.with_certificate(&extension.users, "jane");
    let internal = |answer: &Answered, path: &str, why: &str| {
        assert_eq!((answer.status, answer.header("content-type")), (500, "text/plain; charset=utf-8"));
        let path = path.replace('&', "&amp;");
        assert_eq!(answer.text(), format!("Internal Server Error: \"{path}\": {why}\n"));
    };
    // The host does not let this server ask.
    let text = "subjectaccessreviews.authorization.k8s.io is forbidden: User \"kindom\" cannot create resource \
                \"subjectaccessreviews\" in API group \"authorization.k8s.io\" at the cluster scope";
    extension.host.decide(move |_, _| Answer::failure(403, "Forbidden", text));
    let path = format!("{WIDGETS}?limit=1&labelSelector=a");
    internal(&ask(&known, &path).await, &path, text);
    unauthorized(&ask(&client, WIDGETS).await);
    // It fails twice: asked again, as upstream does.
    let mut left = 2;
    extension.host.decide(move |path, _| {
        if path == ACCESS_REVIEWS && left > 0 {
            left -= 1;
            return match left {
                1 => Answer::failure(500, "InternalError", "again"),
                _ => Answer::CutOff,
            };
        }
        Answer::review(json!({"allowed": true}))
    });
    let other = format!("{WIDGETS}?limit=2&labelSelector=b");
    ask(&known, &other).await.expect_status(200).unwrap();
    // Nonsense.
    for (garbage, why) in [
        ("{}", "the host's answer has no status"),
        (
            "{\"status\":{\"allowed\":\"true\"}}",
            "the host's SubjectAccessReview has another status.allowed than expected",
        ),
        (
            "{\"status\":{\"allowed\":true,\"denied\":true}}",
            "webhook subject access review returned both allow and deny response",
        ),
    ] {
        extension.host.decide(move |_, _| Answer::Code(200, None, garbage.to_owned()));
        internal(&ask(&known, &path).await, &path, why);
    }
    // It is silent: both give up, and nobody else waits for them.
    extension.host.decide(|_, _| Answer::Silence);
    let late = async {
        let late = ask(&known, &path).await;
        let timed_out = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        internal(&late, &path, &format!("Post \"{}{ACCESS_REVIEWS}\": {timed_out}", extension.host.url()));
    };
    let others = async {
        for _ in 0..20 {
            ask(&admin, WIDGETS).await.expect_status(200).unwrap();
            ask(&known, &other).await.expect_status(200).unwrap();
        }
    };
    let unknown = async { unauthorized(&ask(&client, WIDGETS).await) };
    tokio::join!(late, others, unknown);
    // It is away.
    extension.host.go_away();
    unauthorized(&ask(&client, WIDGETS).await);
    let refused = ask(&known, &path).await;
    let shown = path.replace('&', "&amp;");
    let begins =
        format!("Internal Server Error: \"{shown}\": Post \"{}{ACCESS_REVIEWS}\": ", extension.host.url());
    assert!(refused.status == 500 && refused.text().starts_with(&begins), "{}", refused.text());
    ask(&admin, WIDGETS).await.expect_status(200).unwrap();
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    extension.host.come_back().await;
    ask(&client, WIDGETS).await.expect_status(200).unwrap();
    ask(&known, &path).await.expect_status(200).unwrap();
}

/// Random tokens fill a lane of their own: the users whom the host knows go on, and the host is not flooded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_tokens_leaves_known_users_alone() {
    let extension = Extension::start(&["--authentication-token-webhook-cache-ttl=1ms"]).await;
    extension.host.decide(|path, spec| match path {
        TOKEN_REVIEWS if spec["token"] == "good" => Answer::review(robot()),
        TOKEN_REVIEWS => Answer::Silence,
        _ => Answer::review(json!({"allowed": true})),
    });
    let good = extension.with_token("good");
    ask(&good, WIDGETS).await.expect_status(200).unwrap();
    let flood: Vec<_> = (0..200)
        .map(|i| {
            let client = extension.with_token(&format!("random-{i}"));
            // A connection that the server had no time for is none of this.
            tokio::spawn(async move { client.get(WIDGETS).await.map_or(401, |answer| answer.status) })
        })
        .collect();
    eventually("the lane is full", async || flood.iter().any(|asked| asked.is_finished()).then_some(()))
        .await;
    for _ in 0..20 {
        ask(&good, WIDGETS).await.expect_status(200).unwrap();
    }
    let random = extension.host.asked(TOKEN_REVIEWS).iter().filter(|spec| spec["token"] != "good").count();
    assert!(random <= 128, "{random} questions about random tokens");
    let mut codes = std::collections::BTreeMap::<u16, usize>::new();
    for asked in flood {
        if asked.is_finished() {
            *codes.entry(asked.await.unwrap()).or_default() += 1;
        } else {
            asked.abort();
        }
    }
    assert!(codes.contains_key(&429) && codes.keys().all(|code| matches!(code, 429 | 401)), "{codes:?}");
}

/// An apply, and a PUT of a Lease, may create: that is another permission.
#[tokio::test]
async fn who_may_change_may_not_create() {
    let extension = Extension::start(&[]).await;
    decide(
        &extension.host,
        "good",
        |spec| json!({"allowed": spec["resourceAttributes"]["verb"] != "create"}),
    );
    let (client, admin) = (extension.with_token("good"), extension.server.client().unwrap());
    let apply = async |client: &Client, name: &str| {
        let path = format!("{WIDGETS}/{name}?fieldManager=robot");
        let request = client.request("PATCH", &path);
        request.body("application/apply-patch+yaml", widget(name).to_string()).send().await
    };
    let cannot = |what: &str, name: &str, group: &str| {
        format!(
            "{what}.{group} \"{name}\" is forbidden: User \"{ROBOT}\" cannot create resource \"{what}\" in API group \
             \"{group}\" in the namespace \"default\""
        )
    };
    refused(apply(&client, "new").await, 403, "Forbidden", &cannot("widgets", "new", "example.com"));
    ask(&admin, &format!("{WIDGETS}/new")).await.expect_status(404).unwrap();
    let asked = host_asked_last(&extension);
    assert_eq!((&asked["verb"], &asked["name"]), (&json!("create"), &json!("new")));
    apply(&admin, "old").await.unwrap().expect_status(201).unwrap();
    apply(&client, "old").await.unwrap().expect_status(200).unwrap();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let put = client.put(&format!("{leases}/a"), &lease).await;
    refused(put, 403, "Forbidden", &cannot("leases", "a", "coordination.k8s.io"));
    // A kind that no PUT creates is absent, whatever the user may.
    assert_eq!(client.put(&format!("{WIDGETS}/b"), &widget("b")).await.unwrap().status, 404);
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    let free = Extension::start(&[]).await;
    decide(&free.host, "good", |_| json!({"allowed": true}));
    let client = free.with_token("good");
    apply(&client, "new").await.unwrap().expect_status(201).unwrap();
    client.put(&format!("{leases}/a"), &lease).await.unwrap().expect_status(201).unwrap();
}

fn host_asked_last(extension: &Extension) -> Value {
    extension.host.asked(ACCESS_REVIEWS).pop().unwrap()["resourceAttributes"].clone()
}

/// A browser's token, which comes among the subprotocols of a WebSocket.
/// The host is asked about a declared subresource by its name; whoever may only read opens no WebSocket by it.
#[tokio::test]
async fn declared_subresources_have_permissions_of_their_own() {
    let echo = Echo::start("127.0.0.1").await;
    let allowed = format!("127.0.0.1:{}", echo.port);
    let extension = Extension::start(&["--aggregator-allowed-hosts", &allowed]).await;
    let admin = extension.server.client().unwrap();
    let declared = json!({"part": {"writes": [".spec.size"]},
        "exec": {"webhook": {"url": format!("https://{allowed}"), "caBundle": echo.bundle}}});
    let annotation = json!({"metadata": {"annotations": {"kindom.dev/subresources": declared.to_string()}}});
    let registration = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    admin.merge_patch(registration, &annotation).await.unwrap().expect_status(200).unwrap();
    admin.post(WIDGETS, &widget("one")).await.unwrap().expect_status(201).unwrap();
    decide(&extension.host, "the-robots-token", |spec| {
        let of = &spec["resourceAttributes"];
        let may = match of["subresource"].as_str() {
            Some("part") => of["verb"] == "patch",
            Some("exec") => of["verb"] == "get",
            _ => false,
        };
        json!({"allowed": may})
    });
    let client = extension.with_token("the-robots-token");
    let one = format!("{WIDGETS}/one");
    let patched = eventually("the part is declared", async || {
        let patch = json!({"spec": {"size": 3, "other": 4}});
        let patched = client.merge_patch(&format!("{one}/part"), &patch).await.unwrap();
        (patched.status == 200).then_some(patched)
    });
    assert_eq!(patched.await.at("/spec"), json!({"size": 3}));
    refused(
        client.get(&format!("{one}/part")).await,
        403,
        "Forbidden",
        "cannot get resource \"widgets/part\"",
    );
    refused(client.get(&one).await, 403, "Forbidden", "cannot get resource \"widgets\"");
    let exec = format!("{one}/exec");
    let shown = client.get(&exec).await.unwrap().expect_status(200).unwrap();
    assert_eq!(shown.at("/headers/x-remote-user"), ROBOT);
    refused(
        client.post(&exec, &json!({})).await,
        403,
        "Forbidden",
        "cannot create resource \"widgets/exec\"",
    );
    let upgrade = client.request("GET", &exec).header("Upgrade", "websocket").header("Connection", "Upgrade");
    let upgrade =
        upgrade.header("Sec-WebSocket-Version", "13").header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    refused(upgrade.send().await, 403, "Forbidden", "cannot create resource \"widgets/exec\"");
}

#[tokio::test]
async fn a_web_sockets_token_is_reviewed() {
    use base64::Engine as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let extension = Extension::start(&[]).await;
    decide(&extension.host, "good", |_| json!({"allowed": true}));
    for (token, status) in [("good", "101"), ("bad", "401")] {
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token);
        let mut stream = extension.server.dial_anonymous().await.unwrap();
        let head = format!(
            "GET {WIDGETS}?watch=true HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://example.com\r\n\
             Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{encoded}, v1\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }
}

/// A user asks this server what it may do, and whose a token is: the host's word holds for those questions, too.
#[tokio::test]
async fn questions_of_users_and_permissions_are_the_hosts_to_answer() {
    let extension = Extension::start(&[]).await;
    let client = extension.with_token("the-robots-token");
    decide(&extension.host, "the-robots-token", |spec| {
        let asks = spec["resourceAttributes"]["verb"] == "create";
        let lists = spec["resourceAttributes"]["verb"] == "list" && spec["user"] == ROBOT;
        match spec["resourceAttributes"]["verb"].as_str() {
            Some("delete") => json!({"allowed": false, "denied": true, "reason": "it is frozen"}),
            Some("patch") => json!({"allowed": false, "reason": "nothing allows it"}),
            _ => json!({"allowed": asks || lists}),
        }
    });
    let may = async |verb: &str| {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes":
                {"verb": verb, "group": "example.com", "version": "v1", "resource": "widgets",
                "namespace": "default", "labelSelector": {"rawSelector": "a=b"}}},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        client.post(path, &review).await.unwrap().expect_status(201).unwrap().at("/status")
    };
    assert_eq!(may("list").await, json!({"allowed": true}));
    let asked = host_asked_last(&extension);
    assert_eq!(asked["version"], "v1");
    assert_eq!(asked["labelSelector"]["requirements"][0]["key"], "a", "{asked}");
    // What the host says of it is passed on.
    let frozen = json!({"allowed": false, "denied": true, "reason": "it is frozen"});
    assert_eq!(may("delete").await, frozen);
    assert_eq!(
        may("patch").await,
        json!({"allowed": false, "reason": "kubernetes.io/webhook: nothing allows it"})
    );
    let whose = async |token: &str| {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        client.post(path, &review).await.unwrap().expect_status(201).unwrap().at("/status")
    };
    assert_eq!(whose("the-robots-token").await["user"]["username"], ROBOT);
    assert_eq!(whose("anothers").await["error"], "invalid bearer token");
}
