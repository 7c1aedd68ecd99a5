//! The first version of a sloop, which called things by other names.

use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kindom_server::{Resource, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sloop;

/// A boat with one mast.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "sails.example.com", version = "v1alpha1", namespaced, deprecated)]
#[resource(status, scale(spec = ".spec.sailors", status = ".status.sailors"))]
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
    /// The number of sailors; 1 unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sailors: Option<i32>,
    /// The parts that it is built of.
    pub(crate) parts: Parts,
    /// The name of who keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) captain: Option<String>,
}

/// The parts of a sloop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Parts {
    /// The material of the hull.
    pub(crate) hull: String,
    /// The sails.
    #[serde(default)]
    pub(crate) sails: Vec<String>,
}

/// The observed state of a sloop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SloopStatus {
    /// The number of sailors on board.
    #[serde(default)]
    pub(crate) sailors: i32,
}

impl Version for Sloop {
    fn apply_defaults(&mut self) {
        self.spec.sailors.get_or_insert(1);
    }
}

impl From<Sloop> for sloop::Sloop {
    fn from(old: Sloop) -> Self {
        let SloopSpec { sailors, parts, captain } = old.spec;
        Self {
            metadata: old.metadata,
            spec: sloop::SloopSpec { crew: sailors, hull: parts.hull, sails: parts.sails, keeper: captain },
            status: old.status.map(|status| sloop::SloopStatus { crew: status.sailors }),
        }
    }
}

impl From<sloop::Sloop> for Sloop {
    fn from(new: sloop::Sloop) -> Self {
        let sloop::SloopSpec { crew, hull, sails, keeper } = new.spec;
        Self {
            metadata: new.metadata,
            spec: SloopSpec { sailors: crew, parts: Parts { hull, sails }, captain: keeper },
            status: new.status.map(|status| SloopStatus { sailors: status.crew }),
        }
    }
}
