//! A kind that a program is compiled with, served in the test's process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, mpsc};

use kindom_server::{Context, Errors, Group, Loss, Resource, Strategy, Version, Versions};
use kindom_testing::TestServer;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::KubeConfigOptions;
use kube::discovery::ApiResource;
use kube::{Error, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[path = "../../server/examples/sails/sloop.rs"]
mod sloop;
#[path = "../../server/examples/sails/v1alpha1.rs"]
mod v1alpha1;

use sloop::Sloop;

/// A client for which refusals are what is looked at.
async fn without_retries(server: &TestServer) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(server.kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

async fn server() -> TestServer {
    TestServer::builder().group(Group::new().kind::<Sloop>()).start().await.unwrap()
}

/// Sloops as a client sees that has no type for them.
fn sloops(server: &TestServer) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Sloop>(&());
    Api::default_namespaced_with(server.client(), &resource)
}

fn sloop(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "sails.example.com/v1beta1", "kind": "Sloop", "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap()
}

fn refusal(error: Error) -> (u16, String) {
    match error {
        Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    }
}

/// B-22 to B-30: the stages of a create.
#[tokio::test]
async fn a_create_goes_through_every_stage() {
    let server = server().await;
    let api = sloops(&server);
    let mut wanted =
        sloop("argo", json!({ "hull": "oak", "sails": ["main", "jib"], "keeper": "somebody else" }));
    wanted.data["status"] = json!({ "crew": 7 });
    let created = api.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(
        created.data["spec"],
        json!({ "crew": 2, "hull": "oak", "sails": ["jib", "main"], "keeper": "kubernetes-admin" })
    );
    assert_eq!(created.data.get("status"), None);
    assert_eq!(created.meta().finalizers.as_deref(), Some(&["sails.example.com/berth".to_owned()][..]));
    assert_eq!(created.meta().generation, Some(1));
    assert_eq!(api.get("argo").await.unwrap().data, created.data);

    let wrong = sloop("pinta", json!({ "hull": "oak", "crew": 0, "sails": ["jib", "jib"] }));
    let (code, message) = refusal(api.create(&PostParams::default(), &wrong).await.unwrap_err());
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "Sloop.sails.example.com \"pinta\" is invalid: [spec.crew: Invalid value: 0: a sloop does not sail by itself, \
         spec.sails[1]: Duplicate value: \"jib\"]"
    );
    let (code, message) = refusal(
        api.create(&PostParams::default(), &sloop("pinta", json!({ "crew": "two" }))).await.unwrap_err(),
    );
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.hull: Required value") && message.contains("spec.crew: Invalid value"),
        "{message}"
    );
    server.stop().await.unwrap();
}

/// B-32 to B-34, B-50: the stages of an update.
#[tokio::test]
async fn an_update_goes_through_every_stage() {
    let server = server().await;
    let api = sloops(&server);
    let built = sloop("argo", json!({ "hull": "oak" }));
    api.create(&PostParams::default(), &built).await.unwrap();
    let patch = async |patch: Value| {
        api.patch("argo", &PatchParams::default(), &Patch::Merge(patch)).await.map_err(refusal)
    };
    let (code, message) = patch(json!({ "spec": { "hull": "steel" } })).await.unwrap_err();
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "Sloop.sails.example.com \"argo\" is invalid: spec.hull: Invalid value: \"steel\": field is immutable"
    );
    // The hook takes the only change back: nothing has changed.
    let kept = patch(json!({ "spec": { "keeper": "me" } })).await.unwrap();
    assert_eq!(kept.data["spec"]["keeper"], "kubernetes-admin");
    assert_eq!(kept.meta().generation, Some(1));
    // Another order is no change either.
    let sails = patch(json!({ "spec": { "sails": ["b", "a"] } })).await.unwrap();
    assert_eq!((&sails.data["spec"]["sails"], sails.meta().generation), (&json!(["a", "b"]), Some(2)));
    let crewed = patch(json!({ "spec": { "crew": null } })).await.unwrap();
    assert_eq!((&crewed.data["spec"]["crew"], crewed.meta().generation), (&json!(2), Some(2)));

    let (code, message) =
        patch(json!({ "spec": { "crew": -1 }, "status": { "crew": 9 } })).await.unwrap_err();
    assert_eq!((code, message.contains("spec.crew")), (422, true));
    let crew = Patch::Merge(json!({ "status": { "crew": 1 } }));
    let status = api.patch_status("argo", &PatchParams::default(), &crew).await.unwrap();
    assert_eq!((&status.data["status"], status.meta().generation), (&json!({ "crew": 1 }), Some(2)));
    server.stop().await.unwrap();
}

/// An apply goes through the same stages, and one that says the same again changes nothing.
#[tokio::test]
async fn an_apply_goes_through_every_stage() {
    let server = server().await;
    let api = sloops(&server);
    let wanted = sloop("argo", json!({ "hull": "oak", "sails": ["main", "jib"] }));
    let apply = async |manager: &str, wanted: &DynamicObject| {
        api.patch("argo", &PatchParams::apply(manager), &Patch::Apply(wanted)).await.map_err(refusal)
    };
    let made = apply("builder", &wanted).await.unwrap();
    assert_eq!(made.data["spec"]["sails"], json!(["jib", "main"]));
    assert_eq!(made.data["spec"]["crew"], 2);
    let again = apply("builder", &wanted).await.unwrap();
    assert_eq!(again.meta().resource_version, made.meta().resource_version);
    let (code, message) = apply("other", &sloop("argo", json!({ "hull": "steel" }))).await.unwrap_err();
    assert_eq!((code, message.contains("conflict with \"builder\": .spec.hull")), (409, true), "{message}");
    let (code, message) =
        apply("builder", &sloop("argo", json!({ "hull": "oak", "crew": 0 }))).await.unwrap_err();
    assert_eq!((code, message.contains("a sloop does not sail by itself")), (422, true), "{message}");
    server.stop().await.unwrap();
}

/// B-52: a scale; and the registration is the program's.
#[tokio::test]
async fn a_typed_kind_is_scaled_and_stays_registered() {
    let server = server().await;
    let api = sloops(&server);
    api.create(&PostParams::default(), &sloop("argo", json!({ "hull": "oak" }))).await.unwrap();
    let scale = json!({ "spec": { "replicas": 0 } });
    let refused = api.patch_scale("argo", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap_err();
    let (code, message) = refusal(refused);
    assert_eq!((code, message.contains("a sloop does not sail by itself")), (422, true), "{message}");
    let scale = json!({ "spec": { "replicas": 5 } });
    let scaled = api.patch_scale("argo", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(5));

    let registrations: Api<CustomResourceDefinition> = Api::all(server.client());
    let name = "sloops.sails.example.com";
    let (code, message) = refusal(registrations.delete(name, &DeleteParams::default()).await.unwrap_err());
    assert_eq!(
        (code, &*message),
        (
            403,
            "customresourcedefinitions.apiextensions.k8s.io \"sloops.sails.example.com\" is forbidden: the program that \
             serves this type is compiled with it, and keeps its registration"
        )
    );
    let short = Patch::Merge(json!({ "spec": { "names": { "shortNames": ["boat"] } } }));
    let (code, message) =
        refusal(registrations.patch(name, &PatchParams::default(), &short).await.unwrap_err());
    assert_eq!(
        (code, message.contains("spec: Forbidden: the program that serves this type")),
        (422, true),
        "{message}"
    );
    let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    registrations.patch(name, &PatchParams::default(), &label).await.unwrap();
    server.stop().await.unwrap();
}

/// Ends the rules that do not end by themselves.
static ENDLESS: Mutex<Vec<mpsc::Sender<()>>> = Mutex::new(Vec::new());

/// A kind whose rules have a bug.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", cluster)]
struct Wreck {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WreckSpec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct WreckSpec {
    #[serde(default)]
    depth: u8,
    /// The type holds less than its schema lets through.
    #[serde(default)]
    #[schemars(with = "i64")]
    age: u8,
}

impl Version for Wreck {
    fn apply_defaults(&mut self) {
        assert!(self.spec.depth != 1, "a bug in the defaults");
    }
}

impl Strategy for Wreck {
    fn validate(&self, _: &Context<'_>) -> Errors {
        assert!(self.spec.depth != 2, "a bug in the validation");
        if self.spec.depth == 9 {
            let (end, ends) = mpsc::channel::<()>();
            ENDLESS.lock().unwrap().push(end);
            // Until the test drops the other end.
            let _ = ends.recv();
        }
        Errors::none()
    }

    fn canonicalize(&mut self) {
        // These are not the hook's to change.
        self.metadata.name = Some("other".to_owned());
        self.metadata.uid = None;
        self.metadata.labels.get_or_insert_default().insert("a".to_owned(), "b".to_owned());
    }
}

/// A kind whose schema says more than a structural one can.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", cluster, json_schema)]
struct Rig {
    metadata: ObjectMeta,
    spec: RigSpec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "boom": ["mast"] }))]
struct RigSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mast: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boom: Option<i64>,
}

impl Version for Rig {}
impl Strategy for Rig {}

/// B-28: what schemars says of a type holds, beyond what a registration's own schema can say.
#[tokio::test]
async fn objects_match_the_whole_schema_of_their_type() {
    let server = TestServer::builder().group(Group::new().kind::<Rig>()).start().await.unwrap();
    let rigs: Api<Rig> = Api::all(server.client());
    let create = async |name: &str, spec: RigSpec| {
        let rig = Rig { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec };
        rigs.create(&PostParams::default(), &rig).await.map_err(refusal)
    };
    create("sloop", RigSpec { mast: Some(1), boom: Some(1) }).await.unwrap();
    create("cat", RigSpec { mast: Some(1), boom: None }).await.unwrap();
    let (code, message) = create("raft", RigSpec { mast: None, boom: Some(1) }).await.unwrap_err();
    assert_eq!(code, 422);
    assert!(message.contains("spec.mast: Required value"), "{message}");
    server.stop().await.unwrap();
}

/// B-35: a bug in a hook fails the request that meets it, and nothing else.
#[tokio::test]
async fn a_hook_that_panics_fails_its_request_alone() {
    let server =
        TestServer::builder().group(Group::new().kind::<Sloop>().kind::<Wreck>()).start().await.unwrap();
    let wrecks: Api<DynamicObject> = Api::all_with(server.client(), &ApiResource::erase::<Wreck>(&()));
    let wreck = |name: &str, spec: Value| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "sails.example.com/v1", "kind": "Wreck", "metadata": { "name": name }, "spec": spec,
        }))
        .unwrap()
    };
    let create = async |spec: Value| wrecks.create(&PostParams::default(), &wreck("w", spec)).await;
    for depth in [1, 2, 1, 2] {
        let (code, message) = refusal(create(json!({ "depth": depth })).await.unwrap_err());
        assert_eq!(code, 500, "{message}");
    }
    let (code, message) = refusal(create(json!({ "age": 300 })).await.unwrap_err());
    assert_eq!(code, 422);
    assert!(message.contains("invalid value: integer `300`, expected u8"), "{message}");
    let created = create(json!({ "depth": 3 })).await.unwrap();
    assert_eq!(created.meta().name.as_deref(), Some("w"));
    assert!(created.meta().uid.is_some());
    assert_eq!(created.meta().labels.as_ref().unwrap()["a"], "b");
    let patch = async |depth: u8| {
        let patch = Patch::Merge(json!({ "spec": { "depth": depth } }));
        wrecks.patch("w", &PatchParams::default(), &patch).await.map_err(refusal)
    };
    assert_eq!(patch(2).await.unwrap_err().0, 500);
    assert_eq!(patch(4).await.unwrap().data["spec"]["depth"], 4);
    let sloops = sloops(&server);
    sloops.create(&PostParams::default(), &sloop("argo", json!({ "hull": "oak" }))).await.unwrap();
    server.stop().await.unwrap();
}

/// B-35: a rule that does not end is given up at its request's deadline, and holds up nobody else. Of a kind with too many of them,
/// writes are refused.
#[tokio::test]
async fn a_hook_that_does_not_end_hurts_its_requests_alone() {
    let server =
        TestServer::builder().group(Group::new().kind::<Sloop>().kind::<Wreck>()).start().await.unwrap();
    let sloops = sloops(&server);
    let client = without_retries(&server).await;
    let create = async |depth: u8| {
        let wreck = json!({
            "apiVersion": "sails.example.com/v1", "kind": "Wreck", "metadata": { "generateName": "w" },
            "spec": { "depth": depth },
        });
        let request = hyper::Request::post("/apis/sails.example.com/v1/wrecks?timeout=2s")
            .header("content-type", "application/json")
            .body(wreck.to_string().into_bytes())
            .unwrap();
        client.clone().request::<Value>(request).await.map_err(refusal)
    };
    let late = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    let endless = futures::future::join_all((0..4).map(|_| create(9)));
    let others = async {
        for n in 0..20 {
            let name = format!("s{n}");
            sloops.create(&PostParams::default(), &sloop(&name, json!({ "hull": "oak" }))).await.unwrap();
        }
    };
    let (endless, ()) = futures::join!(endless, others);
    for answer in endless {
        assert_eq!(answer, Err((504, late.to_owned())));
    }
    // Until the last thread is written off, too.
    let refused = loop {
        match create(3).await {
            Ok(_) => {}
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.0, 429, "{refused:?}");
    sloops.create(&PostParams::default(), &sloop("argo", json!({ "hull": "oak" }))).await.unwrap();

    ENDLESS.lock().unwrap().clear();
    while let Err((code, message)) = create(3).await {
        assert_eq!(code, 429, "{message}");
    }
    // Of a request that was given up, nothing is stored.
    let wrecks: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Wreck>(&()));
    let stored = wrecks.list(&ListParams::default()).await.unwrap();
    assert!(stored.iter().all(|wreck| wreck.data["spec"]["depth"] == 3), "{stored:?}");
    server.stop().await.unwrap();
}

/// A kind whose conversion has a bug.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", plural = "buoys", cluster)]
struct Buoy {
    metadata: ObjectMeta,
    spec: BuoySpec,
}

mod old {
    use super::*;

    #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[resource(group = "sails.example.com", version = "v1alpha1", plural = "buoys", cluster)]
    pub(super) struct Buoy {
        pub(super) metadata: ObjectMeta,
        pub(super) spec: BuoySpec,
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct BuoySpec {
    depth: u8,
}

impl Version for Buoy {}
impl Version for old::Buoy {}
impl Strategy for Buoy {}

impl From<old::Buoy> for Buoy {
    fn from(old: old::Buoy) -> Self {
        Self { metadata: old.metadata, spec: old.spec }
    }
}

/// Ends the conversions that do not end by themselves; none are there once this is `None`.
static STUCK: Mutex<Option<Vec<mpsc::Sender<()>>>> = Mutex::new(Some(Vec::new()));

impl From<Buoy> for old::Buoy {
    fn from(new: Buoy) -> Self {
        if new.spec.depth == 9 {
            let (end, ends) = mpsc::channel::<()>();
            if let Some(stuck) = &mut *STUCK.lock().unwrap() {
                stuck.push(end);
            } else {
                drop(end);
            }
            let _ = ends.recv();
        }
        Self { metadata: new.metadata, spec: new.spec }
    }
}

/// B-20, B-21: a conversion that does not end is given up at its request's deadline, and holds up nobody else, not the other readers of
/// the type either; a server has one thread for all connections here.
#[tokio::test]
async fn a_conversion_that_does_not_end_hurts_its_requests_alone() {
    let versions = Versions::<Buoy>::stored_as::<Buoy>().with::<old::Buoy>();
    let group = Group::new().versions(versions).kind::<Sloop>();
    let server = TestServer::builder().group(group).start().await.unwrap();
    let client = without_retries(&server).await;
    let asked = async |method: &str, path: &str, body: Value| {
        let request = hyper::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        client.clone().request::<Value>(request.body(body).unwrap()).await.map_err(refusal)
    };
    let (new, old) = ("/apis/sails.example.com/v1/buoys", "/apis/sails.example.com/v1alpha1/buoys");
    for (name, depth) in [("fine", 1), ("stuck", 9), ("doomed", 9)] {
        let buoy = json!({
            "apiVersion": "sails.example.com/v1", "kind": "Buoy", "metadata": { "name": name }, "spec": { "depth": depth },
        });
        asked("POST", new, buoy).await.unwrap();
    }
    let depth =
        async |path: String| asked("GET", &path, Value::Null).await.map(|buoy| buoy["spec"]["depth"].clone());
    assert_eq!(depth(format!("{old}/fine")).await, Ok(json!(1)));
    let (stuck, list) = (format!("{old}/stuck?timeout=2s"), format!("{old}?timeout=2s"));
    let endless =
        async { futures::join!(asked("GET", &stuck, Value::Null), asked("GET", &list, Value::Null)) };
    let others = async {
        for _ in 0..20 {
            assert_eq!(depth(format!("{old}/fine")).await, Ok(json!(1)));
            assert_eq!(depth(format!("{new}/stuck")).await, Ok(json!(9)));
        }
    };
    let (endless, ()) = futures::join!(endless, others);
    for answer in [endless.0, endless.1] {
        assert_eq!(answer.unwrap_err().0, 504);
    }
    // A write that needs no conversion, and a watch that waits for one.
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<old::Buoy>(&()));
    let mut events = std::pin::pin!(api.watch(&WatchParams::default(), "0").await.unwrap());
    assert!(futures::poll!(events.next()).is_pending());
    let patch = async |name: &str| {
        let patch = hyper::Request::patch(format!("{new}/{name}"))
            .header("content-type", "application/merge-patch+json")
            .body(json!({ "metadata": { "labels": { "a": "b" } } }).to_string().into_bytes());
        client.clone().request::<Value>(patch.unwrap()).await.map_err(refusal)
    };
    for name in ["fine", "stuck"] {
        assert_eq!(patch(name).await.unwrap()["metadata"]["labels"]["a"], "b");
    }
    // Until the last thread is written off.
    let refused = loop {
        match asked("GET", &stuck, Value::Null).await.unwrap_err() {
            (504, _) => {}
            refused => break refused,
        }
    };
    assert!(refused.0 == 500 && refused.1.contains("conversions of Buoy do not end"), "{refused:?}");
    assert_eq!(depth(format!("{new}/stuck")).await, Ok(json!(9)));
    // What fails can still be mended, or removed.
    assert_eq!(patch("stuck").await.unwrap()["metadata"]["name"], "stuck");
    asked("DELETE", &format!("{new}/doomed"), Value::Null).await.unwrap();

    *STUCK.lock().unwrap() = None;
    while depth(format!("{old}/stuck")).await != Ok(json!(9)) {}
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        if let Some(Ok(WatchEvent::Added(buoy) | WatchEvent::Modified(buoy))) = events.next().await {
            assert_eq!(buoy.types.unwrap().api_version, "sails.example.com/v1alpha1");
            seen.insert(buoy.metadata.name.unwrap());
        }
    }
    server.stop().await.unwrap();
}

/// Two kinds of one name are a mistake of the program's, and so are versions that do not belong together.
#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let check = async |group: Group, expected: &str| {
        let error = TestServer::builder().group(group).start().await.map(drop).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        Group::new().kind::<Sloop>().kind::<Sloop>(),
        "kindom: this program has two kinds sloops.sails.example.com",
    )
    .await;
    check(
        Group::new().versions(Versions::<Sloop>::stored_as::<Sloop>().with::<Sloop>()),
        "kindom: the kind sloops.sails.example.com cannot be served: it has two versions v1beta1",
    )
    .await;
    check(
        Group::new().versions(Versions::<Keel>::stored_as::<Keel>().with::<Mast>()),
        "kindom: the kind keels.sails.example.com cannot be served: version v2 has another group, kind, plural or scope than \
         version v1",
    )
    .await;
    check(
        Group::new().kind::<Chart>(),
        "kindom: the kind charts.sails.example.com cannot be served: its registration is invalid: \
         spec.validation.openAPIV3Schema.properties[depths].type: Unsupported value: \"feet\": supported values: \"array\", \
         \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
    )
    .await;
}

/// With a schema that is none.
#[derive(kindom_server::Resource, Clone, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", namespaced)]
struct Chart {
    metadata: ObjectMeta,
    #[schemars(schema_with = "feet")]
    depths: String,
}

impl Version for Chart {}

impl Strategy for Chart {}

fn feet(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "feet" })
}

/// With fields that are any JSON, alone and in maps and lists.
#[derive(kindom_server::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1", namespaced)]
struct Cargo {
    metadata: ObjectMeta,
    any: Value,
    maybe: Option<Value>,
    by_name: BTreeMap<String, Value>,
    all: Vec<Value>,
}

impl Version for Cargo {}

impl Strategy for Cargo {}

#[tokio::test]
async fn any_json_is_kept() {
    let server = TestServer::builder().group(Group::new().kind::<Cargo>()).start().await.unwrap();
    let api: Api<Cargo> = Api::default_namespaced(server.client());
    let any = json!({"a": [1, null, {"b": "c"}], "kind": 7});
    let cargo: Cargo = serde_json::from_value(json!({
        "metadata": {"name": "tea"}, "any": any, "maybe": any, "by_name": {"x": any, "y": 1}, "all": [any, "z"],
    }))
    .unwrap();
    let stored = api.create(&PostParams::default(), &cargo).await.unwrap();
    assert_eq!((&stored.any, stored.maybe.as_ref()), (&any, Some(&any)));
    assert_eq!(json!([stored.by_name, stored.all]), json!([{"x": any, "y": 1}, [any, "z"]]));
    server.stop().await.unwrap();
}

/// B-14, B-20, B-21, B-24, B-31: two versions, one set of objects, one set of rules.
#[tokio::test]
async fn a_kind_has_several_versions() {
    let versions = Versions::<Sloop>::stored_as::<Sloop>().with::<v1alpha1::Sloop>();
    let server = TestServer::builder().group(Group::new().versions(versions)).start().await.unwrap();
    let new = sloops(&server);
    let old: Api<DynamicObject> =
        Api::default_namespaced_with(server.client(), &ApiResource::erase::<v1alpha1::Sloop>(&()));
    let in_old = |name: &str, spec: Value| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "sails.example.com/v1alpha1", "kind": "Sloop", "metadata": { "name": name }, "spec": spec,
        }))
        .unwrap()
    };
    let events = old.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap();
    let mut events = std::pin::pin!(events);

    // Each version has defaults of its own; the hooks see one form.
    let parts = json!({ "hull": "oak", "sails": ["main", "jib"] });
    let created =
        old.create(&PostParams::default(), &in_old("argo", json!({ "parts": parts }))).await.unwrap();
    let spec = json!({ "captain": "kubernetes-admin", "parts": { "hull": "oak", "sails": ["jib", "main"] }, "sailors": 1 });
    assert_eq!(created.data["spec"], spec);
    let shown = new.get("argo").await.unwrap();
    assert_eq!(shown.types.as_ref().unwrap().api_version, "sails.example.com/v1beta1");
    assert_eq!(
        shown.data["spec"],
        json!({ "crew": 1, "hull": "oak", "keeper": "kubernetes-admin", "sails": ["jib", "main"] })
    );
    assert_eq!(shown.meta(), created.meta());
    new.create(&PostParams::default(), &sloop("pinta", json!({ "hull": "pine" }))).await.unwrap();
    let listed = old.list(&ListParams::default()).await.unwrap();
    let sailors: Vec<&Value> = listed.iter().map(|sloop| &sloop.data["spec"]["sailors"]).collect();
    assert_eq!(sailors, [1, 2]);
    for spec in [&spec, &listed.items[1].data["spec"]] {
        let event = events.next().await.unwrap().unwrap();
        assert!(matches!(&event, WatchEvent::Added(sloop) if &sloop.data["spec"] == spec), "{event:?}");
    }

    // A change through one version is one in the other.
    let patch = async |api: &Api<DynamicObject>, patch: Value| {
        api.patch("argo", &PatchParams::default(), &Patch::Merge(patch)).await.map_err(refusal)
    };
    let patched = patch(&old, json!({ "spec": { "sailors": 5 } })).await.unwrap();
    assert_eq!((&patched.data["spec"]["sailors"], patched.meta().generation), (&json!(5), Some(2)));
    let (code, message) = patch(&old, json!({ "spec": { "parts": { "hull": "steel" } } })).await.unwrap_err();
    assert_eq!(
        (code, message.contains("spec.hull: Invalid value: \"steel\": field is immutable")),
        (422, true),
        "{message}"
    );
    let mut read = new.get("argo").await.unwrap();
    assert_eq!(read.data["spec"]["crew"], 5);
    read.data["spec"]["crew"] = json!(6);
    new.replace("argo", &PostParams::default(), &read).await.unwrap();
    let status = Patch::Merge(json!({ "status": { "sailors": 3 } }));
    old.patch_status("argo", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(new.get("argo").await.unwrap().data["status"], json!({ "crew": 3 }));
    let scale = old.get_scale("argo").await.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, scale.status.unwrap().replicas), (Some(6), 3));

    // Fields have one manager, whatever the versions that they were written in.
    let apply = async |api: &Api<DynamicObject>, manager: &str, wanted: DynamicObject| {
        api.patch("argo", &PatchParams::apply(manager), &Patch::Apply(wanted)).await.map_err(refusal)
    };
    let (code, message) =
        apply(&old, "one", in_old("argo", json!({ "parts": { "hull": "oak" }, "sailors": 9 })))
            .await
            .unwrap_err();
    let conflict = "conflict with \"unknown\" using sails.example.com/v1beta1: .spec.crew";
    assert_eq!((code, message.contains(conflict)), (409, true), "{message}");
    apply(&old, "one", in_old("argo", json!({ "parts": { "hull": "oak" }, "sailors": 6 }))).await.unwrap();
    let (code, message) =
        apply(&new, "two", sloop("argo", json!({ "hull": "oak", "crew": 7 }))).await.unwrap_err();
    let conflict = "conflicts with \"one\":\n- .spec.sailors";
    assert_eq!((code, message.contains(conflict)), (409, true), "{message}");
    server.stop().await.unwrap();
}

macro_rules! part {
    ($part:ident, $plural:literal, $version:literal, { $($field:ident : $type:ty),* }) => {
        #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[resource(group = "sails.example.com", version = $version, plural = $plural, namespaced)]
        pub(crate) struct $part {
            pub(crate) metadata: ObjectMeta,
            $(#[serde(default)] pub(crate) $field: $type,)*
        }
        impl Version for $part {}
    };
}

part!(Keel, "keels", "v1", { depth: u8, lead: bool });
part!(Mast, "masts", "v2", {});

mod v2 {
    use super::*;
    part!(Keel, "keels", "v2", { depth: String, lead: bool });
}

mod v3 {
    use super::*;
    part!(Keel, "keels", "v3", { depth: u8 });
}

impl Strategy for Keel {}

impl From<Keel> for Mast {
    fn from(keel: Keel) -> Self {
        Self { metadata: keel.metadata }
    }
}

impl From<Mast> for Keel {
    fn from(mast: Mast) -> Self {
        Self { metadata: mast.metadata, depth: 0, lead: false }
    }
}

impl From<Keel> for v2::Keel {
    fn from(keel: Keel) -> Self {
        Self { metadata: keel.metadata, depth: keel.depth.to_string(), lead: keel.lead }
    }
}

impl From<v2::Keel> for Keel {
    fn from(keel: v2::Keel) -> Self {
        let depth = keel.depth.parse().expect("a number");
        Self { metadata: keel.metadata, depth, lead: keel.lead }
    }
}

impl From<Keel> for v3::Keel {
    fn from(keel: Keel) -> Self {
        Self { metadata: keel.metadata, depth: keel.depth }
    }
}

impl From<v3::Keel> for Keel {
    fn from(keel: v3::Keel) -> Self {
        Self { metadata: keel.metadata, depth: keel.depth, lead: false }
    }
}

/// The hub of berths, which no client sees.
#[derive(Clone)]
struct Berth {
    metadata: ObjectMeta,
    length_cm: u32,
}

impl Strategy for Berth {
    fn validate(&self, _: &Context<'_>) -> Errors {
        let mut errors = Errors::none();
        if self.length_cm > 10_000 {
            errors.invalid("length", self.length_cm, "no berth is that long");
        }
        errors
    }

    fn canonicalize(&mut self) {
        self.length_cm = self.length_cm.next_multiple_of(100);
    }
}

mod meters {
    use super::*;
    part!(Berth, "berths", "v1", { meters: u16 });
}

mod centimeters {
    use super::*;
    part!(Berth, "berths", "v2", { centimeters: u32 });
}

impl From<meters::Berth> for Berth {
    fn from(berth: meters::Berth) -> Self {
        Self { metadata: berth.metadata, length_cm: u32::from(berth.meters) * 100 }
    }
}

impl From<Berth> for meters::Berth {
    fn from(berth: Berth) -> Self {
        Self { metadata: berth.metadata, meters: u16::try_from(berth.length_cm / 100).unwrap_or(u16::MAX) }
    }
}

impl From<centimeters::Berth> for Berth {
    fn from(berth: centimeters::Berth) -> Self {
        Self { metadata: berth.metadata, length_cm: berth.centimeters }
    }
}

impl From<Berth> for centimeters::Berth {
    fn from(berth: Berth) -> Self {
        Self { metadata: berth.metadata, centimeters: berth.length_cm }
    }
}

/// B-21, B-31: the hub may be a type of its own; the rules hold for it, whichever version is written.
#[tokio::test]
async fn a_hub_may_be_seen_by_nobody() {
    let versions = Versions::<Berth>::stored_as::<centimeters::Berth>().with::<meters::Berth>();
    let server = TestServer::builder().group(Group::new().versions(versions)).start().await.unwrap();
    let stored: Api<centimeters::Berth> = Api::default_namespaced(server.client());
    let other: Api<meters::Berth> = Api::default_namespaced(server.client());
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let berth = |centimeters| centimeters::Berth { metadata: named("a"), centimeters };
    let created = stored.create(&PostParams::default(), &berth(950)).await.unwrap();
    assert_eq!(created.centimeters, 1000);
    assert_eq!(other.get("a").await.unwrap().meters, 10);
    let long = meters::Berth { metadata: named("b"), meters: 101 };
    let (code, message) = refusal(other.create(&PostParams::default(), &long).await.unwrap_err());
    assert_eq!(
        (code, message.contains("length: Invalid value: 10100: no berth is that long")),
        (422, true),
        "{message}"
    );
    server.stop().await.unwrap();
}

/// B-20: a conversion that loses is found, and one that panics.
#[test]
fn versions_that_hold_less_are_found() {
    let loses = Versions::<Keel>::stored_as::<Keel>().with::<v3::Keel>().round_trips(100, 1).unwrap_err();
    let Loss::Changed { before, through, after } = &loses else { panic!("{loses:?}") };
    assert_eq!(through, "v3");
    assert!(before.contains("\"lead\":true") && after.contains("\"lead\":false"), "{loses}");
    let panics = Versions::<Keel>::stored_as::<Keel>().with::<v2::Keel>().round_trips(100, 1).unwrap_err();
    let Loss::NoSample { version, why } = &panics else { panic!("{panics:?}") };
    assert_eq!((version.as_str(), why.as_str()), ("v2", "its conversion panicked"));
}

/// A conversion that panics fails the request that asks for it, and nothing else.
#[tokio::test]
async fn a_conversion_that_panics_fails_its_request_alone() {
    let versions = Versions::<Keel>::stored_as::<Keel>().with::<v2::Keel>();
    let server = TestServer::builder().group(Group::new().versions(versions)).start().await.unwrap();
    let new: Api<DynamicObject> =
        Api::default_namespaced_with(server.client(), &ApiResource::erase::<v2::Keel>(&()));
    let stored: Api<DynamicObject> =
        Api::default_namespaced_with(server.client(), &ApiResource::erase::<Keel>(&()));
    let keel = |version: &str, depth: Value| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": format!("sails.example.com/{version}"), "kind": "Keel", "metadata": { "name": "k" }, "depth": depth,
        }))
        .unwrap()
    };
    let (code, message) =
        refusal(new.create(&PostParams::default(), &keel("v2", json!("deep"))).await.unwrap_err());
    assert_eq!(code, 500, "{message}");
    stored.create(&PostParams::default(), &keel("v1", json!(7))).await.unwrap();
    assert_eq!(new.get("k").await.unwrap().data["depth"], "7");
    server.stop().await.unwrap();
}

/// kube's typed API sends what the type serializes to, which has no `apiVersion` and no `kind`.
#[tokio::test]
async fn a_body_may_leave_its_type_out() {
    let server = server().await;
    let api: Api<Sloop> = Api::default_namespaced(server.client());
    let metadata = ObjectMeta { name: Some("argo".to_owned()), ..ObjectMeta::default() };
    let spec = sloop::SloopSpec { hull: "oak".to_owned(), ..sloop::SloopSpec::default() };
    let mut created =
        api.create(&PostParams::default(), &Sloop { metadata, spec, status: None }).await.unwrap();
    assert_eq!(created.spec.crew, Some(2));
    created.spec.crew = Some(3);
    let replaced = api.replace("argo", &PostParams::default(), &created).await.unwrap();
    assert_eq!(replaced.metadata.generation, Some(2));
    let metadata = ObjectMeta { name: Some("pinta".to_owned()), ..ObjectMeta::default() };
    let wanted = Sloop { metadata, spec: replaced.spec, status: None };
    for _ in 0..2 {
        let applied = api.patch("pinta", &PatchParams::apply("test"), &Patch::Apply(&wanted)).await.unwrap();
        assert_eq!((applied.spec.crew, applied.metadata.generation), (Some(3), Some(1)));
    }
    server.stop().await.unwrap();
}
