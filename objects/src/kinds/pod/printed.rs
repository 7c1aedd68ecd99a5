//! The table of pods (`printPod` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_api::meta::time;
use kindom_schema::columns::{TableColumn, age, name_column};

use super::spec;
use crate::declared::Declared;
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::table_column;

/// The columns.
pub(super) fn columns(pod: &Declared) -> Vec<TableColumn> {
    let column =
        |name: &str, priority, description: &str| table_column(name, "string", priority, description);
    vec![
        name_column(),
        column("Ready", 0, "The aggregate readiness state of this pod for accepting traffic."),
        column("Status", 0, "The aggregate status of the containers in this pod."),
        column(
            "Restarts",
            0,
            "The number of times the containers in this pod have been restarted and when the last container in this pod has \
             restarted.",
        ),
        column("Age", 0, ""),
        column("IP", 1, pod.text_of(&["status", "podIP"])),
        column("Node", 1, pod.text_of(&["spec", "nodeName"])),
        column("Nominated Node", 1, pod.text_of(&["status", "nominatedNodeName"])),
        column("Readiness Gates", 1, pod.text_of(&["spec", "readinessGates"])),
    ]
}

/// The restarts of containers, and the time of the last one.
#[derive(Debug, Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(number(container, "restartCount").unwrap_or_default());
        let ended = container.at(&["lastState", "terminated"]).filter(|ended| !ended.is_null());
        let ended = ended.and_then(|ended| time::parse(text(ended, "finishedAt")).ok());
        self.last = self.last.max(ended);
    }

    fn printed(self, now: i64) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, age(&time::format(last), now))
            }
            _ => self.count.to_string(),
        }
    }
}

/// The reason of a container that has ended.
fn ending(terminated: &Value) -> String {
    let (reason, signal) = (text(terminated, "reason"), number(terminated, "signal").unwrap_or_default());
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// `true` if a condition of a type holds.
fn has_condition(status: &Value, kind: &str) -> bool {
    items(status, "conditions").iter().any(|of| text(of, "type") == kind && text(of, "status") == "True")
}

fn is_true(of: &Value, field: &str) -> bool {
    of.get(field) == Some(&Value::Bool(true))
}

/// The state of a container, if it is in this one.
fn state<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container.at(&["state", name]).filter(|state| !state.is_null())
}

/// The sum of the states of a pod's containers.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

fn summary(pod: &Value) -> Summary {
    let (spec, status) = (spec(pod), part(pod, "status"));
    let mut reason =
        text(status, if text(status, "reason").is_empty() { "phase" } else { "reason" }).to_owned();
    let is_gated =
        |of: &&Value| text(of, "type") == "PodScheduled" && text(of, "reason") == "SchedulingGated";
    if items(status, "conditions").iter().any(|of| is_gated(&of)) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let sidecars: std::collections::BTreeSet<&str> = items(spec, "initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    let total = items(spec, "containers").len() + sidecars.len();
    let (mut ready, mut initializing) = (0, None);
    let (mut restarts, mut of_sidecars) = (Restarts::default(), Restarts::default());
    let count = items(spec, "initContainers").len();
    for (index, container) in items(status, "initContainerStatuses").iter().enumerate() {
        let is_sidecar = sidecars.contains(text(container, "name"));
        restarts.add(container);
        if is_sidecar {
            of_sidecars.add(container);
        }
        let (ended, waits) = (state(container, "terminated"), state(container, "waiting"));
        let waits_for = waits.map(|waits| text(waits, "reason")).unwrap_or_default();
        initializing = match ended {
            Some(ended) if number(ended, "exitCode").unwrap_or_default() == 0 => continue,
            _ if is_sidecar && is_true(container, "started") => {
                ready += usize::from(is_true(container, "ready"));
                continue;
            }
            Some(ended) => Some(format!("Init:{}", ending(ended))),
            None if !matches!(waits_for, "" | "PodInitializing") => Some(format!("Init:{waits_for}")),
            None => Some(format!("Init:{index}/{count}")),
        };
        break;
    }
    let has_begun = initializing.is_none() || has_condition(status, "Initialized");
    if let Some(initializing) = initializing {
        reason = initializing;
    }
    if has_begun {
        restarts = of_sidecars;
        let (mut has_running, mut failure) = (false, None);
        for container in items(status, "containerStatuses").iter().rev() {
            restarts.add(container);
            let waits = state(container, "waiting").map(|waits| text(waits, "reason")).unwrap_or_default();
            if !waits.is_empty() {
                waits.clone_into(&mut reason);
            } else if let Some(ended) = state(container, "terminated") {
                reason = ending(ended);
                if number(ended, "exitCode").unwrap_or_default() != 0 {
                    failure = Some(reason.clone());
                }
            } else if is_true(container, "ready") && state(container, "running").is_some() {
                has_running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            if has_running && has_condition(status, "Ready") {
                "Running".clone_into(&mut reason);
            } else if let Some(failure) = failure {
                reason = failure;
            } else if has_running {
                "NotReady".clone_into(&mut reason);
            }
        }
    }
    if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
        if text(status, "reason") == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(text(status, "phase"), "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut reason);
        }
    }
    Summary { reason, ready, total, restarts }
}

/// The readiness gates that are open, of all.
fn gates(pod: &Value) -> String {
    let (all, status) = (items(spec(pod), "readinessGates"), part(pod, "status"));
    if all.is_empty() {
        return "<none>".to_owned();
    }
    let conditions: std::collections::BTreeMap<&str, bool> = items(status, "conditions")
        .iter()
        .rev()
        .map(|of| (text(of, "type"), text(of, "status") == "True"))
        .collect();
    let is_open = |gate: &&Value| conditions.get(text(gate, "conditionType")).copied().unwrap_or_default();
    format!("{}/{}", all.iter().filter(is_open).count(), all.len())
}

/// The cells of a pod.
pub(super) fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let summary = summary(pod);
    let status = part(pod, "status");
    let or_none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    let address = items(status, "podIPs").first().map(|one| text(one, "ip")).unwrap_or_default();
    vec![
        pod.text_at(&["metadata", "name"]).into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        summary.restarts.printed(now).into(),
        age(pod.text_at(&["metadata", "creationTimestamp"]), now).into(),
        or_none(address),
        or_none(text(spec(pod), "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        gates(pod).into(),
    ]
}
