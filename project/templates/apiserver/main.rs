//! The API server: it stores and serves the kinds of the crate `apis`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kindom_server::Server::from_args()
        .group(apis::kinds())
        .run()
}
