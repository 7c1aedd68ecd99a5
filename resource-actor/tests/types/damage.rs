//! Random damage to a folder, with types over it: no wrong value, no type down, and nothing lost that is not named.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kindom_actor_kit::{ActorTable, Arbiters, Clock, Entropy, Supervisor, simulation};
use kindom_objects::{BuiltInVersion, CustomObjects, Names, Scope, TypeSpec};
use kindom_resource_actor::WatchError;
use kindom_resource_actor::{Deps, Freshness, NoWebhooks, ResourceHandle};
use kindom_schema::columns::Columns;
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Embedded, EmbeddedOptions, EmbeddedRestore, Finding, Key, Op, RangeRequest, Revision, Salvage, Storage,
    StorageError, Txn, TxnOutcome,
};

use crate::world::soon;

const TYPES: [&str; 3] = ["anchors", "boats", "canoes"];

fn options() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 16_000, ..EmbeddedOptions::default() }
}

fn open(disk: &SimDisk) -> Result<Embedded, StorageError> {
    Embedded::open_on(Arc::new(disk.process()), "store", options())
}

fn type_of(plural: &str) -> TypeSpec {
    let names = Names { plural: plural.into(), kind: "Thing".into(), ..Names::default() };
    let columns = Columns::compile(&[]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in("", names, Scope::Cluster, versions, Arc::new(CustomObjects))
}

/// The written values, by key: each revision with its value; `None` if it was deleted.
type Written = BTreeMap<String, BTreeMap<u64, Option<Bytes>>>;

struct Sample {
    disk: SimDisk,
    written: Written,
    /// History begins after this revision.
    compacted: u64,
}

/// Several types in several segments, packed in part, with history; closed in order.
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for a thread, and a paused clock would not move meanwhile"
)]
async fn sample(random: &Entropy) -> Sample {
    let disk = SimDisk::new(1);
    let store = open(&disk).unwrap();
    let mut written = Written::new();
    let compacted = 200;
    for n in 0..400 {
        if n == 250 {
            store.compact(Revision(compacted)).await.unwrap();
        }
        let plural = TYPES[n % 3];
        let name = format!("thing-{:02}", random.below(25));
        let key = format!("{}{name}", type_of(plural).prefix);
        let there = written.get(&key).and_then(|all| all.values().next_back()).is_some_and(Option::is_some);
        let value = (!there || random.below(6) > 0).then(|| {
            let note = "n".repeat(usize::try_from(random.below(900)).unwrap());
            let metadata = format!(r#""metadata":{{"name":"{name}","uid":"uid-{n}"}}"#);
            Bytes::from(format!(
                r#"{{"apiVersion":"v1","kind":"Thing",{metadata},"spec":{{"note":"{note}"}}}}"#
            ))
        });
        let op = match &value {
            Some(value) => Op::Put(Key::from(key.as_str()), value.clone()),
            None => Op::Delete(Key::from(key.as_str())),
        };
        let outcome = store.txn(Txn { compares: Vec::new(), ops: vec![op] }).await.unwrap();
        let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
        written.entry(key).or_default().insert(revision.0, value);
    }
    // The packer works by itself; wait for a pack, and for the hints of all that is sealed.
    let patience = Instant::now() + Duration::from_secs(60);
    let of =
        |kind: &str| disk.files().iter().filter(|path| path.extension().is_some_and(|e| e == kind)).count();
    while of("pack") == 0 || of("hint") + 1 < of("log") + of("pack") {
        assert!(Instant::now() < patience, "{:?}", disk.files());
        std::thread::yield_now();
    }
    store.close().await.unwrap();
    Sample { disk, written, compacted }
}

/// Damages a file, and says how.
fn damage(disk: &SimDisk, random: &Entropy) -> String {
    let below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let files: Vec<PathBuf> = disk.files().into_iter().filter(|path| !path.ends_with("lock")).collect();
    let sizes: Vec<usize> = files.iter().map(|path| disk.read(path).unwrap().len()).collect();
    // By their sizes, as disks do it; one in eight hits any file alike.
    let by_size = || {
        let mut at = below(sizes.iter().sum());
        sizes.iter().position(|size| {
            let here = at < *size;
            at = at.saturating_sub(*size);
            here
        })
    };
    let file = if below(8) == 0 { below(files.len()) } else { by_size().unwrap() };
    let path = &files[file];
    let mut bytes = disk.read(path).unwrap();
    let at = below(bytes.len().max(1));
    let is_hint = path.extension().is_some_and(|kind| kind == "hint");
    let how = match below(3) {
        0 if is_hint => {
            bytes.truncate(at);
            "cut"
        }
        1 => {
            let sector = at / 512 * 512;
            let end = bytes.len().min(sector + 512);
            bytes[sector..end].fill(0);
            "zeroed sector"
        }
        _ => {
            bytes[at] ^= 1 << below(8);
            "flipped bit"
        }
    };
    disk.replace(path, &bytes);
    format!("{how} at {at} of {}", path.display())
}

/// Every type over the damaged store: what it shows, and what its history shows.
async fn look(store: Embedded, sample: &Sample, what: &str) -> usize {
    let entropy = Entropy::seeded(1);
    let deps = Arc::new(Deps {
        storage: Arc::new(store),
        supervisor: Supervisor::new(ActorTable::new(), entropy.fork()),
        arbiters: Arbiters::current().unwrap(),
        clock: Clock::starting_at(1_700_000_000_000),
        entropy,
        webhooks: Arc::new(NoWebhooks),
        processors: None,
    });
    let mut corrupt = 0;
    for plural in TYPES {
        let handle = ResourceHandle::new(Arc::clone(&deps), Arc::new(type_of(plural)));
        let prefix = handle.prefix().to_owned();
        let found = handle.snapshot(Freshness::Latest, soon()).await;
        let (snapshot, _) = found.unwrap_or_else(|error| panic!("{what}: {plural} is down: {error}"));
        let objects: Vec<_> = snapshot.from_key("").cloned().collect();
        let mut expected = Vec::new();
        for (key, all) in
            sample.written.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix))
        {
            let (revision, value) = all.iter().next_back().unwrap();
            expected.extend(value.as_ref().map(|value| (key.clone(), *revision, value.clone())));
        }
        assert_eq!(objects.len(), expected.len(), "{what}: {plural}");
        for (object, (key, revision, value)) in objects.iter().zip(expected) {
            let place = (format!("{prefix}{}", object.key()), object.revision().0);
            assert_eq!(place, (key, revision), "{what}");
            match object.corrupt() {
                Some(_) => corrupt += 1,
                None => assert_eq!(*object.json(), value, "{what}: a wrong value"),
            }
        }
        // A watch from the middle of history delivers what was written, or says that it cannot; it never hangs.
        let from = Revision(sample.compacted + 60);
        let last = sample.written.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let last = last.filter_map(|(_, all)| all.keys().next_back()).max().copied().unwrap();
        let mut cursor = handle.watch(from).unwrap();
        while cursor.cursor().0 < last {
            let events = match cursor.next(16).await {
                Ok(events) => events,
                Err(WatchError::Expired { .. }) => break,
                Err(error) => panic!("{what}: {plural}: {error}"),
            };
            for event in events {
                let object = event.object.as_ref().or(event.previous.as_ref()).unwrap();
                let value = &sample.written[&format!("{prefix}{}", object.key())][&event.revision.0];
                assert_eq!(event.object.is_some(), value.is_some(), "{what}");
                if let (Some(object), Some(value)) =
                    (event.object.as_ref().filter(|o| o.corrupt().is_none()), value)
                {
                    assert_eq!(object.json(), value, "{what}: a wrong value in history");
                }
            }
        }
    }
    deps.supervisor.stop_all().await;
    corrupt
}

/// Salvage makes a store of a refused folder with only written values in it, and names the missing ones.
async fn salvaged(disk: &SimDisk, sample: &Sample, what: &str) {
    let found = Salvage::read_on(&disk.process(), "store").unwrap();
    let findings = found.findings();
    assert!(findings.iter().any(Finding::is_loss), "{what}: {findings:?}");
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    found.restore(EmbeddedRestore::begin(&new, &options()).unwrap()).unwrap();
    let store = Embedded::open(&new, options()).unwrap();
    let kvs = store.range(RangeRequest::prefix(b"/")).await.unwrap().kvs;
    let mut left: BTreeMap<String, (u64, Bytes)> =
        kvs.into_iter().map(|kv| (kv.key.to_string(), (kv.mod_revision.0, kv.value.unwrap()))).collect();
    let batches_lost = findings.iter().any(|finding| finding.of.is_none());
    for (key, all) in &sample.written {
        let (revision, value) = all.iter().next_back().unwrap();
        match left.remove(key) {
            Some((at, value)) => {
                assert_eq!(all[&at].as_ref(), Some(&value), "{what}: a wrong value of {key}");
                assert!(at == *revision || batches_lost, "{what}: {key} is as of {at}, not {revision}");
            }
            None => {
                let named =
                    |finding: &Finding| finding.of.as_ref().is_some_and(|of| of.key.to_string() == *key);
                assert!(
                    value.is_none() || batches_lost || findings.iter().any(named),
                    "{what}: {key} is gone"
                );
            }
        }
    }
    assert!(left.is_empty(), "{what}: {left:?}");
}

#[test]
fn random_damage_takes_no_type_down_and_serves_no_wrong_value() {
    let random = Entropy::seeded(11);
    let sample = simulation::run(sample(&random)).unwrap();
    let rounds = if std::env::var_os("KINDOM_TEST_FULL").is_some() { 1000 } else { 60 };
    let (mut refused, mut hit, mut harmless) = (0, 0, 0);
    for round in 0..rounds {
        let disk = sample.disk.duplicate();
        let what = format!("round {round}: {}", damage(&disk, &random));
        match open(&disk) {
            Err(StorageError::Corrupt(why)) => {
                assert!(why.contains("kindom storage salvage"), "{what}: {why}");
                simulation::run(salvaged(&disk, &sample, &what)).unwrap();
                refused += 1;
            }
            Err(error) => panic!("{what}: {error}"),
            Ok(store) => {
                let corrupt = simulation::run(look(store, &sample, &what)).unwrap();
                // A sector is as long as a few values.
                assert!(corrupt <= 8, "{what}: {corrupt} objects are damaged");
                if corrupt > 0 { hit += 1 } else { harmless += 1 }
            }
        }
    }
    println!(
        "{rounds} damages: {hit} hit live values, {harmless} nothing live, {refused} were refused and salvaged"
    );
    assert!(hit > rounds / 10 && harmless > 0 && refused < rounds / 4, "{hit} {harmless} {refused}");
}
