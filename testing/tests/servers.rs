//! Servers in this process, with kube's client.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kindom_testing::{Profile, TestServer};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{conditions, wait};
use kube::{Client, Error, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

const SERVERS: i64 = 12;

/// Registers widgets whose size is at most `most`.
async fn register(client: &Client, most: i64) -> Api<DynamicObject> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"size": {"type": "integer", "maximum": most, "default": most}},
    }}});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &definition).await.unwrap();
    wait::await_condition(api, "widgets.example.com", conditions::is_crd_established()).await.unwrap();
    Api::default_namespaced_with(client.clone(), &widgets())
}

fn widgets() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets")
}

fn widget(name: &str, spec: serde_json::Value) -> DynamicObject {
    DynamicObject::new(name, &widgets()).data(json!({"spec": spec}))
}

fn config_map(metadata: ObjectMeta) -> ConfigMap {
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// Uses a server whose widgets are of this size at most; no other server's rules or objects are there.
async fn use_alone(server: &TestServer, most: i64) {
    let api = register(&server.client(), most).await;
    let post = PostParams::default();
    let made = api.create(&post, &widget("one", json!({}))).await.unwrap();
    assert_eq!(made.data["spec"]["size"], most);
    let refused = api.create(&post, &widget("two", json!({"size": most + 1}))).await.unwrap_err();
    let Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
    assert!(status.message.contains(&format!("less than or equal to {most}")), "{}", status.message);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_dozen_servers_share_nothing() {
    let mut starting = JoinSet::new();
    for most in 1..=SERVERS {
        starting.spawn(async move {
            let server = TestServer::start().await.unwrap();
            use_alone(&server, most).await;
            server
        });
    }
    // All of them are there at the same time.
    let servers = starting.join_all().await;
    let different = |of: fn(&TestServer) -> &str| servers.iter().map(of).collect::<BTreeSet<_>>().len();
    let authority = |server: &TestServer| {
        let line = server.kubeconfig().lines().find(|line| line.contains("certificate-authority-data"));
        line.unwrap().to_owned()
    };
    assert_eq!(different(TestServer::url), servers.len());
    assert_eq!(servers.iter().map(authority).collect::<BTreeSet<_>>().len(), servers.len());
    let mut stopping: JoinSet<_> = servers.into_iter().map(TestServer::stop).collect();
    while let Some(stopped) = stopping.join_next().await {
        stopped.unwrap().unwrap();
    }
}

#[tokio::test]
async fn two_servers_run_in_a_runtime_of_one_thread() {
    two_servers().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_run_in_a_runtime_of_many_threads() {
    two_servers().await;
}

async fn two_servers() {
    let (one, two) = tokio::join!(TestServer::start(), TestServer::start());
    let (one, two) = (one.unwrap(), two.unwrap());
    tokio::join!(use_alone(&one, 3), use_alone(&two, 5));
    drop(one);
    // The end of one is not the other's.
    let versions = two.client().list_core_api_versions().await.unwrap();
    assert_eq!(versions.versions, ["v1"]);
    two.stop().await.unwrap();
}

#[tokio::test]
async fn what_lost_its_owner_goes() {
    let server = TestServer::start().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let post = PostParams::default();
    let owner = api.create(&post, &config_map(named("owner"))).await.unwrap();
    let reference = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta { owner_references: Some(vec![reference]), ..named("owned") };
    let owned = api.create(&post, &config_map(metadata)).await.unwrap();
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    wait::await_condition(api, "owned", conditions::is_deleted(&owned.uid().unwrap())).await.unwrap();
}

#[tokio::test]
async fn a_namespace_ends_with_what_is_in_it() {
    let server = TestServer::start().await.unwrap();
    let (client, post) = (server.client(), PostParams::default());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = Namespace { metadata: named("short"), ..Namespace::default() };
    let namespace = namespaces.create(&post, &namespace).await.unwrap();
    let inside: Api<ConfigMap> = Api::namespaced(client, "short");
    inside.create(&post, &config_map(named("one"))).await.unwrap();
    namespaces.delete("short", &DeleteParams::default()).await.unwrap();
    let uid = namespace.uid().unwrap();
    wait::await_condition(namespaces, "short", conditions::is_deleted(&uid)).await.unwrap();
    assert!(inside.get_opt("one").await.unwrap().is_none());
}

#[tokio::test]
async fn a_profile_says_which_kinds_are_served() {
    let has_deployments = |server: &TestServer| {
        let deployments: Api<Deployment> = Api::default_namespaced(server.client());
        async move {
            match deployments.list(&ListParams::default()).await {
                Ok(_) => true,
                Err(Error::Api(status)) if status.code == 404 => false,
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert!(!has_deployments(&TestServer::start().await.unwrap()).await);
    let all = TestServer::builder().profile(Profile::Kubernetes).start().await.unwrap();
    assert!(has_deployments(&all).await);
}

#[tokio::test]
async fn a_client_of_another_server_is_refused() {
    let (one, two) = (TestServer::start().await.unwrap(), TestServer::start().await.unwrap());
    let mistaken = one.kubeconfig().replace(one.url(), two.url());
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&mistaken).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.proxy_url = None;
    let refused = Client::try_from(config).unwrap().list_core_api_versions().await.unwrap_err();
    assert!(!matches!(refused, Error::Api(_)), "there is no connection: {refused}");
}

#[tokio::test]
async fn flags_are_those_of_the_binary() {
    let server = TestServer::builder().flag("--max-object-bytes=2000").start().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let data = Some([("a".to_owned(), "b".repeat(3000))].into());
    let large = ConfigMap { data, ..config_map(named("large")) };
    let refused = api.create(&PostParams::default(), &large).await.unwrap_err();
    assert!(matches!(refused, Error::Api(status) if status.code == 413));
}
