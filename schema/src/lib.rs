//! kindom: schema.
