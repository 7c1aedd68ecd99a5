//! The next handler of the chain (T-44), plugged into an HTTP face that runs in this process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use kindom_actor_kit::{ActorTable, Arbiters, Clock, Entropy, Reconciler, Supervisor, run_system};
use kindom_http::authn::{Authenticator, Tokens, server_config};
use kindom_http::{Collector, Config, Delegated, DelegatedAnswer, Fallback, Running, WebhookMetrics, serve};
use kindom_integration::Client;
use kindom_objects::kinds::namespace::namespaces;
use kindom_objects::kinds::registration::custom_resource_definitions;
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Deps, NoWebhooks, ResourceHandle};
use kindom_storage::Memory;
use serde_json::json;

use crate::support::{crd, register};

/// Answers with the request, in two chunks.
#[derive(Default)]
struct Echo {
    seen: Mutex<Vec<Delegated>>,
}

impl Fallback for Echo {
    fn serve(&self, request: Delegated) -> BoxFuture<'static, DelegatedAnswer> {
        let said = format!("{} {}: ", request.method, request.path_and_query);
        let body = request.body.clone();
        self.seen.lock().unwrap().push(request);
        async move {
            let chunks = [Bytes::from(said), body].map(Ok);
            DelegatedAnswer {
                status: 418,
                headers: vec![
                    ("x-next".into(), b"yes".to_vec()),
                    ("content-type".into(), b"text/plain".to_vec()),
                ],
                body: stream::iter(chunks).boxed(),
            }
        }
        .boxed()
    }
}

/// The server's wiring over memory, without what these tests do not need.
fn start(fallback: Option<Arc<dyn Fallback>>) -> (Running, Vec<Reconciler>, Client) {
    let entropy = Entropy::seeded(1);
    let deps = Arc::new(Deps {
        storage: Arc::new(Memory::default()),
        supervisor: Supervisor::new(ActorTable::new(), entropy.fork()),
        arbiters: Arbiters::new(1).unwrap(),
        clock: Clock::system(),
        entropy,
        webhooks: Arc::new(NoWebhooks),
        processors: None,
    });
    let registrations = ResourceHandle::new(Arc::clone(&deps), Arc::new(custom_resource_definitions()));
    let namespaces = ResourceHandle::new(Arc::clone(&deps), Arc::new(namespaces()));
    let registry = RegistryHandle::start(deps, &registrations, [namespaces.clone()]).unwrap();
    let conflict =
        kindom_conflict_actor::start(&registry, &registrations, "/kindom/registry/claims/").unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let tls = server_config(vec![cert.der().clone()], key, &[cert.der().clone()]).unwrap();
    let tokens = Tokens::parse("secret,admin,1,system:masters", "tokens").unwrap();
    let config = Config {
        accounts: None,
        delegation: Default::default(),
        namespaces_are_the_hosts: false,
        quotas: None,
        plugins: None,
        admission: None,
        auditing: None,
        collector: Collector::Nobody,
        host_metrics: None,
        webhook_metrics: WebhookMetrics::default(),
        registry,
        namespaces,
        authenticator: Authenticator::new(&[cert.der().clone()], tokens).unwrap(),
        object_bytes_max: 1 << 20,
        chaos: None,
        fallback,
        aggregator: None,
        handlers: None,
        snapshots: None,
        store_writes: None,
        store_scrubs: None,
        certificate_ends: None,
        processors: kindom_actor_kit::Processors::new(1).unwrap(),
        memory_budget_bytes: 1 << 30,
        in_flight_max: kindom_http::InFlightMax { reading: 400, mutating: 200 },
        connections_max: 1000,
        connections_per_address_max: None,
        http2_streams_max: 100,
    };
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let running = serve(address, Arc::unwrap_or_clone(tls), 1, config).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = Client::new(running.address, tls, false).with_token("secret");
    (running, vec![conflict], client)
}

fn serving<F: Future<Output = ()>>(fallback: Option<Arc<dyn Fallback>>, test: impl FnOnce(Client) -> F) {
    let ran = run_system(async move {
        let (running, _actors, client) = start(fallback);
        let stop = running.handle();
        let testing = async {
            test(client).await;
            stop.stop(std::time::Duration::ZERO, std::time::Duration::ZERO).await;
        };
        let (served, ()) = tokio::join!(running.run(), testing);
        served.unwrap();
    });
    ran.unwrap();
}

#[test]
fn what_nobody_registered_is_the_next_handler_s() {
    let echo = Arc::new(Echo::default());
    let next = Arc::clone(&echo);
    serving(Some(next), async |client| {
        let elsewhere = "/apis/else.where.io/v1/namespaces/ns/things?limit=5";
        let answer = client.post(elsewhere, &json!({"a": 1})).await.unwrap();
        assert_eq!((answer.status, answer.header("x-next")), (418, "yes"));
        assert_eq!(answer.text(), format!("POST {elsewhere}: {}", json!({"a": 1})));
        assert_eq!(client.get("/some/path").await.unwrap().text(), "GET /some/path: ");
        assert_eq!(client.get("/apis/else.where.io/v1").await.unwrap().status, 418);

        // A registered type is ours from then on, even if it has no such object, verb or subresource.
        let rings = "/apis/else.where.io/v1/namespaces/default/rings";
        assert_eq!(client.get(rings).await.unwrap().status, 418);
        register(&client, &crd("else.where.io", "rings", "Ring", "Namespaced")).await;
        assert_eq!(client.get(rings).await.unwrap().status, 200);
        assert_eq!(client.get(&format!("{rings}/none")).await.unwrap().status, 404);
        assert_eq!(client.get(&format!("{rings}/none/parts")).await.unwrap().status, 404);
        assert_eq!(client.get("/apis/apiextensions.k8s.io/v1/nothing").await.unwrap().status, 404);
        // Another version of a registered type is not ours.
        assert_eq!(client.get(&rings.replace("/v1/", "/v2/")).await.unwrap().status, 418);
    });
    let seen = echo.seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    assert_eq!((seen[0].user.name.as_str(), seen[0].method.as_str()), ("admin", "POST"));
    assert!(
        seen[0].headers.iter().any(|(name, value)| name == "content-type" && value == b"application/json")
    );
}

#[test]
fn without_a_next_handler_it_is_404() {
    serving(None, async |client| {
        for path in ["/apis/else.where.io/v1/namespaces/ns/things", "/some/path"] {
            let answer = client.get(path).await.unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (404, "404 page not found\n"));
        }
    });
}

#[test]
fn whoever_is_nobody_reaches_no_next_handler() {
    let echo = Arc::new(Echo::default());
    serving(Some(Arc::clone(&echo) as Arc<dyn Fallback>), async |client| {
        assert_eq!(client.with_token("wrong").get("/some/path").await.unwrap().status, 401);
    });
    assert!(echo.seen.lock().unwrap().is_empty());
}
