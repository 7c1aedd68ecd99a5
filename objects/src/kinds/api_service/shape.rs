//! The Go type of APIServices.

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Items, Patched, Shape, Struct};
use kindom_api::meta::OBJECT_META;

use crate::declared::Declared;

const STRING: Shape = Shape::String("string");

pub(super) static API_SERVICE: Declared = Declared::new(Declaration {
    api_version: "apiregistration.k8s.io/v1",
    kind: "APIService",
    go_package: "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
    shape: &SHAPE,
});

static SHAPE: Struct = Struct::new(
    "v1.APIService",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
        Field::always("spec", Shape::Struct(&SPEC)).declared(2, "The server, and how to reach it."),
        Field::always("status", Shape::Struct(&STATUS))
            .declared(3, "The observed state; written by the server."),
    ],
)
.described("The server that serves a version of a group. Its name is version.group.");

static SPEC: Struct = Struct::new(
    "v1.APIServiceSpec",
    &[
        Field::new("service", Shape::Pointer(&Shape::Struct(&SERVICE)))
            .declared(1, "The service of the server; without one, this server serves the version itself."),
        Field::new("group", STRING).declared(2, "The group."),
        Field::new("version", STRING).declared(3, "The version."),
        Field::new("insecureSkipTLSVerify", Shape::Bool)
            .declared(4, "If true, the server's certificate is not verified. Better give a caBundle."),
        Field::new("caBundle", Shape::Bytes)
            .declared(
                5,
                "The authorities of the server's certificate, in PEM; without any, those of the host.",
            )
            .items(Items::Atomic),
        Field::always("groupPriorityMinimum", Shape::Int32).declared(
            7,
            "The priority of the group, of which the highest of its versions counts; up to 20000.",
        ),
        Field::always("versionPriority", Shape::Int32)
            .declared(8, "The priority of the version within its group; up to 1000."),
    ],
)
.described("The server that serves a version of a group.");

static SERVICE: Struct = Struct::new(
    "v1.ServiceReference",
    &[
        Field::new("namespace", STRING).declared(1, "The namespace of the service."),
        Field::new("name", STRING).declared(2, "The name of the service."),
        Field::new("port", Shape::Pointer(&Shape::Int32)).declared(3, "The port; 443 unless it is given."),
    ],
)
.described("A reference to a service.");

static STATUS: Struct = Struct::new(
    "v1.APIServiceStatus",
    &[Field::new("conditions", Shape::List(&Shape::Struct(&CONDITION)))
        .declared(1, "The condition Available.")
        .patched(Patched::MergesBy("type"))
        .items(Items::Keys(&["type"]))],
)
.described("The state of an APIService.");

static CONDITION: Struct = Struct::new(
    "v1.APIServiceCondition",
    &[
        Field::always("type", Shape::String("v1.APIServiceConditionType")).declared(1, "Available."),
        Field::always("status", Shape::String("v1.ConditionStatus")).declared(2, "True, False or Unknown."),
        Field::always("lastTransitionTime", Shape::Time)
            .declared(3, "The time of the last change of status."),
        Field::new("reason", STRING).declared(4, "The reason, in one word."),
        Field::new("message", STRING).declared(5, "The reason, for people."),
    ],
)
.described("An aspect of an APIService.");
