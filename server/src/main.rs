//! The binary `kindom`.

#[expect(dead_code, reason = "the wiring of the server calls it")]
mod pki;

fn main() {}
