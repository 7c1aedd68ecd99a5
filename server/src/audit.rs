//! The audit log by kube-apiserver's flags (apiserver `pkg/server/options/audit.go`, 1.37).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use kindom_actor_kit::Clock;
use kindom_audit::{AuditLog, FileOptions, Mode, Policy, Settings, Sink};
use kindom_http::Auditing;

use crate::{BoxError, pki};

/// [`Mode`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditMode {
    /// Requests wait for nothing; events for which there is no room are lost.
    Batch,
    /// Requests wait for their events to be written.
    Blocking,
    /// Requests also fail whose receipt cannot be written.
    BlockingStrict,
}

#[derive(Debug, Args)]
pub(crate) struct AuditFlags {
    /// The policy, which says how much of a request is recorded: a Policy of audit.k8s.io/v1, JSON or YAML. Without one nothing is
    /// recorded.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_policy_file: Option<PathBuf>,
    /// The audit log, a line of JSON for each event; - is the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log_path: Option<PathBuf>,
    /// The treatment of requests until their events are written.
    #[arg(long, value_enum, default_value_t = AuditMode::Blocking)]
    pub(crate) audit_log_mode: AuditMode,
    /// The most events that wait to be written, in mode batch.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_log_batch_buffer_size: u32,
    /// The megabytes at which the file is renamed and another begun; 0: never.
    #[arg(long, default_value_t = 100)]
    pub(crate) audit_log_maxsize: u32,
    /// The renamed files that stay; 0: all.
    #[arg(long, default_value_t = 100)]
    pub(crate) audit_log_maxbackup: u32,
    /// The days for which renamed files stay; 0: for ever.
    #[arg(long, default_value_t = 366)]
    pub(crate) audit_log_maxage: u32,
    /// Compresses renamed files.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) audit_log_compress: bool,
    /// Leaves the objects out of an event that is too large, and leaves it out if it is so even then.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) audit_log_truncate_enabled: bool,
    /// The bytes above which an event is too large.
    #[arg(long, default_value_t = 102_400, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) audit_log_truncate_max_event_size: u64,
}

impl AuditFlags {
    /// Reads the policy and opens the log; `None` without both.
    ///
    /// # Errors
    /// The policy cannot be read or is wrong, or the file cannot be opened.
    pub(crate) fn open(&self, clock: &Clock) -> Result<Option<Auditing>, BoxError> {
        let policy = self.audit_policy_file.as_deref().map(policy).transpose()?;
        let (policy, path) = match (policy, &self.audit_log_path) {
            (Some(policy), Some(path)) => (policy, path),
            (None, Some(_)) => {
                tracing::warn!("nothing is recorded in --audit-log-path without --audit-policy-file");
                return Ok(None);
            }
            (Some(_), None) => {
                tracing::warn!("--audit-policy-file has no effect without --audit-log-path");
                return Ok(None);
            }
            (None, None) => return Ok(None),
        };
        let sink = match path.as_os_str() == "-" {
            true => Sink::Output,
            false => Sink::File(FileOptions {
                path: path.clone(),
                size_max: self.audit_log_maxsize.into(),
                age_max: self.audit_log_maxage,
                backups_max: usize::try_from(self.audit_log_maxbackup)?,
                zips: self.audit_log_compress,
            }),
        };
        let mode = match self.audit_log_mode {
            AuditMode::Batch => Mode::Batch(usize::try_from(self.audit_log_batch_buffer_size)?),
            AuditMode::Blocking => Mode::Blocking,
            AuditMode::BlockingStrict => Mode::BlockingStrict,
        };
        let most = usize::try_from(self.audit_log_truncate_max_event_size)?;
        let event_bytes_max = self.audit_log_truncate_enabled.then_some(most);
        let settings = Settings { sink, mode, event_bytes_max };
        let log = AuditLog::open(&settings, clock.clone());
        let log = log.map_err(|error| format!("--audit-log-path {}: {error}", path.display()))?;
        Ok(Some(Auditing { policy, log }))
    }
}

fn policy(file: &Path) -> Result<Policy, BoxError> {
    let name = file.display().to_string();
    let bytes = pki::read(file)
        .map_err(|error| format!("loading audit policy file: failed to read file path {name:?}: {error}"))?;
    Ok(Policy::read(&name, &bytes)?)
}

/// The longest that the end of the server waits for the disk.
const END: Duration = Duration::from_secs(5);

/// Writes what waits, at the end of the server.
pub(crate) async fn close(log: Arc<AuditLog>) {
    let closed = tokio::task::spawn_blocking(move || log.close(END)).await;
    if !closed.is_ok_and(|is_written| is_written) {
        tracing::error!("the audit log was not written to its end");
    }
}
