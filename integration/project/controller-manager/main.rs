//! The process in which the controllers run. It finds the API server as kubectl does, by $KUBECONFIG or ~/.kube/config, or in
//! a pod by its service account.

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use kindom_controller::{Error, Manager};
use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let client = kube::Client::try_default().await?;
    // Of several processes with one $KINDOM_LEASE, one acts at a time; all have metrics at $KINDOM_METRICS.
    let manager = Manager::new("controller-manager", client)
        .elected_by_environment()?
        .monitored_by_environment()?;
    controllers::register(manager)
        .run(kindom_controller::termination()?)
        .await
}
