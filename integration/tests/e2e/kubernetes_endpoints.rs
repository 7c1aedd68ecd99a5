//! Endpoints and EndpointSlice `kubernetes`: where clients reach the replicas. Expected objects are those that a kube-apiserver
//! 1.37 makes (B-36).

use std::collections::BTreeMap;

use kindom_integration::{Client, EtcdOptions, Server, ServerOptions};
use serde_json::{Value, json};

use crate::support::until;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Waits until both objects have exactly these addresses, and returns the slice.
async fn until_they_are(client: &Client, addresses: &[&str]) -> Value {
    let of = |object: &Value| -> Vec<String> {
        let of_endpoints = object["subsets"].as_array().into_iter().flatten();
        let ips = of_endpoints.flat_map(|subset| subset["addresses"].as_array().unwrap()).map(|a| &a["ip"]);
        let of_slice = object["endpoints"].as_array().into_iter().flatten().map(|e| &e["addresses"][0]);
        ips.chain(of_slice).map(|ip| ip.as_str().unwrap().to_owned()).collect()
    };
    until(client, ENDPOINTS, "kubernetes", |object| of(object) == addresses).await;
    until(client, SLICES, "kubernetes", |object| of(object) == addresses).await
}

fn advertising(address: &str) -> ServerOptions {
    ServerOptions::default().args(&["--advertise-address", address])
}

#[tokio::test]
async fn they_lead_to_the_server_and_come_back() {
    let mut server = advertising("198.51.100.7").start().await.unwrap();
    let client = server.client().unwrap();
    let slice = until_they_are(&client, &["198.51.100.7"]).await;
    let port = server.address().unwrap().port();
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], ports);
    assert_eq!(slice["endpoints"], json!([{"addresses": ["198.51.100.7"], "conditions": {"ready": true}}]));
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    let endpoints = client.get(&format!("{ENDPOINTS}/kubernetes")).await.unwrap().json();
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "198.51.100.7"}], "ports": ports}]));
    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    assert_eq!(endpoints["metadata"]["labels"], skip);

    // The look that brings one of them back leaves the other as it is.
    client.delete(&format!("{ENDPOINTS}/kubernetes")).await.unwrap().expect_status(200).unwrap();
    let again = until_they_are(&client, &["198.51.100.7"]).await;
    assert_eq!(again["metadata"], slice["metadata"]);
    let stolen = json!({"endpoints": [{"addresses": ["203.0.113.66"]}]});
    let path = format!("{SLICES}/kubernetes");
    client.merge_patch(&path, &stolen).await.unwrap().expect_status(200).unwrap();
    let again = until_they_are(&client, &["198.51.100.7"]).await;
    assert_eq!(again["metadata"]["uid"], slice["metadata"]["uid"]);

    let options = |server: &Server| advertising("2001:db8::7").succeeding(server);
    server.terminate().await.unwrap();
    let mut other = options(&server).start().await.unwrap();
    let slice = until_they_are(&other.client().unwrap(), &["2001:db8::7"]).await;
    assert_eq!(slice["addressType"], "IPv6");
    // One that only its host reaches takes away the address of one that was killed.
    other.kill9().unwrap();
    let last = ServerOptions::default().succeeding(&other).start().await.unwrap();
    let slice = until_they_are(&last.client().unwrap(), &[]).await;
    assert_eq!(slice["ports"], Value::Null);
}

#[tokio::test]
async fn a_server_for_its_own_host_has_none() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    until(&client, "/api/v1/namespaces/default/services", "kubernetes", |_| true).await;
    for collection in [ENDPOINTS, SLICES] {
        assert_eq!(client.get(collection).await.unwrap().json()["items"], json!([]));
    }
    let refused = advertising("127.0.0.1").start().await.err().unwrap().to_string();
    let why = "--advertise-address 127.0.0.1: may not be in the loopback range (127.0.0.0/8, ::1/128)";
    assert!(refused.contains(why), "{refused}");
}

#[tokio::test]
async fn replicas_come_and_go() {
    let etcd = EtcdOptions::default().nodes(1).start().await.unwrap();
    let urls: Vec<String> = etcd.addresses().iter().map(|address| format!("http://{address}")).collect();
    let pki = tempfile::tempdir().unwrap();
    let mut replicas = BTreeMap::new();
    for address in ["198.51.100.1", "198.51.100.2", "198.51.100.3"] {
        let options = advertising(address).etcd(&urls).cert_dir(pki.path());
        let replica = options.start().await.unwrap();
        if replicas.is_empty() {
            until_they_are(&replica.client().unwrap(), &[address]).await;
        }
        replicas.insert(address, replica);
    }
    let client = replicas["198.51.100.2"].client().unwrap();
    let all = until_they_are(&client, &["198.51.100.1", "198.51.100.2", "198.51.100.3"]).await;
    // The first one's port, whichever of them writes.
    assert_eq!(all["ports"][0]["port"], replicas["198.51.100.1"].address().unwrap().port());
    replicas.get_mut("198.51.100.1").unwrap().terminate().await.unwrap();
    until_they_are(&client, &["198.51.100.2", "198.51.100.3"]).await;
    replicas.get_mut("198.51.100.3").unwrap().kill9().unwrap();
    until_they_are(&client, &["198.51.100.2"]).await;
}
