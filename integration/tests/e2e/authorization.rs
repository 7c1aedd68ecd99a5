//! The permissions of users by roles and bindings (`--authorization-mode=RBAC`), and those as whom they act. What kube-apiserver answers is in
//! `expectations/built-in/{rbac-authorized,rbac-escalation,impersonation,access-reviews}.script.json`.

use base64::Engine as _;
use kindom_integration::{Client, Server, ServerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chaos::{actors, kill};
use crate::shell::{fails, prints};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with the users jane, of the group dev, and rob.
async fn start(options: ServerOptions) -> (Server, Client, [Client; 2], TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "of-jane,jane,1,\"dev\"\nof-rob,rob,2\n").unwrap();
    let flags = ["--authorization-mode=RBAC", "--token-auth-file", tokens.to_str().unwrap()];
    let server = options.args(&flags).start().await.unwrap();
    let client = server.client().unwrap();
    let users = ["of-jane", "of-rob"].map(|token| server.anonymous().unwrap().with_token(token));
    (server, client, users, folder)
}

fn role(kind: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, to: (&str, &str), subjects: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": to.0, "name": to.1}, "subjects": subjects})
}

fn of_user(name: &str) -> Value {
    json!([{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}])
}

fn reads_maps() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}])
}

async fn create(client: &Client, collection: &str, object: &Value) {
    client.post(&format!("{ROLES}/{collection}"), object).await.unwrap().expect_status(201).unwrap();
}

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().status
}

#[tokio::test]
async fn kubectl_may_do_what_roles_permit() {
    let (server, .., _folder) = start(ServerOptions::default()).await;
    let caller = &server.caller();
    prints(caller, "kubectl create role reader --verb=get,list --resource=configmaps").await;
    prints(
        caller,
        "kubectl create rolebinding readers --role=reader --user=jane --serviceaccount=default:robot",
    )
    .await;
    for who in ["--as=jane", "--as=system:serviceaccount:default:robot"] {
        prints(caller, &format!("kubectl get configmap kube-root-ca.crt {who}")).await;
        assert_eq!(prints(caller, &format!("kubectl auth can-i list configmaps {who}")).await, "yes");
        assert!(fails(caller, &format!("kubectl auth can-i delete configmaps {who}"), "").await.is_empty());
    }
    assert_eq!(
        fails(caller, "kubectl create configmap mine --as=jane", "").await,
        "error: failed to create configmap: configmaps is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let elsewhere = fails(caller, "kubectl get configmaps -n kube-system --as=jane", "").await;
    assert!(elsewhere.contains("in the namespace \"kube-system\""), "{elsewhere}");
    let listed = prints(caller, "kubectl auth can-i --list --as=jane").await;
    assert!(
        listed.lines().any(|line| line.starts_with("configmaps") && line.contains("[get list]")),
        "{listed}"
    );
    assert!(
        prints(caller, "kubectl auth whoami --as=jane --as-group=ops")
            .await
            .contains("[ops system:authenticated]")
    );
    // A token of the account itself.
    prints(caller, "kubectl create serviceaccount robot").await;
    let token = prints(caller, "kubectl create token robot").await;
    let robot = server.anonymous().unwrap().with_token(&token);
    assert_eq!(status(&robot, MAPS).await, 200);
    assert_eq!(status(&robot, "/api/v1/namespaces/default/secrets").await, 403);
    // The default roles, and those that are aggregated into them.
    prints(caller, "kubectl create rolebinding editors --clusterrole=edit --user=rob").await;
    prints(caller, "kubectl create configmap his --from-literal=a=b --as=rob").await;
    assert!(
        fails(caller, "kubectl create role more --verb=get --resource=secrets --as=rob", "")
            .await
            .contains("forbidden")
    );
}

/// T-54: what the server has answered is in force: neither a permission nor its end waits for anything.
#[tokio::test]
async fn a_permission_begins_and_ends_with_its_binding() {
    let (_server, client, [jane, rob], _folder) = start(ServerOptions::default()).await;
    create(&client, "clusterroles", &role("ClusterRole", "reads", reads_maps())).await;
    let bindings = format!("{ROLES}/namespaces/default/rolebindings");
    for _ in 0..25 {
        assert_eq!(status(&jane, MAPS).await, 403);
        create(
            &client,
            "namespaces/default/rolebindings",
            &binding("b", ("ClusterRole", "reads"), of_user("jane")),
        )
        .await;
        assert_eq!((status(&jane, MAPS).await, status(&rob, MAPS).await), (200, 403));
        let to_rob = json!({"subjects": of_user("rob")});
        client.merge_patch(&format!("{bindings}/b"), &to_rob).await.unwrap().expect_status(200).unwrap();
        assert_eq!((status(&jane, MAPS).await, status(&rob, MAPS).await), (403, 200));
        let path = format!("{ROLES}/clusterroles/reads");
        client.merge_patch(&path, &json!({"rules": []})).await.unwrap().expect_status(200).unwrap();
        assert_eq!(status(&rob, MAPS).await, 403);
        client.merge_patch(&path, &json!({"rules": reads_maps()})).await.unwrap().expect_status(200).unwrap();
        assert_eq!(status(&rob, MAPS).await, 200);
        client.delete(&format!("{bindings}/b")).await.unwrap().expect_status(200).unwrap();
    }
}

/// The actors of roles and bindings die again and again: everybody may do what he might before, and no more.
#[tokio::test]
async fn killed_actors_let_nobody_in_and_keep_nobody_out() {
    let (server, client, [jane, rob], _folder) = start(ServerOptions::default().chaos()).await;
    create(&client, "clusterroles", &role("ClusterRole", "reads", reads_maps())).await;
    create(
        &client,
        "namespaces/default/rolebindings",
        &binding("b", ("ClusterRole", "reads"), of_user("jane")),
    )
    .await;
    let stop = tokio::sync::watch::channel(false);
    let asking = async |user: &Client, code: u16| {
        let mut asked = 0;
        while !*stop.1.borrow() {
            assert_eq!(status(user, MAPS).await, code);
            asked += 1;
        }
        asked
    };
    let killing = async {
        let mut killed = 0;
        for _ in 0..20 {
            for actor in actors(&client).await {
                if actor.name.contains("rbac.authorization.k8s.io") {
                    killed += usize::from(kill(&client, &actor.name).await < 300);
                }
            }
            assert_eq!(status(&jane, MAPS).await, 200);
        }
        stop.0.send_replace(true);
        killed
    };
    let (killed, allowed, refused) = tokio::join!(killing, asking(&jane, 200), asking(&rob, 403));
    assert!(killed >= 40 && allowed > 0 && refused > 0, "{killed} {allowed} {refused}");
    // A restart finds the same.
    let mut server = server;
    server.kill9().unwrap();
    server.restart().await.unwrap();
    let users = ["of-jane", "of-rob"].map(|token| server.anonymous().unwrap().with_token(token));
    assert_eq!((status(&users[0], MAPS).await, status(&users[1], MAPS).await), (200, 403));
}

/// Whoever may write bindings in a namespace of his own fills it with as much as he can: others are let in and refused as before, in
/// their namespaces and in his.
#[tokio::test]
async fn a_namespace_full_of_rules_holds_nobody_up() {
    let (_server, client, [jane, rob], _folder) = start(ServerOptions::default()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}});
    client.post("/api/v1/namespaces", &namespace).await.unwrap().expect_status(201).unwrap();
    create(&client, "clusterroles", &role("ClusterRole", "reads", reads_maps())).await;
    create(
        &client,
        "namespaces/default/rolebindings",
        &binding("b", ("ClusterRole", "reads"), of_user("rob")),
    )
    .await;
    create(
        &client,
        "namespaces/full/rolebindings",
        &binding("his", ("ClusterRole", "admin"), of_user("jane")),
    )
    .await;
    let names: Vec<String> = (0..40_000).map(|i| format!("name-of-a-map-{i}")).collect();
    let many = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": names, "verbs": ["delete"]}]);
    let large =
        jane.post(&format!("{ROLES}/namespaces/full/roles"), &role("Role", "large", many)).await.unwrap();
    large.expect_status(201).unwrap();
    let everybody: Vec<Value> = (0..5_000)
        .map(
            |i| json!({"kind": "User", "name": format!("user-{i}"), "apiGroup": "rbac.authorization.k8s.io"}),
        )
        .chain([
            json!({"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}),
        ])
        .collect();
    let filling = async {
        for i in 0..20 {
            let bound = binding(&format!("large-{i}"), ("Role", "large"), json!(everybody));
            let made = jane.post(&format!("{ROLES}/namespaces/full/rolebindings"), &bound).await.unwrap();
            made.expect_status(201).unwrap();
            // It is compiled, and asked.
            assert_eq!(status(&jane, "/api/v1/namespaces/full/secrets").await, 200);
        }
    };
    tokio::pin!(filling);
    let mut answered = 0;
    loop {
        // Whatever is compiled there, others are answered meanwhile.
        let asking = async {
            assert_eq!(status(&rob, MAPS).await, 200);
            assert_eq!(status(&rob, "/api/v1/namespaces/kube-system/configmaps").await, 403);
        };
        tokio::select! {
            biased;
            () = &mut filling => break,
            () = asking => answered += 1,
        }
    }
    assert!(answered >= 20, "{answered}");
    assert_eq!(status(&rob, "/api/v1/namespaces/full/configmaps").await, 403);
    let gone = rob.delete("/api/v1/namespaces/full/configmaps/name-of-a-map-39999").await.unwrap();
    assert_eq!(gone.status, 404, "it may be deleted, and is not there");
    assert_eq!(
        rob.delete("/api/v1/namespaces/full/configmaps/name-of-a-map-40000").await.unwrap().status,
        403
    );
}

/// Roles that would break down into 10^12 permissions are refused to whoever has not got all of them plainly.
#[tokio::test]
async fn a_role_of_too_many_permissions_is_refused() {
    let (_server, client, [jane, _], _folder) = start(ServerOptions::default()).await;
    let writes =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]);
    create(&client, "namespaces/default/roles", &role("Role", "writes-roles", writes)).await;
    create(
        &client,
        "namespaces/default/rolebindings",
        &binding("b", ("Role", "writes-roles"), of_user("jane")),
    )
    .await;
    let texts = |what: &str| (0..10_000).map(|i| format!("{what}{i}")).collect::<Vec<_>>();
    let rules = json!([{"apiGroups": texts("g"), "resources": texts("r"), "verbs": texts("v")}]);
    let refused = jane
        .post(&format!("{ROLES}/namespaces/default/roles"), &role("Role", "huge", rules.clone()))
        .await
        .unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text());
    // The server's masters may.
    create(&client, "namespaces/default/roles", &role("Role", "huge", rules)).await;
}

/// The steps of a certificate need permissions for its signer.
#[tokio::test]
async fn a_signer_has_to_be_permitted() {
    let (server, client, [jane, _], _folder) = start(ServerOptions::default()).await;
    let caller = &server.caller();
    prints(caller, "kubectl create clusterrole approver --verb=get,list,update,patch --resource=certificatesigningrequests,certificatesigningrequests/approval,certificatesigningrequests/status").await;
    prints(caller, "kubectl create clusterrolebinding approvers --clusterrole=approver --user=jane").await;
    let key = rcgen::KeyPair::generate().unwrap();
    let request = |organization: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
        let text = params.serialize_request(&key).unwrap().pem().unwrap();
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let signing = |name: &str, organization: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": request(organization), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}})
    };
    let masters = client.post(requests, &signing("masters", "system:masters")).await.unwrap();
    let message =
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(masters.status == 403 && masters.text().contains(message), "{}", masters.text());
    client.post(requests, &signing("of-dev", "dev")).await.unwrap().expect_status(201).unwrap();
    let refused = fails(caller, "kubectl certificate approve of-dev --as=jane", "").await;
    let message =
        "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"";
    assert!(refused.contains(message), "{refused}");
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let certificate = base64::engine::general_purpose::STANDARD.encode(certificate);
    let sign = json!({"status": {"certificate": certificate}});
    let status = format!("{requests}/of-dev/status");
    let refused = jane.merge_patch(&status, &sign).await.unwrap();
    let message =
        "user not permitted to sign requests with signerName \\\"kubernetes.io/kube-apiserver-client\\\"";
    assert!(refused.status == 403 && refused.text().contains(message), "{}", refused.text());
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve", "sign"], "resourceNames": ["kubernetes.io/*"]}]);
    create(&client, "clusterroles", &role("ClusterRole", "approves", rules)).await;
    prints(caller, "kubectl create clusterrolebinding approves --clusterrole=approves --user=jane").await;
    prints(caller, "kubectl certificate approve of-dev --as=jane").await;
    jane.merge_patch(&status, &sign).await.unwrap().expect_status(200).unwrap();
}

/// The flag's own errors.
#[tokio::test]
async fn modes_that_exclude_each_other_end_the_start() {
    let serve = async |flags: &[&str]| {
        let options = ServerOptions::default().embedded().args(flags);
        options.start().await.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let minimal = serve(&["--authorization-mode=RBAC", "--profile=minimal"]).await;
    assert!(minimal.contains("--profile=minimal serves no roles"), "{minimal}");
    let both = serve(&["--authorization-mode=RBAC", "--authorization-kubeconfig=/nowhere"]).await;
    assert!(both.contains("exclude each other"), "{both}");
}

/// Whoever may do everything in a namespace may do nothing to others: there are no namespaces in a namespace.
#[tokio::test]
async fn a_namespace_has_no_namespaces() {
    let (_server, client, [jane, _], _folder) = start(ServerOptions::default()).await;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    create(&client, "namespaces/default/roles", &role("Role", "all", all)).await;
    create(&client, "namespaces/default/rolebindings", &binding("b", ("Role", "all"), of_user("jane"))).await;
    let new = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    let (within, victim) = ("/api/v1/namespaces/default/namespaces", "kube-public");
    let paths = [
        within.to_owned(),
        format!("{within}/{victim}"),
        format!("{within}/{victim}/status"),
        format!("{within}/{victim}/finalize"),
    ];
    for path in paths.iter().chain([&"/api/v1/watch/namespaces/default/namespaces".to_owned()]) {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let answer = jane.request(method, path).json(&new).send().await.unwrap();
            assert!(
                matches!(answer.status, 403..=405),
                "{method} {path}: {} {}",
                answer.status,
                answer.text()
            );
        }
        let patched = jane.merge_patch(path, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
        assert!(matches!(patched.status, 403..=405), "PATCH {path}: {}", patched.text());
    }
    let left = client.get(&format!("/api/v1/namespaces/{victim}")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(
        (left.at("/metadata/deletionTimestamp"), left.at("/metadata/labels/a")),
        (Value::Null, Value::Null)
    );
    // His own is his.
    assert_eq!(status(&jane, "/api/v1/namespaces/default").await, 200);
    assert_eq!(status(&jane, &format!("/api/v1/namespaces/{victim}")).await, 403);
}

/// The old watch of one object, which a permission by its name lets in, shows that one alone.
#[tokio::test]
async fn a_watch_of_one_shows_no_other() {
    let (_server, client, [jane, _], _folder) = start(ServerOptions::default()).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["allowed"], "verbs": ["watch"]}]);
    create(&client, "namespaces/default/roles", &role("Role", "one", rules)).await;
    create(&client, "namespaces/default/rolebindings", &binding("b", ("Role", "one"), of_user("jane"))).await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    client.post(MAPS, &map("another")).await.unwrap().expect_status(201).unwrap();
    let one = "/api/v1/watch/namespaces/default/configmaps/allowed";
    let mut watch = jane.watch(one).await.unwrap();
    client.post(MAPS, &map("yet-another")).await.unwrap().expect_status(201).unwrap();
    client.post(MAPS, &map("allowed")).await.unwrap().expect_status(201).unwrap();
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("allowed")));
    let other = jane.get(&format!("{one}?fieldSelector=metadata.name%3Danother")).await.unwrap();
    let message = "fieldSelector metadata.name doesn't match requested name";
    assert!(other.status == 400 && other.text().contains(message), "{}", other.text());
    let all = "/api/v1/watch/namespaces/default/configmaps";
    assert_eq!(status(&jane, all).await, 403);
}

/// Nobody becomes one of those who are not limited, also if everybody may do everything.
#[tokio::test]
async fn nobody_becomes_a_master() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "of-jane,jane,1\n").unwrap();
    let options = ServerOptions::default().chaos().args(&["--token-auth-file", tokens.to_str().unwrap()]);
    let server = options.start().await.unwrap();
    let jane = server.anonymous().unwrap().with_token("of-jane");
    let acting = async |as_group: &str| {
        let begun =
            jane.request("GET", MAPS).header("Impersonate-User", "x").header("Impersonate-Group", as_group);
        begun.send().await.unwrap()
    };
    assert_eq!(acting("dev").await.status, 200);
    let refused = acting("system:masters").await;
    assert!(refused.status == 403 && refused.text().contains("system:masters"), "{}", refused.text());
    // Nor does he get at what is kept for them by being somebody else.
    assert_eq!(status(&jane, "/debug/actors").await, 403);
    let admin = server.client().unwrap();
    let begun = admin.request("GET", "/debug/actors").header("Impersonate-User", "x");
    assert_eq!(begun.send().await.unwrap().status, 403);
    assert_eq!(status(&admin, "/debug/actors").await, 200);
    let begun = admin
        .request("GET", MAPS)
        .header("Impersonate-User", "x")
        .header("Impersonate-Group", "system:masters");
    assert_eq!(begun.send().await.unwrap().status, 200);
}

/// Whoever may not create is told so, and not what a policy or a quota would say of the object.
#[tokio::test]
async fn what_may_not_be_created_is_not_judged() {
    let (_server, client, [jane, _], _folder) = start(ServerOptions::default()).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]);
    create(&client, "namespaces/default/roles", &role("Role", "patches", rules)).await;
    create(&client, "namespaces/default/rolebindings", &binding("b", ("Role", "patches"), of_user("jane")))
        .await;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "never"}, "spec": {
            "matchConstraints": {"resourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "!object.metadata.name.startsWith('secret')", "message": "the policy's own words"}]}});
    client
        .post(&format!("{admission}/validatingadmissionpolicies"), &policy)
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    let bindings = format!("{admission}/validatingadmissionpolicybindings");
    client.post(&bindings, &bound).await.unwrap().expect_status(201).unwrap();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"configmaps": "0"}}});
    client
        .post("/api/v1/namespaces/default/resourcequotas", &quota)
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    let apply = async |who: &Client, name: &str, data: Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let begun = who.request("PATCH", &format!("{MAPS}/{name}?fieldManager=m"));
        begun.body("application/apply-patch+yaml", map.to_string()).send().await.unwrap()
    };
    let refused = apply(&jane, "secret-one", json!({})).await;
    let message = "cannot create resource \\\"configmaps\\\"";
    assert!(refused.status == 403 && refused.text().contains(message), "{}", refused.text());
    // What is wrong with it is told before.
    let wrong = apply(&jane, "secret-one", json!({"a key": "v"})).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    let judged = apply(&client, "secret-one", json!({})).await;
    assert!(judged.status == 422 && judged.text().contains("the policy's own words"), "{}", judged.text());
    let counted = apply(&client, "one", json!({})).await;
    assert!(counted.status == 403 && counted.text().contains("exceeded quota"), "{}", counted.text());
}
