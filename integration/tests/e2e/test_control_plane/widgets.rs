use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kindom_testing::TestServer;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::{conditions, wait};
use kube::{Client, ResourceExt as _};
use serde_json::json;

/// The operator under test.
async fn reconcile(api: &Api<DynamicObject>, name: &str) -> kube::Result<()> {
    let mut widget = api.get(name).await?;
    let size = widget.data["spec"]["size"].as_i64().unwrap_or_default();
    widget.data["status"] = json!({"area": size * size});
    api.replace_status(name, &PostParams::default(), &widget).await?;
    Ok(())
}

/// Creates the type of a manifest, and returns once the server serves it.
async fn register(client: &Client, manifest: &str) {
    let definition: CustomResourceDefinition = serde_saphyr::from_str(manifest).unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let created = api.create(&PostParams::default(), &definition).await.unwrap();
    wait::await_condition(api, &created.name_any(), conditions::is_crd_established()).await.unwrap();
}

#[tokio::test]
async fn a_widget_gets_its_area() {
    let server = TestServer::start().await.unwrap();
    let client = server.client();
    register(&client, include_str!("widgets.yaml")).await;
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let widget = |name, size| DynamicObject::new(name, &resource).data(json!({"spec": {"size": size}}));

    api.create(&PostParams::default(), &widget("three", 3)).await.unwrap();
    reconcile(&api, "three").await.unwrap();
    assert_eq!(api.get("three").await.unwrap().data["status"], json!({"area": 9}));

    let refused = api.create(&PostParams::default(), &widget("huge", 1000)).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 422));
}
