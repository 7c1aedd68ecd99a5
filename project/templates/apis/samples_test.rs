//! Editors complete and check manifests by JSON Schemas: the samples pass.

use std::error::Error;
use std::path::Path;

use kindom_testing::TestServer;
use kube::api::{GetParams, Request};
use serde_json::Value;

/// Every sample fits the JSON Schema of its kind.
#[tokio::test]
async fn every_sample_fits_its_json_schema() -> Result<(), Box<dyn Error>> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    if !samples.exists() {
        return Ok(());
    }
    let server = TestServer::builder().group(crate::kinds()).start().await?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(samples)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|of| of == "yaml" || of == "yml" || of == "json"));
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        for sample in serde_saphyr::from_multiple::<Value>(&text)? {
            let name = |field: &str| sample[field].as_str().unwrap_or_default();
            let version = match name("apiVersion") {
                "v1" => "core/v1",
                version => version,
            };
            let schemas = Request::new(format!("/schemas/{version}"));
            let request = schemas.get(&format!("{}.json", name("kind")), &GetParams::default())?;
            let schema = server.client().request_text(request).await?;
            let schema = jsonschema::validator_for(&serde_json::from_str(&schema)?)?;
            let errors = schema.iter_errors(&sample);
            let errors: Vec<String> = errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        }
    }
    server.stop().await?;
    Ok(())
}
