//! Tests of Sloop, each against a server in this process.

use std::error::Error;

use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use super::Sloop;

const SAMPLE: &str = include_str!("../../../samples/sails_v1beta1_sloop.yaml");

async fn server() -> Result<TestServer, kindom_testing::Error> {
    TestServer::builder().group(crate::kinds()).start().await
}

#[tokio::test]
async fn the_sample_is_stored() -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let api: Api<Sloop> = Api::default_namespaced(server.client());
    let sample: Sloop = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    assert_eq!(created.spec, sample.spec);
    assert_eq!(
        created.status, None,
        "a status is written by the controller alone"
    );
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_wrong_spec_is_refused() -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let api: Api<Sloop> = Api::default_namespaced(server.client());
    let mut wrong: Sloop = serde_saphyr::from_str(SAMPLE)?;
    wrong.spec.foo = Some(String::new());
    let refused = api.create(&PostParams::default(), &wrong).await;
    let error = refused.err().ok_or("it was stored")?.to_string();
    assert!(error.contains("spec.foo"), "{error}");
    server.stop().await?;
    Ok(())
}
