//! Tests of the controller of {{ kind }}, each against a server in this process.

use std::error::Error;
{% if status -%}
use std::time::Duration;
{% endif %}
{% if status -%}
use apis::{{ group_module }}::{{ hub }};
{% endif -%}
use kindom_controller::Manager;
use kindom_testing::TestServer;
{% if status -%}
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use tokio::time::timeout;
{% endif %}
use super::{{ kind }}Controller;
{% if status %}
const SAMPLE: &str = include_str!("../samples/{{ sample }}");
/// A safety net: a call that fails is repeated for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// True once the controller has acted on the latest spec.
fn settled(object: Option<&{{ hub }}::{{ kind }}>) -> bool {
    object.is_some_and(|object| {
        let status = object.status.as_ref();
        status.and_then(|status| status.observed_generation) == object.metadata.generation
    })
}

#[tokio::test]
async fn the_status_says_that_the_spec_was_seen() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(apis::kinds()).start().await?;
    let manager = Manager::new("test", server.client()).controller::<{{ kind }}Controller>();
    let api: Api<{{ hub }}::{{ kind }}> = Api::{{ "default_namespaced" if namespaced else "all" }}(server.client());
    let sample: {{ hub }}::{{ kind }} = serde_saphyr::from_str(SAMPLE)?;
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
{% else %}
#[tokio::test]
async fn it_ends_when_it_has_to() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(apis::kinds()).start().await?;
    let manager = Manager::new("test", server.client()).controller::<{{ kind }}Controller>();
    if let Err(error) = manager.run(std::future::ready(())).await {
        return Err(error.to_string().into());
    }
    server.stop().await?;
    Ok(())
}
{% endif -%}
