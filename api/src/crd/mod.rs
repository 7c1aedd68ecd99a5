//! CustomResourceDefinition, `apiextensions.k8s.io/v1` (1.37): types, decoding, defaults and strategy.
//!
//! A registration lives longer than anybody looks at its schema, so the schema stays an untyped tree here; decoding still
//! treats it as Go's typed decoder does.

mod defaults;
mod package;
mod shapes;
mod types;

pub use defaults::{default_crd, prepare_for_create, prepare_for_status_update, prepare_for_update};
pub(crate) use package::shapes_of_package;
pub use shapes::{CRD, decode_crd};
pub use types::{
    ColumnDefinition, Conversion, CrdStatus, CustomResourceDefinition, Names, Scale, SelectableField,
    ServiceReference, Spec, Subresources, Validation, Version, Versions, WebhookClientConfig,
    WebhookConversion, condition,
};

/// The API group of registrations.
pub const GROUP: &str = "apiextensions.k8s.io";
/// The `apiVersion` of registrations.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// The finalizer that keeps a registration until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The annotation that groups of the Kubernetes project must carry.
pub const API_APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";
