//! `?waitFor=Established&timeout=10s` on a write of a registration: the answer waits for a condition.
//!
//! Nothing else about the write changes: it is stored and durable before the wait begins, and the wait never turns it into
//! an error. It ends when the condition is True, when the time is up (the request's `timeout`, a minute if it has none),
//! when the registration is gone or the server ends; whatever is stored by then is the answer. A dry run does not wait.
//! Driven by the registrations' own watch, without polling.

use std::sync::Arc;

use kindom_api::json;
use kindom_objects::{StoredObject, StoredRegistration};
use kindom_resource_actor::WatchError;
use kindom_resource_actor::{Freshness, Written};
use tokio::time::timeout_at;

use crate::RequestError;
use crate::call::Call;
use crate::phase::Phase;
use crate::query::WaitFor;

/// The most changes read in one go.
const EVENTS_AT_ONCE: usize = 256;

/// Refuses a wait on an object that never gets the condition.
///
/// # Errors
/// [`RequestError::BadRequest`] for anything but a registration itself.
pub(crate) fn check(call: &Call<'_>, condition: Option<WaitFor>) -> Result<(), RequestError> {
    let registration = call.state.registry.is_registrations(&call.handle) && call.subresource().is_none();
    if condition.is_none() || registration {
        return Ok(());
    }
    Err(RequestError::BadRequest("waitFor is only for registrations of types".to_owned()))
}

/// Waits until the written registration has the condition; returns its stored state then.
pub(crate) async fn wait(call: &Call<'_>, condition: Option<WaitFor>, written: Written) -> Written {
    let Some(condition) = condition.filter(|_| !written.outcome.is_deleted()) else {
        return written;
    };
    let mut phase = call.state.phase.subscribe();
    let ended = async {
        // An error means that the server is gone.
        let _ = phase.wait_for(Phase::is_ending).await;
    };
    let mut latest = Arc::clone(&written.object);
    tokio::select! {
        biased;
        _ = timeout_at(call.deadline.instant(), follow(call, condition, &mut latest)) => {}
        () = ended => {}
    }
    Written { object: latest, ..written }
}

/// Keeps `latest` at the newest state until it has the condition, or there is nothing more to wait for.
async fn follow(call: &Call<'_>, condition: WaitFor, latest: &mut Arc<StoredObject>) {
    let (key, uid) = (latest.key().to_owned(), latest.uid().to_owned());
    let Ok(mut changes) = call.handle.watch(latest.revision()) else { return };
    while !holds(condition, latest) {
        match changes.next(EVENTS_AT_ONCE).await {
            Ok(events) => {
                for event in events {
                    let now = event.object.as_ref().or(event.previous.as_ref());
                    let Some(now) = now.filter(|now| now.key() == key) else { continue };
                    if event.object.is_none() || now.uid() != uid {
                        return;
                    }
                    *latest = Arc::clone(now);
                }
            }
            // The events in between are lost; read the present state instead.
            Err(WatchError::Expired { .. }) => {
                let found = call.handle.snapshot(Freshness::Latest, call.deadline).await;
                let Ok((snapshot, at)) = found else { return };
                let Some(now) = snapshot.get(&key).filter(|now| now.uid() == uid) else { return };
                *latest = Arc::clone(now);
                match call.handle.watch(at) {
                    Ok(cursor) => changes = cursor,
                    Err(_) => return,
                }
            }
            Err(WatchError::Gone | WatchError::Storage(_)) => return,
        }
    }
    // Established means served: routes and discovery show the type before the client gets its answer.
    let _ = call.state.registry.folded(latest.revision(), call.deadline).await;
}

/// `true` if a stored registration has the condition.
fn holds(condition: WaitFor, registration: &StoredObject) -> bool {
    let tree = json::parse_own(registration.json()).unwrap_or_default();
    let registration = StoredRegistration::new(&tree);
    // Right after a change of names, the condition is still about the former ones.
    let judged = condition != WaitFor::NamesAccepted || registration.names() == registration.accepted_names();
    judged && registration.is_condition_true(condition.as_str())
}
