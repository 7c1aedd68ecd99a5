//! kindom: integration.
