//! Tests of Sloop in v1, which is stored as v1beta1.

use std::error::Error;

use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use super::Sloop;
use crate::sails::v1beta1;

const SAMPLE: &str = include_str!("../../../samples/sails_v1_sloop.yaml");

/// Objects lose nothing on the way from any version to any other and back.
#[test]
fn versions_hold_the_same() -> Result<(), kindom_server::Loss> {
    crate::sails::sloop().round_trips(1000, 1)
}

#[tokio::test]
async fn one_object_is_read_in_every_version() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(crate::kinds()).start().await?;
    let api: Api<Sloop> = Api::default_namespaced(server.client());
    let sample: Sloop = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    let hub: Api<v1beta1::Sloop> = Api::default_namespaced(server.client());
    let name = created.metadata.name.as_deref().ok_or("no name")?;
    assert_eq!(hub.get(name).await?.metadata.uid, created.metadata.uid);
    server.stop().await?;
    Ok(())
}
