{%- if one_process -%}
//! The API server: it stores and serves the kinds of the crate `apis`, and has the controllers of the crate `controllers` in its process.
{%- else -%}
//! The API server: it stores and serves the kinds of the crate `apis`.
{%- endif %}

use std::process::ExitCode;
{%- if one_process %}

use kindom_controller::{Error, Manager};
use kindom_server::kube::Client;
use kindom_server::{End, Server};

fn main() -> ExitCode {
    Server::from_args()
        .group(apis::kinds())
        .controllers(control)
        .run()
}

/// Runs the controllers until their end. Their client reaches this server, and may do everything.
async fn control(client: Client, end: End) -> Result<(), Error> {
    // Of several processes with one $KINDOM_LEASE, one acts at a time; all have metrics at $KINDOM_METRICS.
    let manager = Manager::new("apiserver", client)
        .elected_by_environment()?
        .monitored_by_environment()?;
    controllers::register(manager).run(end).await
}
{%- else %}

fn main() -> ExitCode {
    kindom_server::Server::from_args()
        .group(apis::kinds())
        .run()
}
{%- endif %}
