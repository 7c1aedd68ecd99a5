//! The surroundings of a controller.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::Error;

/// The client of a manager, and its voice in `kubectl describe`. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    client: Client,
    recorder: Recorder,
}

impl Context {
    pub(crate) fn new(manager: &str, client: Client) -> Self {
        let reporter = Reporter { controller: manager.to_owned(), instance: None };
        Self { recorder: Recorder::new(client.clone(), reporter), client }
    }

    /// A client of the API server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Reports something about an object (`events.k8s.io/v1`): `reason` in UpperCamelCase, `note` for people.
    ///
    /// # Errors
    /// The event could not be stored.
    pub async fn report(&self, about: &ObjectReference, reason: &str, note: &str) -> Result<(), Error> {
        self.publish(about, EventType::Normal, reason, note).await
    }

    /// As [`report`](Self::report), of something that somebody should look at.
    ///
    /// # Errors
    /// The event could not be stored.
    pub async fn warn(&self, about: &ObjectReference, reason: &str, note: &str) -> Result<(), Error> {
        self.publish(about, EventType::Warning, reason, note).await
    }

    async fn publish(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        note: &str,
    ) -> Result<(), Error> {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        Ok(self.recorder.publish(&event, about).await?)
    }
}
