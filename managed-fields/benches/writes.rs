//! What writes cost that keep managedFields: `cargo bench -p kindom-managed-fields`. docs/benchmarks.md says how to read it.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkGroup, Criterion};
use kindom_api::names::GroupVersionKind;
use kindom_api::{Value, json};
use kindom_managed_fields::{ConvertError, Scope, Versions, apply, keep_times, update};
use kindom_schema::Schema;
use kindom_schema::merge::MergeType;

/// The type and the object that the load program writes, but for its lists, which have owners item by item.
const SCHEMA: &str = r#"{"type":"object","properties":{
    "spec":{"type":"object","required":["image"],"properties":{
        "image":{"type":"string"},"replicas":{"type":"integer","default":1},"policy":{"type":"string"},
        "paused":{"type":"boolean"},"nodeSelector":{"type":"object","additionalProperties":{"type":"string"}},
        "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],"items":{
            "type":"object","required":["port"],"properties":{"name":{"type":"string"},"port":{"type":"integer"},
                "protocol":{"type":"string","default":"TCP"}}}},
        "args":{"type":"array","items":{"type":"string"}},"notes":{"type":"string"}}},
    "status":{"type":"object","properties":{"phase":{"type":"string"},"conditions":{"type":"array",
        "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","properties":{
            "type":{"type":"string"},"status":{"type":"string"},"reason":{"type":"string"},
            "message":{"type":"string"},"lastTransitionTime":{"type":"string","format":"date-time"}}}}}}}}"#;

struct Widgets {
    schema: Schema,
    reset: &'static [&'static str],
}

impl Versions for Widgets {
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>> {
        (api_version == "bench.kindom.dev/v1").then(|| self.schema.merge_type())
    }

    fn convert(&self, _: &Value, _: &str) -> Result<Value, ConvertError> {
        Err(ConvertError::NoSuchVersion)
    }

    fn reset_fields(&self, _: &str) -> &[&str] {
        self.reset
    }
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn widget(replicas: u32) -> Value {
    parse(&format!(
        r#"{{"apiVersion":"bench.kindom.dev/v1","kind":"Widget","metadata":{{"name":"widget-000001",
        "namespace":"default","uid":"5c2f0dd4-5d3c-4f7e-9a77-0f3c7a2b9d11","creationTimestamp":"2026-01-01T00:00:00Z",
        "generation":1,"labels":{{"app.kubernetes.io/name":"bench","app.kubernetes.io/part-of":"load","tier":"backend"}},
        "annotations":{{"example.com/owner":"team-a","example.com/note":"{}"}}}},
        "spec":{{"image":"registry.example.com/team/app:1.2.3","replicas":{replicas},"policy":"OnFailure","paused":false,
        "nodeSelector":{{"kubernetes.io/arch":"amd64","disk":"ssd"}},"ports":[
            {{"name":"http","port":8080,"protocol":"TCP"}},{{"name":"metrics","port":9090,"protocol":"TCP"}}],
        "args":["--listen=:8080","--metrics=:9090","--log-level=info"],"notes":"{}"}}}}"#,
        "lorem ipsum dolor ".repeat(5),
        "lorem ipsum dolor ".repeat(13)
    ))
}

/// The processor's time of this thread, so that a busy machine changes the figures less.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
    }
    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }
    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }
    fn zero(&self) -> Duration {
        Duration::ZERO
    }
    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

const NOW: &str = "2026-01-02T00:00:00Z";

/// What is written, by whom and how.
struct Writes {
    widgets: Widgets,
    status: Widgets,
    gvk: GroupVersionKind,
}

impl Writes {
    fn new() -> Self {
        let compiled = || Schema::compile(Some(&parse(SCHEMA)), false).unwrap();
        Self {
            widgets: Widgets { schema: compiled(), reset: &["status"] },
            status: Widgets { schema: compiled(), reset: &["spec"] },
            gvk: GroupVersionKind::new("bench.kindom.dev", "v1", "Widget"),
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope { versions: &self.widgets, gvk: &self.gvk, subresource: "", now: NOW }
    }

    fn of_status(&self) -> Scope<'_> {
        Scope { versions: &self.status, gvk: &self.gvk, subresource: "status", now: NOW }
    }

    fn create(&self) -> Value {
        let mut object = widget(1);
        assert_eq!(update(&self.scope(), None, &mut object, "kubectl-create"), None);
        object
    }

    /// An object with two appliers and one who writes its status.
    fn with_three_managers(&self) -> Value {
        let apply = |live: Option<&Value>, config: &Value, manager| {
            apply(&self.scope(), live, config, manager, true).unwrap()
        };
        let object = apply(None, &configuration(1), "kubectl");
        let object = apply(Some(&object), &other_configuration(), "autoscaler");
        let mut written = with_status(&object, "Ready");
        assert_eq!(update(&self.of_status(), Some(&object), &mut written, "controller"), None);
        assert_eq!(written.at(&["metadata", "managedFields"]).unwrap().as_array().unwrap().len(), 3);
        written
    }
}

fn configuration(replicas: u32) -> Value {
    let mut config = widget(replicas);
    let metadata = config.get_mut("metadata").unwrap().as_object_mut().unwrap();
    for field in ["uid", "creationTimestamp", "generation"] {
        metadata.remove(field);
    }
    config
}

fn other_configuration() -> Value {
    parse(
        r#"{"apiVersion":"bench.kindom.dev/v1","kind":"Widget","metadata":{"name":"widget-000001",
        "namespace":"default","annotations":{"autoscaler":"on"}},"spec":{"nodeSelector":{"zone":"a"},
        "ports":[{"port":7070,"protocol":"TCP","name":"scale"}]}}"#,
    )
}

fn with_status(object: &Value, reason: &str) -> Value {
    let mut object = object.clone();
    let status = format!(
        r#"{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","reason":"{reason}","message":"all is well",
        "lastTransitionTime":"2026-01-01T00:00:00Z"}},{{"type":"Available","status":"True","reason":"{reason}",
        "message":"all is well","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}"#
    );
    object.as_object_mut().unwrap().insert("status", parse(&status));
    object
}

type Group<'c> = BenchmarkGroup<'c, CpuTime>;

/// An update: what it costs the managedFields, and to see whether nothing but times changed.
fn bench_update(group: &mut Group<'_>, what: &str, scope: &Scope<'_>, live: Option<&Value>, new: &Value) {
    group.bench_function(what, |b| {
        b.iter_batched(
            || new.clone(),
            |mut new| {
                update(scope, live, &mut new, "manager");
                if let Some(live) = live {
                    keep_times(&mut new, live);
                }
                new
            },
            BatchSize::SmallInput,
        );
    });
}

fn main() {
    let mut criterion = Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let writes = Writes::new();
    let (created, managed) = (writes.create(), writes.with_three_managers());
    let changed = |object: &Value| {
        let mut object = object.clone();
        object.get_mut("spec").unwrap().as_object_mut().unwrap().insert("replicas", 7);
        object
    };
    let mut group = criterion.benchmark_group("writes");
    let text = created.to_vec();
    group.bench_function("floor: parsing the object", |b| b.iter(|| json::parse(black_box(&text)).unwrap()));
    bench_update(&mut group, "create", &writes.scope(), None, &widget(1));
    bench_update(
        &mut group,
        "update of what one has created",
        &writes.scope(),
        Some(&created),
        &changed(&created),
    );
    bench_update(&mut group, "update with 3 managers", &writes.scope(), Some(&managed), &changed(&managed));
    bench_update(
        &mut group,
        "status with 3 managers",
        &writes.of_status(),
        Some(&managed),
        &with_status(&managed, "Other"),
    );
    bench_update(&mut group, "update that changes nothing", &writes.scope(), Some(&managed), &managed);
    for (what, replicas) in [("apply with 3 managers", 5), ("apply that changes nothing", 1)] {
        let config = configuration(replicas);
        group.bench_function(what, |b| {
            b.iter(|| {
                let mut new =
                    apply(&writes.scope(), Some(&managed), black_box(&config), "kubectl", false).unwrap();
                keep_times(&mut new, &managed);
                new
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
