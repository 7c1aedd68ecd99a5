//! Tests of the controller of Harbour, each against a server in this process.

use std::error::Error;

use apis::ports::v1alpha1;
use kindom_controller::Manager;
use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use super::HarbourController;

const SAMPLE: &str = include_str!("../samples/ports_v1alpha1_harbour.yaml");

#[tokio::test]
async fn it_starts_and_ends() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(apis::kinds()).start().await?;
    let api: Api<v1alpha1::Harbour> = Api::all(server.client());
    let sample: v1alpha1::Harbour = serde_saphyr::from_str(SAMPLE)?;
    api.create(&PostParams::default(), &sample).await?;
    let manager = Manager::new("test", server.client()).controller::<HarbourController>();
    if let Err(error) = manager.run(std::future::ready(())).await {
        return Err(error.to_string().into());
    }
    server.stop().await?;
    Ok(())
}
