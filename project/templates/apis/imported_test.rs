//! Tests of {{ kind }}, each against a server in this process.

use std::error::Error;

use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use super::{{ kind }};

const SAMPLE: &str = include_str!("../../../samples/{{ sample }}");

#[tokio::test]
async fn the_sample_is_stored() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(crate::kinds()).start().await?;
    let api: Api<{{ kind }}> = Api::{{ "default_namespaced" if namespaced else "all" }}(server.client());
    let sample: {{ kind }} = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    assert_eq!(created.spec, sample.spec);
    server.stop().await?;
    Ok(())
}
