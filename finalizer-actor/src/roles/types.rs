use kindom_actor_kit::Deadline;
use kindom_resource_actor::{ResourceHandle, RoleKinds, Target, WriteOptions};

use crate::attempt::STEP;

/// The types that the loops of roles use.
#[derive(Clone)]
pub struct RoleTypes {
    /// Those of roles and bindings.
    pub kinds: RoleKinds,
    /// Namespaces.
    pub namespaces: ResourceHandle,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
}

impl RoleTypes {
    /// The options of a write, which in a namespace needs that to be there.
    pub(super) fn options(&self) -> WriteOptions {
        let by_server = WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max);
        WriteOptions { namespaces: Some(self.namespaces.clone()), ..by_server }
    }
}

/// The place of an object; without a name, that of new ones.
pub(super) fn place<'a>(namespace: Option<&'a str>, name: &'a str) -> Target<'a> {
    Target { version: "v1", subresource: None, namespace, name }
}
