//! kindom: conflict-actor.
