//! One manager at a time: the one that holds a Lease (client-go `tools/leaderelection`, 0.37, with its durations).

use std::fmt::{self, Display};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

/// The time without a renewal after which others may take the lease.
const DURATION: Duration = Duration::from_secs(15);
/// The time without a renewal after which the holder stops. It is shorter, so that it has stopped before another one begins.
const DEADLINE: Duration = Duration::from_secs(10);
/// The time between two attempts.
const RETRY: Duration = Duration::from_secs(2);

/// A candidate for a Lease.
pub(crate) struct Election {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    seen: Seen,
}

/// The outcome of an attempt to take or keep the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Held,
    /// Another one holds it.
    Taken,
    /// Somebody else wrote it at the same moment.
    Missed,
}

/// The lease as it was last read. How old it is, this process's own clock says, as those of others may be wrong.
#[derive(Debug)]
struct Seen {
    spec: LeaseSpec,
    since: Instant,
}

impl Seen {
    /// True if the lease is free, this candidate's, or has not changed for its own duration.
    fn may_take(&mut self, spec: &LeaseSpec, identity: &str, now: Instant) -> bool {
        if self.spec != *spec {
            *self = Self { spec: spec.clone(), since: now };
        }
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        holder.is_empty()
            || holder == identity
            || now.duration_since(self.since) >= Duration::from_secs(seconds)
    }
}

impl Display for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {}/{}", self.namespace, self.name)
    }
}

impl Election {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "manager".to_owned());
        // Two processes of a host differ, and a process from its predecessor.
        let random = RandomState::new().build_hasher().finish();
        Self {
            leases: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{host}_{random:016x}"),
            seen: Seen { spec: LeaseSpec::default(), since: Instant::now() },
        }
    }

    /// The name of the lease.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns once this candidate holds the lease.
    pub(crate) async fn acquire(&mut self) {
        tracing::info!("waiting for the {self}");
        loop {
            match timeout(DEADLINE, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => break,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the {self} could not be read or written"),
                Err(_) => tracing::warn!("the {self} could not be read or written in time"),
            }
            sleep(RETRY).await;
        }
        tracing::info!(identity = self.identity, "this manager holds the {self}");
    }

    /// Keeps the lease, and returns once it is lost.
    pub(crate) async fn keep(&mut self) {
        let mut renewed = Instant::now();
        loop {
            let left = DEADLINE.saturating_sub(renewed.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(RETRY.min(left)).await;
            // Before the request is sent: others count from its arrival.
            let sent = Instant::now();
            let left = DEADLINE.saturating_sub(renewed.elapsed());
            match timeout(left, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => renewed = sent,
                Ok(Ok(Attempt::Taken)) => return,
                Ok(Ok(Attempt::Missed)) | Err(_) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the {self} was not renewed"),
            }
        }
    }

    /// Frees the lease, so that nobody has to wait for its end.
    pub(crate) async fn release(&mut self) {
        let released = timeout(RETRY, async {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&*self.identity) {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<(), Error>(())
        });
        match released.await {
            Ok(Ok(())) => {}
            // It ends by itself.
            Ok(Err(error)) => tracing::warn!(%error, "the {self} was not released"),
            Err(_) => tracing::warn!("the {self} was not released in time"),
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, Error> {
        let written = match self.leases.get_opt(&self.name).await? {
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(self.held(&LeaseSpec::default())) };
                self.leases.create(&PostParams::default(), &lease).await
            }
            Some(mut lease) => {
                let spec = lease.spec.take().unwrap_or_default();
                if !self.seen.may_take(&spec, &self.identity, Instant::now()) {
                    return Ok(Attempt::Taken);
                }
                lease.spec = Some(self.held(&spec));
                // With the resourceVersion that was read: of two candidates one is refused.
                self.leases.replace(&self.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(_) => Ok(Attempt::Held),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Attempt::Missed),
            Err(error) => Err(error),
        }
    }

    /// The lease in this candidate's hands.
    fn held(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let is_mine = before.holder_identity.as_deref() == Some(&*self.identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: if is_mine { before.acquire_time.clone() } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(if is_mine { transitions } else { transitions.saturating_add(1) }),
            ..before.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_has_not_changed_for_its_duration() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut seen = Seen { spec: LeaseSpec::default(), since: start };
        assert!(seen.may_take(&LeaseSpec::default(), "a", start));
        assert!(seen.may_take(&held_by("a", 0), "a", start));
        // However old its own times are: the holder's clock may be wrong.
        assert!(!seen.may_take(&held_by("b", 0), "a", after(100)));
        assert!(!seen.may_take(&held_by("b", 0), "a", after(114)));
        assert!(!seen.may_take(&held_by("b", 1), "a", after(115)));
        assert!(!seen.may_take(&held_by("b", 1), "a", after(129)));
        assert!(seen.may_take(&held_by("b", 1), "a", after(130)));
    }
}
