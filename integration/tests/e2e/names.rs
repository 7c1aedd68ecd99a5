//! Names from outside: what a conflict tells, who is promoted when, waits, warnings, and the great race.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindom_integration::{Answer, Client, Server, ServerOptions, WatchStream, count};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::support::{CRDS, crd, namespace, object, refused, register, revision, until, until_gone};

const GROUP: &str = "names.example.com";
/// Whoever makes no progress for so long never will.
const STUCK: Duration = Duration::from_secs(120);

async fn server() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

/// A registration of its own plural, with this singular and these short names.
fn named(group: &str, plural: &str, singular: &str, short: &[&str]) -> Value {
    let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..]);
    let mut registration = crd(group, plural, &kind, "Namespaced");
    registration["spec"]["names"] =
        json!({"plural": plural, "singular": singular, "kind": kind, "shortNames": short});
    registration
}

fn path(plural: &str) -> String {
    format!("{CRDS}/{plural}.{GROUP}")
}

fn condition_of<'a>(registration: &'a Value, kind: &str) -> &'a Value {
    let all = registration["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|c| c["type"] == kind)).unwrap_or(&Value::Null)
}

fn is(registration: &Value, kind: &str, status: &str) -> bool {
    condition_of(registration, kind)["status"] == status
}

fn told(registration: &Value) -> &str {
    condition_of(registration, "NamesAccepted")["message"].as_str().unwrap_or_default()
}

async fn until_told(client: &Client, plural: &str, text: &str) -> Value {
    until(client, CRDS, &format!("{plural}.{GROUP}"), |o| told(o).contains(text)).await
}

/// A watch of all registrations from now on.
async fn watch_from_now(client: &Client) -> WatchStream {
    let from = revision(&client.get(CRDS).await.unwrap().json());
    client.watch(&format!("{CRDS}?watch=true&resourceVersion={from}")).await.unwrap()
}

#[tokio::test]
async fn a_conflict_names_the_holder_since_when_and_the_way_out() {
    let (_server, client) = server().await;
    register(&client, &named(GROUP, "rings", "ring", &["rg"])).await;
    let holder = client.get(&path("rings")).await.unwrap().json();
    let since = condition_of(&holder, "NamesAccepted")["lastTransitionTime"].as_str().unwrap().to_owned();
    client.post(CRDS, &named(GROUP, "bands", "band", &["rg"])).await.unwrap().expect_status(201).unwrap();
    let waiting = until(&client, CRDS, &format!("bands.{GROUP}"), |o| is(o, "NamesAccepted", "False")).await;
    assert_eq!(condition_of(&waiting, "NamesAccepted")["reason"], "ShortNamesConflict");
    assert_eq!(
        told(&waiting),
        format!(
            "\"rg\" is already in use by rings.{GROUP} (short name, since {since}); choose another short name, or \
             delete or rename rings.{GROUP}"
        )
    );
    // What is free is accepted all the same.
    let accepted = &waiting["status"]["acceptedNames"];
    assert_eq!(
        accepted,
        &json!({"plural": "bands", "singular": "band", "kind": "Bands", "listKind": "BandsList"})
    );

    // The holder is being deleted, and an object holds it: the message says so.
    let rings = format!("/apis/{GROUP}/v1/namespaces/default/rings");
    let mut held = object(GROUP, "Rings", "one", json!({}));
    held["metadata"]["finalizers"] = json!(["names.example.com/hold"]);
    client.post(&rings, &held).await.unwrap().expect_status(201).unwrap();
    client.delete(&path("rings")).await.unwrap().expect_status(200).unwrap();
    until_told(
        &client,
        "bands",
        &format!("being deleted); choose another short name, or wait until rings.{GROUP} is gone"),
    )
    .await;
    let open = json!({"metadata": {"finalizers": null}});
    client.merge_patch(&format!("{rings}/one"), &open).await.unwrap().expect_status(200).unwrap();
    until(&client, CRDS, &format!("bands.{GROUP}"), |o| is(o, "Established", "True")).await;
}

/// T-18, T-35: a change of the holder's names promotes who waited longest; a watch sees it happen, and the others hear of
/// the new holder.
#[tokio::test]
async fn a_name_that_its_holder_gives_up_goes_to_who_waited_longest() {
    let (_server, client) = server().await;
    register(&client, &named(GROUP, "rings", "x", &[])).await;
    for plural in ["bands", "hoops"] {
        client.post(CRDS, &named(GROUP, plural, "x", &[])).await.unwrap().expect_status(201).unwrap();
        until_told(&client, plural, &format!("in use by rings.{GROUP} (singular")).await;
    }
    let mut changes = watch_from_now(&client).await;
    let rename = json!({"spec": {"names": {"singular": "ring"}}});
    client.merge_patch(&path("rings"), &rename).await.unwrap().expect_status(200).unwrap();
    let mut seen = Vec::new();
    loop {
        let event = changes.event().await.unwrap();
        let registration = &event["object"];
        seen.push(format!(
            "{} {} {} {}",
            registration["spec"]["names"]["plural"].as_str().unwrap(),
            registration["status"]["acceptedNames"]["singular"].as_str().unwrap_or_default(),
            condition_of(registration, "NamesAccepted")["status"].as_str().unwrap(),
            condition_of(registration, "Established")["status"].as_str().unwrap(),
        ));
        if told(registration).contains(&format!("in use by bands.{GROUP} (singular")) {
            break;
        }
    }
    assert_eq!(
        seen,
        ["rings x True True", "rings ring True True", "bands x True True", "hoops  False False"],
        "the change, its acceptance, the promotion, and the message of who goes on waiting"
    );
    // Serving follows: at once, and by the names that are held.
    let resources = client.get(&format!("/apis/{GROUP}/v1")).await.unwrap().json();
    let singulars: Vec<&Value> =
        resources["resources"].as_array().unwrap().iter().map(|r| &r["singularName"]).collect();
    assert_eq!(singulars, ["x", "ring"]);
    assert_eq!(client.get(&format!("/apis/{GROUP}/v1/hoops")).await.unwrap().status, 404);
}

fn warnings(answer: &Answer) -> Vec<String> {
    answer.headers.get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect()
}

fn warning(index: usize, name: &str, holder: &str) -> String {
    format!(
        "299 - \"spec.names.shortNames[{index}]: \\\"{name}\\\" is a short name of {holder} too; clients may take it for either\""
    )
}

#[tokio::test]
async fn a_short_name_of_another_group_is_warned_of_and_never_refused() {
    let (_server, client) = server().await;
    register(&client, &named("first.example.com", "rings", "ring", &["rg"])).await;
    let wanted = named("second.example.com", "rings", "ring", &["rg", "ns", "crd", "own"]);
    let expected = [
        warning(0, "rg", "rings.first.example.com"),
        warning(1, "ns", "namespaces"),
        warning(2, "crd", "customresourcedefinitions.apiextensions.k8s.io"),
    ];
    let dry = client.post(&format!("{CRDS}?dryRun=All"), &wanted).await.unwrap().expect_status(201).unwrap();
    assert_eq!(warnings(&dry), expected);
    let created = client.post(CRDS, &wanted).await.unwrap().expect_status(201).unwrap();
    assert_eq!(warnings(&created), expected);
    let name = "rings.second.example.com";
    let accepted = until(&client, CRDS, name, |o| is(o, "Established", "True")).await;
    assert_eq!(accepted["status"]["acceptedNames"]["shortNames"], json!(["rg", "ns", "crd", "own"]));

    // Every write that asks for them says so again, whatever it changes; none that does not.
    let one = format!("{CRDS}/{name}");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(warnings(&client.merge_patch(&one, &label).await.unwrap()), expected);
    let own = json!({"spec": {"names": {"shortNames": ["own"]}}});
    let changed = client.merge_patch(&one, &own).await.unwrap().expect_status(200).unwrap();
    assert_eq!(warnings(&changed), [""; 0]);

    // Only what is held counts, and only while it is.
    register(&client, &named("third.example.com", "rings", "ring", &["own", "rg"])).await;
    client.delete(&format!("{CRDS}/rings.first.example.com")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, "rings.first.example.com").await;
    let again = json!({"spec": {"names": {"shortNames": ["own", "rg"]}}});
    let answer = client.merge_patch(&one, &again).await.unwrap().expect_status(200).unwrap();
    let third = "rings.third.example.com";
    assert_eq!(warnings(&answer), [warning(0, "own", third), warning(1, "rg", third)]);
}

#[tokio::test]
async fn a_write_can_wait_until_its_type_is_established() {
    let (_server, client) = server().await;
    let wait = format!("{CRDS}?waitFor=Established&timeout=60s");
    let created = client.post(&wait, &named(GROUP, "rings", "x", &[])).await.unwrap();
    let created = created.expect_status(201).unwrap().json();
    assert!(is(&created, "Established", "True"), "{created}");
    assert_eq!(client.get(&path("rings")).await.unwrap().json(), created, "the stored state of that moment");
    assert_eq!(client.get(&format!("/apis/{GROUP}/v1/rings")).await.unwrap().status, 200);

    // What cannot be established without somebody's doing is answered as it is when the time is up.
    let short = format!("{CRDS}?waitFor=Established&timeout=300ms");
    let waiting = client.post(&short, &named(GROUP, "bands", "x", &[])).await.unwrap();
    let waiting = waiting.expect_status(201).unwrap().json();
    assert!(is(&waiting, "NamesAccepted", "False") && is(&waiting, "Established", "False"), "{waiting}");

    // Somebody does it while a client waits.
    let waiter = {
        let (client, wait) = (client.clone(), wait.clone());
        tokio::spawn(async move { client.post(&wait, &named(GROUP, "hoops", "y", &["x"])).await })
    };
    until_told(&client, "hoops", &format!("in use by rings.{GROUP}")).await;
    client.delete(&path("bands")).await.unwrap().expect_status(200).unwrap();
    until_gone(&client, CRDS, &format!("bands.{GROUP}")).await;
    client.delete(&path("rings")).await.unwrap().expect_status(200).unwrap();
    let promoted = waiter.await.unwrap().unwrap().expect_status(201).unwrap().json();
    assert!(is(&promoted, "Established", "True"), "{promoted}");
    assert_eq!(promoted["status"]["acceptedNames"]["shortNames"], json!(["x"]));

    // One that is removed while a client waits is answered too, as it last was.
    let waiter = {
        let (client, wait) = (client.clone(), wait.clone());
        tokio::spawn(async move { client.post(&wait, &named(GROUP, "loops", "x", &[])).await })
    };
    until_told(&client, "loops", &format!("in use by hoops.{GROUP}")).await;
    client.delete(&path("loops")).await.unwrap().expect_status(200).unwrap();
    let removed = waiter.await.unwrap().unwrap().expect_status(201).unwrap().json();
    assert!(is(&removed, "NamesAccepted", "False"), "{removed}");
}

/// On every face, in that face's own words.
#[tokio::test]
async fn every_face_can_wait() {
    let (_server, client) = server().await;
    let tprs = "/apis/apiextension.k8s.io/v1beta1/thirdpartyresources";
    let tpr = json!({
        "apiVersion": "apiextension.k8s.io/v1beta1", "kind": "ThirdPartyResource",
        "metadata": {"name": format!("rings.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": "rings", "kind": "Ring", "shortNames": ["ns"]}},
    });
    let created = client.post(&format!("{tprs}?waitFor=Established&timeout=60s"), &tpr).await.unwrap();
    let created = created.expect_status(201).unwrap();
    assert_eq!(warnings(&created), [warning(0, "ns", "namespaces")]);
    assert!(is(&created.json(), "NameConflict", "False"), "{}", created.text());
    assert_eq!(created.at("/status/acceptedNames/kind"), "Ring");
    assert_eq!(client.get(&format!("/apis/{GROUP}/v1/rings")).await.unwrap().status, 200);

    let older = CRDS.replace("/v1/", "/v1beta1/");
    let mut crd = named(GROUP, "bands", "band", &[]);
    crd["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    crd["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true}]);
    let created = client.post(&format!("{older}?waitFor=Established&timeout=60s"), &crd).await.unwrap();
    let created = created.expect_status(201).unwrap().json();
    assert!(is(&created, "Established", "True") && created["apiVersion"] == crd["apiVersion"], "{created}");
}

/// A change of names waits for the verdict on those names, not for what was said of the names before.
#[tokio::test]
async fn a_change_can_wait_too() {
    let (_server, client) = server().await;
    register(&client, &named(GROUP, "rings", "ring", &[])).await;
    let wait = format!("{}?waitFor=NamesAccepted&timeout=60s", path("rings"));
    let rename = json!({"spec": {"names": {"singular": "x"}}});
    let patched = client.merge_patch(&wait, &rename).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(patched["status"]["acceptedNames"]["singular"], "x");
    let mut renamed = patched.clone();
    renamed["spec"]["names"]["singular"] = json!("y");
    let put = client.put(&wait, &renamed).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(put["status"]["acceptedNames"]["singular"], "y");
    let established = format!("{}?waitFor=Established", path("rings"));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    client.merge_patch(&established, &label).await.unwrap().expect_status(200).unwrap();
}

#[tokio::test]
async fn a_wait_for_what_never_comes_is_refused() {
    let (_server, client) = server().await;
    let registration = named(GROUP, "rings", "ring", &[]);
    let post = async |query: &str| client.post(&format!("{CRDS}?{query}"), &registration).await;
    refused(post("waitFor=Ready").await, 400, "BadRequest", "waitFor: unknown condition \"Ready\"");
    let unit = "time: missing unit in duration \"10\"";
    refused(post("waitFor=Established&timeout=10").await, 400, "BadRequest", unit);
    refused(
        post("waitFor=Established&timeout=soon").await,
        400,
        "BadRequest",
        "time: invalid duration \"soon\"",
    );
    assert_eq!(client.get(&path("rings")).await.unwrap().status, 404, "nothing was stored");
    // A dry run stores nothing that could ever be established.
    let dry = post("waitFor=Established&dryRun=All").await.unwrap().expect_status(201).unwrap();
    assert_eq!(dry.at("/status/conditions"), Value::Null);

    register(&client, &registration).await;
    // Names that were never asked for are never accepted: the answer is what the dry run came to, at once.
    let dry = format!("{}?waitFor=NamesAccepted&dryRun=All", path("rings"));
    let change = json!({"spec": {"names": {"singular": "other"}}});
    let planned = client.merge_patch(&dry, &change).await.unwrap().expect_status(200).unwrap();
    assert_eq!(planned.at("/spec/names/singular"), "other");
    assert_ne!(planned.at("/status/acceptedNames/singular"), "other");
    let only = "waitFor is only for registrations of types";
    let rings = format!("/apis/{GROUP}/v1/namespaces/default/rings?waitFor=Established");
    refused(client.post(&rings, &object(GROUP, "Rings", "a", json!({}))).await, 400, "BadRequest", only);
    namespace(&client, "other").await;
    let other = "/api/v1/namespaces/other?waitFor=Established";
    refused(client.merge_patch(other, &json!({})).await, 400, "BadRequest", only);
    let status = format!("{}/status?waitFor=Established", path("rings"));
    refused(client.merge_patch(&status, &json!({})).await, 400, "BadRequest", only);
}

/// All registrations of a group as a watch tells them, and what it must never tell.
#[derive(Default)]
struct Fold {
    registrations: BTreeMap<String, Value>,
    /// The present holder of each name.
    held: BTreeMap<String, String>,
    /// Names in the order in which the registrations were made.
    made: Vec<String>,
    /// All holders of each singular name, in order.
    holders: BTreeMap<String, Vec<String>>,
    faults: Vec<String>,
}

/// The names that a registration holds: `r/…` of resources, `k/…` of kinds.
fn held(registration: &Value) -> Vec<String> {
    let names = &registration["status"]["acceptedNames"];
    let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty());
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let resources = [text("plural"), text("singular")].into_iter().flatten().chain(short);
    let kinds = [text("kind"), text("listKind")].into_iter().flatten();
    resources.map(|n| format!("r/{n}")).chain(kinds.map(|n| format!("k/{n}"))).collect()
}

fn wanted(registration: &Value) -> &str {
    registration["spec"]["names"]["singular"].as_str().unwrap_or_default()
}

fn holds_what_it_wants(registration: &Value) -> bool {
    registration["status"]["acceptedNames"]["singular"] == registration["spec"]["names"]["singular"]
}

impl Fold {
    fn event(&mut self, event: &Value) {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if event["type"] == "DELETED" {
            let before = self.registrations.remove(&name);
            return self.release(before.as_ref());
        }
        if event["type"] == "ADDED" {
            self.made.push(name.clone());
        }
        let before = self.registrations.insert(name.clone(), object.clone());
        if before.as_ref().is_some_and(holds_what_it_wants) && !holds_what_it_wants(object) {
            self.faults.push(format!("{name} lost its claim at {}", revision(object)));
        }
        self.release(before.as_ref());
        for held in held(object) {
            if let Some(other) = self.held.insert(held.clone(), name.clone())
                && other != name
            {
                self.faults.push(format!("{name} and {other} hold {held} at {}", revision(object)));
            }
        }
        if holds_what_it_wants(object) {
            let holders = self.holders.entry(wanted(object).to_owned()).or_default();
            if holders.last() != Some(&name) {
                holders.push(name);
            }
        }
    }

    fn release(&mut self, registration: Option<&Value>) {
        for name in registration.map(held).unwrap_or_default() {
            self.held.remove(&name);
        }
    }

    /// Returns true if so many registrations are there, and each knows the holder of the name that it wants.
    fn settled(&self, registrations: usize) -> bool {
        if self.registrations.len() != registrations {
            return false;
        }
        let winners: BTreeMap<&str, &String> = self
            .registrations
            .iter()
            .filter(|(_, r)| holds_what_it_wants(r))
            .map(|(n, r)| (wanted(r), n))
            .collect();
        self.registrations.iter().all(|(name, registration)| {
            let Some(winner) = winners.get(wanted(registration)) else { return false };
            if *winner == name {
                return is(registration, "NamesAccepted", "True") && is(registration, "Established", "True");
            }
            let text =
                format!("\"{}\" is already in use by {winner} (singular, since ", wanted(registration));
            is(registration, "NamesAccepted", "False") && told(registration).starts_with(&text)
        })
    }

    /// The holder of the name that the registrations of one singular want.
    fn holder(&self, singular: &str) -> &String {
        let mut all =
            self.registrations.iter().filter(|(_, r)| wanted(r) == singular && holds_what_it_wants(r));
        all.next().expect("a holder").0
    }

    /// The oldest of those who want a name.
    fn oldest(&self, singular: &str) -> &String {
        let wants = |name: &&String| self.registrations.get(*name).is_some_and(|r| wanted(r) == singular);
        self.made.iter().find(wants).expect("a registrant")
    }
}

/// Folds a watch until the stream breaks or nobody listens.
async fn follow(mut changes: WatchStream, fold: Arc<Mutex<Fold>>, seen: watch::Sender<u64>) {
    loop {
        let event = changes.next().await.unwrap().expect("the watch ended");
        fold.lock().unwrap().event(&event);
        seen.send_modify(|n| *n += 1);
    }
}

/// Waits for an event after which the fold is as asked.
async fn folded(fold: &Mutex<Fold>, seen: &mut watch::Receiver<u64>, done: impl Fn(&Fold) -> bool) {
    loop {
        seen.borrow_and_update();
        if done(&fold.lock().unwrap()) {
            return;
        }
        let next = tokio::time::timeout(STUCK, seen.changed()).await;
        next.expect("it does not settle").expect("the watcher ended");
    }
}

/// Asks until the answer is not one of those that say "later".
async fn insist(client: &Client, method: &str, path: &str, body: &Value, repeated: u16) -> u64 {
    let mut retriable = 0;
    loop {
        let answer = client.request(method, path).json(body).send().await.unwrap();
        match answer.status {
            200 | 201 => return retriable,
            429 | 503 | 504 => retriable += 1,
            status if status == repeated && retriable > 0 => return retriable,
            _ => panic!("{} → {} {}", answer.what, answer.status, answer.text()),
        }
    }
}

/// The number of times that the two actors were replaced.
async fn falls(client: &Client) -> u64 {
    let answer = client.get("/debug/actors").await.unwrap().expect_status(200).unwrap().json();
    let ours = answer["actors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|a| a["name"] == "registry" || a["name"] == "conflict");
    ours.map(|a| a["restarts"].as_u64().unwrap()).sum()
}

/// Kills the two actors until they fell so often, and lets somebody in with each fall, who tells that time goes on.
async fn kill_until(
    client: &Client,
    until: u64,
    gate: &Semaphore,
    mut waiting: usize,
    seen: &mut watch::Receiver<u64>,
) {
    let mut fallen = falls(client).await;
    while fallen < until {
        for name in ["registry", "conflict"] {
            let path = format!("/debug/actors/{name}/kill");
            client.request("POST", &path).send().await.unwrap().expect_status(200).unwrap();
            let left = usize::try_from(until.saturating_sub(fallen)).unwrap().max(1);
            let next = waiting.div_ceil(left).min(waiting);
            waiting -= next;
            if next > 0 {
                let before = *seen.borrow_and_update();
                gate.add_permits(next);
                let moved = tokio::time::timeout(STUCK, seen.wait_for(|n| *n > before)).await;
                moved.expect("nothing moves").expect("the watcher ended");
            }
        }
        fallen = falls(client).await;
    }
    gate.add_permits(waiting);
}

/// Checks what a race came to, after `winners` went: nobody but them and those who hold the names now ever held one.
fn judged(fold: &Fold, winners: &[String]) -> BTreeMap<String, Value> {
    assert_eq!(fold.faults, [""; 0]);
    assert_eq!(fold.holders.len(), winners.len());
    for (i, winner) in winners.iter().enumerate() {
        let name = format!("wanted{i}");
        assert_eq!(fold.holder(&name), fold.oldest(&name), "promoted");
        assert_eq!(
            &fold.holders[&name],
            &[winner.clone(), fold.holder(&name).clone()],
            "nobody else ever held it"
        );
    }
    fold.registrations.clone()
}

/// T-14, T-20, T-35: many clients race for few names while the actors that judge are killed all the time; then every
/// winner goes, and who waited longest is promoted, under kills as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_race_for_few_names_while_their_judges_are_killed() {
    const CONNECTIONS: usize = 8;
    let server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client().unwrap();
    let connections: Vec<Client> = (0..CONNECTIONS).map(|_| server.client_http2().unwrap()).collect();
    race(&client, &connections, count(60, 1000), count(6, 100), count(40, 1000)).await;
}

/// Lets so many clients, over these connections in turn, race for so many names, while the judges of `client`'s server
/// fall so often; and judges what comes of it.
pub(crate) async fn race(
    client: &Client,
    connections: &[Client],
    clients: usize,
    names: usize,
    kills: usize,
) {
    const RACE: &str = "race.example.com";
    let kills = u64::try_from(kills).unwrap();
    let (began, before) = (Instant::now(), falls(client).await);

    let fold = Arc::new(Mutex::new(Fold::default()));
    let (sender, mut seen) = watch::channel(0);
    let follower = tokio::spawn(follow(watch_from_now(client).await, Arc::clone(&fold), sender));

    // Half of them at once, the others as the judges fall.
    let gate = Arc::new(Semaphore::new(clients / 2));
    let race = |what: &'static str, of: Vec<(String, Value)>, repeated: u16| -> Vec<_> {
        let run = |(i, (path, body)): (usize, (String, Value))| {
            let (client, gate) = (connections[i % connections.len()].clone(), Arc::clone(&gate));
            tokio::spawn(async move {
                gate.acquire().await.unwrap().forget();
                insist(&client, what, &path, &body, repeated).await
            })
        };
        of.into_iter().enumerate().map(run).collect()
    };
    let registrants = (0..clients).map(|i| {
        let registration = named(RACE, &format!("r{i}s"), &format!("wanted{}", i % names), &[]);
        (CRDS.to_owned(), registration)
    });
    let tasks = race("POST", registrants.collect(), 409);
    kill_until(client, before + kills * 7 / 10, &gate, clients - clients / 2, &mut seen).await;
    let mut retriable = 0;
    for task in tasks {
        retriable += task.await.unwrap();
    }
    let posted = began.elapsed();
    folded(&fold, &mut seen, |fold| fold.settled(clients)).await;
    let settled = began.elapsed();
    let winners: Vec<String> = {
        let fold = fold.lock().unwrap();
        let singulars = (0..names).map(|i| format!("wanted{i}"));
        singulars
            .map(|name| {
                assert_eq!(fold.holder(&name), fold.oldest(&name), "{name}");
                fold.holder(&name).clone()
            })
            .collect()
    };

    let deletions = winners.iter().map(|name| (format!("{CRDS}/{name}"), json!({}))).collect();
    let tasks = race("DELETE", deletions, 404);
    kill_until(client, before + kills, &gate, names, &mut seen).await;
    for task in tasks {
        retriable += task.await.unwrap();
    }
    folded(&fold, &mut seen, |fold| fold.settled(clients - names)).await;
    let promoted = began.elapsed();
    let fallen = falls(client).await - before;
    follower.abort();

    let stored = judged(&fold.lock().unwrap(), &winners);
    assert!(fallen >= kills);
    println!(
        "race: {clients} clients, {names} names, {fallen} falls, {} events, {retriable} retriable answers; \
         posted after {posted:.1?}, settled after {settled:.1?}, promoted after {promoted:.1?}",
        *seen.borrow()
    );
    for (name, told) in &stored {
        let registration =
            client.get(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap().json();
        assert_eq!(&registration, told, "the watch told all");
        let plural = told["spec"]["names"]["plural"].as_str().unwrap();
        let served = if holds_what_it_wants(told) { 200 } else { 404 };
        assert_eq!(
            client.get(&format!("/apis/{RACE}/v1/{plural}")).await.unwrap().status,
            served,
            "{plural}"
        );
    }
}
