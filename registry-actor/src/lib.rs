//! kindom: registry-actor.
