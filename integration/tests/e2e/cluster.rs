//! Several replicas on one etcd: names, watches that move, and certificates that all of them share.

use std::process::Stdio;

use kindom_integration::history::History;
use kindom_integration::{Client, Cluster, ClusterOptions, Proxy, Server, count, tools};
use kindom_storage::{Area, EtcdOptions, Storage as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::watch;

use crate::load::{self, Type, Watcher, Writer};
use crate::names;
use crate::support::{CRDS, crd, names as names_of, object, register, revision, until_gone};

const WRITERS: usize = 6;

/// Three clients a replica, each replica's in turn.
fn connections(cluster: &Cluster) -> Vec<Client> {
    (0..9).map(|i| cluster.client(i % cluster.replicas().len(), true).unwrap()).collect()
}

/// A name has one holder, whichever replica its claimants speak to and whichever judges them, while the judges of one
/// replica are killed; then every winner goes, and who waited longest is promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_race_for_few_names_over_three_replicas() {
    let cluster = ClusterOptions::default().nodes(1).args(&["--enable-chaos"]).start().await.unwrap();
    let client = cluster.client(0, false).unwrap();
    names::race(&client, &connections(&cluster), count(60, 1000), count(6, 100), count(6, 100)).await;
}

/// Each replica accepts the credentials of every other one's kubeconfig, and is trusted by it.
#[tokio::test]
async fn replicas_that_share_certificates_share_their_clients() {
    let cluster = ClusterOptions::default().nodes(1).start().await.unwrap();
    for of in cluster.replicas() {
        for to in cluster.replicas() {
            let client = of.client_at(to.address().unwrap(), false).unwrap();
            client.get("/api/v1/namespaces/default").await.unwrap().expect_status(200).unwrap();
        }
    }
    let text = |i: usize| std::fs::read_to_string(cluster.replicas()[i].kubeconfig()).unwrap();
    let but_for_the_address = |i: usize| {
        let kubeconfig = text(i);
        let lines = kubeconfig.lines().filter(|l| !l.contains("server: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(but_for_the_address(0), but_for_the_address(1));
    assert_eq!(but_for_the_address(0), but_for_the_address(2));
}

/// A replica that lags still knows a type that has been replaced by another one, of another scope. Requests that come then
/// find the new one, and its objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_registered_anew_is_found_by_a_replica_that_lags() {
    const PAWNS: &str = "/apis/anew.example.com/v1/pawns";
    const SCOPED: &str = "/apis/anew.example.com/v1/namespaces/default/pawns";
    let pawn = |name: &str| object("anew.example.com", "Pawn", name, json!({}));
    let cluster = ClusterOptions::default().nodes(1).start().await.unwrap();
    let (here, late) = (cluster.client(0, true).unwrap(), cluster.client(2, true).unwrap());
    for scope in ["Cluster", "Namespaced"] {
        let before = if scope == "Cluster" { "Namespaced" } else { "Cluster" };
        let path = |scope| if scope == "Cluster" { PAWNS } else { SCOPED };
        register(&here, &crd("anew.example.com", "pawns", "Pawn", before)).await;
        late.post(path(before), &pawn("old")).await.unwrap().expect_status(201).unwrap();
        cluster.links(2).iter().for_each(Proxy::stall);
        here.delete(&format!("{CRDS}/pawns.anew.example.com")).await.unwrap().expect_status(200).unwrap();
        until_gone(&here, CRDS, "pawns.anew.example.com").await;
        register(&here, &crd("anew.example.com", "pawns", "Pawn", scope)).await;
        here.post(path(scope), &pawn("new")).await.unwrap().expect_status(201).unwrap();

        let asked: Vec<_> = (0..16)
            .map(|i| {
                let (late, collection) = (late.clone(), path(scope).to_owned());
                tokio::spawn(async move {
                    match i % 4 {
                        0 => late.get(&format!("{collection}/new")).await,
                        1 => late.get(&collection).await,
                        2 => late.post(&collection, &pawn(&format!("late-{i}"))).await,
                        _ => {
                            late.merge_patch(&format!("{collection}/new"), &json!({"spec": {"note": "late"}}))
                                .await
                        }
                    }
                    .unwrap()
                })
            })
            .collect();
        // They have come, and wait for etcd.
        tokio::task::yield_now().await;
        cluster.links(2).iter().for_each(Proxy::go_on);
        for asked in asked {
            let answer = asked.await.unwrap();
            assert!(
                matches!(answer.status, 200 | 201),
                "{} {} {}",
                answer.what,
                answer.status,
                answer.text()
            );
            assert!(!answer.text().contains("\"old\""), "{}", answer.text());
        }
        here.delete(&format!("{CRDS}/pawns.anew.example.com")).await.unwrap().expect_status(200).unwrap();
        until_gone(&here, CRDS, "pawns.anew.example.com").await;
    }
}

/// The history of a replica's absence is compacted when it comes back: its watches cannot deliver all of it, and end with an
/// error. The replica itself goes on with the present state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_has_missed_history_says_so_and_goes_on() {
    const PAWNS: &str = "/apis/missed.example.com/v1/namespaces/default/pawns";
    let pawn = |name: &str| object("missed.example.com", "Pawn", name, json!({}));
    let mut cluster = ClusterOptions::default().nodes(1).start().await.unwrap();
    let (here, late) = (cluster.client(0, true).unwrap(), cluster.client(2, true).unwrap());
    register(&here, &crd("missed.example.com", "pawns", "Pawn", "Namespaced")).await;
    let first = here.post(PAWNS, &pawn("first")).await.unwrap().expect_status(201).unwrap().json();
    late.get(&format!("{PAWNS}/first")).await.unwrap().expect_status(200).unwrap();
    let mut watch =
        late.watch(&format!("{PAWNS}?watch=true&resourceVersion={}", revision(&first))).await.unwrap();

    cluster.links(2).iter().for_each(Proxy::refuse);
    for name in ["second", "third"] {
        here.post(PAWNS, &pawn(name)).await.unwrap().expect_status(201).unwrap();
    }
    here.delete(&format!("{PAWNS}/second")).await.unwrap().expect_status(200).unwrap();
    let options =
        EtcdOptions::new(cluster.etcd().endpoints(), vec![Area::same("/nothing/")], "/nothing/mark");
    let direct = kindom_storage::Etcd::open(options, |_| ()).await.unwrap();
    let now = direct.fresh().await.unwrap();
    direct.compact(now).await.unwrap();
    cluster.links(2).iter().for_each(Proxy::go_on);

    let error = watch.event().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
    assert_eq!(error["object"]["reason"], "Expired");
    let list = late.get(PAWNS).await.unwrap().expect_status(200).unwrap().json();
    assert_eq!(names_of(&list), ["first", "third"]);
    let mut watch =
        late.watch(&format!("{PAWNS}?watch=true&resourceVersion={}", revision(&list))).await.unwrap();
    late.post(PAWNS, &pawn("fourth")).await.unwrap().expect_status(201).unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "fourth");
}

/// The cluster of `./run cluster`: one address for all of it, and nothing is left of it when it ends.
#[tokio::test]
async fn a_cluster_on_this_machine_starts_and_ends() {
    let mut cluster = tokio::process::Command::new(env!("CARGO_BIN_EXE_cluster"))
        .arg("0")
        .env("KINDOM_BIN", tools::kindom().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(cluster.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    let kubeconfig = loop {
        let line = lines.next_line().await.unwrap().expect("it says where its kubeconfig is");
        if let Some((_, file)) = line.split_once("export KUBECONFIG=") {
            // Quoted for a shell.
            break file.trim_matches('\'').to_owned();
        }
        said.push(line);
    };
    assert_eq!(said.len(), 4, "{said:?}");
    // Any server lends its folder and kubectl's environment.
    let lender = Server::start().await.unwrap();
    for _ in 0..3 {
        lender.kubectl(&["--kubeconfig", &kubeconfig, "get", "namespace", "default"]).await.unwrap();
    }
    let processes: Vec<Pid> = said
        .iter()
        .filter_map(|line| line.split_once("(process ")?.1.strip_suffix(')')?.parse().ok())
        .map(|pid| Pid::from_raw(pid).unwrap())
        .collect();
    assert_eq!(processes.len(), 3);
    let own = Pid::from_raw(cluster.id().unwrap().cast_signed()).unwrap();
    kill_process(own, Signal::INT).unwrap();
    assert!(cluster.wait().await.unwrap().success());
    for process in processes {
        assert!(rustix::process::test_kill_process(process).is_err(), "{process:?} goes on");
    }
    assert!(!std::path::Path::new(&kubeconfig).exists());
}

/// A watch behind a load balancer goes on at another replica from the last resourceVersion it saw, as client-go's
/// reflector does, again and again: it sees every event once, in order, and so do watches that stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_moves_between_replicas_sees_every_event_once() {
    let (moves, writes_between) = (count(12, 200), 20);
    let cluster = ClusterOptions::default().nodes(1).start().await.unwrap();
    let client = cluster.client(0, false).unwrap();
    register(&client, &crd("roam.example.com", "pawns", "Pawn", "Namespaced")).await;
    let of = Type {
        api_version: "roam.example.com/v1".to_owned(),
        kind: "Pawn".to_owned(),
        collection: "/apis/roam.example.com/v1/namespaces/default/pawns".to_owned(),
    };
    let (from, nothing) = load::list(&client, &of).await;
    assert!(nothing.is_empty());

    let balancer = Proxy::start(&[cluster.replicas()[0].address().unwrap()]).await.unwrap();
    let roaming = cluster.replicas()[0].client_at(balancer.address(), false).unwrap();
    let mut watchers = vec![];
    let stay = (0..3).map(|i| cluster.client(i, false).unwrap());
    for client in std::iter::once(roaming).chain(stay) {
        let mut watcher = Watcher::new(&of, from);
        watchers.push(tokio::spawn(async move {
            let mut streams = 1;
            while let Err(ended) = watcher.run(&client).await {
                assert!(!ended.contains("unexpected event"), "{ended}");
                streams += 1;
            }
            (watcher, streams)
        }));
    }

    let (acknowledged, mut progress) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let writers: Vec<_> = (0..WRITERS)
        .map(|i| {
            let client = cluster.client(i % 3, i.is_multiple_of(2)).unwrap();
            let (acknowledged, stopped) = (acknowledged.clone(), stopped.clone());
            let mut writer = Writer::new(&of, format!("key-{i}"));
            tokio::spawn(async move {
                writer.run(&client, &acknowledged, &stopped).await.expect("a connection broke");
                writer
            })
        })
        .collect();
    for turn in 1..=moves {
        let before = *progress.borrow();
        progress.wait_for(|n| *n >= before + writes_between).await.unwrap();
        balancer.aim(&[cluster.replicas()[turn % 3].address().unwrap()]);
        balancer.cut();
    }
    stop.send_replace(true);

    let mut history = History::default();
    for writer in writers {
        let writer = writer.await.unwrap();
        assert!(writer.faults.is_empty(), "{}", writer.faults.join("\n"));
        history.attempts.extend(writer.attempts);
    }
    history.attempts.extend(load::sentinel(&client, &of).await);
    for (i, watcher) in watchers.into_iter().enumerate() {
        let (watcher, streams) = watcher.await.unwrap();
        assert!(i > 0 || streams > moves, "it was moved {moves} times and had {streams} streams");
        history.watchers.push(watcher.events);
    }
    history.last = load::list(&client, &of).await.1;
    history.check().unwrap();
    println!("roam: {moves} moves, {} writes, {} events", history.attempts.len(), history.watchers[0].len());
}
