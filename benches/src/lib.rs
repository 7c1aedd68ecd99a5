//! kindom: benches.
