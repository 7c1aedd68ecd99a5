//! Hosts and servers that do not fit each other: the APIService says why.

use kindom_integration::{Authority, Host, HostOptions, ServerOptions, full};

use super::Behind;
use super::behind::API_SERVICES;
use crate::support::until;

/// Waits until the condition has this in its message, while a server with these arguments is behind the host.
async fn says(host: Host, args: &[&str], message: &str) -> Host {
    let behind = Behind::of(host, ServerOptions::default().args(args)).await;
    behind.apply().await;
    let message = message.replace("PORT", &behind.front.address().port().to_string());
    let client = behind.host.admin().unwrap();
    until(&client, API_SERVICES, "v1.apiextensions.kindom.dev", |service| {
        let conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| {
            c["type"] == "Available" && c["status"] == "False" && c["message"].to_string().contains(&message)
        })
    })
    .await;
    behind.host
}

/// The table of docs/aggregation.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_in_the_condition() {
    if !full() {
        return;
    }
    let Some(host) = Host::start().await.unwrap() else { return };
    let proxies = host.front_proxy_ca().display().to_string();
    let believing = ["--requestheader-client-ca-file", &proxies];
    let named = ["--tls-san", "kindom.kindom-system.svc"];
    let host = says(host, &believing, "not kindom.kindom-system.svc").await;

    let somebody = ["--requestheader-allowed-names", "somebody"];
    let host = says(
        host,
        &[&believing[..], &named, &somebody].concat(),
        ":PORT/apis/apiextensions.kindom.dev/v1: 401",
    )
    .await;

    let other = host.scratch().join("other-ca.crt");
    std::fs::write(&other, Authority::new("front-proxy-ca").unwrap().pem()).unwrap();
    let other = ["--requestheader-client-ca-file", &other.display().to_string()];
    says(host, &[&other[..], &named].concat(), ":PORT/apis/apiextensions.kindom.dev/v1: 401").await;

    let host = HostOptions::default().args(&["--enable-aggregator-routing"]).start().await.unwrap().unwrap();
    let proxies = host.front_proxy_ca().display().to_string();
    let believing = ["--requestheader-client-ca-file", &proxies];
    says(host, &[&believing[..], &named].concat(), "unsupported service type \\\"ExternalName\\\"").await;
}
