//! Several managers of one object, while the actors that serve it are killed.

use std::time::Duration;

use kindom_integration::{Answer, Client, ServerOptions, count};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::hostile_apply::{apply, boat, boats};
use crate::support::register;

const GROUP: &str = "apply-chaos.example.com";
const PATH: &str = "/apis/apply-chaos.example.com/v1/namespaces/default/boats/shared";
const APPLIERS: usize = 4;
/// Between two kills the managers get at least this much done.
const WRITES_BETWEEN_KILLS: u64 = 8;
/// The longest time without progress; a client that needs longer hangs.
const STUCK: Duration = Duration::from_secs(60);

/// The outcome of one manager's writes.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The number of the last write that was tried.
    tried: i64,
    /// The number of the last write that was acknowledged.
    acknowledged: i64,
    retriable: u64,
}

/// The writer, and its way of writing.
#[derive(Debug, Clone, Copy)]
enum Writer {
    /// Applies an item of the crew and a flag.
    Applier(usize),
    /// Applies the phase through /status.
    Reporter,
    /// Patches the replicas through /scale.
    Scaler,
    /// Patches the size.
    Updater,
}

impl Writer {
    fn manager(self) -> String {
        match self {
            Self::Applier(i) => format!("applier-{i}"),
            Self::Reporter => "reporter".to_owned(),
            Self::Scaler => "scaler".to_owned(),
            Self::Updater => "updater".to_owned(),
        }
    }

    async fn write(self, client: &Client, number: i64) -> Answer {
        let manager = self.manager();
        let query = format!("fieldManager={manager}");
        match self {
            Self::Applier(i) => {
                let spec = json!({
                    "crew": [{"name": format!("n{i}"), "rank": number}], "flags": [format!("{manager}-{}", number % 2)],
                });
                apply(client, PATH, &query, &boat(GROUP, "shared", spec)).await
            }
            Self::Reporter => {
                let status = json!({
                    "apiVersion": format!("{GROUP}/v1"), "kind": "Boat", "metadata": {"name": "shared"},
                    "status": {"phase": number.to_string()},
                });
                apply(client, &format!("{PATH}/status"), &query, &status).await
            }
            Self::Scaler => {
                let patch = json!({"spec": {"replicas": number}});
                client.merge_patch(&format!("{PATH}/scale?{query}"), &patch).await.unwrap()
            }
            Self::Updater => {
                let patch = json!({"spec": {"size": number}});
                client.merge_patch(&format!("{PATH}?{query}"), &patch).await.unwrap()
            }
        }
    }

    /// The number that an object shows of it; 0 if none.
    fn shown(self, object: &Value) -> i64 {
        let number = match self {
            Self::Applier(i) => {
                let name = format!("n{i}");
                let crew = object["spec"]["crew"].as_array().cloned().unwrap_or_default();
                crew.iter().find(|c| c["name"] == name.as_str()).and_then(|c| c["rank"].as_i64())
            }
            Self::Reporter => object["status"]["phase"].as_str().and_then(|p| p.parse().ok()),
            Self::Scaler => object["spec"]["replicas"].as_i64(),
            Self::Updater => object["spec"]["size"].as_i64(),
        };
        number.unwrap_or_default()
    }

    /// Its entry of managedFields when it last wrote this number.
    fn entry(self, number: i64) -> (&'static str, Option<&'static str>, Value) {
        match self {
            Self::Applier(i) => {
                let (item, flag) =
                    (format!("k:{{\"name\":\"n{i}\"}}"), format!("v:\"{}-{}\"", self.manager(), number % 2));
                let item = json!({item: {".": {}, "f:name": {}, "f:rank": {}}});
                ("Apply", None, json!({"f:spec": {"f:crew": item, "f:flags": {flag: {}}}}))
            }
            Self::Reporter => ("Apply", Some("status"), json!({"f:status": {"f:phase": {}}})),
            Self::Scaler => ("Update", Some("scale"), json!({"f:spec": {"f:replicas": {}}})),
            Self::Updater => ("Update", None, json!({"f:spec": {"f:size": {}}})),
        }
    }

    /// Writes one number after another until told to stop. A write that may not have happened is tried again.
    async fn run(self, client: Client, done: watch::Sender<u64>, stop: watch::Receiver<bool>) -> Progress {
        let mut progress = Progress::default();
        while !*stop.borrow() || progress.acknowledged == 0 {
            progress.tried = progress.acknowledged + 1;
            let answer = self.write(&client, progress.tried).await;
            match answer.status {
                200 => {
                    assert_eq!(self.shown_in(&answer), progress.tried, "{}", answer.text());
                    progress.acknowledged = progress.tried;
                    done.send_modify(|n| *n += 1);
                }
                429 | 503 | 504 => progress.retriable += 1,
                _ => panic!("{self:?} #{}: {} {}", progress.tried, answer.status, answer.text()),
            }
        }
        progress
    }

    fn shown_in(self, answer: &Answer) -> i64 {
        self.shown(&answer.json())
    }
}

/// Everything that a watcher sees of the object until every writer's last number is there.
async fn follow(
    client: Client,
    from: String,
    mut until: watch::Receiver<Option<Vec<(Writer, i64)>>>,
) -> Vec<Value> {
    let collection = PATH.rsplit_once('/').unwrap().0;
    let path = format!("{collection}?watch=true&resourceVersion={from}");
    let mut stream = client.watch(&path).await.unwrap();
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let complete = until.borrow_and_update().as_ref().is_some_and(|last| {
            seen.last().is_some_and(|object| last.iter().all(|(w, n)| w.shown(object) == *n))
        });
        if complete {
            return seen;
        }
        tokio::select! {
            event = stream.event() => {
                let event = event.unwrap();
                assert_eq!(event["type"], "MODIFIED", "{event}");
                seen.push(event["object"].clone());
            }
            changed = until.changed() => changed.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_lose_nothing_while_actors_are_killed() {
    let server = ServerOptions::default().chaos().start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &boats(GROUP)).await;
    let first = apply(
        &client,
        PATH,
        "fieldManager=founder",
        &boat(GROUP, "shared", json!({"colour": "red", "replicas": 0})),
    )
    .await
    .expect_status(201)
    .unwrap()
    .json();
    let from = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();

    let mut writers: Vec<Writer> = (0..APPLIERS).map(Writer::Applier).collect();
    writers.extend([Writer::Reporter, Writer::Scaler, Writer::Updater]);
    let (last, expected) = watch::channel(None);
    let watcher = tokio::spawn(follow(server.client_http2().unwrap(), from, expected));
    let (done, mut progress) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let tasks: Vec<_> =
        writers.iter().map(|w| tokio::spawn(w.run(client.clone(), done.clone(), stopped.clone()))).collect();
    drop(done);

    let actors = client.get("/debug/actors").await.unwrap().json();
    let actors = actors.as_array().or_else(|| actors["actors"].as_array()).expect("a list of actors").clone();
    let mut names: Vec<String> = actors.iter().map(|a| a["name"].as_str().unwrap().to_owned()).collect();
    // The one that serves the object falls between every two others.
    names.push(format!("resource/boats.{GROUP}"));
    let kills = count(20, 200);
    for round in 0..kills {
        let target = if round % 2 == 0 { names.last().unwrap() } else { &names[round / 2 % names.len()] };
        let before = *progress.borrow();
        client.request("POST", &format!("/debug/actors/{target}/kill")).send().await.unwrap();
        tokio::time::timeout(STUCK, progress.wait_for(|n| *n >= before + WRITES_BETWEEN_KILLS))
            .await
            .unwrap_or_else(|_| panic!("no progress after the kill of {target}"))
            .expect("the writers have stopped");
    }
    stop.send_replace(true);
    let mut reached = Vec::new();
    for task in tasks {
        reached.push(tokio::time::timeout(STUCK, task).await.expect("a writer is stuck").unwrap());
    }

    let object = client.get(PATH).await.unwrap().expect_status(200).unwrap().json();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut ends = Vec::new();
    for (writer, progress) in writers.iter().zip(&reached) {
        let shown = writer.shown(&object);
        // The last write may have happened without its answer.
        assert!(
            (progress.acknowledged..=progress.tried).contains(&shown),
            "{writer:?}: {shown}, {progress:?}"
        );
        ends.push((*writer, shown));
        let (operation, subresource, fields) = writer.entry(shown);
        let own: Vec<&Value> = entries.iter().filter(|e| e["manager"] == writer.manager().as_str()).collect();
        assert_eq!(own.len(), 1, "{writer:?}: {entries:#?}");
        assert_eq!(
            (own[0]["operation"].as_str(), own[0]["subresource"].as_str()),
            (Some(operation), subresource)
        );
        assert_eq!(own[0]["fieldsV1"], fields, "{writer:?}");
    }
    // Fields that the founder applied and nobody took are still its own.
    let founder = entries.iter().find(|e| e["manager"] == "founder").unwrap();
    assert_eq!(founder["fieldsV1"], json!({"f:spec": {"f:colour": {}}}));
    assert_eq!(entries.len(), writers.len() + 1);
    assert_eq!(object["spec"]["crew"].as_array().unwrap().len(), APPLIERS);
    assert_eq!(object["spec"]["flags"].as_array().unwrap().len(), APPLIERS, "{}", object["spec"]["flags"]);

    last.send_replace(Some(ends));
    let seen = tokio::time::timeout(STUCK, watcher).await.expect("the watcher misses the end").unwrap();
    for (writer, progress) in writers.iter().zip(&reached) {
        // Nobody's write undoes another's: the numbers only grow, by one at a time.
        let numbers: Vec<i64> = seen.iter().map(|object| writer.shown(object)).collect();
        let steady = numbers.windows(2).all(|two| two[1] == two[0] || two[1] == two[0] + 1);
        assert!(steady, "{writer:?} {progress:?}: {numbers:?}");
    }
    let writes: i64 = reached.iter().map(|p| p.acknowledged).sum();
    let retriable: u64 = reached.iter().map(|p| p.retriable).sum();
    println!(
        "apply under chaos: {kills} kills, {writes} writes of {} managers, {retriable} retriable answers",
        writers.len()
    );
}
