//! Schemas, rules and objects that are made to take for ever: each gets an answer, and the server goes on.

use kindom_integration::{Answer, Client, Server, ServerOptions, count, full};
use serde_json::{Value, json};

use crate::support::{CRDS, condition, crd, object, register};

const GROUP: &str = "traps.example.com";
const OTHERS: &str = "/apis/traps.example.com/v1/namespaces/default/others";
const MIB: usize = 1024 * 1024;

/// The most memory that the server may use at its peak. A request of 3 MiB is a tree of up to 32 bytes for each value of two
/// bytes, which is there two or three times while it is written: 150 MiB. Of a built-in type, values get the fields that Go
/// always writes: an owner reference of three bytes, `{},`, becomes 240, in one tree and then in another, and 700,000 of them
/// 340 MiB. Defaults may add 32 MiB, errors 3 MiB of text in each of the message, the causes and the answer. The rest is the
/// server itself, and what the allocator keeps of all that for later, for each thread.
const MEMORY_MAX: u64 = 768 * 1024 * 1024;

/// One server and what else it has to do.
struct Trap {
    server: Server,
    client: Client,
    made: usize,
}

impl Trap {
    async fn new() -> Self {
        let server = ServerOptions::default().start().await.unwrap();
        let client = server.client().unwrap();
        register(&client, &crd(GROUP, "others", "Other", "Namespaced")).await;
        Self { server, client, made: 0 }
    }

    /// The server is ready, serves another type, and has not taken too much.
    async fn goes_on(&mut self, after: &str) {
        self.made += 1;
        let name = format!("other-{}", self.made);
        assert_eq!(self.client.get("/readyz").await.unwrap().status, 200, "after {after}");
        let other = object(GROUP, "Other", &name, json!({"size": 7}));
        self.client.post(OTHERS, &other).await.unwrap().expect_status(201).unwrap();
        let peak = self.server.peak_memory_bytes().unwrap();
        println!("{after}: {} MiB at the peak so far", peak / MIB as u64);
        assert!(peak < MEMORY_MAX, "{peak} bytes after {after}");
    }

    async fn send(&mut self, method: &str, path: &str, body: String, what: &str) -> Answer {
        let answer = self.client.request(method, path).body("application/json", body).send().await.unwrap();
        assert!(answer.status < 500, "{what}: {} {:.500}", answer.status, answer.text());
        self.goes_on(what).await;
        answer
    }

    /// Registers a type whose `spec` has a schema; its answer.
    async fn registration(&mut self, plural: &str, spec: &str) -> Answer {
        let mut body = crd(GROUP, plural, "Trap", "Namespaced");
        body["spec"]["names"]["kind"] = json!(kind(plural));
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!("here");
        let body = body.to_string().replace("\"here\"", spec);
        self.send("POST", CRDS, body, &format!("the registration of {plural}")).await
    }

    /// A type that is served.
    async fn registered(&mut self, plural: &str, spec: &str) {
        self.registration(plural, spec).await.expect_status(201).unwrap();
        condition(&self.client, &format!("{plural}.{GROUP}"), "Established", "True").await;
    }

    /// The answer to an object of a type.
    async fn object(&mut self, plural: &str, spec: &str) -> Answer {
        let body = object(GROUP, &kind(plural), "trap", json!("here")).to_string();
        let path = format!("/apis/{GROUP}/v1/namespaces/default/{plural}");
        let body = body.replace("\"here\"", spec);
        self.send("POST", &path, body, &format!("an object of {plural}")).await
    }
}

fn kind(plural: &str) -> String {
    let (first, rest) = plural.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Asserts that it was refused with this text in its message.
#[track_caller]
fn refused(answer: &Answer, code: u16, text: &str) -> Value {
    let status = answer.json();
    let told = format!("{} → {} {:.1000}", answer.what, answer.status, answer.text());
    assert_eq!((answer.status, &status["code"]), (code, &json!(code)), "{told}");
    assert!(status["message"].as_str().unwrap_or_default().contains(text), "no {text:?} in {told}");
    status
}

/// `count` times the same, between commas.
fn times(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn deep_schemas_and_objects() {
    let mut trap = Trap::new().await;
    let schema = |levels: usize| {
        let open = r#"{"type":"object","properties":{"a":"#.repeat(levels);
        format!(r#"{open}{{"type":"string"}}{}"#, "}}".repeat(levels))
    };
    let value = |levels: usize| format!("{}\"x\"{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    // The depth that the client here can read.
    trap.registered("deeps", &schema(50)).await;
    assert_eq!(trap.object("deeps", &value(50)).await.status, 201);
    assert!(trap.object("deeps", &value(100)).await.status < 500);
    assert_eq!(trap.registration("depths", &schema(110)).await.status, 201);
    refused(&trap.object("deeps", &value(10_000)).await, 400, "exceeded max depth");
    refused(&trap.registration("abysses", &schema(250)).await, 400, "exceeded max depth");
    refused(&trap.registration("abysses", &schema(10_000)).await, 400, "exceeded max depth");
    let lists = r#"{"type":"array","items":"#.repeat(50);
    let lists = format!(r#"{lists}{{"type":"integer"}}{}"#, "}".repeat(50));
    trap.registered("lists", &lists).await;
    let items = format!("{}1{}", "[".repeat(49), "]".repeat(49));
    refused(&trap.object("lists", &items).await, 422, "spec[0]");
}

#[tokio::test]
async fn registrations_of_very_many_empty_parts() {
    const TOLD: &str = "may not hold more than 20000 values outside its schemas";
    let mut trap = Trap::new().await;
    let empty = times(1_000_000, |_| "{}".to_owned());
    let body = |field: &str| {
        crd(GROUP, "crowds", "Crowd", "Namespaced").to_string().replacen('{', &format!("{{{field},"), 1)
    };
    let conditions = body(&format!(r#""status":{{"conditions":[{empty}]}}"#));
    refused(&trap.send("POST", CRDS, conditions, "very many conditions").await, 400, TOLD);
    let unknown = body(&format!(r#""x":[{empty}]"#));
    refused(&trap.send("POST", CRDS, unknown, "very many unknown values").await, 400, TOLD);
    for field in ["versions", "additionalPrinterColumns"] {
        let mut body = crd(GROUP, "crowds", "Crowd", "Namespaced");
        match field {
            "versions" => body["spec"]["versions"] = json!("here"),
            _ => body["spec"]["versions"][0][field] = json!("here"),
        }
        let body = body.to_string().replace("\"here\"", &format!("[{empty}]"));
        refused(&trap.send("POST", CRDS, body.clone(), field).await, 400, TOLD);
        let path = format!("{CRDS}/crowds.{GROUP}?fieldManager=m");
        let sent = trap
            .client
            .request("PATCH", &path)
            .body("application/apply-patch+yaml", body)
            .send()
            .await
            .unwrap();
        refused(&sent, 422, TOLD);
        trap.goes_on("an apply").await;
    }
    // Patches of one that is there.
    register(&trap.client, &crd(GROUP, "crowds", "Crowd", "Namespaced")).await;
    let path = format!("{CRDS}/crowds.{GROUP}");
    for kind in ["merge-patch", "strategic-merge-patch"] {
        let body = format!(r#"{{"spec":{{"versions":[{empty}]}}}}"#);
        let sent = trap
            .client
            .request("PATCH", &path)
            .body(&format!("application/{kind}+json"), body)
            .send()
            .await
            .unwrap();
        assert!((400..500).contains(&sent.status), "{kind}: {} {:.500}", sent.status, sent.text());
        trap.goes_on(kind).await;
    }
}

#[tokio::test]
async fn huge_enums_and_bodies() {
    let mut trap = Trap::new().await;
    let choices = times(100_000, |i| format!("\"c{i}\""));
    let schema = format!(
        r#"{{"type":"object","properties":{{"all":{{"type":"array","items":{{"type":"string","enum":[{choices}]}}}}}}}}"#
    );
    trap.registered("enums", &schema).await;
    let good = times(100_000, |i| format!("\"c{i}\""));
    assert_eq!(trap.object("enums", &format!("{{\"all\":[{good}]}}")).await.status, 201);
    // Each error would name 100,000 choices.
    let bad = times(count(20_000, 100_000), |i| format!("\"d{i}\""));
    let status = refused(
        &trap.object("enums", &format!("{{\"all\":[{bad}]}}")).await,
        422,
        "spec.all[0]: Unsupported value: \"d0\"",
    );
    assert!(status.to_string().len() < 16 * MIB);
    let causes = status["details"]["causes"].as_array().unwrap();
    let last = causes.last().unwrap()["message"].as_str().unwrap();
    assert!(last.contains("too many errors: "), "{last:.300}");

    let body = format!(r#"{{"type":"string","description":"{}"}}"#, "x".repeat(3 * MIB));
    refused(&trap.registration("larges", &body).await, 413, "");
    let body = format!(r#"{{"type":"string","description":"{}"}}"#, "x".repeat(5 * MIB));
    assert_eq!(trap.registration("larges", &body).await.status, 413);
    // Just below the limit of a request, and made of as many schemas as fit.
    let many = times(100_000, |i| format!(r#""p{i}":{{"type":"string"}}"#));
    let answer =
        trap.registration("manies", &format!(r#"{{"type":"object","properties":{{{many}}}}}"#)).await;
    assert!(matches!(answer.status, 201 | 413 | 422), "{} {:.300}", answer.status, answer.text());
}

/// Each error shows a value as large as the request, or there is one for each two bytes of it.
#[tokio::test]
async fn very_many_errors_of_one_object() {
    let mut trap = Trap::new().await;
    let keys = times(100_000, |_| "\"a\"".to_owned());
    let list = format!(
        r#"{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[{keys}],
            "items":{{"type":"object","required":["a"],"properties":{{"a":{{"type":"string"}}}}}}}}"#
    );
    refused(&trap.registration("keys", &list).await, 422, "must not contain duplicate entries");
    // Each default of many lists would show all choices for each of its items.
    let (choices, items) = (times(250, |i| format!("\"choice{i}\"")), times(400, |_| "\"x\"".to_owned()));
    let lists = times(200, |i| {
        format!(
            r#""p{i}":{{"type":"array","default":[{items}],"items":{{"type":"string","enum":[{choices}]}}}}"#
        )
    });
    let lists = format!(r#"{{"type":"object","properties":{{{lists}}}}}"#);
    refused(&trap.registration("choices", &lists).await, 422, "Unsupported value: \"x\"");
    for (field, item) in [("finalizers", "\"\""), ("ownerReferences", "{}")] {
        let items = times(count(200_000, 700_000), |_| item.to_owned());
        let body = format!(r#"{{"metadata":{{"name":"n","{field}":[{items}]}}}}"#);
        refused(&trap.send("POST", "/api/v1/namespaces", body, field).await, 422, field);
    }
}

/// `levels` of branches in branches.
fn branches(keyword: &str, levels: usize) -> String {
    if levels == 0 {
        return r#"{"required":["missing"]}"#.to_owned();
    }
    let inner = branches(keyword, levels - 1);
    format!(r#"{{"{keyword}":[{inner},{inner},{inner}]}}"#)
}

#[tokio::test]
async fn branches_upon_branches() {
    let mut trap = Trap::new().await;
    for (keyword, levels) in [("anyOf", 9), ("oneOf", 9), ("allOf", 9), ("anyOf", 12)] {
        let plural = format!("{}{levels}s", keyword.to_lowercase());
        let inner = branches(keyword, levels);
        let schema = format!(
            r#"{{"type":"object","properties":{{"missing":{{"type":"string"}}}},"{keyword}":[{inner}]}}"#
        );
        if levels > 10 {
            // Half a million branches are more than a request has room for.
            assert_eq!(trap.registration(&plural, &schema).await.status, 413);
            continue;
        }
        trap.registered(&plural, &schema).await;
        refused(&trap.object(&plural, "{}").await, 422, "must validate");
    }
    let open = r#"{"not":"#.repeat(100);
    let schema = format!(r#"{{"type":"object","not":{open}{{"required":["x"]}}{}}}"#, "}".repeat(100));
    let answer = trap.registration("nots", &schema).await;
    assert!(matches!(answer.status, 201 | 422), "{:.300}", answer.text());

    // A value checked against many branches, each much work: more steps than one validation has.
    let given_up = "validation was given up after";
    let any = times(60, |i| format!(r#"{{"pattern":"^x{{999}}{i}$"}}"#));
    let schema = format!(r#"{{"type":"object","properties":{{"s":{{"type":"string","anyOf":[{any}]}}}}}}"#);
    trap.registered("efforts", &schema).await;
    let answer = trap.object("efforts", &format!(r#"{{"s":"{}"}}"#, "y".repeat(MIB))).await;
    refused(&answer, 422, given_up);
    if full() {
        let any = times(20_000, |i| format!(r#"{{"minimum":1{i}}}"#));
        let schema = format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"number","anyOf":[{any}]}}}}}}}}"#
        );
        trap.registered("products", &schema).await;
        let items = times(500_000, |_| "0".to_owned());
        let answer = trap.object("products", &format!(r#"{{"l":[{items}]}}"#)).await;
        refused(&answer, 422, given_up);
    }
    // Each item lacks many fields.
    let names = times(10_000, |i| format!("\"r{i}\""));
    let schema = format!(
        r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"object","required":[{names}]}}}}}}}}"#
    );
    trap.registered("lacks", &schema).await;
    let items = times(count(2_000, 400_000), |_| "{}".to_owned());
    let answer = trap.object("lacks", &format!(r#"{{"l":[{items}]}}"#)).await;
    refused(&answer, 422, "spec.l[0].r0: Required value");
    assert!(answer.text().len() < 24 * MIB, "{} bytes", answer.text().len());
}

#[tokio::test]
async fn patterns_that_explode_elsewhere() {
    let mut trap = Trap::new().await;
    let schema = r#"{"type":"object","properties":{
        "a":{"type":"string","pattern":"^(a+)+$"},"b":{"type":"string","pattern":"^(a|a?)+$"},
        "c":{"type":"string","pattern":"(.*)*(.*)*(.*)*x$"},"d":{"type":"string","pattern":"\\pL{300}"},
        "e":{"type":"string","pattern":"(a|b)*a(a|b){500}c$"}}}"#;
    trap.registered("patterns", schema).await;
    let long = format!("{}b", "a".repeat(count(100_000, MIB / 2)));
    for field in ["a", "b", "c", "d", "e"] {
        let answer = trap.object("patterns", &format!(r#"{{"{field}":"{long}"}}"#)).await;
        if field == "d" {
            assert_eq!(answer.status, 201);
        } else {
            refused(&answer, 422, &format!("spec.{field}"));
        }
        if answer.status == 201 {
            let path = format!("/apis/{GROUP}/v1/namespaces/default/patterns/trap");
            trap.client.delete(&path).await.unwrap().expect_status(200).unwrap();
        }
    }
    for pattern in ["(x{500}){500}", ".{1000}{1000}", "((a{30}){30}){30}", "(?=a)", "("] {
        let schema = format!(r#"{{"type":"string","pattern":"{pattern}"}}"#);
        let answer = trap.registration("refusals", &schema).await;
        refused(&answer, 422, "pattern");
    }
    // Many of them, each large once it is compiled.
    let number = count(100, 5_000);
    let any = times(number, |i| format!(r#"{{"pattern":"\\pL{{300}}{i}$"}}"#));
    let schema = format!(r#"{{"type":"object","properties":{{"s":{{"type":"string","anyOf":[{any}]}}}}}}"#);
    trap.registered("multitudes", &schema).await;
    let answer = trap.object("multitudes", &format!(r#"{{"s":"{}"}}"#, "é".repeat(400))).await;
    refused(&answer, 422, "");
}

#[tokio::test]
async fn rules_near_their_limits() {
    let mut trap = Trap::new().await;
    let rule = |text: &str| json!({"rule": text}).to_string();
    let ruled = |rules: &str| {
        format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"integer"}}}},"s":{{"type":"string"}}}},"x-kubernetes-validations":[{rules}]}}"#
        )
    };
    // Estimated to cost too much: no list has a greatest length.
    let cubic = rule("self.l.all(x, self.l.all(y, self.l.all(z, x + y > z)))");
    refused(&trap.registration("cubes", &ruled(&cubic)).await, 422, "exceeds budget");
    for (plural, text) in [
        ("longs", format!("self.s == '{}'", "x".repeat(100 * 1024))),
        ("parens", format!("{}true{}", "(".repeat(300), ")".repeat(300))),
        ("negations", format!("{}true", "!".repeat(100_000))),
        ("sums", format!("{} > 0", times(30_000, |_| "1".to_owned()).replace(',', "+"))),
        ("brackets", "[".repeat(100_000)),
        ("quotes", "'".repeat(100_001)),
        ("loops", format!("{}true{}", "[1].all(x, ".repeat(300), ")".repeat(300))),
    ] {
        let answer = trap.registration(plural, &ruled(&rule(&text))).await;
        if answer.status != 201 {
            refused(
                &answer,
                422,
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]",
            );
        }
    }
    // Many rules, each close to the most that one may cost.
    let rules = times(100, |i| rule(&format!("self.m.all(x, self.m.all(y, x + y != {i}))")));
    let schema = format!(
        r#"{{"type":"object","properties":{{"m":{{"type":"array","maxItems":800,"items":{{"type":"integer"}}}}}},"x-kubernetes-validations":[{rules}]}}"#
    );
    let answer = trap.registration("crowds", &schema).await;
    refused(&answer, 422, "contributed to estimated rule cost total exceeding cost limit");

    // Rules estimated with a small list, and run on a long one.
    let schema = ruled(
        &rule("self.l.all(x, x >= 0 || self.l.exists(y, y == -x))")
            .replace("\"rule\"", "\"message\":\"no\",\"rule\""),
    );
    let answer = trap.registration("longlists", &schema).await;
    refused(&answer, 422, "");
    let schema = ruled(&rule("self.l.all(x, x < 200000)"));
    trap.registered("ranges", &schema).await;
    let numbers = times(100_000, |i| i.to_string());
    let answer = trap.object("ranges", &format!(r#"{{"l":[{numbers}]}}"#)).await;
    assert!(matches!(answer.status, 201 | 422), "{:.300}", answer.text());
    if answer.status == 422 {
        refused(&answer, 422, "cost");
    }

    // A message that is built from all there is.
    let with_message = json!({
        "rule": "size(self.s) < 0",
        "messageExpression": "self.s + self.s + self.s",
    });
    trap.registered("messages", &ruled(&with_message.to_string())).await;
    let answer = trap.object("messages", &format!(r#"{{"s":"{}"}}"#, "m".repeat(MIB))).await;
    refused(&answer, 422, "spec");
    assert!(answer.text().len() < 4 * MIB);

    // Rules that cost nothing, for very many values.
    let rules = times(count(100, 10_000), |_| rule("false"));
    let schema = format!(
        r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"integer","x-kubernetes-validations":[{rules}]}}}}}}}}"#
    );
    let answer = trap.registration("frees", &schema).await;
    if answer.status == 201 {
        condition(&trap.client, &format!("frees.{GROUP}"), "Established", "True").await;
        let items = times(count(5_000, 500_000), |_| "0".to_owned());
        let answer = trap.object("frees", &format!(r#"{{"l":[{items}]}}"#)).await;
        refused(&answer, 422, "spec.l[0]");
        assert!(answer.text().len() < 24 * MIB);
    }
}

#[tokio::test]
async fn objects_of_very_many_parts() {
    let mut trap = Trap::new().await;
    let schema = r#"{"type":"object","properties":{
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},
        "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                 "items":{"type":"object","required":["v"],"properties":{"k":{"type":"string","default":"same"},"v":{"type":"integer"}}}},
        "labels":{"type":"object","additionalProperties":{"type":"integer"}},
        "unique":{"type":"array","items":{"type":"integer"}}}}"#;
    trap.registered("parts", schema).await;
    let keys = times(200_000, |i| format!(r#""k{i:x}":1"#));
    refused(&trap.object("parts", &format!(r#"{{"labels":{{{keys}}}}}"#)).await, 413, "");
    let keys = times(120_000, |i| format!(r#""k{i:x}":1"#));
    assert!(keys.len() > MIB);
    assert_eq!(trap.object("parts", &format!(r#"{{"labels":{{{keys}}}}}"#)).await.status, 201);
    let wrong = keys.replace(":1", ":[]");
    let answer = trap.object("parts", &format!(r#"{{"labels":{{{wrong}}}}}"#)).await;
    refused(&answer, 422, "spec.labels.k0: Invalid value: \"array\"");
    assert!(answer.text().contains("too many errors: "));
    assert!(answer.text().len() < 24 * MIB, "{} bytes", answer.text().len());

    let set = times(100_000, |i| i.to_string());
    refused(
        &trap.object("parts", &format!(r#"{{"set":[{set},7]}}"#)).await,
        422,
        "spec.set[100000]: Duplicate value: 7",
    );
    let pairs = times(100_000, |i| (i / 2).to_string());
    refused(
        &trap.object("parts", &format!(r#"{{"set":[{pairs}]}}"#)).await,
        422,
        "spec.set[1]: Duplicate value: 0",
    );
    let keyed = times(50_000, |i| format!(r#"{{"v":{i}}}"#));
    let answer = trap.object("parts", &format!(r#"{{"keyed":[{keyed}]}}"#)).await;
    refused(&answer, 422, r#"spec.keyed[1]: Duplicate value: {"k":"same"}"#);

    // Each of many unknown fields has a long name above it.
    let unknown = times(50_000, |i| format!(r#""u{i}":0"#));
    let body = format!(r#"{{"{}":[{{{unknown}}}]}}"#, "n".repeat(MIB / 2));
    assert!(trap.object("parts", &body).await.status < 500);
    trap.registered(
        "names",
        r#"{"type":"object","additionalProperties":{"type":"array","items":{"type":"object"}}}"#,
    )
    .await;
    let answer = trap.object("names", &body).await;
    assert_eq!(answer.status, 201);
    assert!(answer.warnings().iter().map(|warning| warning.len()).sum::<usize>() < MIB);
}

#[tokio::test]
async fn defaults_that_multiply() {
    let mut trap = Trap::new().await;
    let text = "d".repeat(MIB);
    let schema = format!(
        r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"object","properties":{{"t":{{"type":"string","default":"{text}"}}}}}}}}}}}}"#
    );
    trap.registered("defaults", &schema).await;
    let items = |number: usize| format!(r#"{{"l":[{}]}}"#, times(number, |_| "{}".to_owned()));
    assert_eq!(trap.object("defaults", &items(1)).await.status, 201);
    refused(&trap.object("defaults", &items(5)).await, 413, "");
    let text = "the defaults of its schema would add more than";
    refused(&trap.object("defaults", &items(1_000)).await, 400, text);
    refused(&trap.object("defaults", &items(400_000)).await, 400, text);
    // Objects that were stored before their type had the defaults.
    trap.registered(
        "laters",
        r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"object"}}}}"#,
    )
    .await;
    assert_eq!(trap.object("laters", &items(100_000)).await.status, 201);
    let name = format!("{CRDS}/laters.{GROUP}");
    let mut grown = trap.client.get(&name).await.unwrap().json();
    grown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        serde_json::from_str(&schema).unwrap();
    assert_eq!(trap.send("PUT", &name, grown.to_string(), "the change of laters").await.status, 200);
    let path = format!("/apis/{GROUP}/v1/namespaces/default/laters");
    // Whether the change is served yet is not the question.
    for path in [path.clone(), format!("{path}/trap")] {
        let answer = trap.client.get(&path).await.unwrap();
        assert!(
            answer.status == 200 || answer.text().contains(text),
            "{} {:.300}",
            answer.status,
            answer.text()
        );
        trap.goes_on("a read of laters").await;
    }
}

#[tokio::test]
async fn columns_and_fields_with_hostile_paths() {
    let mut trap = Trap::new().await;
    let mut body = crd(GROUP, "columns", "Columns", "Namespaced");
    let paths = [
        format!(".spec{}", "..x".repeat(20)),
        "..".repeat(1_000),
        ".spec[*][*][*][*][*][*]".to_owned(),
        format!(".{}", "a".repeat(100_000)),
        format!(".spec{}", "[?(@.a==1)]".repeat(100)),
        ".spec['".to_owned(),
        "{{{{".to_owned(),
        "[".repeat(10_000),
    ];
    let columns: Vec<Value> = paths
        .iter()
        .enumerate()
        .map(|(i, path)| json!({"name": format!("c{i}"), "type": "string", "jsonPath": path}))
        .collect();
    let version = &mut body["spec"]["versions"][0];
    version["additionalPrinterColumns"] = json!(columns);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let whole = trap.send("POST", CRDS, body.to_string(), "columns").await;
    assert!(matches!(whole.status, 201 | 422), "{:.300}", whole.text());
    // Refused columns are dropped; the others are used.
    for column in (0..columns.len()).rev() {
        let mut one = body.clone();
        one["spec"]["versions"][0]["additionalPrinterColumns"] = json!([columns[column]]);
        let answer = trap.send("POST", &format!("{CRDS}?dryRun=All"), one.to_string(), "a column").await;
        if answer.status != 201 && answer.status != 409 {
            refused(&answer, 422, "spec.additionalPrinterColumns[0].JSONPath");
            body["spec"]["versions"][0]["additionalPrinterColumns"].as_array_mut().unwrap().remove(column);
        }
    }
    if whole.status != 201 {
        trap.send("POST", CRDS, body.to_string(), "columns").await.expect_status(201).unwrap();
    }
    condition(&trap.client, &format!("columns.{GROUP}"), "Established", "True").await;
    let nested = format!("{}1{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
    let wide = times(50_000, |i| format!(r#"{{"x":{i}}}"#));
    trap.object("columns", &format!(r#"{{"n":{nested},"l":[{wide}]}}"#)).await.expect_status(201).unwrap();
    let list = trap
        .client
        .request("GET", &format!("/apis/{GROUP}/v1/namespaces/default/columns"))
        .accept("application/json;as=Table;v=v1;g=meta.k8s.io")
        .send()
        .await
        .unwrap();
    assert_eq!(list.status, 200, "{:.300}", list.text());
    trap.goes_on("a table").await;

    let mut body = crd(GROUP, "selects", "Select", "Namespaced");
    body["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": format!(".spec{}", ".x".repeat(100_000))}, {"jsonPath": "[".repeat(10_000)}]);
    let answer = trap.send("POST", CRDS, body.to_string(), "fields").await;
    refused(&answer, 422, "selectableFields[0].jsonPath");
}
