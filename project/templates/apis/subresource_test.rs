//! Tests of {{ resource }}/{{ subresource }}, each against a server in this process.

use std::error::Error;

use kindom_testing::TestServer;
use kube::Resource as _;
use kube::api::{Api, PostParams};

use crate::{{ group_module }}::{{ hub }}::{{ kind }};

const SAMPLE: &str = include_str!("../../../samples/{{ sample }}");

#[tokio::test]
async fn the_subresource_answers() -> Result<(), Box<dyn Error>> {
    let server = TestServer::builder().group(crate::kinds()).start().await?;
    let api: Api<{{ kind }}> = Api::{{ "default_namespaced" if namespaced else "all" }}(server.client());
    let sample: {{ kind }} = serde_saphyr::from_str(SAMPLE)?;
    let created = api.create(&PostParams::default(), &sample).await?;
    let path = {{ kind }}::url_path(&(), {{ 'Some("default")' if namespaced else "None" }});
    let name = created.metadata.name.unwrap_or_default();
{%- if verb == "get" %}
    let request = kube::core::Request::new(path).get_subresource("{{ subresource }}", &name)?;
{%- elif verb == "create" %}
    let request =
        kube::core::Request::new(path).create_subresource("{{ subresource }}", &name, &PostParams::default(), Vec::new())?;
{%- elif verb == "update" %}
    let request =
        kube::core::Request::new(path).replace_subresource("{{ subresource }}", &name, &PostParams::default(), Vec::new())?;
{%- elif verb == "patch" %}
    let patch = kube::api::Patch::Merge(serde_json::json!({}));
    let request =
        kube::core::Request::new(path).patch_subresource("{{ subresource }}", &name, &Default::default(), &patch)?;
{%- else %}
    let of_object = kube::core::Request::new(format!("{path}/{name}"));
    let request = of_object.delete("{{ subresource }}", &Default::default())?;
{%- endif %}
    let answer: serde_json::Value = server.client().request(request).await?;
    assert_eq!(answer, serde_json::to_value(&created.spec)?);
    server.stop().await?;
    Ok(())
}
