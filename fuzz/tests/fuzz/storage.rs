//! The bytes that a disk may give back: the files of a folder, and snapshots.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_fuzz::{Mutants, Target};
use kindom_storage::snapshot::{Encoder, Header, Reader, verify};
use kindom_storage::testing::SimDisk;
use kindom_storage::{
    Embedded, EmbeddedOptions, Key, KeyValue, Op, RangeRequest, Revision, Storage, StorageError, Txn,
};

#[test]
fn snapshots() {
    let key = |n: u8| KeyValue {
        key: Key::from(format!("/registry/widgets/default/{n}")),
        value: Ok(Bytes::from(vec![n; usize::from(n) * 3])),
        create_revision: Revision(2),
        mod_revision: Revision(u64::from(n) + 2),
    };
    let mut whole = Vec::new();
    let header = Header { revision: Revision(40), prefixes: vec![Bytes::from_static(b"/registry/")] };
    let mut encoder = Encoder::begin(&header, &mut whole);
    for n in 0..20 {
        encoder.add(&key(n), &mut whole).unwrap();
    }
    encoder.finish(&mut whole);
    let mut short = Vec::new();
    Encoder::begin(&header, &mut short).finish(&mut short);
    let lengths = ["\0\0\0\0", "\u{1}\0\0\0", "\x7f\x7f\x7f\x7f", "\0\0\u{10}\0", "\u{2}"];
    let original = whole.clone();
    let inputs = Mutants::of([whole, short]).tokens(&lengths);
    // The buffer of the reader, and what it reads ahead of a length that lies.
    Target::new("snapshot", 16).flat(4 << 20, 64 << 20).rounds(2000).run(inputs, move |bytes| {
        let verdict = verify(&bytes[..], |_| {});
        if verdict.damages.is_empty() && !bytes.starts_with(&original) {
            // Nothing is wrong with it: then it says what it is.
            assert!(verdict.header.is_some());
        }
        let Ok(mut reader) = Reader::open(&bytes[..]) else { return };
        while let Ok(Some(_)) = reader.next_key() {}
    });
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: 2000,
        mark_every: Duration::from_secs(1000),
        ..EmbeddedOptions::default()
    }
}

async fn sample() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = Embedded::open_on(Arc::new(disk.process()), "store", options()).unwrap();
    for n in 0..30_usize {
        let op = Op::Put(Key::from(format!("key{}", n % 7)), Bytes::from(vec![b'v'; n * 11]));
        store.txn(Txn { compares: vec![], ops: vec![op] }).await.unwrap();
    }
    store.compact(Revision(20)).await.unwrap();
    store.close().await.unwrap();
    disk
}

/// Opens a folder with one file replaced: it is refused or read, without a panic. (What is served of it is
/// `storage/tests/storage/damage.rs`'s.)
#[test]
fn files_of_a_folder() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let disk = runtime.block_on(sample());
    let files: Vec<(PathBuf, Vec<u8>)> =
        disk.files().into_iter().map(|path| (path.clone(), disk.read(&path).unwrap())).collect();
    let seeds: Vec<&[u8]> = files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    let lengths = ["\0\0\0\0", "\u{1}\0\0\0", "\x7f\x7f\x7f\x7f", "\0\0\u{10}\0", "\u{2}\0\0\0\0\0\0\0"];
    let inputs = (Mutants::of(seeds).tokens(&lengths), Mutants::of([[0_u8], [1], [2], [3], [7]]));
    Target::new("segments", 64).flat(64 << 20, 256 << 20).rounds(300).run(inputs, move |(bytes, which)| {
        let which = usize::from(which.first().copied().unwrap_or(0)) % files.len();
        let disk = disk.duplicate();
        disk.replace(&files[which].0, bytes);
        runtime.block_on(async {
            let store = match Embedded::open_on(Arc::new(disk.process()), "store", options()) {
                Ok(store) => store,
                Err(StorageError::Corrupt(_)) => return,
                Err(other) => panic!("{other:?}"),
            };
            match store.range(RangeRequest::prefix(b"")).await {
                Ok(_) | Err(StorageError::Corrupt(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
            store.close().await.unwrap();
        });
    });
}
