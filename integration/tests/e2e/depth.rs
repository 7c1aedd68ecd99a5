//! However deep a client's object nests: the server goes on, a stored object can be read back in every form, and every
//! answer is true.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kindom_api::json::{MAX_DEPTH, parse_own};
use kindom_integration::{Client, Server, ServerOptions};
use serde_json::json;

use crate::support::{CRDS, crd, register};

const GROUP: &str = "deep.example.com";
const WELLS: &str = "/apis/deep.example.com/v1/namespaces/default/wells";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

async fn server() -> (Server, Client) {
    let server = ServerOptions::default().start().await.unwrap();
    let client = server.client().unwrap();
    let mut wells = crd(GROUP, "wells", "Well", "Namespaced");
    wells["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] =
        json!(true);
    register(&client, &wells).await;
    (server, client)
}

fn at(name: &str) -> String {
    format!("{WELLS}/{name}")
}

/// An object that nests so many levels, `open` and `close` around each of those in its spec.
fn well(name: &str, levels: usize, (open, close): (&str, &str)) -> String {
    let (open, close) = (open.repeat(levels - 2), close.repeat(levels - 2));
    format!(
        r#"{{"apiVersion":"{GROUP}/v1","kind":"Well","metadata":{{"name":"{name}"}},"spec":{{"x":{open}1{close}}}}}"#
    )
}

const LISTS: (&str, &str) = ("[", "]");
const MAPS: (&str, &str) = (r#"{"a":"#, "}");

async fn goes_on(client: &Client) {
    let well = well("goes-on", 5, MAPS);
    client
        .request("POST", WELLS)
        .body("application/json", well)
        .send()
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    client.delete(&at("goes-on")).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn a_patch_that_digs_ends_nothing() {
    let (_server, client) = server().await;
    let well = well("a", 4, LISTS);
    client
        .request("POST", WELLS)
        .body("application/json", well)
        .send()
        .await
        .unwrap()
        .expect_status(201)
        .unwrap();
    // Each round puts 200 levels around what there is.
    let nested = "[".repeat(200) + &"]".repeat(200);
    let innermost = "/0".repeat(199);
    let round = format!(
        r#"{{"op":"add","path":"/spec/y","value":{nested}}},{{"op":"move","from":"/spec/x","path":"/spec/y{innermost}/-"}},
           {{"op":"move","from":"/spec/y","path":"/spec/x"}}"#
    );
    let patch = format!("[{}]", vec![round; 3_000].join(","));
    let mut gzipped = GzEncoder::new(Vec::new(), Compression::best());
    gzipped.write_all(patch.as_bytes()).unwrap();
    let gzipped = gzipped.finish().unwrap();
    for query in ["", "?dryRun=All"] {
        let patched = client
            .request("PATCH", &format!("{}{query}", at("a")))
            .header("content-encoding", "gzip")
            .body("application/json-patch+json", gzipped.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(patched.status, 422, "{:.300}", patched.text());
    }
    goes_on(&client).await;
}

/// Every way to read a type and each of its objects gives the stored state.
async fn all_can_be_read(client: &Client, names: &[String]) {
    for (accept, agent, query) in [
        ("application/json", "e2e", ""),
        ("application/json", "e2e", "?pretty=true"),
        ("application/json", "curl/8", ""),
        ("application/yaml", "e2e", ""),
        (TABLE, "e2e", "?includeObject=Object"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", "e2e", ""),
    ] {
        let read = async |path: String| {
            let path = format!("{path}{query}");
            let answer = client.request("GET", &path).accept(accept).header("user-agent", agent).send().await;
            let answer = answer.unwrap();
            assert_eq!(answer.status, 200, "{path} {accept} {agent}: {:.300}", answer.text());
            answer
        };
        let list = read(WELLS.to_owned()).await;
        for name in names {
            assert!(list.text().contains(name), "{accept} {agent} {query}: {name}");
            if !accept.contains("List") {
                let one = read(at(name)).await;
                assert!(one.text().contains(name), "{accept} {agent} {query}: {:.300}", one.text());
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_stored_that_cannot_be_read_back() {
    let (_server, client) = server().await;
    let mut stored = Vec::new();
    for (shape, around) in [("lists", LISTS), ("maps", MAPS)] {
        for levels in (MAX_DEPTH - 12..=MAX_DEPTH + 1).rev() {
            let name = format!("{shape}-{levels}");
            let body = well(&name, levels, around);
            let post = client.request("POST", WELLS).body("application/json", body).send().await.unwrap();
            match post.status {
                201 => stored.push((name, levels)),
                400 => assert!(levels > MAX_DEPTH && post.text().contains("exceeded max depth"), "{name}"),
                422 => {
                    let text = post.text();
                    assert!(levels <= MAX_DEPTH, "{name}");
                    assert!(
                        text.contains("metadata.managedFields: Forbidden: exceeded max depth")
                            && text.contains("256 levels"),
                        "{text:.500}"
                    );
                }
                other => panic!("{name}: {other} {:.300}", post.text()),
            }
        }
    }
    // Managers' sets of lists that nobody keys go no deeper than the list.
    assert!(stored.iter().any(|(_, levels)| *levels == MAX_DEPTH), "{stored:?}");
    assert!(stored.iter().any(|(name, _)| name.starts_with("maps")), "{stored:?}");
    let names: Vec<String> = stored.iter().map(|(name, _)| name.clone()).collect();
    all_can_be_read(&client, &names).await;
    for name in &names {
        let got = client.get(&at(name)).await.unwrap();
        let tree = parse_own(got.text().as_bytes()).unwrap();
        // An object that was read can be written.
        let put =
            client.request("PUT", &at(name)).body("application/json", tree.to_vec()).send().await.unwrap();
        assert_eq!(put.status, 200, "{name}: {:.300}", put.text());
        let labels = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["deep.example.com/f"]}});
        let patch = client.merge_patch(&at(name), &labels).await.unwrap();
        assert_eq!(patch.status, 200, "{name}: {:.300}", patch.text());
        assert_eq!(client.delete(&at(name)).await.unwrap().status, 200, "{name}");
        let released = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
        assert_eq!(client.json_patch(&at(name), &released).await.unwrap().status, 200, "{name}");
        assert_eq!(client.get(&at(name)).await.unwrap().status, 404, "{name}");
    }
    goes_on(&client).await;
}

#[tokio::test]
async fn the_deepest_registrations_are_served_or_refused() {
    let (_server, client) = server().await;
    let doubled = (r#"{"type":"object","properties":{"a":"#, "}}");
    let shapes = [
        ("properties", doubled),
        ("items", (r#"{"type":"array","items":"#, "}")),
        ("additional", (r#"{"type":"object","additionalProperties":"#, "}")),
        ("branches", (r#"{"type":"object","allOf":["#, "]}")),
        ("nots", (r#"{"not":"#, "}")),
        ("defaults", (r#"{"a":"#, "}")),
        ("enums", ("[", "]")),
    ];
    let mut accepted = 0;
    for (plural, (open, close)) in shapes {
        for levels in [60, 122, 123, 124, 200, 245, 246, 247, 248, 249, 250] {
            for version in ["v1", "v1beta1"] {
                let plural = format!("{plural}{levels}{version}");
                let inner =
                    if open.starts_with(r#"{"a"#) || open == "[" { "1" } else { r#"{"type":"string"}"# };
                let nested = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
                let schema = match &plural {
                    of if of.starts_with("defaults") => format!(
                        r#"{{"type":"object","properties":{{"x":{{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{nested}}}}}}}"#
                    ),
                    of if of.starts_with("enums") => format!(
                        r#"{{"type":"object","properties":{{"x":{{"type":"array","items":{{"x-kubernetes-preserve-unknown-fields":true}},"enum":[{nested}]}}}}}}"#
                    ),
                    of if of.starts_with("nots") || of.starts_with("branches") => {
                        format!(
                            r#"{{"type":"object","properties":{{"x":{{"type":"object"}}}},"not":{nested}}}"#
                        )
                    }
                    _ => format!(r#"{{"type":"object","properties":{{"x":{nested}}}}}"#),
                };
                let mut registration = crd(GROUP, &plural, "Kind", "Namespaced");
                registration["spec"]["names"]["kind"] = json!(format!("K{plural}"));
                registration["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!("here");
                if version == "v1beta1" {
                    registration["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
                    let spec = registration["spec"].as_object_mut().unwrap();
                    spec.insert("preserveUnknownFields".into(), json!(false));
                    let schema = spec["versions"][0].as_object_mut().unwrap().remove("schema").unwrap();
                    spec.insert("validation".into(), schema);
                }
                let text = registration.to_string().replace("\"here\"", &schema);
                let path = CRDS.replace("v1", version);
                let post = client.request("POST", &path).body("application/json", text).send().await.unwrap();
                assert!(
                    post.status == 201 || (400..500).contains(&post.status),
                    "{plural}: {:.300}",
                    post.text()
                );
                if post.status != 201 {
                    continue;
                }
                accepted += 1;
                let name = format!("{plural}.{GROUP}");
                for version in ["v1", "v1beta1"] {
                    let path = format!("{}/{name}", CRDS.replace("v1", version));
                    for accept in ["application/json", "application/yaml", TABLE] {
                        let got = client.request("GET", &path).accept(accept).send().await.unwrap();
                        assert_eq!(got.status, 200, "{path} {accept}: {:.300}", got.text());
                    }
                }
                let objects = format!("/apis/{GROUP}/v1/namespaces/default/{plural}");
                let object = format!(
                    r#"{{"apiVersion":"{GROUP}/v1","kind":"K{plural}","metadata":{{"name":"a"}},"x":{}{}}}"#,
                    r#"{"a":"#.repeat(200) + "{",
                    "}".repeat(201)
                );
                let post =
                    client.request("POST", &objects).body("application/json", object).send().await.unwrap();
                assert!(post.status < 500, "{plural}: {:.300}", post.text());
                let labels = json!({"metadata": {"labels": {"a": "b"}}});
                let patch = client.merge_patch(&format!("{path}/{name}"), &labels).await.unwrap();
                assert_eq!(patch.status, 200, "{name}: {:.300}", patch.text());
                if accepted % 4 == 0 {
                    let openapi = client.get(&format!("/openapi/v3/apis/{GROUP}/v1")).await.unwrap();
                    assert_eq!(openapi.status, 200, "{:.300}", openapi.text());
                    assert_eq!(client.get("/openapi/v2").await.unwrap().status, 200);
                }
                assert_eq!(client.delete(&format!("{path}/{name}")).await.unwrap().status, 200);
            }
        }
    }
    assert!(accepted > 30, "{accepted}");
    goes_on(&client).await;
}

#[tokio::test]
async fn deep_texts_everywhere_else_are_refused_or_served() {
    let (_server, client) = server().await;
    let deep = |levels: usize, (open, close): (&str, &str)| open.repeat(levels) + "1" + &close.repeat(levels);
    let sets = |levels: usize| {
        let fields = r#"{"f:a":"#.repeat(levels) + "{}" + &"}".repeat(levels);
        let value = format!("v:{}", deep(250, LISTS));
        let key = format!(r#"k:{{\"a\":{}}}"#, deep(250, LISTS));
        format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Well","metadata":{{"name":"sets-{levels}","managedFields":[{{"manager":"m","operation":"Update","apiVersion":"{GROUP}/v1","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{fields},"{value}":{{}},"{key}":{{}}}}}}]}},"spec":{{"x":1}}}}"#
        )
    };
    for levels in [100, 240, 250, 251, 252, 260, 5_000] {
        let post = client.request("POST", WELLS).body("application/json", sets(levels)).send().await.unwrap();
        assert!(post.status < 500, "{levels}: {:.300}", post.text());
        let yaml = client.request("GET", WELLS).accept("application/yaml").send().await.unwrap();
        assert_eq!(yaml.status, 200, "{levels}: {:.300}", yaml.text());
        let applied = client
            .request("PATCH", &format!("{}?fieldManager=b", at(&format!("sets-{levels}"))))
            .body("application/apply-patch+yaml", well(&format!("sets-{levels}"), 250, MAPS))
            .send()
            .await
            .unwrap();
        assert!(applied.status < 500, "{levels}: {:.300}", applied.text());
    }
    for levels in [200, 256, 300, 9_000] {
        for selector in [
            "labelSelector=a+in+(".to_owned() + &"(".repeat(levels),
            "fieldSelector=".to_owned() + &"a=b,".repeat(levels),
        ] {
            let got = client.get(&format!("{WELLS}?{selector}")).await.unwrap();
            assert!((400..500).contains(&got.status), "{:.300}", got.text());
        }
        let token = format!("eyJ2Ijoi{}", "W1tb".repeat(levels));
        let got = client.get(&format!("{WELLS}?continue={token}&limit=1")).await.unwrap();
        assert!((400..500).contains(&got.status), "{:.300}", got.text());
        for (kind, body) in [
            ("application/json", deep(levels, MAPS)),
            ("application/yaml", deep(levels, LISTS)),
            ("application/vnd.kubernetes.protobuf", format!("k8s\0{}", "\n".repeat(levels))),
        ] {
            let deleted = client.request("DELETE", &at("none")).body(kind, body).send().await.unwrap();
            assert!((400..500).contains(&deleted.status), "{kind}: {:.300}", deleted.text());
        }
        // Printer columns, rules, patterns and scale paths of a registration.
        for (field, text) in [
            ("jsonPath", format!(".a{}", "[0]".repeat(levels))),
            ("jsonPath", format!(".a{}{}", "[?(@.b".repeat(levels), ")]".repeat(levels))),
            ("jsonPath", ".a".repeat(levels)),
            ("rule", "(".repeat(levels) + "true" + &")".repeat(levels)),
            ("rule", "[".repeat(levels) + "1" + &"]".repeat(levels) + " == []"),
            ("rule", "!".repeat(levels) + "true"),
            ("rule", "-".repeat(levels) + "1 == 1"),
            ("rule", "true ? ".repeat(levels) + "true" + &" : true".repeat(levels)),
            ("rule", "true || ".repeat(levels) + "true"),
            ("rule", "self".to_owned() + &".spec".repeat(levels) + " == 1"),
            ("pattern", "(".repeat(levels) + "a" + &")".repeat(levels)),
            ("pattern", "(?:a".repeat(levels) + &"*)*".repeat(levels)),
            ("scale", ".a".repeat(levels)),
        ] {
            let mut registration = crd(GROUP, "texts", "Text", "Namespaced");
            let version = &mut registration["spec"]["versions"][0];
            match field {
                "jsonPath" => {
                    version["additionalPrinterColumns"] =
                        json!([{"name": "A", "type": "string", "jsonPath": text}]);
                }
                "rule" => {
                    version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
                        json!([{"rule": text}]);
                }
                "scale" => {
                    version["subresources"] = json!({"scale": {"specReplicasPath": format!(".spec{text}"),
                        "statusReplicasPath": format!(".status{text}")}});
                }
                _ => {
                    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["note"]["pattern"] =
                        json!(text);
                }
            }
            let post = client.post(&format!("{CRDS}?dryRun=All"), &registration).await.unwrap();
            assert!(
                post.status == 201 || (400..500).contains(&post.status),
                "{text:.40}: {:.300}",
                post.text()
            );
        }
    }
    goes_on(&client).await;
}
