//! The binary `kindom`; all of it is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    kindom_server::Server::from_args().run()
}
