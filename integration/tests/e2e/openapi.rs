//! OpenAPI v3 and v2: what kubectl explains and validates by, what a client keeps, and what it costs the server.

use kindom_integration::{Client, Server, count};
use serde_json::{Value, json};

use crate::support::{AGGREGATED, CRDS, condition, crd, object, register, until_gone, version};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const GROUP: &str = "described.example.com";

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

/// The name and the type of each field in the output of `kubectl explain`.
fn explained(text: &str) -> Vec<String> {
    let fields = text.lines().skip_while(|line| !line.starts_with("FIELDS:"));
    fields
        .filter_map(|line| line.trim().split_once('\t').map(|(field, of)| format!("{field} {of}")))
        .collect()
}

#[tokio::test]
async fn kubectl_explains_built_in_types_and_registered_ones() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "lamps", "Lamp", "Namespaced")).await;
    let explain = async |args: &[&str]| {
        let args: Vec<&str> = ["explain"].iter().chain(args).copied().collect();
        server.kubectl(&args).await.unwrap()
    };
    let names = ["categories", "kind", "listKind", "plural", "shortNames", "singular"];
    let types =
        ["<[]string>", "<string> -required-", "<string>", "<string> -required-", "<[]string>", "<string>"];
    let names: Vec<String> = names.iter().zip(types).map(|(name, of)| format!("{name} {of}")).collect();
    let size = ["colour <string>", "note <string>", "size <integer>"];

    // The clients of today read v3, those before 1.27 v2, as protobuf.
    for output in ["--output=plaintext", "--output=plaintext-openapiv2"] {
        let text = explain(&["crd.spec.names", output]).await;
        assert_eq!(explained(&text), names, "{text}");
        assert!(text.contains("As in lists of the objects. By default the kind followed by List."), "{text}");
        let text = explain(&["crd.spec", "--api-version=apiextensions.k8s.io/v1beta1", output]).await;
        assert!(explained(&text).contains(&"version <string>".to_owned()), "{text}");
        let text =
            explain(&["crd.spec.versions.schema.openAPIV3Schema.x-kubernetes-validations", output]).await;
        assert!(explained(&text).contains(&"rule <string> -required-".to_owned()), "{text}");
        let text = explain(&["ns.status", output]).await;
        assert_eq!(
            explained(&text),
            ["conditions <[]NamespaceCondition>", "phase <string>"].map(|field| {
                if output.ends_with("v2") {
                    field.replace("NamespaceCondition", "Object")
                } else {
                    field.to_owned()
                }
            })
        );
        let text = explain(&["tpr.spec", output]).await;
        assert!(explained(&text).contains(&"version <string> -required-".to_owned()), "{text}");
        let text = explain(&["lamps.spec", output]).await;
        let fields: Vec<String> = explained(&text);
        let fields: Vec<&str> =
            fields.iter().map(|field| field.split(" enum").next().unwrap_or(field)).collect();
        assert_eq!(fields, size, "{text}");
        let text = explain(&["lamps.metadata.ownerReferences", output]).await;
        assert!(explained(&text).contains(&"uid <string> -required-".to_owned()), "{text}");
    }
}

/// Editors get the JSON Schema of any type, by either of two paths.
#[tokio::test]
async fn a_type_has_a_json_schema() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "lamps", "Lamp", "Namespaced")).await;
    let path = format!("/schemas/{GROUP}/v1/Lamp.json");
    let answer = client.get(&path).await.unwrap().expect_status(200).unwrap();
    assert_eq!(answer.header("content-type"), "application/schema+json");
    let schema = answer.json();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema["properties"]["apiVersion"]["enum"], json!([format!("{GROUP}/v1")]));
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    assert_eq!(schema["properties"]["spec"]["additionalProperties"], false);
    let by_kubectl =
        server.kubectl(&["get", "--raw", &format!("/schemas/{GROUP}/lamp_v1.json")]).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&by_kubectl).unwrap(), schema);
    let known =
        client.request("GET", &path).header("if-none-match", answer.header("etag")).send().await.unwrap();
    assert_eq!((known.status, known.text()), (304, String::new()));

    // Built-in types, too, with what they refer to.
    let lease =
        client.get("/schemas/coordination.k8s.io/v1/lease.json").await.unwrap().expect_status(200).unwrap();
    let names = lease.json()["definitions"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(names.contains(&"io.k8s.api.coordination.v1.LeaseSpec".to_owned()), "{names:?}");
    client.get("/schemas/core/v1/ConfigMap.json").await.unwrap().expect_status(200).unwrap();

    for other in [
        "",
        "/",
        "/v1",
        "/coordination.k8s.io/v1/Lamp.json",
        "/none/v1/Lamp.json",
        "/coordination.k8s.io/v9/lease.json",
        "/coordination.k8s.io/lease.json",
    ] {
        assert_eq!(client.get(&format!("/schemas{other}")).await.unwrap().status, 404, "{other}");
    }
    assert_eq!(client.request("POST", &path).json(&json!({})).send().await.unwrap().status, 405);
    assert_eq!(server.anonymous().unwrap().get(&path).await.unwrap().status, 403);

    // It follows the registration.
    let name = format!("lamps.{GROUP}");
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
    let patch = json!([{"op": "add", "path": format!("{size}/maximum"), "value": 7}]);
    client.json_patch(&format!("{CRDS}/{name}"), &patch).await.unwrap().expect_status(200).unwrap();
    let changed =
        client.request("GET", &path).header("if-none-match", answer.header("etag")).send().await.unwrap();
    assert_eq!(changed.at("/properties/spec/properties/size/maximum"), 7);
    client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &name).await;
    assert_eq!(client.get(&path).await.unwrap().status, 404);
}

#[tokio::test]
async fn kubectl_validates_as_it_is_told_to() {
    let (server, client) = started().await;
    register(&client, &crd(GROUP, "lamps", "Lamp", "Namespaced")).await;
    let lamp = |name: &str| object(GROUP, "Lamp", name, json!({"size": 2, "watts": 5}));
    let run = async |args: &[&str], body: &Value| {
        let args: Vec<&str> = args.iter().chain(&["-f", "-"]).copied().collect();
        server.kubectl_with(&args, &body.to_string()).await.unwrap()
    };
    for (verb, name) in [("create", "one"), ("apply", "two")] {
        let refused = run(&[verb, "--validate=strict"], &lamp(name)).await;
        assert!(
            !refused.status.success() && refused.stderr.contains(r#"unknown field "spec.watts""#),
            "{}",
            refused.stderr
        );
        let warned = run(&[verb, "--validate=warn"], &lamp(name)).await;
        assert!(
            warned.status.success() && warned.stderr.contains(r#"Warning: unknown field "spec.watts""#),
            "{}",
            warned.stderr
        );
        let ignored = run(&[verb, "--validate=ignore"], &lamp(&format!("{name}-more"))).await;
        assert!(ignored.status.success() && ignored.stderr.is_empty(), "{}", ignored.stderr);
    }
    // What comes as a v1 List kubectl validates itself, by v2.
    let list = |spec: Value| json!({"apiVersion": "v1", "kind": "List", "items": [object(GROUP, "Lamp", "three", spec)]});
    let refused = run(&["create"], &list(json!({"watts": 5}))).await;
    assert!(
        refused.stderr.contains(r#"unknown field "watts" in com.example.described.v1.Lamp.spec"#),
        "{}",
        refused.stderr
    );
    run(&["create"], &list(json!({"size": 3}))).await.success().unwrap();
    let stored = client.get(&format!("/apis/{GROUP}/v1/namespaces/default/lamps/three")).await.unwrap();
    assert_eq!(stored.at("/spec/size"), 3);
}

#[tokio::test]
async fn a_document_is_sent_again_only_when_it_is_another() {
    let (_server, client) = started().await;
    register(&client, &crd(GROUP, "lamps", "Lamp", "Namespaced")).await;
    let index = client.get("/openapi/v3").await.unwrap();
    let path = format!("apis/{GROUP}/v1");
    let url = index.json()["paths"][&path]["serverRelativeURL"].as_str().unwrap().to_owned();
    let v3 = client.get(&url).await.unwrap().expect_status(200).unwrap();
    assert_eq!(v3.header("cache-control"), "public, immutable");
    let etag = v3.header("etag").to_owned();
    assert!(url.ends_with(&format!("hash={}", etag.trim_matches('"'))), "{url} {etag}");

    let v2 = async |accept: &str, etag: &str| {
        let request = client.request("GET", "/openapi/v2").accept(accept);
        let request = if etag.is_empty() { request } else { request.header("if-none-match", etag) };
        request.send().await.unwrap()
    };
    let json_document = v2("application/json", "").await;
    assert_eq!(json_document.header("content-type"), "application/json");
    let protobuf = v2(V2_PROTOBUF, "").await;
    assert_eq!(protobuf.header("content-type"), V2_PROTOBUF.replace('@', "."));
    assert_eq!(protobuf.header("vary"), "Accept");
    let tag = json_document.header("etag").to_owned();
    assert_eq!(protobuf.header("etag"), tag);
    for accept in ["application/json", V2_PROTOBUF] {
        let unchanged = v2(accept, &tag).await;
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    }
    assert_eq!(v2("text/html", "").await.status, 406);

    // Another type's change is none of this document's; its own is.
    register(&client, &crd(&format!("other.{GROUP}"), "lamps", "Lamp", "Namespaced")).await;
    let again = client.get("/openapi/v3").await.unwrap().json();
    assert_eq!(again["paths"][&path]["serverRelativeURL"], url);
    assert_eq!(v2("application/json", &tag).await.status, 200);
    let name = format!("{CRDS}/lamps.{GROUP}");
    let mut changed = version("v1", true);
    changed["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    client
        .merge_patch(&name, &json!({"spec": {"versions": [changed]}}))
        .await
        .unwrap()
        .expect_status(200)
        .unwrap();
    let moved = client.request("GET", &url).send().await.unwrap().expect_status(301).unwrap();
    let document = client.get(moved.header("location")).await.unwrap().json();
    let schema = &document["components"]["schemas"]["com.example.described.v1.Lamp"];
    assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.colour"}]));
}

/// However much there is to say, the server holds little of it at a time.
#[tokio::test]
async fn documents_of_many_types_are_never_there_as_a_whole() {
    let (server, client) = started().await;
    let types = count(150, 3000);
    let text = "Words. ".repeat(8 << 10);
    for i in 0..types {
        let mut body = crd(GROUP, &format!("lamps{i}"), &format!("Lamp{i}"), "Namespaced");
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!(text);
        client.post(CRDS, &body).await.unwrap().expect_status(201).unwrap();
    }
    condition(&client, &format!("lamps{}.{GROUP}", types - 1), "Established", "True").await;
    client.get("/openapi/v3").await.unwrap();
    let before = server.peak_memory_bytes().unwrap();
    let mut length = 0;
    for (path, accept) in [
        (format!("/openapi/v3/apis/{GROUP}/v1"), "application/json"),
        ("/openapi/v2".to_owned(), "application/json"),
        ("/openapi/v2".to_owned(), V2_PROTOBUF),
    ] {
        let whole =
            client.request("GET", &path).accept(accept).send().await.unwrap().expect_status(200).unwrap();
        let zipped = client
            .request("GET", &path)
            .accept(accept)
            .header("accept-encoding", "gzip")
            .send()
            .await
            .unwrap();
        assert_eq!(zipped.header("content-encoding"), "gzip");
        assert!(zipped.body.len() < whole.body.len() / 10);
        if accept == "application/json" {
            let schemas = whole.json();
            let schemas = schemas.get("definitions").unwrap_or(&schemas["components"]["schemas"]);
            for i in 0..types {
                let name = format!("com.example.described.v1.Lamp{i}");
                assert_eq!(schemas[&name]["description"].as_str(), Some(text.as_str()));
            }
        }
        length = whole.body.len();
        assert!(length > text.len() * types);
    }
    let grown = server.peak_memory_bytes().unwrap() - before;
    println!("{types} types: documents of {length} bytes, {grown} bytes more at the peak");
    assert!(grown < u64::try_from(length).unwrap() / 2, "{grown} bytes for documents of {length}");
}

/// Documents are kept until something changes, so one that is made while something changes must not be kept as the later one:
/// clients would be shown the past until the next change.
#[tokio::test]
async fn documents_that_are_asked_for_while_types_come_are_not_kept_too_long() {
    let (_server, client) = started().await;
    let mut asking = tokio::task::JoinSet::new();
    for path in ["/apis", "/openapi/v3", "/apis", "/openapi/v3"] {
        let client = client.clone();
        asking.spawn(async move {
            loop {
                client.request("GET", path).accept(AGGREGATED).send().await.unwrap();
            }
        });
    }
    for number in 0..count(100, 1000) {
        let group = format!("g{number}.example.com");
        register(&client, &crd(&group, "lamps", "Lamp", "Namespaced")).await;
        let shown = client.request("GET", "/apis").accept(AGGREGATED).send().await.unwrap().json();
        let groups = shown["items"].as_array().unwrap();
        assert!(groups.iter().any(|item| item["metadata"]["name"] == *group), "{group}");
        let index = client.get("/openapi/v3").await.unwrap().json();
        assert!(index["paths"].get(format!("apis/{group}/v1")).is_some(), "{group}");
        client.delete(&format!("{CRDS}/lamps.{group}")).await.unwrap().expect_status(200).unwrap();
        until_gone(&client, CRDS, &format!("lamps.{group}")).await;
    }
    assert!(asking.try_join_next().is_none(), "a reader failed");
}
