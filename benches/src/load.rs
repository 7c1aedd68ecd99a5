//! Many clients, each with a connection of its own, until a number of requests is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Ask, Connection, Endpoint, Protocol};
use crate::error::LoadError;
use crate::process::Process;

/// The figures of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) requests: usize,
    /// The server's, for all requests.
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Run {
    /// The server's CPU for one request, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    /// Throughput and latency, which depend on the machine more than on the server.
    pub(crate) fn remark(&self) -> String {
        let per_second = self.requests as f64 / self.took.as_secs_f64();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        format!("{per_second:.0}/s, p50 {:.1} ms, p99 {:.1} ms", ms(self.p50), ms(self.p99))
    }
}

/// The connections of a load; they stay open from run to run.
pub(crate) struct Clients {
    connections: Vec<Connection>,
}

impl Clients {
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        protocol: Protocol,
        clients: usize,
    ) -> Result<Self, LoadError> {
        let mut connections = Vec::with_capacity(clients);
        for _ in 0..clients {
            connections.push(endpoint.connect(protocol).await?);
        }
        Ok(Self { connections })
    }

    /// Sends the requests `ask(0)` to `ask(requests - 1)`; each client takes the next when it has its answer.
    pub(crate) async fn run(
        &mut self,
        process: &Process,
        requests: usize,
        ask: impl Fn(usize) -> Ask + Send + Sync + 'static,
    ) -> Result<Run, LoadError> {
        let (next, ask) = (Arc::new(AtomicUsize::new(0)), Arc::new(ask));
        let cpu_before = process.cpu()?;
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let (next, ask) = (Arc::clone(&next), Arc::clone(&ask));
            clients.spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= requests {
                        return Ok::<_, LoadError>((connection, latencies));
                    }
                    let ask = ask(i);
                    let sent = Instant::now();
                    connection.expect(&ask).await?;
                    latencies.push(sent.elapsed());
                }
            });
        }
        let mut latencies = Vec::with_capacity(requests);
        while let Some(client) = clients.join_next().await {
            let (connection, own) = client.map_err(LoadError::transport("a client"))??;
            self.connections.push(connection);
            latencies.extend(own);
        }
        let took = began.elapsed();
        let cpu = process.cpu()?.saturating_sub(cpu_before);
        latencies.sort_unstable();
        Ok(Run { requests, cpu, took, p50: quantile(&latencies, 50), p99: quantile(&latencies, 99) })
    }
}

/// The time that so many of a hundred stayed within; zero if there are none.
pub(crate) fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// The middle one of some figures; of an even number, the lower middle one.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
