//! `kindom import` against a server, and its behaviour when something is in its way.

use kindom_integration::{Client, Output, Server};
use serde_json::{Value, json};

use crate::support::{CRDS, crd, kindom, names, namespace, object, refused, register, until_gone};

const GROUP: &str = "farm.example.com";

fn at(namespace: &str, plural: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{plural}")
}

async fn import(server: &Server, args: &[&str], manifest: &str) -> Output {
    kindom(server, &[&["import", "-f", "-"], args].concat(), manifest).await
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn ox(name: &str, spec: Value) -> Value {
    object(GROUP, "Ox", name, spec)
}

/// T-53: a registration and its objects, exported from one server, are the same on another.
#[tokio::test]
async fn what_one_server_exports_another_imports() {
    let (from, client) = started().await;
    register(&client, &crd(GROUP, "herds", "Herd", "Cluster")).await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    namespace(&client, "north").await;
    let herds = format!("/apis/{GROUP}/v1/herds");
    let herd = client.post(&herds, &object(GROUP, "Herd", "all", json!({}))).await.unwrap().json();
    let mut owned = ox("bo", json!({"note": "a: \"b\"\n - c\n"}));
    owned["status"] = json!({"fed": true});
    owned["metadata"]["finalizers"] = json!(["farm.example.com/barn"]);
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "farm.example.com/v1", "kind": "Herd", "name": "all", "uid": herd["metadata"]["uid"]}]);
    let owned = client.post(&at("north", "oxen"), &owned).await.unwrap().expect_status(201).unwrap().json();
    client.post(&at("default", "oxen"), &ox("bo", json!({}))).await.unwrap().expect_status(201).unwrap();
    // Dependents before their owners, as they would be in a file that somebody wrote.
    let objects = from.kubectl(&["get", "oxen,herds", "-A", "-o", "yaml"]).await.unwrap();
    let types = from.kubectl(&["get", "crd,namespace", "-o", "yaml"]).await.unwrap();
    let data = format!("{types}---\n{objects}");

    let (to, client) = started().await;
    let output = import(&to, &[], &data).await;
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(output.status.success(), "{said}");
    for line in [
        "customresourcedefinition.apiextensions.k8s.io/oxen.farm.example.com created",
        "namespace/default unchanged",
        "namespace/north created",
        "herd.farm.example.com/all created",
        "ox.farm.example.com/bo created",
    ] {
        assert!(output.stdout.lines().any(|l| l == line), "no {line} in\n{said}");
    }
    let herd = client.get(&format!("{herds}/all")).await.unwrap().expect_status(200).unwrap();
    let ox =
        client.get(&format!("{}/bo", at("north", "oxen"))).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!((&ox["spec"], &ox["status"]), (&owned["spec"], &owned["status"]));
    assert_eq!(ox["metadata"]["finalizers"], owned["metadata"]["finalizers"]);
    assert_eq!(ox["metadata"]["ownerReferences"][0]["uid"], herd.at("/metadata/uid"));
    assert_ne!(ox["metadata"]["uid"], owned["metadata"]["uid"]);

    let again = import(&to, &[], &data).await.success().unwrap();
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(again.lines().count(), output.stdout.lines().count());
}

/// T-53: also where the file does not hold the defaults of the schema.
#[tokio::test]
async fn what_is_there_with_other_content_is_left_or_replaced() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let file = list(&[ox("abe", json!({"note": "n"})), ox("bo", json!({"note": "n"}))]);
    let abe = format!("{}/abe", at("default", "oxen"));
    assert_eq!(
        import(&server, &[], &file).await.success().unwrap(),
        "ox.farm.example.com/abe created\nox.farm.example.com/bo created\n"
    );
    let before = client.get(&abe).await.unwrap().json();
    assert_eq!(before["spec"], json!({"note": "n", "size": 1}), "with the default");
    assert_eq!(
        import(&server, &[], &file).await.success().unwrap(),
        "ox.farm.example.com/abe unchanged\nox.farm.example.com/bo unchanged\n"
    );
    assert_eq!(client.get(&abe).await.unwrap().json(), before);

    client
        .merge_patch(&abe, &json!({"spec": {"note": "m", "size": 7}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let output = import(&server, &[], &file).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, "ox.farm.example.com/bo unchanged\n");
    assert_eq!(
        output.stderr,
        "error: standard input: document 1, item 1: ox.farm.example.com/abe: it is there with another content \
         (spec.note, spec.size); --overwrite replaces it\nerror: 1 of 2 objects not imported\n"
    );
    assert_eq!(client.get(&abe).await.unwrap().at("/spec/note"), "m");
    assert_eq!(
        import(&server, &["--overwrite"], &file).await.success().unwrap(),
        "ox.farm.example.com/abe replaced\nox.farm.example.com/bo unchanged\n"
    );
    assert_eq!(client.get(&abe).await.unwrap().at("/spec"), before["spec"]);
}

/// An object that is being deleted has the wanted content, but not for long.
#[tokio::test]
async fn what_is_being_deleted_does_not_count_as_imported() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let mut bo = ox("bo", json!({}));
    bo["metadata"]["finalizers"] = json!(["farm.example.com/barn"]);
    let file = list(&[bo]);
    import(&server, &[], &file).await.success().unwrap();
    let path = format!("{}/bo", at("default", "oxen"));
    client.delete(&path).await.unwrap().expect_status(200).unwrap();
    for args in [&[][..], &["--overwrite"]] {
        let output = import(&server, args, &file).await;
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""));
        assert!(output.stderr.contains("it is there and being deleted"), "{}", output.stderr);
    }
    let release = json!({"metadata": {"finalizers": null}});
    client.merge_patch(&path, &release).await.unwrap().expect_status(200).unwrap();
    assert_eq!(import(&server, &[], &file).await.success().unwrap(), "ox.farm.example.com/bo created\n");
}

#[tokio::test]
async fn one_that_fails_stops_no_other() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let with_uid = |mut object: Value, uid: &str, owner: Option<&str>| {
        object["metadata"]["uid"] = json!(uid);
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "farm.example.com/v1", "kind": "Ox", "name": "o", "uid": owner}]);
        }
        object
    };
    let mut elsewhere = ox("elsewhere", json!({}));
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let file = list(&[
        with_uid(ox("calf", json!({})), "u2", Some("u1")),
        with_uid(ox("large", json!({"size": 1000})), "u1", None),
        ox("odd", json!({"unknown": 1})),
        elsewhere,
        object(GROUP, "Cow", "c", json!({})),
        object(GROUP, "Ox", "", json!({})),
        with_uid(ox("bo", json!({})), "u3", Some("gone")),
        ox("abe", json!({})),
    ]);
    let output = import(&server, &[], &file).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, "ox.farm.example.com/bo created\nox.farm.example.com/abe created\n");
    for text in [
        "warning: standard input: document 1, item 7: ox.farm.example.com/bo is no longer owned by Ox \"o\" with uid gone, ",
        "item 2: ox.farm.example.com/large: Ox.farm.example.com \"large\" is invalid: spec.size: Invalid value: 1000",
        "item 3: ox.farm.example.com/odd: ",
        "unknown field \"spec.unknown\"",
        "item 4: ox.farm.example.com/elsewhere in namespace nowhere: namespaces \"nowhere\" not found",
        "item 5: cow.farm.example.com/c: no kind \"Cow\" is served in \"farm.example.com/v1\"",
        "item 6: ox.farm.example.com/: it has no name",
        "item 1: ox.farm.example.com/calf: its owner Ox \"o\" was not imported",
        "error: 6 of 8 objects not imported",
    ] {
        assert!(output.stderr.contains(text), "no {text} in\n{}", output.stderr);
    }
    let told =
        import(&server, &["--validate", "ignore", "-n", "default"], &list(&[ox("odd", json!({"x": 1}))]))
            .await;
    assert_eq!(told.success().unwrap(), "ox.farm.example.com/odd created\n");
    let odd = |name: &str| ox(name, json!({"x": 1}));
    let told = import(&server, &["--validate", "warn"], &list(&[odd("odd-2"), odd("odd-3")])).await;
    assert_eq!(
        told.stderr,
        "warning: standard input: document 1, item 1: ox.farm.example.com/odd-2: unknown field \"spec.x\"\n"
    );
    told.success().unwrap();
    let there = client.get(&at("default", "oxen")).await.unwrap().json();
    assert_eq!(names(&there), ["abe", "bo", "odd", "odd-2", "odd-3"]);
}

/// T-53: the resourceVersions in the file, which the server would refuse, are left out.
#[tokio::test]
async fn many_objects_come_in_their_order_and_go_on_after_a_stop() {
    let count = kindom_integration::count(200, 20_000);
    let (mut server, client) = started().await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let numbers: Vec<usize> = (0..count).collect();
    let name = |i: &usize| format!("ox-{i:06}");
    let body = |i: &usize| {
        let mut body = ox(&name(i), json!({"note": format!("number {i}")}));
        body["metadata"]["resourceVersion"] = json!("7");
        body
    };
    let all: Vec<Value> = numbers.iter().map(body).collect();
    import(&server, &[], &list(&all[..count / 2])).await.success().unwrap();
    server.kill9().unwrap();
    let output = import(&server, &[], &list(&all)).await;
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("onnection refused"), "{}", output.stderr);
    server.restart().await.unwrap();
    let output = import(&server, &[], &list(&all)).await.success().unwrap();
    let line = |i: &usize| {
        let how = if *i < count / 2 { "unchanged" } else { "created" };
        format!("ox.farm.example.com/{} {how}\n", name(i))
    };
    assert_eq!(output, numbers.iter().map(line).collect::<String>());
    let there = server.client().unwrap().get(&at("default", "oxen")).await.unwrap().json();
    assert_eq!(names(&there), numbers.iter().map(name).collect::<Vec<_>>());
}

/// The server authorizes, and the kubeconfig's settings are followed.
#[tokio::test]
async fn credentials_come_from_the_kubeconfig() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "oxen", "Ox", "Namespaced")).await;
    let file = list(&[ox("bo", json!({}))]);
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let write = |name: &str, text: &str| {
        let path = server.scratch().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let without = |field: &str| -> String {
        text.lines().filter(|line| !line.trim_start().starts_with(field)).map(|l| format!("{l}\n")).collect()
    };
    let nobody = write("nobody", &without("client-"));
    let output = import(&server, &["--kubeconfig", &nobody], &file).await;
    assert!(output.stderr.contains("discovery of farm.example.com/v1: "), "{}", output.stderr);
    let distrustful = write("distrustful", &without("certificate-authority-data"));
    let output = import(&server, &["--kubeconfig", &distrustful], &file).await;
    assert!(output.stderr.contains("no certificate-authority for https://"), "{}", output.stderr);
    let insecure = without("certificate-authority-data")
        .replace("    server:", "    insecure-skip-tls-verify: true\n    server:");
    let trusting = write("trusting", &insecure);
    let output = import(&server, &["--kubeconfig", &trusting], &file).await;
    assert_eq!(output.success().unwrap(), "ox.farm.example.com/bo created\n");
    let output = kindom(&server, &["import", "-f", "missing.yaml"], "").await;
    assert!(output.stderr.starts_with("error: missing.yaml: "), "{}", output.stderr);
}

/// T-53, T-05: a type that was registered through an old face comes back through it.
#[tokio::test]
async fn registrations_of_any_face_are_imported() {
    let (server, client) = started().await;
    let tprs = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
    let tpr = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1",
        "kind": "ThirdPartyResource",
        "metadata": {"name": format!("oxen.{GROUP}"), "annotations": {"kindom.dev/read-only": "true"}},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": "oxen", "kind": "Ox"}},
    });
    client.post(tprs, &tpr).await.unwrap().expect_status(201).unwrap();
    let data = server.kubectl(&["get", "tpr", "-o", "yaml"]).await.unwrap();
    client.delete(&format!("{tprs}/oxen.{GROUP}")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &format!("oxen.{GROUP}")).await;
    let line = "thirdpartyresource.apiextension.k8s.io/oxen.farm.example.com";
    assert_eq!(import(&server, &[], &data).await.success().unwrap(), format!("{line} created\n"));
    assert_eq!(import(&server, &[], &data).await.success().unwrap(), format!("{line} unchanged\n"));
    crate::support::condition(&client, &format!("oxen.{GROUP}"), "Established", "True").await;
    refused(client.post(&at("default", "oxen"), &ox("bo", json!({}))).await, 403, "Forbidden", "read-only");
}
