//! Applies and managedFields from those who mean harm, and from those who are in each other's way. The script
//! `hostile-apply` has the real server's answers to the first; here are the cases for which it takes too long.

use std::fmt::Write as _;

use kindom_integration::{Answer, Client, Random, Server, count};
use serde_json::{Value, json};

use crate::support::{CRDS, condition, namespace, refused, register, until_gone};

const GROUP: &str = "hostile-apply.example.com";
const BOATS: &str = "/apis/hostile-apply.example.com/v1/namespaces/default/boats";
const MIB: usize = 1024 * 1024;
const MEMORY_MAX: u64 = 768 * 1024 * 1024;

/// A type with a keyed list, a set, a number and a part without a schema.
pub(crate) fn boats(group: &str) -> Value {
    let mut registration = crate::support::crd(group, "boats", "Boat", "Namespaced");
    let v1 = &mut registration["spec"]["versions"][0];
    v1["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    v1["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "colour": {"type": "string"},
            "size": {"type": "integer"},
            "replicas": {"type": "integer"},
            "crew": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "rank": {"type": "integer"},
                }},
            },
            "flags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "phase": {"type": "string"},
        }},
    }});
    registration
}

pub(crate) fn boat(group: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Boat", "metadata": {"name": name}, "spec": spec})
}

/// An apply patch as it stands.
pub(crate) async fn apply_text(
    client: &Client,
    path: &str,
    query: &str,
    patch: impl Into<Vec<u8>>,
) -> Answer {
    let request = client.request("PATCH", &format!("{path}?{query}"));
    request.body("application/apply-patch+yaml", patch.into()).send().await.unwrap()
}

/// An apply patch.
pub(crate) async fn apply(client: &Client, path: &str, query: &str, patch: &Value) -> Answer {
    apply_text(client, path, query, patch.to_string()).await
}

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &boats(GROUP)).await;
    (server, client)
}

fn at(name: &str) -> String {
    format!("{BOATS}/{name}")
}

/// The managers that own a field of an object, by the field's path in FieldsV1.
fn owners(object: &Value, field: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owns = |entry: &&Value| entry["fieldsV1"].pointer(field).is_some();
    entries.iter().filter(owns).map(|e| e["manager"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns true for an answer that nonsense may get: accepted, refused, or upstream's own 500 for a patch that the type's
/// schema cannot read.
fn proper(answer: &Answer) -> bool {
    let status = answer.json();
    match answer.status {
        200 | 201 => true,
        400..500 => status["kind"] == "Status" && status["message"].as_str().is_some_and(|m| !m.is_empty()),
        500 => {
            let message = status["message"].as_str().unwrap_or_default();
            ["failed to create typed patch object", "failed to create typed live object", "strconv.ParseUint"]
                .iter()
                .any(|known| message.starts_with(known))
        }
        _ => false,
    }
}

fn head(name: &str) -> String {
    format!("apiVersion: {GROUP}/v1\nkind: Boat\nmetadata: {{name: {name}}}\n")
}

#[tokio::test]
async fn patches_that_explode_are_refused_and_leave_nothing_behind() {
    let (server, client) = started().await;
    let one = boat(GROUP, "one", json!({"colour": "red"}));
    let kept =
        apply(&client, &at("one"), "fieldManager=owner", &one).await.expect_status(201).unwrap().json();

    let doc = head("one");
    let mut laughs = format!("{doc}spec:\n  open:\n    a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..40 {
        writeln!(laughs, "    a{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 8].join(", ")).unwrap();
    }
    // Few steps of nesting, but each anchor is used in many places.
    let mut wide = format!("{doc}spec:\n  open:\n    x: &x {{t: {}}}\n", "y".repeat(10_000));
    for i in 0..20_000 {
        writeln!(wide, "    k{i}: *x").unwrap();
    }
    let json_head =
        format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"Boat","metadata":{{"name":"one"}},"spec":{{"open":"#);
    let deep = |levels: usize| format!("{json_head}{}1{}}}}}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let indented: String = (0..3_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("laughs", laughs.into_bytes()),
        ("wide", wide.into_bytes()),
        ("an apply nested 20,000 deep", deep(20_000).into_bytes()),
        ("flow maps", format!("{doc}spec: {}", "{a: ".repeat(200_000)).into_bytes()),
        ("flow lists", format!("{doc}spec: {}", "[".repeat(2 * MIB)).into_bytes()),
        ("indents", indented.into_bytes()),
        ("sequences", "- ".repeat(100_000).into_bytes()),
        ("keys", "? ".repeat(100_000).into_bytes()),
        ("quotes", format!("{doc}spec: {{colour: \"{}", "\\u0041".repeat(300_000)).into_bytes()),
        ("invalid text", [doc.as_bytes(), b"spec: {colour: \xff\xfe}\n"].concat()),
        ("UTF-16", doc.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("too large", format!("{doc}spec: {{colour: {}}}\n", "x".repeat(4 * MIB)).into_bytes()),
        ("too large to be stored", format!("{doc}spec: {{colour: {}}}\n", "x".repeat(2 * MIB)).into_bytes()),
    ];
    for (what, body) in bodies {
        let answer = apply_text(&client, &at("one"), "fieldManager=other&force=true", body).await;
        assert!(answer.status != 200 && proper(&answer), "{what}: {} {:.300}", answer.status, answer.text());
    }
    // A patch that is only large is accepted or refused, but answered.
    let same: String = "  - {name: ann}\n".repeat(50_000);
    let many: String = (0..20_000).fold(String::new(), |mut all, i| {
        write!(all, "{{name: n{i}}},").unwrap();
        all
    });
    for (what, body) in [
        ("one name 50,000 times", format!("{doc}spec:\n  crew:\n{same}")),
        ("20,000 names", format!("{doc}spec: {{crew: [{many}]}}\n")),
        ("nested 5,000 deep", deep(5_000)),
    ] {
        let answer = apply_text(&client, &at("one"), "fieldManager=other&force=true&dryRun=All", body).await;
        assert!(proper(&answer), "{what}: {} {:.300}", answer.status, answer.text());
    }
    assert_eq!(client.get(&at("one")).await.unwrap().json(), kept);
    let peak = server.peak_memory_bytes().unwrap();
    assert!(peak < MEMORY_MAX, "{} MiB", peak / 1024 / 1024);
}

#[tokio::test]
async fn managed_fields_of_any_size_and_shape_are_kept_or_dropped_but_answered() {
    let (server, client) = started().await;
    apply(&client, &at("one"), "fieldManager=owner", &boat(GROUP, "one", json!({"colour": "red"})))
        .await
        .expect_status(201)
        .unwrap();
    // As text: values nested so deep are more than a test's stack takes.
    let entry = |manager: &str, fields: &str| {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"{GROUP}/v1","time":"2020-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
        )
    };
    let nested = |levels: usize| format!("{}{{}}{}", r#"{"f:open":"#.repeat(levels), "}".repeat(levels));
    let members =
        |member: &dyn Fn(usize) -> String, count: usize| (0..count).map(member).collect::<Vec<_>>().join(",");
    let wide =
        format!(r#"{{"f:spec":{{"f:open":{{{}}}}}}}"#, members(&|i| format!(r#""f:k{i}":{{}}"#), 40_000));
    let keys = members(&|i| format!(r#""k:{{\"name\":\"n{i}\"}}":{{".":{{}}}}"#), 10_000);
    let keys = format!(r#"{{"f:spec":{{"f:crew":{{{keys}}}}}}}"#);
    let colour = r#"{"f:spec":{"f:colour":{}}}"#;
    let many = members(&|i| entry(&format!("m{i}"), colour), 4_000);
    let long = format!(r#"{{"f:{}":{{}}}}"#, "x".repeat(MIB));
    for (what, entries) in [
        ("nested", entry("deep", &nested(1_000))),
        ("nested deeper", entry("deep", &nested(4_900))),
        ("nested too deep", entry("deep", &nested(20_000))),
        ("wide", entry("wide", &wide)),
        ("many", many),
        ("keys", entry("keys", &keys)),
        ("a long manager", entry(&"m".repeat(MIB), colour)),
        ("a long field", entry("long", &long)),
    ] {
        let patch = format!(r#"{{"metadata":{{"managedFields":[{entries}]}},"spec":{{"colour":"{what}"}}}}"#);
        let request = client.request("PATCH", &format!("{}?fieldManager=patcher", at("one")));
        let answer = request.body("application/merge-patch+json", patch).send().await.unwrap();
        assert!(proper(&answer), "{what}: {} {:.300}", answer.status, answer.text());
        // Whatever is stored now, an apply and an update still work on it.
        let next = boat(GROUP, "one", json!({"size": 1}));
        let applied = apply(&client, &at("one"), "fieldManager=next&force=true", &next).await;
        assert_eq!(applied.status, 200, "{what}: {:.300}", applied.text());
        assert_eq!(applied.at("/spec/size"), 1, "{what}");
        assert!(owners(&applied.json(), "/f:spec/f:size").contains(&"next".to_owned()), "{what}");
        // And they can be taken off.
        let stripped =
            client.merge_patch(&at("one"), &json!({"metadata": {"managedFields": [{}]}})).await.unwrap();
        assert_eq!((stripped.status, stripped.at("/metadata/managedFields")), (200, Value::Null), "{what}");
    }
    let peak = server.peak_memory_bytes().unwrap();
    assert!(peak < MEMORY_MAX, "{} MiB", peak / 1024 / 1024);
}

/// A small generator, so that a seed says which bytes they were.
struct Dice(Random);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.below(sides)
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }

    /// Noise, or a patch that was right until a few of its parts were changed.
    fn patch(&mut self) -> Vec<u8> {
        if self.roll(4) == 0 {
            return (0..self.roll(200)).map(|_| u8::try_from(self.roll(256)).unwrap_or_default()).collect();
        }
        const PARTS: &[&[u8]] = &[
            b"{",
            b"}",
            b"[",
            b"]",
            b": ",
            b", ",
            b"\n",
            b"\n  ",
            b"- ",
            b"? ",
            b"&a ",
            b"*a",
            b"<<: ",
            b"!!str ",
            b"|\n",
            b">-\n",
            b"'",
            b"\"",
            b"#",
            b"---\n",
            b"...\n",
            b"%YAML 1.1\n",
            b"null",
            b"~",
            b"true",
            b"no",
            b"0x1f",
            b"1e9",
            b"-1",
            b"99999999999",
            b".inf",
            b"\t",
            b"\0",
            b"\xff",
            b"\xe2\x82\xac",
            b"metadata",
            b"managedFields",
            b"spec",
            b"status",
            b"crew",
            b"name",
            b"open",
            b"replicas",
            b"apiVersion",
            b"kind",
            b"f:spec",
            b"k:{\"name\":\"a\"}",
            b"resourceVersion",
            b"finalizers",
            b"labels",
        ];
        let yaml = format!(
            "{}spec:\n  colour: red\n  size: 3\n  crew: [{{name: a, rank: 1}}, {{name: b}}]\n  flags: [x, y]\n  open: {{a: &a [1], b: *a}}\n",
            head("noise")
        );
        let json = boat(
            GROUP,
            "noise",
            json!({"crew": [{"name": "a"}], "flags": ["x"], "open": {"a": [1.5, null]}}),
        );
        let mut text = if self.roll(2) == 0 { yaml.into_bytes() } else { json.to_string().into_bytes() };
        for _ in 0..self.roll(4) {
            let from = self.roll(text.len() + 1);
            let to = (from + self.roll(12)).min(text.len());
            let with: Vec<u8> = match self.roll(3) {
                0 => Vec::new(),
                1 => self.pick(PARTS).to_vec(),
                _ => text[from..to].repeat(2),
            };
            text.splice(from..to, with);
        }
        text
    }
}

#[tokio::test]
async fn noise_as_a_patch_is_never_more_than_refused() {
    let (server, client) = started().await;
    let mut told = [0; 6];
    for seed in 0..count(400, 20_000) {
        let mut dice = Dice(Random::new(u64::try_from(seed).unwrap()));
        let patch = dice.patch();
        let path = dice.pick::<str>(&["", "", "", "/status", "/scale"]);
        let query = dice.pick::<str>(&[
            "fieldManager=a",
            "fieldManager=b&force=true",
            "fieldManager=c&fieldValidation=Strict",
        ]);
        let answer = apply_text(&client, &format!("{}{path}", at("noise")), query, patch.clone()).await;
        assert!(
            proper(&answer),
            "seed {seed}, {path} {query}: {} {:.300}\n{}",
            answer.status,
            answer.text(),
            String::from_utf8_lossy(&patch)
        );
        told[usize::from(answer.status / 100)] += 1;
    }
    println!("noise: {} taken, {} refused, {} as upstream's 500", told[2], told[4], told[5]);
    assert!(told[2] > 0 && told[4] > 0);
    assert!(server.peak_memory_bytes().unwrap() < MEMORY_MAX);
    // Accepted objects can be read, and deleted.
    client.get(BOATS).await.unwrap().expect_status(200).unwrap();
    client.delete(BOATS).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_for_a_field_has_one_winner() {
    let (_server, client) = started().await;
    let racers = count(8, 32);
    for round in 0..count(5, 50) {
        let path = at(&format!("race-{round}"));
        let race = |force: bool| {
            let (client, path) = (client.clone(), path.clone());
            futures::future::join_all((0..racers).map(move |i| {
                let (client, path) = (client.clone(), path.clone());
                async move {
                    let name = path.rsplit('/').next().unwrap().to_owned();
                    let patch = boat(GROUP, &name, json!({"colour": format!("c{i}")}));
                    apply(&client, &path, &format!("fieldManager=m{i}&force={force}"), &patch).await
                }
            }))
        };
        let answers = race(false).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|a| matches!(a.status, 200 | 201));
        assert_eq!(won.len(), 1, "{:?}", won.iter().map(|a| a.text()).collect::<Vec<_>>());
        assert_eq!(won[0].status, 201);
        let winner = won[0].at("/metadata/managedFields/0/manager");
        for answer in lost {
            let status = refused(Ok(answer.clone()), 409, "Conflict", "Apply failed with 1 conflict");
            assert_eq!(status["details"]["causes"][0]["reason"], "FieldManagerConflict");
            assert_eq!(status["details"]["causes"][0]["field"], ".spec.colour");
            let who = format!("conflict with \"{}\"", winner.as_str().unwrap());
            assert_eq!(status["details"]["causes"][0]["message"], who);
        }
        for answer in race(true).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let last = client.get(&path).await.unwrap().json();
        let owner = owners(&last, "/f:spec/f:colour");
        assert_eq!(owner.len(), 1, "{last}");
        assert_eq!(
            last["spec"]["colour"].as_str().unwrap().trim_start_matches('c'),
            owner[0].trim_start_matches('m')
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_applies_what_is_theirs_disturbs_nobody() {
    let (_server, client) = started().await;
    let appliers = count(8, 24);
    let turns = count(6, 60);
    let work = (0..appliers).map(|i| {
        let client = client.clone();
        tokio::spawn(async move {
            for turn in 0..turns {
                let spec = json!({"crew": [{"name": format!("n{i}"), "rank": turn}], "flags": [format!("f{i}-{}", turn % 2)]});
                let answer =
                    apply(&client, &at("shared"), &format!("fieldManager=m{i}"), &boat(GROUP, "shared", spec)).await;
                // Without a resourceVersion a lost race is run again.
                assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
            }
        })
    });
    for task in work {
        task.await.unwrap();
    }
    let last = client.get(&at("shared")).await.unwrap().json();
    assert_eq!(last["spec"]["crew"].as_array().unwrap().len(), appliers);
    assert_eq!(last["spec"]["flags"].as_array().unwrap().len(), appliers, "{}", last["spec"]["flags"]);
    assert_eq!(last["metadata"]["managedFields"].as_array().unwrap().len(), appliers);
    for i in 0..appliers {
        let me = format!("m{i}");
        let item =
            last["spec"]["crew"].as_array().unwrap().iter().find(|c| c["name"] == format!("n{i}")).unwrap();
        assert_eq!(item["rank"], turns - 1);
        let field = format!("/f:spec/f:crew/k:{{\"name\":\"n{i}\"}}/f:rank");
        assert_eq!(owners(&last, &field), std::slice::from_ref(&me));
        assert_eq!(owners(&last, &format!("/f:spec/f:flags/v:\"f{i}-{}\"", (turns - 1) % 2)), [me]);
    }
}

#[tokio::test]
async fn an_apply_while_its_type_or_namespace_goes() {
    let (_server, client) = started().await;
    let held = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Boat",
        "metadata": {"name": "held", "finalizers": ["hostile.example.com/hold"]}, "spec": {"colour": "red"},
    });
    apply(&client, &at("held"), "fieldManager=a", &held).await.expect_status(201).unwrap();
    let registration = format!("{CRDS}/boats.{GROUP}");
    client.delete(&registration).await.unwrap().expect_status(200).unwrap();
    condition(&client, &format!("boats.{GROUP}"), "Terminating", "True").await;
    let new = apply(&client, &at("new"), "fieldManager=a", &boat(GROUP, "new", json!({}))).await;
    refused(Ok(new), 403, "Forbidden", "create not allowed while custom resource definition is terminating");
    // An existing object may be changed: its finalizer must be removable.
    let mut freed = held.clone();
    freed["metadata"].as_object_mut().unwrap().remove("finalizers");
    let answer = apply(&client, &at("held"), "fieldManager=a", &freed).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    until_gone(&client, CRDS, &format!("boats.{GROUP}")).await;
    let gone = apply(&client, &at("held"), "fieldManager=a", &freed).await;
    assert_eq!(gone.status, 404, "{}", gone.text());

    // The next type of this name knows nothing of the old managers.
    register(&client, &boats(GROUP)).await;
    let again =
        apply(&client, &at("held"), "fieldManager=b", &freed).await.expect_status(201).unwrap().json();
    assert_eq!(owners(&again, "/f:spec/f:colour"), ["b"]);

    namespace(&client, "ending").await;
    let inside = format!("/apis/{GROUP}/v1/namespaces/ending/boats");
    apply(&client, &format!("{inside}/held"), "fieldManager=a", &held).await.expect_status(201).unwrap();
    client.delete("/api/v1/namespaces/ending").await.unwrap().expect_status(200).unwrap();
    let late =
        apply(&client, &format!("{inside}/new"), "fieldManager=a", &boat(GROUP, "new", json!({}))).await;
    refused(Ok(late), 403, "Forbidden", "because it is being terminated");
    let none = format!("/apis/{GROUP}/v1/namespaces/none/boats/new");
    let nowhere = apply(&client, &none, "fieldManager=a", &boat(GROUP, "new", json!({}))).await;
    refused(Ok(nowhere), 404, "NotFound", "namespaces \"none\" not found");
    let answer = apply(&client, &format!("{inside}/held"), "fieldManager=a", &freed).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    until_gone(&client, "/api/v1/namespaces", "ending").await;
}
