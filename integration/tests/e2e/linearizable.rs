//! Operations on few objects through three replicas on three etcd nodes, while each of them is killed, stopped or cut
//! off, look as if each happened at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kindom_integration::linearizability::{Call, Clock, Judged, Operation, Reply, Violation, check};
use kindom_integration::{Answer, Client, Cluster, ClusterOptions, HarnessError, Proxy, Random, count};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{crd, object, register, revision};

const GROUP: &str = "line.example.com";
const PAWNS: &str = "/apis/line.example.com/v1/namespaces/default/pawns";
const CLIENTS: usize = 8;
const KEYS: usize = 3;
/// A client that has no answer by then gives up and does not know.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whoever makes no progress for so long never will.
const STUCK: Duration = Duration::from_secs(120);

/// The state that all clients share.
struct Table {
    clock: Clock,
    values: AtomicU64,
    /// The number of operations with a certain answer.
    answered: watch::Sender<u64>,
}

/// One client: asks a random replica for a random operation, one after another, and writes down what it is told.
struct Caller {
    id: usize,
    replicas: Vec<Client>,
    table: Arc<Table>,
    random: Random,
    keys: Vec<String>,
    /// The last revision of each key that it was told.
    known: BTreeMap<String, u64>,
    history: Vec<Operation>,
    /// Answers that no correct server gives.
    faults: Vec<String>,
    /// The last answer, or the reason why there was none.
    last: String,
}

impl Caller {
    async fn run(mut self, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            let (key, replica) = (self.random.below(self.keys.len()), self.random.below(self.replicas.len()));
            let key = self.keys[key].clone();
            let call = self.choose(&key);
            let client = self.replicas[replica].clone();
            self.perform(&client, &key, call, call_of(&key, call)).await;
        }
        self
    }

    fn choose(&mut self, key: &str) -> Call {
        let known = self.known.get(key).copied();
        let value = self.table.values.fetch_add(1, Ordering::Relaxed);
        match self.random.below(10) {
            0..=2 => Call::Get,
            3 | 4 => Call::Create { value },
            5..=7 if known.is_some() => Call::Update { expected: known, value },
            8 if known.is_some() && self.random.percent(50) => Call::Delete { expected: known },
            8 => Call::Delete { expected: None },
            _ => Call::Update { expected: None, value },
        }
    }

    /// Asks and writes down what comes of it. What is asked may differ from what is claimed to have been asked.
    async fn perform(&mut self, client: &Client, key: &str, call: Call, (method, path, body): Sent) {
        let called = self.table.clock.now();
        let request = client.request(method, &path);
        let request = if body.is_null() {
            request
        } else if method == "PATCH" {
            request.body("application/merge-patch+json", body.to_string())
        } else {
            request.json(&body)
        };
        let answer = tokio::time::timeout(PATIENCE, request.send()).await;
        self.last = match &answer {
            Err(_) => format!("no answer within {PATIENCE:?}"),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(answer)) => format!("{} {}", answer.status, answer.text()),
        };
        let reply = match answer {
            Err(_) | Ok(Err(_)) => Reply::Unknown,
            Ok(Ok(answer)) => reply(call, &answer).unwrap_or_else(|| {
                self.faults.push(format!("{} → {} {}", answer.what, answer.status, answer.text()));
                Reply::Unknown
            }),
        };
        let returned = self.table.clock.now();
        match reply {
            Reply::Found { revision, .. } | Reply::Done { revision: Some(revision) } => {
                self.known.insert(key.to_owned(), revision);
            }
            _ => {}
        }
        if !matches!(reply, Reply::Unknown | Reply::Refused) {
            self.table.answered.send_modify(|n| *n += 1);
        }
        self.history.push(Operation { client: self.id, key: key.to_owned(), call, reply, called, returned });
    }
}

/// Method, path and body; null is none.
type Sent = (&'static str, String, Value);

fn call_of(key: &str, call: Call) -> Sent {
    let path = format!("{PAWNS}/{key}");
    let pawn = |value: u64| object(GROUP, "Pawn", key, json!({"note": value.to_string()}));
    match call {
        Call::Get => ("GET", path, Value::Null),
        Call::Create { value } => ("POST", PAWNS.to_owned(), pawn(value)),
        Call::Update { expected: None, value } => {
            ("PATCH", path, json!({"spec": {"note": value.to_string()}}))
        }
        Call::Update { expected: Some(expected), value } => {
            let mut pawn = pawn(value);
            pawn["metadata"]["resourceVersion"] = json!(expected.to_string());
            ("PUT", path, pawn)
        }
        Call::Delete { expected: None } => ("DELETE", path, Value::Null),
        Call::Delete { expected: Some(expected) } => {
            ("DELETE", path, json!({"preconditions": {"resourceVersion": expected.to_string()}}))
        }
    }
}

/// The meaning of an answer; `None` if no correct server answers so.
fn reply(call: Call, answer: &Answer) -> Option<Reply> {
    let body = answer.json();
    let is = |reason: &str| body["reason"] == reason;
    Some(match (call, answer.status) {
        (Call::Get, 200) => {
            let value = body["spec"]["note"].as_str()?.parse().ok()?;
            Reply::Found { revision: revision(&body), value }
        }
        (Call::Create { .. }, 201) | (Call::Update { .. }, 200) => {
            Reply::Done { revision: Some(revision(&body)) }
        }
        (Call::Delete { .. }, 200) => Reply::Done { revision: None },
        // Of the object, not of its type.
        (Call::Get | Call::Update { .. } | Call::Delete { .. }, 404)
            if body["details"]["name"].is_string() =>
        {
            Reply::Absent
        }
        (Call::Create { .. }, 409) if is("AlreadyExists") => Reply::Exists,
        (Call::Update { expected: Some(_), .. } | Call::Delete { expected: Some(_) }, 409)
            if is("Conflict") =>
        {
            Reply::Conflict
        }
        (_, 429 | 503) => Reply::Refused,
        (_, 504) => Reply::Unknown,
        _ => return None,
    })
}

/// A fault of a replica or an etcd node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    KillReplica,
    KillNode,
    StopReplica,
    StopNode,
    /// Nothing passes between a replica and etcd, and nobody is told.
    StallReplica,
    /// The same between an etcd node and all replicas.
    StallNode,
    /// A replica's connections to etcd end, and it gets no new ones.
    CutReplica,
    CutNode,
    /// The connections of a replica's clients end.
    CutClients,
}

use Fault::*;

const OF_REPLICAS: [Fault; 5] = [KillReplica, StopReplica, StallReplica, CutReplica, CutClients];
const OF_NODES: [Fault; 4] = [KillNode, StopNode, StallNode, CutNode];

impl Fault {
    fn begin(self, cluster: &mut Cluster, on: usize) -> Result<(), HarnessError> {
        match self {
            KillReplica => return cluster.replica(on)?.kill9(),
            StopReplica => return cluster.replica(on)?.pause(),
            KillNode => return cluster.etcd().kill9(on),
            StopNode => return cluster.etcd().pause(on),
            StallReplica => cluster.links(on).iter().for_each(Proxy::stall),
            StallNode => cluster.links_to(on).for_each(Proxy::stall),
            CutReplica => cluster.links(on).iter().for_each(Proxy::refuse),
            CutNode => cluster.links_to(on).for_each(Proxy::refuse),
            CutClients => cluster.fronts()[on].cut(),
        }
        Ok(())
    }

    async fn end(self, cluster: &mut Cluster, on: usize) -> Result<(), HarnessError> {
        match self {
            KillReplica => return cluster.restart(on).await,
            StopReplica => return cluster.replica(on)?.resume(),
            KillNode => return cluster.etcd().restart(on).await,
            StopNode => return cluster.etcd().resume(on),
            StallReplica | CutReplica => cluster.links(on).iter().for_each(Proxy::go_on),
            StallNode | CutNode => cluster.links_to(on).for_each(Proxy::go_on),
            CutClients => {}
        }
        Ok(())
    }
}

/// The faults of a round: at first one after the other, later a replica and a node at once.
fn faults_of(round: usize, random: &mut Random) -> Vec<(Fault, usize)> {
    let all = OF_REPLICAS.len() + OF_NODES.len();
    let (of_replicas, of_nodes) = (round / 2 % OF_REPLICAS.len(), round / 2 % OF_NODES.len());
    let even = round.is_multiple_of(2);
    let one = if even { OF_REPLICAS[of_replicas] } else { OF_NODES[of_nodes] };
    let mut faults = vec![(one, random.below(3))];
    if round > all {
        let other = if even { random.one(&OF_NODES) } else { random.one(&OF_REPLICAS) };
        faults.extend(other.map(|other| (*other, random.below(3))));
    }
    faults
}

async fn cluster() -> Cluster {
    let cluster = ClusterOptions::default().start().await.unwrap();
    let client = cluster.client(0, false).unwrap();
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    cluster
}

fn callers(cluster: &Cluster, table: &Arc<Table>, round: usize) -> Vec<Caller> {
    let keys: Vec<String> = (0..KEYS).map(|i| format!("r{round}-{i}")).collect();
    let caller = |id: usize| Caller {
        id,
        replicas: (0..3).map(|replica| cluster.client(replica, id.is_multiple_of(2)).unwrap()).collect(),
        table: Arc::clone(table),
        random: Random::new((round * CLIENTS + id) as u64),
        keys: keys.clone(),
        known: BTreeMap::new(),
        history: Vec::new(),
        faults: Vec::new(),
        last: String::new(),
    };
    (0..CLIENTS).map(caller).collect()
}

/// Waits until so many more operations were answered.
async fn go_on(table: &Table, operations: u64, what: &str) {
    let mut answered = table.answered.subscribe();
    let until = *answered.borrow_and_update() + operations;
    let moved = tokio::time::timeout(STUCK, answered.wait_for(|n| *n >= until)).await;
    moved.unwrap_or_else(|_| panic!("nothing moves: {what}")).unwrap();
}

/// One round: all clients at work while something befalls the cluster, and after it. What they saw.
async fn round(
    cluster: &mut Cluster,
    table: &Arc<Table>,
    round: usize,
    random: &mut Random,
) -> Vec<Operation> {
    let (operations, faults) = (count(80, 200) as u64, faults_of(round, random));
    let what = format!("round {round}, {faults:?}");
    let (stop, stopped) = watch::channel(false);
    let running: Vec<_> = callers(cluster, table, round)
        .into_iter()
        .map(|caller| tokio::spawn(caller.run(stopped.clone())))
        .collect();
    go_on(table, operations, &what).await;
    for (fault, on) in &faults {
        fault.begin(cluster, *on).unwrap();
    }
    go_on(table, operations, &format!("{what}, during")).await;
    for (fault, on) in faults.iter().rev() {
        fault.end(cluster, *on).await.unwrap();
    }
    go_on(table, operations, &format!("{what}, after")).await;
    stop.send_replace(true);
    let mut history = Vec::new();
    for caller in running {
        let caller = caller.await.unwrap();
        assert!(caller.faults.is_empty(), "{what}:\n{}", caller.faults.join("\n"));
        history.extend(caller.history);
    }
    // Every replica serves again.
    let mut caller = callers(cluster, table, round).swap_remove(0);
    for key in caller.keys.clone() {
        for (replica, client) in caller.replicas.clone().into_iter().enumerate() {
            let before = *table.answered.borrow();
            let insist = async {
                while *table.answered.borrow() == before {
                    caller.perform(&client, &key, Call::Get, call_of(&key, Call::Get)).await;
                }
            };
            let served = tokio::time::timeout(STUCK, insist).await;
            assert!(served.is_ok(), "{what}: replica {replica} does not recover: {}", caller.last);
        }
    }
    assert!(caller.faults.is_empty(), "{what}:\n{}", caller.faults.join("\n"));
    history.extend(caller.history);
    history
}

/// The planted bug: had a server answered but one read from the past, these very histories would not have passed. Says
/// whether there was a past to read.
fn stale_read_is_found(history: &[Operation]) -> bool {
    let told = |o: &&Operation| match o.reply {
        Reply::Found { revision, value } => Some((revision, value)),
        _ => None,
    };
    let last = history.iter().max_by_key(|o| o.returned).unwrap();
    let of_key = history.iter().filter(|o| o.key == last.key);
    let oldest = of_key.filter_map(|o| told(&o)).min();
    let Some((revision, value)) = oldest else { return false };
    let reply = Reply::Found { revision, value };
    if last.reply == reply {
        return false;
    }
    let later = last.returned + 1;
    let stale = Operation { call: Call::Get, reply, called: later, returned: later + 1, ..last.clone() };
    let with = [history, &[stale]].concat();
    assert!(matches!(check(&with), Err(Violation::NotLinearizable { .. })), "the checker is blind");
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_history_is_linearizable_whatever_falls() {
    // From the tenth on two things befall it at once.
    let rounds = count(14, 50);
    let mut cluster = cluster().await;
    let table = Arc::new(Table {
        clock: Clock::default(),
        values: AtomicU64::new(1),
        answered: watch::Sender::new(0),
    });
    let mut random = Random::new(7);
    let (mut total, mut planted) = (Judged::default(), 0);
    for number in 0..rounds {
        let history = round(&mut cluster, &table, number, &mut random).await;
        let judged = check(&history).unwrap_or_else(|violation| panic!("round {number}: {violation}"));
        planted += usize::from(stale_read_is_found(&history));
        total.keys += judged.keys;
        total.operations += judged.operations;
        total.unknown += judged.unknown;
        total.steps += judged.steps;
    }
    println!("linearizable: {rounds} rounds, {total:?}; found {planted} of as many stale reads");
    assert!(planted > rounds / 2, "{planted} stale reads planted");
    assert!(total.unknown > 0, "nothing was ever lost");
}

/// A bug planted in the real thing: a client that takes what a replica has in its cache for the present. While the replica
/// is cut off from etcd that is the past, and the checker finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_from_the_cache_that_claims_to_be_consistent_is_found() {
    let cluster = cluster().await;
    let table = Arc::new(Table {
        clock: Clock::default(),
        values: AtomicU64::new(1),
        answered: watch::Sender::new(0),
    });
    let mut caller = callers(&cluster, &table, 0).swap_remove(0);
    let key = caller.keys[0].clone();
    let (here, there) = (caller.replicas[0].clone(), caller.replicas[2].clone());
    let create = Call::Create { value: 1 };
    caller.perform(&here, &key, create, call_of(&key, create)).await;
    // A consistent read: the other replica has it now.
    caller.perform(&there, &key, Call::Get, call_of(&key, Call::Get)).await;
    cluster.links(2).iter().for_each(Proxy::stall);
    let update = Call::Update { expected: None, value: 2 };
    caller.perform(&here, &key, update, call_of(&key, update)).await;
    assert!(
        caller.history.iter().all(|o| matches!(o.reply, Reply::Done { .. } | Reply::Found { .. })),
        "{:?}",
        caller.history
    );
    check(&caller.history).unwrap();

    let (method, path, body) = call_of(&key, Call::Get);
    caller.perform(&there, &key, Call::Get, (method, format!("{path}?resourceVersion=0"), body)).await;
    assert_eq!(caller.faults, [""; 0]);
    let violation = check(&caller.history).expect_err("a read from the past").to_string();
    assert!(violation.contains("no order") && violation.contains(&key), "{violation}");

    // Without the claim there is nothing wrong: a consistent read of that replica waits, or says that it cannot tell.
    caller.history.pop();
    caller.perform(&there, &key, Call::Get, call_of(&key, Call::Get)).await;
    check(&caller.history).unwrap();
    cluster.links(2).iter().for_each(Proxy::go_on);
}
