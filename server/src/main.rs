//! The binary `kindom`.
fn main() {}
