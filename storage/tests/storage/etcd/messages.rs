//! The messages of etcd's API are generated and checked in, so that a build needs no compiler of `.proto` files.

use std::path::Path;

use expect_test::expect_file;

/// After a change of `storage/proto/etcd.proto`, `UPDATE_EXPECT=1` writes the messages.
#[test]
fn the_generated_messages_are_current() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(["etcd.proto"], [&proto]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        // The names of services and methods are enough.
        .disable_comments(["."])
        // Requests share their bytes with the caller. Responses are copied: a value would otherwise keep the whole message
        // in memory.
        .bytes(".etcdserverpb.RangeRequest")
        .bytes(".etcdserverpb.PutRequest")
        .bytes(".etcdserverpb.DeleteRangeRequest")
        .bytes(".etcdserverpb.Compare")
        .bytes(".etcdserverpb.WatchCreateRequest")
        .out_dir(folder.path())
        .compile_fds(files)
        .unwrap();
    let generated = std::fs::read_to_string(folder.path().join("etcdserverpb.rs")).unwrap();
    expect_file!["../../../src/etcd/messages.rs"].assert_eq(&generated);
}
