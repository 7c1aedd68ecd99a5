//! kindom: actor-kit.
