//! The command line. Flags are named as kube-apiserver's where the concept is the same.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A Kubernetes-style API server for types that are registered at run time.
#[derive(Debug, Parser)]
#[command(name = "kindom", version, about)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves until it is told to end (SIGTERM or SIGINT).
    Serve(Box<Serve>),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where the store, the certificates and admin.kubeconfig are.
    #[arg(long, default_value = "kindom-data")]
    pub(crate) data_dir: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// The certificate to serve with, PEM, intermediates after it; by default one of our own.
    #[arg(long, requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of --tls-cert-file, PEM.
    #[arg(long, requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// More authorities whose client certificates are trusted, PEM.
    #[arg(long)]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Bearer tokens: lines of token,user,uid,"group1,group2".
    #[arg(long)]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Who may do what: AlwaysAllow lets every authenticated user do everything.
    #[arg(long, value_enum, default_value_t = AuthorizationMode::AlwaysAllow)]
    pub(crate) authorization_mode: AuthorizationMode,
    /// The largest object, encoded, in bytes.
    #[arg(long, default_value_t = 1_572_864)]
    pub(crate) max_object_bytes: usize,
    /// How far back a watch or a continue token may start.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub(crate) etcd_compaction_interval: Duration,
    /// Who writes stored objects anew when a type's storage version changes: Automatic does so in the background and
    /// clears status.storedVersions; Manual leaves it to clients, as Kubernetes does.
    #[arg(long, value_enum, default_value_t = StorageMigration::Automatic)]
    pub(crate) storage_migration: StorageMigration,
    /// Serves /debug/actors: lists the actors, and kills them.
    #[arg(long)]
    pub(crate) enable_chaos: bool,
}

/// Kubernetes' name, not clap's.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AuthorizationMode {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// Who follows a change of the storage version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageMigration {
    #[value(name = "Automatic")]
    Automatic,
    #[value(name = "Manual")]
    Manual,
}

/// A whole number of seconds, minutes or hours: `90s`, `5m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration such as 90s, 5m or 1h");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(wrong()),
    };
    let count: u64 = text.trim_end_matches(unit).parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(count.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert!(duration("5").is_err() && duration("").is_err() && duration("m").is_err());
    }

    #[test]
    fn the_flags_are_sound() {
        use clap::CommandFactory as _;
        Flags::command().debug_assert();
        assert!(Flags::try_parse_from(["kindom", "serve", "--authorization-mode", "RBAC"]).is_err());
    }
}
