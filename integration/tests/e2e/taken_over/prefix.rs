//! A store's keys and values as another API server left them, put where a server finds them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kindom_integration::{Etcd, Server, ServerOptions, tools};
use kindom_storage::{
    Area, Embedded, EmbeddedOptions, EtcdOptions, Op, RangeRequest, Storage, Txn, TxnOutcome,
};
use serde_json::Value;
use tempfile::TempDir;

pub(super) type Keys = BTreeMap<String, Bytes>;

/// The content of `integration/expectations/stored/prefix.json`: the keys of the real server's etcd, and that server's
/// answers about them.
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

/// The place of keys that a server is started over.
pub(super) struct Place {
    folder: TempDir,
    etcd: Option<Etcd>,
}

impl Place {
    /// An empty one of each engine.
    pub(super) async fn of_each_engine() -> [Self; 2] {
        let folder = Self { folder: tempfile::tempdir().unwrap(), etcd: None };
        [folder, Self::of_etcd().await]
    }

    /// An empty etcd, where keys can be put while a server runs.
    pub(super) async fn of_etcd() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), etcd: Some(Etcd::start().await.unwrap()) }
    }

    /// The one that any server makes for itself.
    pub(super) fn folder() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), etcd: None }
    }

    async fn open(&self) -> Arc<dyn Storage> {
        if let Some(etcd) = &self.etcd {
            let areas = ["/registry/", "/kindom/"].map(Area::same).to_vec();
            let options = EtcdOptions::new(etcd.endpoints(), areas, "/taken-over");
            return Arc::new(kindom_storage::Etcd::open(options, |_| ()).await.unwrap());
        }
        std::fs::create_dir_all(self.path()).unwrap();
        Arc::new(Embedded::open(self.path().join("store"), EmbeddedOptions::default()).unwrap())
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts these; in a folder, while no server runs.
    pub(super) async fn put(&self, keys: &Keys) {
        let storage = self.open().await;
        // One by one, as the servers that wrote them did: etcd bounds a request by its bytes.
        for (key, value) in keys {
            let ops = vec![Op::Put(key.as_str().into(), value.clone())];
            let outcome = storage.txn(Txn { compares: Vec::new(), ops }).await.unwrap();
            assert!(matches!(outcome, TxnOutcome::Committed { .. }));
        }
        storage.close().await.unwrap();
    }

    /// Every key under a prefix, while no server runs.
    pub(super) async fn all(&self, prefix: &str) -> Keys {
        let storage = self.open().await;
        let found = storage.range(RangeRequest::prefix(prefix.as_bytes())).await.unwrap();
        storage.close().await.unwrap();
        found.kvs.into_iter().map(|kv| (kv.key.to_string(), kv.value.unwrap())).collect()
    }

    /// Starts a server over it.
    pub(super) async fn serve(&self, args: &[&str]) -> Server {
        let options = ServerOptions::default().quiet().args(args);
        let options = match &self.etcd {
            Some(etcd) => options.etcd(&etcd.endpoints()),
            None => options.data_dir(self.path()),
        };
        options.start().await.unwrap()
    }

    /// Starts a server over these keys.
    pub(super) async fn over(&self, keys: &Keys, args: &[&str]) -> Server {
        self.put(keys).await;
        self.serve(args).await
    }
}
