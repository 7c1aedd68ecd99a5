//! kindom: api.
