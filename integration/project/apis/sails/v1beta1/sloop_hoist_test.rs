//! Tests of sloops/hoist, each against a server in this process.

use std::error::Error;

use kindom_testing::TestServer;
use kube::Resource as _;
use kube::api::{Api, PostParams};

use crate::sails::v1beta1::Sloop;

const SAMPLE: &str = include_str!("../../../samples/sails_v1beta1_sloop.yaml");

#[tokio::test]
async fn the_subresource_answers() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(crate::kinds()).start().await?;
    let api: Api<Sloop> = Api::default_namespaced(server.client());
    let sample: Sloop = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    let path = Sloop::url_path(&(), Some("default"));
    let name = created.metadata.name.unwrap_or_default();
    let request = kube::core::Request::new(path).get_subresource("hoist", &name)?;
    let answer: serde_json::Value = server.client().request(request).await?;
    assert_eq!(answer, serde_json::to_value(&created.spec)?);
    server.stop().await?;
    Ok(())
}
