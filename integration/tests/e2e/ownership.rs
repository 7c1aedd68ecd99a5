//! Random graphs of ownership under deletes, kills and restarts: what remains is what a model says, and nothing was removed
//! while one of its owners was there.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};

use kindom_integration::{Client, ClusterOptions, Random, ServerOptions, count};
use serde_json::{Value, json};

use crate::chaos::kill;
use crate::support::{crd, eventually, names, register, revision, until_gone};

const GROUP: &str = "ownership.example.com";
/// Collection, apiVersion and kind of each type.
const TYPES: [(&str, &str, &str); 3] = [
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/secrets", "v1", "Secret"),
    ("/apis/ownership.example.com/v1/namespaces/default/widgets", "ownership.example.com/v1", "Widget"),
];
/// The number of objects that are made at once; their owners are made before them.
const LAYER: usize = 40;

/// The number of deletes between two kills of the actors.
const AT_ONCE: usize = 12;

/// The objects by number: the owners of each, and whether it is deleted by a client.
struct Plan {
    owners: Vec<BTreeSet<usize>>,
    deleted: Vec<Option<&'static str>>,
}

impl Plan {
    fn new(random: &mut Random, objects: usize) -> Self {
        let mut owners: Vec<BTreeSet<usize>> = Vec::new();
        for n in 0..objects {
            let earlier = n / LAYER * LAYER;
            let wanted = if earlier == 0 { 0 } else { 1 + random.below(6) / 4 };
            // Mostly of the layer before, so that chains get long.
            let from = |random: &mut Random| {
                if random.percent(80) { earlier - LAYER + random.below(LAYER) } else { random.below(earlier) }
            };
            owners.push((0..wanted).map(|_| from(random)).collect());
        }
        // Circles.
        for _ in 0..objects / 50 {
            let (a, b) = (random.below(objects), random.below(objects));
            owners[a.min(b)].insert(a.max(b));
        }
        let policies = ["Background", "Foreground"];
        let deleted = (0..objects).map(|_| random.percent(10).then(|| random.text(&policies))).collect();
        Self { owners, deleted }
    }

    /// Those that remain: no client deleted them, and they have no owner or one that remains.
    fn remaining(&self) -> BTreeSet<usize> {
        let mut left: BTreeSet<usize> =
            (0..self.owners.len()).filter(|n| self.deleted[*n].is_none()).collect();
        loop {
            let goes: BTreeSet<usize> = left
                .iter()
                .filter(|n| !self.owners[**n].is_empty() && self.owners[**n].is_disjoint(&left))
                .copied()
                .collect();
            if goes.is_empty() {
                return left;
            }
            left.retain(|n| !goes.contains(n));
        }
    }
}

fn name(n: usize) -> String {
    format!("o{n}")
}

fn path(n: usize) -> String {
    format!("{}/{}", TYPES[n % TYPES.len()].0, name(n))
}

fn reference(n: usize, uid: &str, blocks: bool) -> Value {
    let (_, api_version, kind) = TYPES[n % TYPES.len()];
    json!({ "apiVersion": api_version, "kind": kind, "name": name(n), "uid": uid, "blockOwnerDeletion": blocks })
}

/// Asks until there is one of these answers: meanwhile the server may be away.
async fn persist(client: &Client, method: &str, path: &str, body: Option<&Value>, done: &[u16]) -> Value {
    eventually(path, async || {
        let mut request = client.request(method, path);
        if let Some(body) = body {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            request = request.body(kind, body.to_string());
        }
        // What cannot be reached comes back.
        let answer = request.send().await.ok()?;
        if done.contains(&answer.status) {
            return Some(answer.json());
        }
        assert!(matches!(answer.status, 409 | 429 | 500..), "{path}: {}", answer.text());
        None
    })
    .await
}

/// Makes the objects of a plan. Gives back their uids.
async fn make(client: &Client, plan: &Plan) -> Vec<String> {
    let mut uids: Vec<String> = Vec::new();
    let objects = plan.owners.len();
    for layer in (0..objects).step_by(LAYER) {
        let creates = (layer..objects.min(layer + LAYER)).map(|n| {
            let (collection, api_version, kind) = TYPES[n % TYPES.len()];
            let owners = plan.owners[n].iter().filter(|owner| **owner < layer);
            let owners: Vec<Value> =
                owners.map(|owner| reference(*owner, &uids[*owner], n % 3 > 0)).collect();
            let metadata = json!({ "name": name(n), "ownerReferences": owners });
            let body = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
            async move { persist(client, "POST", collection, Some(&body), &[201]).await }
        });
        let made: Vec<Value> = stream::iter(creates).buffered(16).collect().await;
        uids.extend(made.iter().map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned()));
    }
    for (n, owners) in plan.owners.iter().enumerate() {
        if owners.iter().any(|owner| *owner >= n / LAYER * LAYER) {
            let owners: Vec<Value> =
                owners.iter().map(|owner| reference(*owner, &uids[*owner], true)).collect();
            let patch = json!({ "metadata": { "ownerReferences": owners } });
            persist(client, "PATCH", &path(n), Some(&patch), &[200]).await;
        }
    }
    uids
}

/// Deletes some of the objects, while actors are killed.
async fn delete(client: &Client, plan: &Plan, of: std::ops::Range<usize>) {
    let all: Vec<(usize, &str)> = of.filter_map(|n| Some((n, plan.deleted[n]?))).collect();
    for some in all.chunks(AT_ONCE) {
        let deletes = some.iter().map(|(n, policy)| async move {
            let path = format!("{}?propagationPolicy={policy}", path(*n));
            // It may have lost its owners by now.
            persist(client, "DELETE", &path, None, &[200, 404]).await;
        });
        let kills = ["garbage-collector", "resource/configmaps.", "resource/widgets.ownership.example.com"]
            .map(|actor| kill(client, actor));
        futures::future::join(futures::future::join_all(deletes), futures::future::join_all(kills)).await;
    }
}

async fn left(client: &Client) -> BTreeSet<usize> {
    let mut left = BTreeSet::new();
    for (collection, ..) in TYPES {
        let list = persist(client, "GET", collection, None, &[200]).await;
        left.extend(names(&list).iter().filter_map(|name| name.strip_prefix('o')?.parse::<usize>().ok()));
    }
    left
}

/// Waits until what is left is what the model says, and then until the collector has looked at everything.
async fn settle(client: &Client, expected: &BTreeSet<usize>) {
    loop {
        let left = left(client).await;
        let lost: Vec<&usize> = expected.difference(&left).collect();
        assert!(lost.is_empty(), "they had an owner: {lost:?}");
        let Some(next) = left.difference(expected).next() else { break };
        // An event, and no time, ends the wait.
        until_gone(client, TYPES[next % TYPES.len()].0, &name(*next)).await;
    }
    let ghost = json!([{ "apiVersion": "v1", "kind": "Secret", "name": "never", "uid": "never" }]);
    let last = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "last", "ownerReferences": ghost } });
    persist(client, "POST", TYPES[0].0, Some(&last), &[201]).await;
    until_gone(client, TYPES[0].0, "last").await;
    assert_eq!(left(client).await, *expected);
}

/// An object's end, as a watch saw it.
struct Seen {
    marked: Option<u64>,
    gone: Option<u64>,
    owners: Vec<usize>,
}

/// The ends of all objects, in the order of their revisions.
async fn history(client: &Client, from: u64, removed: usize) -> BTreeMap<usize, Seen> {
    let mut ends: BTreeMap<usize, Seen> = BTreeMap::new();
    let mut found = 0;
    for (collection, ..) in TYPES {
        let mut watch =
            client.watch(&format!("{collection}?watch=true&resourceVersion={from}")).await.unwrap();
        loop {
            let event = watch.event().await.unwrap();
            let (object, what) = (&event["object"], event["type"].as_str().unwrap());
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if name == "end" && what == "DELETED" {
                break;
            }
            let Some(n) = name.strip_prefix('o').and_then(|n| n.parse::<usize>().ok()) else { continue };
            let seen = ends.entry(n).or_insert(Seen { marked: None, gone: None, owners: Vec::new() });
            if object["metadata"]["deletionTimestamp"].is_string() && what == "MODIFIED" {
                seen.marked.get_or_insert(revision(object));
            }
            if what == "DELETED" {
                found += 1;
                seen.gone = Some(revision(object));
                let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                seen.owners = owners
                    .iter()
                    .filter_map(|owner| owner["name"].as_str()?.strip_prefix('o')?.parse().ok())
                    .collect();
            }
        }
    }
    assert_eq!(found, removed);
    ends
}

/// The objects that were removed although an owner was there and nobody had deleted it.
fn wronged(plan: &Plan, ends: &BTreeMap<usize, Seen>) -> Vec<usize> {
    let gone = |n: &usize| ends.get(n).and_then(|seen| seen.gone);
    let collected = ends.iter().filter(|(n, seen)| plan.deleted[**n].is_none() && seen.gone.is_some());
    let had_owner = collected.filter(|(n, seen)| {
        let at = gone(n).unwrap();
        seen.owners.iter().any(|owner| {
            let end = ends.get(owner).and_then(|owner| owner.marked.or(owner.gone));
            end.is_none_or(|end| end > at)
        })
    });
    had_owner.map(|(n, _)| *n).collect()
}

/// Marks the end of what is to be seen, in each type.
async fn end(client: &Client) {
    for (collection, api_version, kind) in TYPES {
        let body = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "end" } });
        persist(client, "POST", collection, Some(&body), &[201, 409]).await;
        persist(client, "DELETE", &format!("{collection}/end"), None, &[200, 404]).await;
    }
}

async fn check(client: &Client, plan: &Plan, from: u64) {
    let expected = plan.remaining();
    settle(client, &expected).await;
    end(client).await;
    let removed = plan.owners.len() - expected.len();
    let ends = history(client, from, removed).await;
    assert_eq!(wronged(plan, &ends), Vec::<usize>::new());
    let by_client = plan.deleted.iter().flatten().count();
    println!("{} objects, {by_client} deleted by a client, {removed} gone", plan.owners.len());
}

async fn start(client: &Client) -> u64 {
    register(client, &crd(GROUP, "widgets", "Widget", "Namespaced")).await;
    revision(&client.get(TYPES[0].0).await.unwrap().json())
}

#[tokio::test]
async fn nothing_with_an_owner_goes_and_all_else_does() {
    let args = ["--etcd-compaction-interval", "1h"];
    let mut server = ServerOptions::default().chaos().args(&args).start().await.unwrap();
    let client = server.client().unwrap();
    let from = start(&client).await;
    let plan = Plan::new(&mut Random::new(7), count(400, 10_000));
    make(&client, &plan).await;
    let half = plan.owners.len() / 2;
    delete(&client, &plan, half..plan.owners.len()).await;
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    delete(&client, &plan, 0..half).await;
    server.restart().await.unwrap();
    check(&server.client().unwrap(), &plan, from).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_with_an_owner_goes_on_three_replicas() {
    let args = ["--enable-chaos", "--etcd-compaction-interval", "1h"];
    let mut cluster = ClusterOptions::default().nodes(1).args(&args).start().await.unwrap();
    let client = cluster.client(0, false).unwrap();
    let from = start(&client).await;
    let plan = Plan::new(&mut Random::new(11), count(200, 10_000));
    make(&client, &plan).await;
    let third = plan.owners.len() / 3;
    for replica in 0..3 {
        let client = cluster.client((replica + 1) % 3, false).unwrap();
        let last = if replica == 2 { plan.owners.len() } else { (replica + 1) * third };
        delete(&client, &plan, replica * third..last).await;
        // Whoever leads.
        cluster.restart(replica).await.unwrap();
    }
    check(&cluster.client(1, false).unwrap(), &plan, from).await;
}

/// The model would see it.
#[test]
fn what_goes_before_its_owner_is_found() {
    let plan = Plan {
        owners: vec![BTreeSet::new(), [0].into(), [0].into()],
        deleted: vec![Some("Background"), None, None],
    };
    assert_eq!(plan.remaining(), BTreeSet::new());
    let seen = |gone, owners: &[usize]| Seen { marked: None, gone: Some(gone), owners: owners.to_vec() };
    let ends = BTreeMap::from([(0, seen(10, &[])), (1, seen(9, &[0])), (2, seen(11, &[0]))]);
    assert_eq!(wronged(&plan, &ends), [1]);
}
