//! A store's keys and values as another API server left them, put where a server finds them.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kindom_integration::tools;
use kindom_storage::{Embedded, EmbeddedOptions, Op, RangeRequest, Storage, Txn, TxnOutcome};
use serde_json::Value;

/// So many operations etcd takes in one transaction.
const OPS_MAX: usize = 128;

pub(super) type Keys = BTreeMap<String, Bytes>;

/// What `integration/expectations/stored/prefix.json` holds: the keys of the real server's etcd, and what that server
/// answered of them.
pub(super) fn recorded() -> (Keys, Vec<(String, Value)>) {
    let file = tools::root().join("integration/expectations/stored/prefix.json");
    let recorded: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let value = |key: &Value| match key["base64"].as_str() {
        Some(text) => STANDARD.decode(text).unwrap().into(),
        None => Bytes::from(key["value"].as_str().unwrap().to_owned()),
    };
    let keys = recorded["keys"].as_array().unwrap();
    let keys = keys.iter().map(|key| (key["key"].as_str().unwrap().to_owned(), value(key))).collect();
    let answers = recorded["answers"].as_array().unwrap();
    let answers = answers.iter().map(|a| (a["path"].as_str().unwrap().to_owned(), a["body"].clone()));
    (keys, answers.collect())
}

fn open(data_dir: &Path) -> Embedded {
    std::fs::create_dir_all(data_dir).unwrap();
    Embedded::open(data_dir.join("store"), EmbeddedOptions::default()).unwrap()
}

/// Puts these under the folder of a server that does not run.
pub(super) async fn put(data_dir: &Path, keys: &Keys) {
    let storage = open(data_dir);
    let mut rest: Vec<Op> =
        keys.iter().map(|(key, value)| Op::Put(key.as_str().into(), value.clone())).collect();
    while !rest.is_empty() {
        let ops = rest.drain(..rest.len().min(OPS_MAX)).collect();
        let outcome = storage.txn(Txn { compares: Vec::new(), ops }).await.unwrap();
        assert!(matches!(outcome, TxnOutcome::Committed { .. }));
    }
    storage.close().await.unwrap();
}

/// Every key under a prefix in the folder of a server that does not run.
pub(super) async fn all(data_dir: &Path, prefix: &str) -> Keys {
    let storage = open(data_dir);
    let found = storage.range(RangeRequest::prefix(prefix.as_bytes())).await.unwrap();
    storage.close().await.unwrap();
    found.kvs.into_iter().map(|kv| (kv.key.to_string(), kv.value)).collect()
}
