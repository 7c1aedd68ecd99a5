//! kindom: resource-actor.
