//! fabric8's client for Java, as it is: it loads admin.kubeconfig, registers a type, and its informer, which watches over a
//! WebSocket, syncs and sees what happens (Show 4). `./test` builds it from `integration/fabric8`.

use kindom_integration::{Server, tools};

#[tokio::test]
async fn an_informer_of_fabric8_syncs_and_sees_what_happens() {
    let Some(mut command) = tools::fabric8().unwrap() else { return };
    let server = Server::start().await.unwrap();
    // The memory that its JVM may take of a small machine.
    command.env("JAVA_TOOL_OPTIONS", "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1");
    // A busy machine starts a JVM slowly; that is not tested here.
    for timeout in ["KUBERNETES_CONNECTION_TIMEOUT", "KUBERNETES_REQUEST_TIMEOUT"] {
        command.env(timeout, "60000");
    }
    let said = server.run(command, "").await.unwrap().success().unwrap();
    assert!(said.ends_with("all done\n"), "{said}");
}
