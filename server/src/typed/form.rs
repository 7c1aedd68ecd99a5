//! The versions of a kind, as forms of the value that hooks see.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kindom_api::json::TypeError;
use kindom_api::{Value, json};
use kindom_objects::Convert;
use serde::Serialize;

use super::absent::{Absent, Hook};
use super::changes::{carry_over, without_nulls};
use super::read::read;
use super::strategy::{Strategy, Version};
use crate::BoxError;

/// Changes a tree as a hook changes the hub in it, which may have been read before.
type Change<H> = fn(&mut Value, Option<H>, &mut dyn FnMut(&mut H));

/// One version, as a form of the hub `H`.
pub(super) struct Form<H> {
    /// `v1beta1`
    version: &'static str,
    read: fn(&Value) -> Result<H, TypeError>,
    write: fn(&H) -> Value,
    change: Change<H>,
    apply_defaults: fn(&Absent, &mut Value),
    absent: Absent,
}

impl<H: Strategy> Form<H> {
    /// The form that `V` is.
    pub(super) fn of<V: Version + Into<H> + From<H>>() -> Self {
        Self {
            version: V::DEFINITION.version,
            read: |tree| Ok(read::<V>(tree)?.into()),
            write: |hub| without_nulls(json::to_value(&V::from(hub.clone()))),
            change: change_hub::<H, V>,
            apply_defaults: |absent, tree| {
                absent.unless::<V>(Hook::ApplyDefaults, || change(tree, V::apply_defaults));
            },
            absent: Absent::default(),
        }
    }

    /// The value that hooks see.
    ///
    /// # Errors
    /// The schema lets something through that the type does not hold.
    pub(super) fn read(&self, tree: &Value) -> Result<H, TypeError> {
        (self.read)(tree)
    }

    /// Changes a tree as `hook` changes the value in it, which may have been read before. A tree that holds no such value stays as it
    /// is: validation refuses it.
    pub(super) fn change(&self, tree: &mut Value, read: Option<H>, mut hook: impl FnMut(&mut H)) {
        (self.change)(tree, read, &mut hook);
    }

    /// Fills in this version's defaults (B-24).
    pub(super) fn apply_defaults(&self, tree: &mut Value) {
        (self.apply_defaults)(&self.absent, tree);
    }
}

/// Changes a tree as `hook` changes the value of the type in it.
fn change<V: Version>(tree: &mut Value, hook: impl FnOnce(&mut V)) {
    let Ok(mut value) = read::<V>(tree) else { return };
    let Ok(before) = text(&value) else { return };
    hook(&mut value);
    carry(tree, &before, &value);
}

/// Changes a tree as `hook` changes the hub of the version's value in it.
fn change_hub<H: Strategy, V: Version + Into<H> + From<H>>(
    tree: &mut Value,
    read_before: Option<H>,
    hook: &mut dyn FnMut(&mut H),
) {
    let hub = read_before.map_or_else(|| read::<V>(tree).map(Into::into), Ok);
    let Ok(mut hub) = hub else { return };
    // What does not survive the way from the hub to the version is no change of the hook's.
    let Ok(before) = text_in::<H, V>(&hub) else { return };
    hook(&mut hub);
    carry(tree, &before, &V::from(hub));
}

/// A hub as JSON of a version.
fn text_in<H: Strategy, V: Version + From<H>>(hub: &H) -> serde_json::Result<Vec<u8>> {
    match (hub as &dyn Any).downcast_ref::<V>() {
        Some(value) => text(value),
        None => text(&V::from(hub.clone())),
    }
}

/// A value as JSON: most take less than the room that there is at first.
fn text(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(2048);
    serde_json::to_writer(&mut text, value)?;
    Ok(text)
}

/// Fails the write: without the rule's change, it could be one that the rule forbids.
#[expect(
    clippy::panic,
    reason = "who calls rules answers a panic with 500 (`kindom_resource_actor`, `caught`)"
)]
fn refuse(error: &BoxError) -> ! {
    panic!("what a rule has changed cannot be carried over: {error}")
}

fn carry<V: Version>(tree: &mut Value, before: &[u8], value: &V) {
    let Ok(after) = text(value) else { return };
    if before == after {
        return;
    }
    if let Err(error) = carry_over(tree, before, &after) {
        refuse(&error);
    }
}

/// The versions of a kind, the stored one first.
pub(super) struct Forms<H>(Vec<Form<H>>);

impl<H: Strategy> Forms<H> {
    pub(super) fn new(stored: Form<H>) -> Self {
        Self(vec![stored])
    }

    pub(super) fn push(&mut self, form: Form<H>) {
        self.0.push(form);
    }

    pub(super) fn is_one(&self) -> bool {
        self.0.len() == 1
    }

    /// The form of a version.
    pub(super) fn get(&self, version: &str) -> Option<&Form<H>> {
        self.0.iter().find(|form| form.version == version)
    }
}

impl<H: Strategy> Convert for Forms<H> {
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, String> {
        let form =
            |version| self.get(version).ok_or_else(|| format!("the program has no type for {version}"));
        let (from, to) = (form(from)?, form(to)?);
        let converted = catch_unwind(AssertUnwindSafe(|| from.read(object).map(|hub| (to.write)(&hub))));
        match converted {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("its conversion panicked".to_owned()),
        }
    }
}
