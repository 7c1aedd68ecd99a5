//! The states of an object that judges are shown: before a planned write, and after it.

use std::sync::Arc;

use kindom_actor_kit::dear;
use kindom_api::{Value, field};
use kindom_objects::StoredObject;
use kindom_objects::admission::{Labels, Operation, Place};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::webhook_conversion::Conversions;

use super::Admitting;
use crate::cost;
use crate::error::WriteError;

/// The states of a planned write, in each version that a judge has wanted them in.
pub(super) struct States<'s> {
    operation: Operation,
    /// They are shown as Scales, which have no labels.
    is_scale: bool,
    new: Option<&'s Arc<StoredObject>>,
    old: Option<&'s Arc<StoredObject>>,
    /// The new state of what is not stored, and its bytes.
    body: Option<(&'s Value, usize)>,
    shown: Vec<(Place, Option<Value>, Option<Value>)>,
}

impl<'s> States<'s> {
    pub(super) fn new(
        operation: Operation,
        is_scale: bool,
        new: Option<&'s Arc<StoredObject>>,
        old: Option<&'s Arc<StoredObject>>,
    ) -> Self {
        Self { operation, is_scale, new, old, body: None, shown: Vec::new() }
    }

    /// Those of a request that stores nothing: its body, if it has one that judges see.
    pub(super) fn unstored(operation: Operation, body: Option<&'s Value>) -> Self {
        let body = body.map(|body| (body, field::bytes(body)));
        Self { body, ..Self::new(operation, false, None, None) }
    }

    /// Those of the new state and of the old one.
    pub(super) fn labels(&self) -> [Labels<'s>; 2] {
        static NO_LABELS: Value = Value::Null;
        if let Some((body, _)) = self.body {
            return [Labels::Own(body), Labels::None];
        }
        [self.new, self.old].map(|object| match object {
            Some(_) if self.is_scale => Labels::Own(&NO_LABELS),
            Some(object) => Labels::Stored(object),
            None => Labels::None,
        })
    }

    /// Of both states together.
    pub(super) fn bytes(&self) -> usize {
        let of_stored = [self.new, self.old].into_iter().flatten().map(|object| object.json().len());
        of_stored.chain(self.body.map(|(_, bytes)| bytes)).sum()
    }

    /// The new state and the old one, as [`Admitting::show`] has made them.
    pub(super) fn shown(&self, at: usize) -> (Option<&Value>, Option<&Value>) {
        self.shown.get(at).map_or((None, None), |(_, new, old)| (new.as_ref(), old.as_ref()))
    }
}

impl Admitting<'_> {
    /// Shows the states as a place does, unless they were; returns where they are.
    pub(super) async fn show(
        &self,
        states: &mut States<'_>,
        place: &Place,
        conversions: &mut Conversions,
    ) -> Result<usize, WriteError> {
        if let Some(at) = states.shown.iter().position(|(known, ..)| known == place) {
            return Ok(at);
        }
        dear(cost::parse(states.bytes())).await?;
        let mut new = match states.body {
            Some((body, _)) => Some(body.clone()),
            None => self.stored_as(states.new, place, conversions).await?,
        };
        if let (Operation::Create, Some(object), None) = (states.operation, &mut new, states.body) {
            metadata_mut(object).remove("resourceVersion");
        }
        let old = self.stored_as(states.old, place, conversions).await?;
        self.hold([&new, &old].into_iter().flatten())?;
        states.shown.push((place.clone(), new, old));
        Ok(states.shown.len() - 1)
    }
}
