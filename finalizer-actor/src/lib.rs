//! kindom: finalizer-actor.
