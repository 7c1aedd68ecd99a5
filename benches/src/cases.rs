//! The measured cases, a file for each part.

pub(crate) mod applies;
pub(crate) mod converted;
pub(crate) mod etcd;
pub(crate) mod fair;
pub(crate) mod large;
pub(crate) mod lists;
pub(crate) mod registrations;
pub(crate) mod startup;
pub(crate) mod typed;
pub(crate) mod users;
pub(crate) mod watches;
pub(crate) mod widgets;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Ask, Connection, Lines, Protocol};
use crate::error::LoadError;
use crate::process::{Etcd, Process};
use crate::shapes;

/// The settings that the cases share.
pub(crate) struct Setup {
    pub(crate) binary: PathBuf,
    pub(crate) folder: TempDir,
    pub(crate) counts: Counts,
}

/// The amounts of work.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Counts {
    /// Requests of each of the GET's rounds.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) gets: usize,
    /// Rounds of the GETs, kindom and floor in turn, and of the applies, with other writes in turn.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Objects created; half as many are updated and patched, a tenth as many applied in each round.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) creates: usize,
    /// Clients that write.
    #[arg(long, default_value_t = 64)]
    pub(crate) writers: usize,
    /// Clients that read.
    #[arg(long, default_value_t = 16)]
    pub(crate) readers: usize,
    /// Types registered.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) types: usize,
    /// Watch streams.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) watches: usize,
    /// Events that each of them gets.
    #[arg(long, default_value_t = 100)]
    pub(crate) events: usize,
    /// Starts on a new folder, and on an existing one.
    #[arg(long, default_value_t = 7)]
    pub(crate) starts: usize,
    /// Objects of the type that a crowd lists.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) listed: usize,
    /// Objects of the type that is loaded after a kill.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) large: usize,
    /// Seconds that each load lasts while a quiet client is watched.
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Only loads whose name contains this text.
    #[arg(long, default_value = "")]
    pub(crate) beside: String,
}

impl Setup {
    /// A folder for a server of its own.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn kindom(&self, data: &Path) -> Result<Process, LoadError> {
        Process::kindom(&self.binary, data, None).await
    }

    /// A server that serves `widgets`.
    pub(crate) async fn with_widgets(&self, name: &str) -> Result<(Process, Connection), LoadError> {
        self.with_widgets_on(name, None).await
    }

    /// The same, with this store.
    pub(crate) async fn with_widgets_on(
        &self,
        name: &str,
        etcd: Option<&Etcd>,
    ) -> Result<(Process, Connection), LoadError> {
        let process = Process::kindom(&self.binary, &self.data(name), etcd).await?;
        let endpoint = process.endpoint()?;
        let mut connection = endpoint.connect(Protocol::Http1).await?;
        let mut watch = established(endpoint.connect(Protocol::Http1).await?).await?;
        connection.expect(&Ask::post(shapes::CRDS, shapes::widgets().to_string())).await?;
        while next_established(&mut watch).await?.is_none() {}
        Ok((process, connection))
    }
}

/// A watch of all registrations, for [`next_established`].
pub(crate) async fn established(connection: Connection) -> Result<Lines, LoadError> {
    connection.lines(format!("{}?watch=true", shapes::CRDS)).await
}

/// The name of the registration in the next event, if it is Established.
pub(crate) async fn next_established(watch: &mut Lines) -> Result<Option<String>, LoadError> {
    let event: Value = parse(&watch.next().await?)?;
    let conditions = event.pointer("/object/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") == Some("Established") && text("status") == Some("True")
    };
    let name = event.pointer("/object/metadata/name").and_then(Value::as_str);
    Ok(conditions.is_some_and(|all| all.iter().any(is)).then(|| name.unwrap_or_default().to_owned()))
}

pub(crate) fn parse(bytes: &Bytes) -> Result<Value, LoadError> {
    serde_json::from_slice(bytes).map_err(LoadError::transport("an answer"))
}

/// A metric without labels.
pub(crate) async fn metric(connection: &mut Connection, name: &str) -> Result<f64, LoadError> {
    let text = connection.expect(&Ask::get("/metrics")).await?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.ok_or_else(|| LoadError::Missing(format!("/metrics has no {name}")))
}

/// The durations of a verb's requests to a resource, as the server has counted them: the upper end of each bucket, in seconds, and
/// the requests up to there.
pub(crate) async fn durations(
    connection: &mut Connection,
    verb: &str,
    resource: &str,
) -> Result<Vec<(f64, f64)>, LoadError> {
    let text = connection.expect(&Ask::get("/metrics")).await?;
    let text = String::from_utf8_lossy(&text);
    let labels = [format!("verb=\"{verb}\""), format!("resource=\"{resource}\"")];
    let buckets = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("apiserver_request_duration_seconds_bucket{")?;
        let (found, count) = rest.rsplit_once("} ")?;
        let end = found.split_once("le=\"")?.1.split('"').next()?;
        let end = if end == "+Inf" { f64::INFINITY } else { end.parse().ok()? };
        labels.iter().all(|label| found.contains(label.as_str())).then_some((end, count.parse().ok()?))
    });
    let buckets: Vec<(f64, f64)> = buckets.collect();
    if buckets.is_empty() {
        return Err(LoadError::Missing(format!("/metrics has no durations of {verb} {resource}")));
    }
    Ok(buckets)
}

/// The time in seconds within which such a part of the requests between two readings of [`durations`] were answered, interpolated in
/// its bucket as Prometheus does; 0 if there were none.
pub(crate) fn quantile_between(before: &[(f64, f64)], after: &[(f64, f64)], part: f64) -> f64 {
    let counts: Vec<(f64, f64)> =
        before.iter().zip(after).map(|(before, after)| (after.0, after.1 - before.1)).collect();
    let wanted = counts.last().map_or(0.0, |last| last.1) * part;
    let (mut from, mut below) = (0.0, 0.0);
    for (end, up_to) in counts {
        if up_to >= wanted && up_to > below {
            return if end.is_finite() {
                from + (end - from) * (wanted - below) / (up_to - below)
            } else {
                from
            };
        }
        (from, below) = (end, up_to);
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let before = [(0.001, 10.0), (0.002, 10.0), (f64::INFINITY, 10.0)];
        let after = [(0.001, 60.0), (0.002, 110.0), (f64::INFINITY, 110.0)];
        assert!((quantile_between(&before, &after, 0.5) - 0.001).abs() < 1e-9);
        assert!((quantile_between(&before, &after, 0.75) - 0.001_5).abs() < 1e-9);
        let late = [(0.001, 10.0), (0.002, 10.0), (f64::INFINITY, 110.0)];
        assert!((quantile_between(&before, &late, 0.99) - 0.002).abs() < 1e-9);
        assert!(quantile_between(&before, &before, 0.99).abs() < 1e-9);
    }
}
