//! The inputs of `kindom-http`: paths, queries, headers, bodies, patches, continue tokens, files of tokens.

use kindom_api::crd;
use kindom_api::json::{self, MAX_DEPTH, Value};
use kindom_fuzz::{JsonMutants, Mutants, Target, Texts};
use kindom_http::authn::Tokens;
use kindom_http::negotiate::{self, Endpoint, PatchType};
use kindom_http::patch::{Patch, StrategicPatch};
use kindom_http::query::{ContinueToken, DeleteOptions, ListOptions, Query, WriteOptions};
use kindom_http::request_info::RequestInfo;
use kindom_http::table::IncludeObject;
use kindom_http::warning::{warning_header, warning_headers};
use kindom_objects::kinds::namespace::NAMESPACE;

use crate::codec::{VALIDATIONS, depth, read_back};
use crate::seeds;

#[test]
fn paths_and_queries() {
    let texts = [
        "/apis/example.com/v1/namespaces/n/widgets/a/status?fieldManager=x&dryRun=All&fieldValidation=Strict&force=true",
        "/api/v1/namespaces/n?timeout=30s&timeoutSeconds=5&watch=1&allowWatchBookmarks=true&resourceVersion=0&pretty=1",
        "/apis/example.com/v1/widgets?limit=500&continue=abc&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx",
        "/apis/g/v/watch/namespaces/n/widgets?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&includeObject=Object",
        "/apis/g/v/widgets/a?gracePeriodSeconds=0&propagationPolicy=Background&orphanDependents=true&wait=Established",
        "/apis",
        "//",
        "/%2e%2e/x?%00",
        "/openapi/v3?hash=AB",
    ];
    let tokens = [
        "/",
        "?",
        "&",
        "=",
        "%",
        "%2F",
        "%00",
        "%C3%A9",
        "+",
        "watch",
        "proxy",
        "namespaces",
        "1h",
        "1.5s",
        "-1ns",
        "All",
        "0x10",
    ];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens));
    Target::new("requests", 600).rounds(2000).run(inputs, |text| {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let query = Query::parse(query);
        let _ = query.timeout();
        let _ = query.pretty();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let Ok(RequestInfo::Resource(request)) = RequestInfo::parse(method, path, &query) else {
                continue;
            };
            let _ = request.required_name();
            let _ = request.check_namespace();
            let _ = request.method_not_supported().to_string();
        }
        if let Ok(list) = ListOptions::parse(&query) {
            let _ = list.validate();
            let _ = list.version_match();
            let _ = list.continue_from();
        }
        let _ = IncludeObject::parse(&query);
        let _ = DeleteOptions::from_query(&query);
        let writes = [
            WriteOptions::for_create(&query),
            WriteOptions::for_update(&query),
            WriteOptions::for_patch(&query, true),
        ];
        for write in writes.into_iter().flatten() {
            let _ = write.manager(text.as_bytes());
            let _ = write.waits_for();
        }
    });
}

#[test]
fn options_of_deletes() {
    let inputs = JsonMutants::of([
        r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"preconditions":{"uid":"u","resourceVersion":"1"},"propagationPolicy":"Background","orphanDependents":false,"dryRun":["All"]}"#,
    ]);
    Target::new("delete-options", 400).run(inputs, |bytes| {
        let Ok(value) = json::parse(bytes) else { return };
        let _ = DeleteOptions::from_body(&value);
    });
}

#[test]
fn negotiation() {
    let texts = [
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.9,*/*;q=0.8",
        "application/yaml;pretty=1",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "text/*;q=1.001, ;;, a=b",
        "application/merge-patch+json; charset=utf-8",
    ];
    let tokens = [
        "application/",
        "json",
        "yaml",
        "*/*",
        ";",
        ",",
        "q=",
        "0.",
        "as=",
        "v=",
        "g=",
        "=",
        "\"",
        "\\\"",
        "Table",
    ];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens));
    Target::new("negotiation", 600).rounds(2000).run(inputs, |header| {
        for endpoint in [Endpoint::Resource, Endpoint::Typed, Endpoint::Plain] {
            let _ = negotiate::accept(header, endpoint);
            let _ = negotiate::accept_watch(header, endpoint);
        }
        let _ = negotiate::wants_aggregated_discovery(header);
        let _ = negotiate::body_format(header, true);
        let served = [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply];
        if let Ok(patch) = PatchType::of(header, &served) {
            assert!(header.starts_with(patch.content_type()));
        }
        let _ = warning_header(header);
        let _ = warning_headers(&[header.clone(), header.clone()]);
    });
}

#[test]
fn continue_tokens() {
    let token = ContinueToken { revision: Some(12), start: "default/big\0".to_owned() };
    let texts =
        [token.encode(), ContinueToken { revision: None, start: "a".to_owned() }.encode(), String::new()];
    let inputs = Texts(Mutants::of(texts).tokens(&["eyJ", "==", "-", "_", "Li4v", "AAAA"]));
    Target::new("continue-tokens", 400).rounds(2000).run(inputs, |text| {
        let Ok(token) = ContinueToken::decode(text) else { return };
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token.clone()));
        assert!(token.start.split('/').all(|part| !matches!(part, "" | "." | "..")), "{token:?}");
    });
}

#[test]
fn token_files() {
    let texts =
        ["secret,admin,1,\"system:masters,dev\"\nother,user,2\n", "\"a\"\"b\",c,d\n\n#x\n", "a,b,c,d,e\n"];
    let inputs = Texts(Mutants::of(texts).tokens(&[",", "\"", "\"\"", "\n", "\r\n", " ", "system:masters"]));
    Target::new("tokens", 600).rounds(2000).run(inputs, |text| {
        let Ok(tokens) = Tokens::parse(text, "tokens.csv") else { return };
        assert!(tokens.get("").is_none(), "an empty token is somebody's");
    });
}

/// An object and a patch of it; what comes out nests no deeper than a reader takes.
fn patched(result: &Result<Value, impl std::fmt::Debug>) {
    if let Ok(value) = result {
        assert!(depth(value) <= MAX_DEPTH, "{} levels", depth(value));
        assert_eq!(json::parse(&value.to_vec()), Ok(read_back(value.clone())));
    }
}

#[test]
fn json_patches() {
    let patches = [
        r#"[{"op":"add","path":"/spec/x","value":{"a":[1]}},{"op":"remove","path":"/spec/set/0"},{"op":"replace","path":"/spec/size","value":30}]"#,
        r#"[{"op":"move","from":"/spec/any","path":"/spec/list/0"},{"op":"copy","from":"/spec","path":"/spec/any/deep"},{"op":"test","path":"/spec/colour","value":"red"}]"#,
        r#"[{"op":"add","path":"/spec/list/-","value":null},{"op":"add","path":"/metadata/annotations/a~1b~0c","value":"x"},{"op":"copy","from":"/spec/list","path":"/spec/list/0"}]"#,
        r#"[{"op":"copy","from":"/spec","path":"/spec/a"},{"op":"copy","from":"/spec","path":"/spec/a/a"},{"op":"move","from":"/spec/a","path":"/spec/b"}]"#,
    ];
    // What nests 100 levels deep is moved to the innermost place of another such value, and so on.
    let (nested, leaf) = (format!("{}{}", "[".repeat(100), "]".repeat(100)), "/0".repeat(100));
    let deeper = format!(
        r#",{{"op":"copy","from":"/spec/t","path":"/spec/x"}},{{"op":"move","from":"/spec/a","path":"/spec/x{leaf}"}},{{"op":"move","from":"/spec/x","path":"/spec/a"}}"#
    );
    let grown = [0, 1, 3, 250].map(|times| {
        let first = format!(r#"{{"op":"add","path":"/spec/t","value":{nested}}},{{"op":"copy","from":"/spec/t","path":"/spec/a"}}"#);
        format!("[{first}{}]", deeper.repeat(times))
    });
    let patches = patches.map(str::to_owned).into_iter().chain(grown);
    let patches = JsonMutants::of(patches).words(&[
        "/spec",
        "/spec/list",
        "/spec/list/-",
        "/spec/any/deep/er/0",
        "/metadata",
        "",
        "/",
        "/-",
        "/spec/ports/1",
        "/spec/list/-1",
        "/spec/list/01",
        "/spec/list/99999999999999999999",
        "add",
        "remove",
        "replace",
        "move",
        "copy",
        "test",
    ]);
    let inputs = (JsonMutants::of([seeds::WIDGET]), patches);
    // Copies multiply: up to the largest object that is stored (`http/src/patch`).
    Target::new("json-patch", 4000).flat(64 << 20, 512 << 20).rounds(600).run(inputs, |(object, patch)| {
        let Ok(object) = json::parse(object) else { return };
        for validation in VALIDATIONS {
            let Ok(patch) = Patch::json(patch, validation) else { continue };
            patched(&patch.apply(object.clone()));
        }
    });
}

#[test]
fn merge_patches() {
    let patches = [
        r#"{"spec":{"colour":null,"any":{"deep":{"er":null,"x":{"y":1}}},"new":[1]},"metadata":{"labels":null}}"#,
        "{}",
        "[]",
    ];
    let inputs = (JsonMutants::of([seeds::WIDGET]), JsonMutants::of(patches).words(&["spec", "any", "deep"]));
    Target::new("merge-patch", 800).rounds(500).run(inputs, |(object, patch)| {
        let Ok(object) = json::parse(object) else { return };
        for validation in VALIDATIONS {
            let Ok(patch) = Patch::merge(patch, validation) else { continue };
            // Twice is not always as once: upstream drops the nulls below a list that replaces a list, and keeps those below
            // one that replaces a map (evanphx/json-patch `merge`).
            patched(&patch.apply(object.clone()));
        }
    });
}

#[test]
fn texts_of_patches() {
    let patches = seeds::json().tokens(&["\"op\":", "\"path\":", "\"$patch\":", "\"delete\"", "\"/spec\""]);
    Target::new("patch-texts", 1000).rounds(800).run(patches, |bytes| {
        for validation in VALIDATIONS {
            let _ = Patch::json(bytes, validation);
            let _ = Patch::merge(bytes, validation);
            let _ = StrategicPatch::decode(bytes, validation);
        }
        let _ = kindom_http::patch::is_malformed_json(bytes);
    });
}

#[test]
fn strategic_merge_patches() {
    let patches = [
        r#"{"metadata":{"labels":{"a":null},"finalizers":["x"],"$deleteFromPrimitiveList/finalizers":["y"],"$setElementOrder/finalizers":["x","z"]},"spec":{"finalizers":["kubernetes"]}}"#,
        r#"{"status":{"conditions":[{"type":"Ready","$patch":"delete"},{"type":"X","status":"True"},{"$patch":"replace"}],"$setElementOrder/conditions":[{"type":"X"}]}}"#,
        r#"{"metadata":{"$patch":"merge","$retainKeys":["name","labels"],"ownerReferences":[{"uid":"u","name":"q"}]},"spec":{"$patch":"replace"}}"#,
    ];
    let words = [
        "$patch",
        "delete",
        "replace",
        "merge",
        "$retainKeys",
        "$setElementOrder/conditions",
        "$deleteFromPrimitiveList/finalizers",
        "type",
        "uid",
        "conditions",
        "finalizers",
    ];
    let inputs = (JsonMutants::of([seeds::NAMESPACE, seeds::CRD]), JsonMutants::of(patches).words(&words));
    Target::new("strategic-merge-patch", 1500).rounds(400).run(inputs, |(object, patch)| {
        let Ok(object) = json::parse(object) else { return };
        let of = if object.get("kind").and_then(Value::as_str) == Some("Namespace") {
            NAMESPACE.declaration().shape
        } else {
            &crd::CRD
        };
        for validation in VALIDATIONS {
            let Ok(patch) = StrategicPatch::decode(patch, validation) else { continue };
            patched(&patch.apply(object.clone(), of, validation).map(|(value, _)| value));
        }
    });
}
