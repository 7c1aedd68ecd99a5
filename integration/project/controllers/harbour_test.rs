//! Tests of the controller of Harbour, each against a server in this process.

use std::error::Error;

use kindom_controller::Manager;
use kindom_testing::TestServer;

use super::HarbourController;

#[tokio::test]
async fn it_ends_when_it_has_to() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(apis::kinds()).start().await?;
    let manager = Manager::new("test", server.client()).controller::<HarbourController>();
    if let Err(error) = manager.run(std::future::ready(())).await {
        return Err(error.to_string().into());
    }
    server.stop().await?;
    Ok(())
}
