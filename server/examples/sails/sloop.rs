//! A boat with one mast, and the rules of its life.

use std::collections::BTreeSet;

use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kindom_server::{Context, Errors, Resource, Strategy, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The controller takes it away once the sloop's berth is free.
pub(crate) const FINALIZER: &str = "sails.example.com/berth";

/// A boat with one mast.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1beta1", short = "sl", category = "all", namespaced)]
#[resource(status, scale(spec = ".spec.crew", status = ".status.crew"))]
#[resource(column(
    name = "Crew",
    type = "integer",
    path = ".spec.crew",
    description = "The sailors that it needs."
))]
pub(crate) struct Sloop {
    /// Its name and more.
    pub(crate) metadata: ObjectMeta,
    /// The sloop that is wanted.
    pub(crate) spec: SloopSpec,
    /// The sloop that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<SloopStatus>,
}

/// The wanted state of a sloop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SloopSpec {
    /// The number of sailors; 2 unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crew: Option<i32>,
    /// The material of the hull, which stays as it was built.
    pub(crate) hull: String,
    /// The sails; their order means nothing.
    #[serde(default)]
    pub(crate) sails: Vec<String>,
    /// The name of who keeps it; the user who makes it, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keeper: Option<String>,
}

/// The observed state of a sloop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SloopStatus {
    /// The number of sailors on board.
    #[serde(default)]
    pub(crate) crew: i32,
}

impl Version for Sloop {
    fn apply_defaults(&mut self) {
        self.spec.crew.get_or_insert(2);
    }
}

impl Strategy for Sloop {
    fn prepare_for_create(&mut self, cx: &Context<'_>) {
        self.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        self.spec.keeper = Some(cx.user_name().to_owned());
    }

    fn prepare_for_update(&mut self, _: &Context<'_>, old: &Self) {
        self.spec.keeper.clone_from(&old.spec.keeper);
    }

    fn validate(&self, _: &Context<'_>) -> Errors {
        let mut errors = Errors::none();
        if let Some(crew) = self.spec.crew.filter(|crew| *crew < 1) {
            errors.invalid("spec.crew", crew, "a sloop does not sail by itself");
        }
        let mut seen = BTreeSet::new();
        for (at, sail) in self.spec.sails.iter().enumerate() {
            if !seen.insert(sail) {
                errors.duplicate(&format!("spec.sails[{at}]"), sail);
            }
        }
        errors
    }

    fn validate_update(&self, _: &Context<'_>, old: &Self) -> Errors {
        let mut errors = Errors::none();
        errors.immutable("spec.hull", &self.spec.hull, &old.spec.hull);
        errors
    }

    fn canonicalize(&mut self) {
        self.spec.sails.sort();
    }
}
