//! The objects of a write as the rules of webhooks and policies want them shown, and back in the form that plans are made on.

use std::borrow::Cow;
use std::sync::Arc;

use kindom_api::field::{Error, Path, go_quote};
use kindom_api::{GroupKind, GroupVersionKind, Value, scale};
use kindom_objects::admission::{AdmissionRefusal, Place, SCHEME, type_of};
use kindom_objects::render::{convert, decode};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Conversion, PlanError, RuleContext, StoredObject, Subresource, TypeSpec};

use super::{Admitting, SHOWN_BYTES_MAX, Subject, internal, refused};
use crate::error::WriteError;
use crate::panics::caught;
use crate::scale::{replicas_of, scale_of};

/// The one who changed an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    FromWebhook,
    FromPolicy,
}

impl Taken {
    /// The error of an object that cannot be converted.
    fn unconverted(self, why: String) -> String {
        match self {
            Self::FromWebhook => why,
            Self::FromPolicy => format!("failed to convert object: {why}"),
        }
    }
}

/// Refuses an object of a built-in type with fields that the type does not have.
fn refuse_unknown(fields: &[String]) -> Result<(), WriteError> {
    let shown = |field: &String| format!("unknown field {}", go_quote(field));
    match fields.is_empty() {
        true => Ok(()),
        false => {
            let fields: Vec<String> = fields.iter().map(shown).collect();
            Err(internal(format!("strict decoding error: {}", fields.join(", "))))
        }
    }
}

impl Admitting<'_> {
    /// Does some work in which objects are converted.
    async fn converting<T>(&self, conversions: &mut Conversions, work: impl FnMut() -> T) -> T {
        let run = (self.options.deadline, self.estimate());
        self.handle.converting(self.spec(), conversions, run, work).await
    }

    /// The type that a place shows, and the version; for the request's own place, the type of its body.
    pub(super) fn face<'p>(&'p self, place: &'p Place) -> (&'p TypeSpec, &'p str) {
        let at = self.others.1.iter().position(|other| other == place);
        match at.and_then(|at| self.others.0.get(at)) {
            Some((spec, version)) => (spec, version),
            None => (self.attempt.cx.spec, self.target.version),
        }
    }

    /// A stored object as a place shows it.
    pub(super) async fn stored_as(
        &self,
        object: Option<&Arc<StoredObject>>,
        place: &Place,
        conversions: &mut Conversions,
    ) -> Result<Option<Value>, WriteError> {
        let Some(object) = object else { return Ok(None) };
        // All versions have the same Scale.
        let (spec, version) = match self.target.subresource {
            Some(Subresource::Scale) => (&**self.spec(), self.target.version),
            _ => self.face(place),
        };
        let Some(of) = spec.version(version) else { return Err(WriteError::Gone) };
        let shown = self.converting(conversions, || decode(spec, of, object)).await;
        let shown = shown.map_err(|why| internal(why.of_one()))?;
        match self.target.subresource {
            Some(Subresource::Scale) => scale_of(self.attempt.cx, &shown).map(Some),
            _ => Ok(Some(shown)),
        }
    }

    /// The objects of a write as a place shows them.
    pub(super) async fn shown<'s>(
        &self,
        subject: &'s Subject<'_>,
        place: &Place,
        conversions: &mut Conversions,
    ) -> Result<(Option<Cow<'s, Value>>, Option<Cow<'s, Value>>), WriteError> {
        let (new, old) = (subject.object(), subject.old());
        let (spec, version) = self.face(place);
        match subject {
            Subject::Scale(..) => return Ok((new.map(Cow::Borrowed), old.map(Cow::Borrowed))),
            Subject::End(_) => {
                let old = self.stored_as(self.attempt.current, place, conversions).await?;
                return Ok((None, old.map(Cow::Owned)));
            }
            Subject::Nothing => return Ok((None, None)),
            Subject::Object(..) => {}
        }
        let form = |object: Option<&'s Value>| match (object, &spec.conversion) {
            (None, _) => Ok(None),
            (Some(object), Conversion::Faces(faces)) => {
                Ok(Some(Cow::Owned(faces.show(version, object.clone()))))
            }
            (Some(object), _) if version == self.target.version => Ok(Some(Cow::Borrowed(object))),
            (Some(object), _) => {
                let mut object = object.clone();
                convert(spec, &mut object, version).map(|()| Some(Cow::Owned(object)))
            }
        };
        let shown = self.converting(conversions, || Ok((form(new)?, form(old)?))).await;
        shown.map_err(|why: String| internal(why))
    }

    /// Brings an object that a webhook or a policy changed back into the form that plans are made on.
    pub(super) async fn taken_back(
        &self,
        place: &Place,
        mut patched: Value,
        subject: &Subject<'_>,
        conversions: &mut Conversions,
        taken: Taken,
    ) -> Result<Value, WriteError> {
        let found = self.check_kind(place, &mut patched, taken)?;
        if matches!(subject, Subject::Scale(..)) {
            if taken == Taken::FromPolicy {
                let decoded = scale::decode(&patched).map_err(|why| internal(why.to_string()))?;
                refuse_unknown(&decoded.unknown_fields)?;
            }
            // The replicas are all that is read of it.
            replicas_of(self.attempt.cx, &patched)?;
            return Ok(patched);
        }
        let (spec, version) = self.face(place);
        let version = found.as_deref().unwrap_or(version);
        let cx = self.attempt.cx;
        let Conversion::Faces(faces) = &spec.conversion else {
            if version != self.target.version {
                let own = self.target.version;
                let back = self.converting(conversions, || {
                    let mut object = patched.clone();
                    convert(spec, &mut object, own).map(|()| object)
                });
                patched = back.await.map_err(|why| internal(taken.unconverted(why)))?;
            }
            self.decoded(cx, &mut patched, taken)?;
            return Ok(patched);
        };
        let compiled = spec.version(version).map(|of| spec.compiled(of)).transpose();
        let Some(compiled) = compiled.map_err(internal)? else { return Err(WriteError::Gone) };
        let cx = RuleContext { spec, version: &compiled, version_name: version, ..*cx };
        self.decoded(&cx, &mut patched, taken)?;
        let name = patched.text_at(&["metadata", "name"]).to_owned();
        let read = faces.read(version, patched, subject.old(), cx.subresource);
        Ok(read.map_err(|errors| PlanError::Invalid { name, errors })?)
    }

    /// Decodes an object that was changed. Of what a policy has made of a built-in type, no field may be unknown.
    fn decoded(&self, cx: &RuleContext<'_>, patched: &mut Value, taken: Taken) -> Result<(), WriteError> {
        let mut unknown = Vec::new();
        let is_strict = taken == Taken::FromPolicy && cx.spec.is_typed();
        let wanted = is_strict.then_some(&mut unknown);
        caught(cx.spec, || cx.spec.strategy.decode(cx, patched, wanted).map_err(internal))?;
        refuse_unknown(&unknown)
    }

    /// An object stays what it is; one of a registered type may come back in another version, which is returned.
    fn check_kind(
        &self,
        place: &Place,
        patched: &mut Value,
        taken: Taken,
    ) -> Result<Option<String>, WriteError> {
        let found = type_of(patched).map_err(internal)?;
        let wanted = &place.kind;
        if self.spec().is_typed() || self.target.subresource == Some(Subresource::Scale) {
            // A type that Go's decoder is not told is the one that it expects.
            let given = if found.kind.is_empty() { &wanted.kind } else { &found.kind };
            let found = GroupVersionKind::new(found.group, found.version, given.as_str());
            let is_given = !found.group.is_empty() || !found.version.is_empty();
            if found.kind != wanted.kind || is_given && found != *wanted {
                let (kind, version) = (go_quote(&found.kind), go_quote(&found.api_version()));
                return Err(internal(format!(
                    "no kind {kind} is registered for version {version} in scheme {SCHEME}"
                )));
            }
            if let Some(object) = patched.as_object_mut() {
                object.insert("kind", wanted.kind.as_str());
                object.insert("apiVersion", wanted.api_version());
            }
            return Ok(None);
        }
        if found.kind.is_empty() {
            let mut shown = patched.to_string();
            shown.truncate(shown.floor_char_boundary(SHOWN_BYTES_MAX));
            return Err(internal(format!("Object 'Kind' is missing in '{shown}'")));
        }
        if patched.get("metadata").is_some_and(|metadata| metadata.as_object().is_none()) {
            return Err(internal("system metadata was not initialized".to_owned()));
        }
        if found.kind != wanted.kind {
            let name = patched.text_at(&["metadata", "name"]);
            let why = format!("must be {}", wanted.kind);
            let error = Error::invalid(&Path::new("kind"), found.kind.as_str(), why);
            let kind = GroupKind { group: found.group, kind: found.kind };
            return Err(refused(AdmissionRefusal::OtherKind { kind, name: name.to_owned(), error }));
        }
        if found.group != wanted.group {
            let (found, own) = (found.api_version(), go_quote(&self.spec().api_version(self.target.version)));
            let why = format!(
                "{found}, Kind={} is unstructured and is not suitable for converting to {own}",
                wanted.kind
            );
            return Err(match taken {
                Taken::FromWebhook => PlanError::Internal(why).into(),
                Taken::FromPolicy => internal(taken.unconverted(why)),
            });
        }
        let has_moved = found.version != wanted.version;
        if has_moved && self.spec().version(&found.version).is_none() {
            let found = found.api_version();
            let why = format!("request to convert CR from an invalid group/version: {found}");
            return Err(internal(taken.unconverted(why)));
        }
        Ok(has_moved.then_some(found.version))
    }
}
