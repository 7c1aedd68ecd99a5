//! Event, `v1` and `events.k8s.io/v1`: two faces of the same objects, which are stored as the first shows them.
//!
//! Sources: `pkg/registry/core/event/strategy.go`, `pkg/apis/core/validation/events.go`, `pkg/apis/{core,events}/v1/conversion.go`,
//! `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::propagation::Propagation;
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Translated, TypeSpec};

mod faces;
mod printed;
mod rules;

/// The group of the later face.
const EVENTS: &str = "events.k8s.io";

static CORE: Declared = Declared::catalogued("v1", "Event");
static LATER: Declared = Declared::catalogued("events.k8s.io/v1", "Event");

/// Events, `v1`, as a built-in type.
pub(super) fn events() -> TypeSpec {
    spec("", &CORE)
}

/// Events, `events.k8s.io/v1`: those that `stored` is the type of.
#[must_use]
pub fn later_events(stored: &TypeSpec) -> TypeSpec {
    spec(EVENTS, &LATER).stored_as(stored)
}

fn spec(group: &'static str, declared: &'static Declared) -> TypeSpec {
    let names = Names { short_names: vec!["ev".into()], ..Names::of_kind("events", "Event") };
    let columns = Columns::rows(printed::columns(&CORE), printed::cells);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let spec = TypeSpec::built_in(group, names, Scope::Namespaced, versions, Arc::new(Events { declared }));
    spec.with_faces(Arc::new(faces::EventFaces { declared }))
}

/// The rules of events, through one of their faces.
struct Events {
    declared: &'static Declared,
}

impl Events {
    fn is_later(&self) -> bool {
        std::ptr::eq(self.declared, &raw const LATER)
    }
}

impl Strategy for Events {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(self.declared)
    }

    /// Other programs store them as the first face, and may be told to store them as the other.
    fn translate(&self, bytes: &[u8]) -> Option<Result<Translated, String>> {
        let translated = CORE.translate(bytes, |_| {});
        Some(translated.or_else(|error| {
            let later = LATER.translate(bytes, |_| {}).map_err(|_| error)?;
            Ok(Translated { json: faces::as_stored(&later.json)?, other_form: true, ..later })
        }))
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["v1", "events.k8s.io/v1", "events.k8s.io/v1beta1"]
    }

    fn internal_group(&self) -> Option<&'static str> {
        Some("")
    }

    fn selectable(&self) -> Vec<SelectableField> {
        rules::selectable(self.is_later())
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    /// `rest.Unsupported`: an event owns nothing.
    fn propagation(&self, _: &Value, _: Propagation) -> Propagation {
        Propagation::Background
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        rules::validate(object, self.is_later())
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        rules::validate_update(object, old, self.is_later())
    }
}
