//! Typed kinds, without their types.

use std::sync::Arc;

use kindom_api::Value;
use kindom_objects::kinds::typed::{Hooks, TypedObjects};

use super::hooks::Rules;
use super::registration::{name, registration};
use super::strategy::Strategy;

/// Kinds that belong together.
#[derive(Clone, Default)]
pub struct Group {
    pub(super) kinds: Vec<Kind>,
}

impl Group {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind, of any API group.
    #[must_use]
    pub fn kind<T: Strategy>(mut self) -> Self {
        let hooks: Arc<dyn Hooks> = Arc::new(Rules::<T>::new());
        self.kinds.push(Kind {
            name: name(&T::DEFINITION),
            registration: registration::<T>(),
            strategy: Arc::new(TypedObjects::new(hooks)),
        });
        self
    }
}

/// One kind.
#[derive(Clone)]
pub(super) struct Kind {
    /// The name of its registration.
    pub(super) name: String,
    /// As a client would post it.
    pub(super) registration: Value,
    pub(super) strategy: Arc<dyn kindom_objects::Strategy>,
}
