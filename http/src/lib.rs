//! kindom: http.

pub mod authn;
