//! Behind a real kube-apiserver of Kubernetes 1.37 with its aggregator, RBAC and audit log (B-01, B-02, B-44, B-45, B-46).

mod behind;

use serde_json::json;

pub(crate) use behind::Behind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_forwards() {
    let Some(behind) = Behind::start().await else { return };
    let jane = behind.host.caller("jane", Some("dev")).unwrap();
    println!("{:?}", jane.kubectl_with(&["auth", "whoami"], "").await.unwrap());
    println!(
        "{:?}",
        jane.kubectl_with(&["get", "customresourcedefinitions.apiextensions.kindom.dev"], "").await.unwrap()
    );
    println!(
        "{:?}",
        behind
            .admin()
            .kubectl_with(&["get", "customresourcedefinitions.apiextensions.kindom.dev"], "")
            .await
            .unwrap()
    );
    println!("{:?}", behind.admin().kubectl_with(&["get", "apiservices"], "").await.unwrap());
    let _ = json!({});
}
