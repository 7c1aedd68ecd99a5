//! The official Python client.

use kindom_integration::{Server, tools};

#[tokio::test]
async fn the_python_client_registers_and_uses_a_type() {
    let server = Server::start().await.unwrap();
    let mut command = tokio::process::Command::new(tools::python().unwrap());
    command.arg("-B").arg(tools::root().join("integration/python/test_client.py"));
    let said = server.run(command, "").await.unwrap().success().unwrap();
    assert!(said.ends_with("all done\n"), "{said}");
}
