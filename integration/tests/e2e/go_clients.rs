//! An unmodified Go program with upstream's clientset for registrations, of 0.37 and of 0.32, the first that sends protobuf
//! unless it is told not to (Show 4). `./test` builds both from `integration/go-clients`.

use kindom_integration::{Server, tools};

/// The program's requests and answers, by media type.
async fn run(version: &str) -> Option<String> {
    let program = tools::go_clients(version).unwrap()?;
    let server = Server::start().await.unwrap();
    let said = server.run(tokio::process::Command::new(program), "").await.unwrap().success().unwrap();
    assert!(said.ends_with("all done\n"), "{said}");
    for media in ["application/json", "application/vnd.kubernetes.protobuf"] {
        assert!(said.contains(&format!("leases in {media}\n")), "no election over {media} in {said}");
        assert!(said.contains(&format!("reconciled in {media}\n")), "no controller over {media} in {said}");
    }
    Some(said)
}

#[tokio::test]
async fn the_clientset_of_0_37_uses_types_in_protobuf() {
    let Some(said) = run("v0.37").await else { return };
    for media in [
        "sent application/vnd.kubernetes.protobuf\n",
        "answered application/vnd.kubernetes.protobuf;stream=watch\n",
    ] {
        assert!(said.contains(media), "no {media:?} in {said}");
    }
}

#[tokio::test]
async fn the_clientset_of_0_32_uses_types_in_protobuf() {
    let Some(said) = run("v0.32").await else { return };
    assert!(said.contains("sent application/vnd.kubernetes.protobuf\n"), "{said}");
}
