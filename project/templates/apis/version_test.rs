//! Tests of {{ kind }} in {{ version }}, which is stored as {{ hub }}.

use std::error::Error;

use kindom_testing::TestServer;
use kube::api::{Api, PostParams};

use crate::{{ group_module }}::{{ hub }};
use super::{{ kind }};

const SAMPLE: &str = include_str!("../../../samples/{{ sample }}");

/// Objects lose nothing on the way from any version to any other and back.
#[test]
fn versions_hold_the_same() -> Result<(), kindom_server::Loss> {
    crate::{{ group_module }}::{{ module }}().round_trips(1000, 1)
}

#[tokio::test]
async fn one_object_is_read_in_every_version() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder()
        .group(crate::kinds())
        .start()
        .await?;
    let api: Api<{{ kind }}> = Api::{{ "default_namespaced" if namespaced else "all" }}(server.client());
    let sample: {{ kind }} = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    let hub: Api<{{ hub }}::{{ kind }}> = Api::{{ "default_namespaced" if namespaced else "all" }}(server.client());
    let name = created.metadata.name.as_deref().ok_or("no name")?;
    assert_eq!(hub.get(name).await?.metadata.uid, created.metadata.uid);
    server.stop().await?;
    Ok(())
}
