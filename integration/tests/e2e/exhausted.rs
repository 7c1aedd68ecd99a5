//! A full disk, and no descriptors left, under load: nothing acknowledged is lost, deletes are accepted, and it heals by
//! itself.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use kindom_integration::{Client, Server, ServerOptions, count};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::{crd, names, object, refused, register};

const COLLECTION: &str = "/apis/full.example.com/v1/namespaces/default/pawns";
const WRITERS: usize = 4;
/// A size that no round needs.
const PLENTY: u64 = 2 << 30;
/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A file system of its own at a folder, as full as one wants it. Only processes that are started by
/// [`Room::launcher`] see it.
struct Room {
    keeper: Child,
    folder: PathBuf,
}

impl Room {
    fn new(folder: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount"]);
        if !rustix::process::getuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let mount = "mount -t tmpfs -o mode=700 kindom \"$0\" && echo ready && read -r _";
        let mut keeper = command
            .args(["sh", "-c", mount])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is part of util-linux");
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(
            said, "ready\n",
            "no file system could be mounted: as another user than root that needs user namespaces"
        );
        Self { keeper, folder: folder.to_owned() }
    }

    fn launcher(&self) -> Vec<String> {
        let pid = self.keeper.id();
        let mut launcher = vec!["nsenter".to_owned(), format!("--mount=/proc/{pid}/ns/mnt")];
        if !rustix::process::getuid().is_root() {
            launcher.extend([format!("--user=/proc/{pid}/ns/user"), "--preserve-credentials".to_owned()]);
        }
        launcher
    }

    fn run(&self, args: &[&str]) -> String {
        let launcher = self.launcher();
        let (program, first) = launcher.split_first().unwrap();
        let output = Command::new(program).args(first).args(args).arg(&self.folder).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes it so large.
    fn resize(&self, bytes: u64) {
        self.run(&["mount", "-o", &format!("remount,size={bytes}")]);
    }

    /// Leaves no room beside the present files.
    fn fill(&self) {
        // Files grow while this runs.
        let size = || {
            let said = self.run(&["df", "--block-size=1", "--output=used"]);
            said.lines().last().unwrap().trim().parse::<u64>().unwrap()
        };
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience {
            let launcher = self.launcher();
            let (program, first) = launcher.split_first().unwrap();
            let mut command = Command::new(program);
            command.args(first).args(["mount", "-o", &format!("remount,size={}", size())]).arg(&self.folder);
            if command.output().unwrap().status.success() {
                return;
            }
        }
        panic!("it never was full");
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // It ends with its input, and the file system with its last process.
        if let Some(mut input) = self.keeper.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.keeper.wait();
    }
}

fn pawn(name: &str, bytes: usize) -> serde_json::Value {
    object("full.example.com", "Pawn", name, json!({ "note": "n".repeat(bytes) }))
}

/// The knowledge of the clients.
#[derive(Default)]
struct Known {
    /// Acknowledged, and not deleted since.
    there: BTreeSet<String>,
    /// Neither acknowledged nor refused for certain.
    perhaps: BTreeSet<String>,
}

impl Known {
    async fn check(&self, client: &Client, when: &str) {
        let answer = client.get(COLLECTION).await.unwrap().expect_status(200).unwrap();
        let found: BTreeSet<String> = names(&answer.json()).into_iter().collect();
        let lost: Vec<_> = self.there.difference(&found).collect();
        assert!(lost.is_empty(), "{when}: {lost:?} were acknowledged and are lost");
        let more: Vec<_> =
            found.difference(&self.there).filter(|name| !self.perhaps.contains(*name)).collect();
        assert!(more.is_empty(), "{when}: {more:?} were refused or deleted and are there");
    }
}

/// Creates objects from several clients until each is refused.
async fn create_until_refused(client: &Client, round: usize, bytes: usize, known: &mut Known) {
    let writers = (0..WRITERS).map(|writer| async move {
        let (mut created, mut perhaps) = (Vec::new(), None);
        for n in 0.. {
            let name = format!("r{round}-w{writer}-n{n}");
            let answer = client.post(COLLECTION, &pawn(&name, bytes)).await.unwrap();
            match answer.status {
                201 => created.push(name),
                504 => perhaps = Some(name),
                _ => {
                    assert_eq!(answer.header("retry-after"), "1", "{}", answer.text());
                    let status = refused(Ok(answer), 503, "ServiceUnavailable", "the store is read-only");
                    assert!(status["message"].as_str().unwrap().contains("deletes are accepted"), "{status}");
                    break;
                }
            }
        }
        (created, perhaps)
    });
    for (created, perhaps) in join_all(writers).await {
        known.there.extend(created);
        known.perhaps.extend(perhaps);
    }
}

async fn delete(client: &Client, known: &mut Known, how_many: usize) {
    let names: Vec<String> = known.there.iter().take(how_many).cloned().collect();
    for name in names {
        client.delete(&format!("{COLLECTION}/{name}")).await.unwrap().expect_status(200).unwrap();
        known.there.remove(&name);
    }
}

/// Waits until a create is taken again; how long that took.
async fn healed(client: &Client, round: usize, known: &mut Known) -> Duration {
    let since = Instant::now();
    let name = format!("r{round}-healed");
    loop {
        let answer = client.post(COLLECTION, &pawn(&name, 10)).await;
        if answer.as_ref().is_ok_and(|answer| answer.status == 201) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "it does not heal: {answer:?}");
    }
    let took = since.elapsed();
    known.there.insert(name);
    client.get("/readyz").await.unwrap().expect_status(200).unwrap();
    let metrics = client.get("/metrics").await.unwrap().text();
    assert!(metrics.contains("\nkindom_storage_read_only 0\n"), "{metrics}");
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_takes_deletes_and_heals() {
    let data = TempDir::new().unwrap();
    let store = data.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let room = Room::new(&store);
    room.resize(PLENTY);
    let options = ServerOptions::default().data_dir(data.path()).launcher(&room.launcher());
    let mut server = options.args(&["--etcd-compaction-interval", "5s"]).start().await.unwrap();
    let mut client = server.client().unwrap();
    register(&client, &crd("full.example.com", "pawns", "Pawn", "Namespaced")).await;
    let (mut known, mut slowest) = (Known::default(), Duration::ZERO);
    let rounds = count(3, 50);
    for round in 0..rounds {
        room.fill();
        create_until_refused(&client, round, 400_000, &mut known).await;
        if round % 5 == 2 {
            // Started on a full disk, after an end in order and after none.
            if round % 10 == 2 {
                assert!(server.terminate().await.unwrap().success());
            } else {
                server.kill9().unwrap();
            }
            room.fill();
            server.restart().await.unwrap();
            client = server.client().unwrap();
            known.check(&client, &format!("round {round}, restarted on a full disk")).await;
            create_until_refused(&client, round + rounds, 400_000, &mut known).await;
        }
        let unready = client.get("/readyz?verbose").await.unwrap().expect_status(500).unwrap().text();
        assert!(unready.contains("[-]storage failed: the store is read-only: No space left"), "{unready}");
        assert!(!unready.contains(store.to_str().unwrap()), "{unready}");
        client.get("/livez").await.unwrap().expect_status(200).unwrap();
        let metrics = client.get("/metrics").await.unwrap().text();
        assert!(metrics.contains("\nkindom_storage_read_only 1\n"), "{metrics}");
        delete(&client, &mut known, 5).await;
        known.check(&client, &format!("round {round}, full")).await;
        room.resize(PLENTY);
        slowest = slowest.max(healed(&client, round, &mut known).await);
        known.check(&client, &format!("round {round}, healed")).await;
        delete(&client, &mut known, usize::MAX).await;
    }
    server.kill9().unwrap();
    server.restart().await.unwrap();
    known.check(&server.client().unwrap(), "after kill -9").await;
    println!("full disk: {rounds} rounds, nothing lost, healed after {slowest:?} at the latest");
}

/// The number of descriptors that a process has open.
fn descriptors(pid: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64
}

/// The segment that the store writes to.
fn newest_segment(server: &Server) -> PathBuf {
    let files = std::fs::read_dir(server.data_dir().join("store")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "log")).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_descriptors_nothing_is_lost_and_it_heals() {
    let options = ServerOptions::default().embedded().args(&["--etcd-compaction-interval", "5s"]);
    let mut server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("full.example.com", "pawns", "Pawn", "Namespaced")).await;
    let (mut known, mut slowest) = (Known::default(), Duration::ZERO);
    // Five rounds write more than a segment takes.
    let (rounds, mut written, mut grown) = (count(5, 50), 0, 0);
    for round in 0..rounds {
        let pid = server.pid().unwrap();
        let process = Pid::from_raw(pid.try_into().unwrap());
        // Each writer has a connection by then.
        join_all((0..WRITERS).map(|_| client.get("/livez"))).await;
        let before = newest_segment(&server);
        // All descriptors below are taken for good, so every open or accept from now on fails.
        let none = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
        let limit = prlimit(process, Resource::Nofile, none).unwrap();
        let bytes = 1_000_000;
        let creates = (0..WRITERS).map(|writer| {
            let client = &client;
            async move {
                let mut created = Vec::new();
                for n in 0..4 {
                    let name = format!("r{round}-w{writer}-n{n}");
                    client.post(COLLECTION, &pawn(&name, bytes)).await.unwrap().expect_status(201).unwrap();
                    created.push(name);
                }
                created
            }
        });
        let before_that = known.there.len();
        known.there.extend(join_all(creates).await.into_iter().flatten());
        assert_eq!(known.there.len(), before_that + 4 * WRITERS);
        written += 4 * WRITERS * bytes;
        assert_eq!(newest_segment(&server), before, "there was a descriptor for a new segment");
        delete(&client, &mut known, 5).await;
        // Somebody wants all that are left.
        let crowd: Vec<_> = join_all((0..20).map(|_| server.dial_tcp())).await;
        prlimit(process, Resource::Nofile, limit).unwrap();
        drop(crowd);
        slowest = slowest.max(healed(&client, round, &mut known).await);
        if written > 68_000_000 {
            // It grew beyond its size; now another follows.
            let patience = Instant::now() + PATIENCE;
            while newest_segment(&server) == before {
                assert!(Instant::now() < patience, "no new segment: {}", server.log_tail());
                let name = format!("r{round}-more");
                client.post(COLLECTION, &pawn(&name, 10)).await.unwrap().expect_status(201).unwrap();
                client.delete(&format!("{COLLECTION}/{name}")).await.unwrap().expect_status(200).unwrap();
            }
            (written, grown) = (0, grown + 1);
        }
        known.check(&server.client().unwrap(), &format!("round {round}, from a new connection")).await;
        delete(&client, &mut known, usize::MAX).await;
    }
    server.kill9().unwrap();
    server.restart().await.unwrap();
    known.check(&server.client().unwrap(), "after kill -9").await;
    assert!(grown > 0, "no segment was ever full");
    println!(
        "no descriptors: {rounds} rounds, {grown} segments grew beyond their size, nothing lost, healed after {slowest:?} at the latest"
    );
}

#[tokio::test]
async fn it_takes_as_many_descriptors_as_it_may_and_keeps_some_from_connections() {
    let hard = getrlimit(Resource::Nofile).maximum;
    let hard = hard.map_or(400, |hard| hard.min(400));
    let limits = format!("ulimit -Sn 60; ulimit -Hn {hard}; exec \"$@\"");
    let launcher = ["sh", "-c", &limits, "sh"].map(str::to_owned);
    let server = ServerOptions::default().launcher(&launcher).start().await.unwrap();
    let said = std::fs::read_to_string(format!("/proc/{}/limits", server.pid().unwrap())).unwrap();
    let line = said.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers, [hard, hard]);
    let client = server.client().unwrap();
    register(&client, &crd("full.example.com", "pawns", "Pawn", "Namespaced")).await;
    // More than there are descriptors: some wait to be accepted.
    let crowd: Vec<_> = join_all((0..hard + 100).map(|_| server.dial_tcp())).await;
    let free = hard - descriptors(server.pid().unwrap());
    assert!(free >= hard / 8, "connections have all but {free} of {hard}");
    client.post(COLLECTION, &pawn("one", 10)).await.unwrap().expect_status(201).unwrap();
    drop(crowd);
    let again = server.client().unwrap();
    again.get(&format!("{COLLECTION}/one")).await.unwrap().expect_status(200).unwrap();
}
