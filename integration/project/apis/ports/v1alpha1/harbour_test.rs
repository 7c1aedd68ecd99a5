//! Tests of Harbour, each against a server in this process.

use std::error::Error;

use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use super::Harbour;

const SAMPLE: &str = include_str!("../../../samples/ports_v1alpha1_harbour.yaml");

async fn server() -> Result<TestServer, kindom_testing::Error> {
    TestServer::builder().group(crate::kinds()).start().await
}

#[tokio::test]
async fn the_sample_is_stored() -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let api: Api<Harbour> = Api::all(server.client());
    let sample: Harbour = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    assert_eq!(created.spec, sample.spec);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_wrong_spec_is_refused() -> Result<(), Box<dyn Error>> {
    let server = server().await?;
    let api: Api<Harbour> = Api::all(server.client());
    let mut wrong: Harbour = serde_saphyr::from_str(SAMPLE)?;
    wrong.spec.foo = Some(String::new());
    let refused = api.create(&PostParams::default(), &wrong).await;
    let error = refused.err().ok_or("it was stored")?.to_string();
    assert!(error.contains("spec.foo"), "{error}");
    server.stop().await?;
    Ok(())
}
