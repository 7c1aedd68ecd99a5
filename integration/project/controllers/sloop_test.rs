//! Tests of the controller of Sloop, each against a server in this process.

use std::error::Error;
use std::time::Duration;

use apis::sails::v1beta1;
use kindom_controller::Manager;
use kindom_testing::TestServer;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use tokio::time::timeout;

use super::SloopController;

const SAMPLE: &str = include_str!("../samples/sails_v1beta1_sloop.yaml");
/// A safety net: a call that fails is repeated for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// True once the controller has acted on the latest spec.
fn settled(object: Option<&v1beta1::Sloop>) -> bool {
    object.is_some_and(|object| {
        let status = object.status.as_ref();
        status.and_then(|status| status.observed_generation) == object.metadata.generation
    })
}

#[tokio::test]
async fn the_status_says_that_the_spec_was_seen() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(apis::kinds()).start().await?;
    let manager = Manager::new("test", server.client()).controller::<SloopController>();
    let api: Api<v1beta1::Sloop> = Api::default_namespaced(server.client());
    let sample: v1beta1::Sloop = serde_saphyr::from_str(SAMPLE)?;
    let name = sample.metadata.name.clone().ok_or("no name")?;
    let seen = async {
        api.create(&PostParams::default(), &sample).await?;
        timeout(LIMIT, await_condition(api.clone(), &name, settled)).await??;
        Ok::<(), Box<dyn Error>>(())
    };
    tokio::select! {
        seen = seen => seen?,
        ended = manager.run(std::future::pending()) => return Err(format!("it ended: {ended:?}").into()),
    }
    server.stop().await?;
    Ok(())
}
