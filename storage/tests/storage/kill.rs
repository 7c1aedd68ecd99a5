//! kill -9 of a process under load, again and again, on the same folder, which nobody else may open meanwhile.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use kindom_storage::{Embedded, EmbeddedOptions, Key, KeyRange, Op, Revision, Storage, Txn, TxnOutcome};

use crate::support::{Random, cases};

const FOLDER: &str = "KINDOM_STORAGE_KILL_FOLDER";
const WRITERS: usize = 16;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 1 << 20, ..EmbeddedOptions::default() }
}

/// What the killed process runs: writes for ever, and says what was acknowledged, a line for each.
#[tokio::test]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Embedded::open(&folder, options()).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        async move {
            for n in 0.. {
                let key = format!("k{writer}/{}", n % 50);
                let value = format!("{writer} {n} {}", "v".repeat(n % 1500));
                let op = Op::Put(Key::from(key.as_str()), Bytes::from(value.clone()));
                let outcome = store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
                let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
                let line = format!("acknowledged {revision} {key} {}\n", crc32c::crc32c(value.as_bytes()));
                // In one write, so that a kill leaves whole lines or none.
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// Runs a child in the folder until it acknowledged some writes, and kills it. What it acknowledged, by revision.
fn run_and_kill(folder: &Path, lines_min: usize) -> BTreeMap<u64, (String, u32)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some((_, said)) = line.split_once("acknowledged ")
            && said.ends_with('\n')
        {
            let [revision, key, crc] = said.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{said}")
            };
            acknowledged.insert(revision.parse().unwrap(), (key.to_owned(), crc.parse().unwrap()));
            if acknowledged.len() == 1 {
                let refused = Embedded::open(folder, options()).unwrap_err();
                assert!(refused.to_string().contains("in use"), "{refused}");
            }
            if acknowledged.len() == lines_min {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    assert!(acknowledged.len() >= lines_min, "the child ended by itself: {:?}", child.wait());
    child.wait().unwrap();
    acknowledged
}

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let mut last = Revision::ZERO;
    for _ in 0..cases(4, 40) {
        let acknowledged = run_and_kill(dir.path(), 1 + random.below(3000));
        let store = Embedded::open(dir.path(), options()).unwrap();
        let (published, compacted) = (store.published(), store.compacted());
        assert!(published >= last, "{published} after {last}");
        let from = Some(compacted.next());
        let mut watch = store.watch(KeyRange::prefix(b""), from).await.unwrap();
        let mut found = 0;
        for at in compacted.0 + 1..=published.0 {
            let commit = watch.commits.try_recv().unwrap().unwrap();
            assert_eq!(commit.revision, Revision(at));
            if let Some((key, crc)) = acknowledged.get(&at) {
                let event = &commit.events[0];
                assert_eq!(event.key, Key::from(key.as_str()));
                let kindom_storage::Change::Put { value, .. } = &event.change else { panic!("{event:?}") };
                assert_eq!(crc32c::crc32c(value.as_ref().unwrap()), *crc);
                found += 1;
            }
        }
        assert_eq!(found, acknowledged.len());
        last = published;
        // The next one opens a store that was closed in order, or not.
        if random.below(2) == 0 {
            store.compact(published).await.unwrap();
            store.close().await.unwrap();
        }
    }
}
