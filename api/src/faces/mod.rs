//! The faces of one registration (T-03): APIs for one stored object, three of their own and one of v1 under another name.
//!
//! **Stored** is the JSON of an `apiextensions.k8s.io/v1` CustomResourceDefinition. Annotations under [`ANNOTATION_PREFIX`],
//! which no face shows and no client may write, hold what v1 has no field for: the face that the registration was created
//! through, and the subresources that only the first proposal can express.
//!
//! **Flow.** [`Face::decode`] decodes a client's object, [`Face::read`] brings it into the stored form, where
//! `kindom_schema::crd` validates it; [`Face::show`] turns a stored object into the answer.
//!
//! **Guarantees.** `read(show(stored), old = stored)` is `stored` again, on every face; a write through a face keeps the
//! fields that the face does not show; a write that the stored form cannot hold is refused, so that nothing is lost. On
//! `apiextensions.k8s.io` today's Kubernetes decides (`pkg/apis/apiextensions`, conversions as of 1.37), on
//! `apiextension.k8s.io` the proposal "Moving ThirdPartyResources to beta" does.
//!
//! ```
//! use kindom_api::faces::Face;
//! use kindom_api::json::parse;
//! let mut tpr = parse(br#"{"metadata":{"name":"oxen.example.com"},"spec":{"group":"example.com","version":"v1",
//!     "Names":{"plural":"oxen","kind":"Ox"}}}"#)?;
//! Face::ThirdPartyResource.decode(&mut tpr, None)?;
//! let stored = Face::ThirdPartyResource.read(tpr, None, None).map_err(|errors| errors[0].to_string())?;
//! let crd = Face::V1.show(stored);
//! assert_eq!(crd.at(&["spec", "names", "listKind"]), Some(&"OxList".into()));
//! assert_eq!(crd.at(&["spec", "scope"]), Some(&"Namespaced".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annotations;
#[cfg(test)]
mod properties;
mod sub_resources;
#[cfg(test)]
mod tests;
mod third_party;
mod v1beta1;

use crate::crd::{API_VERSION, CRD, CustomResourceDefinition, GROUP, decode_crd, default_crd};
use crate::decode::Struct;
use crate::field::{Error, ErrorList, Path};
use crate::{Map, Value, json};

pub use annotations::REGISTERED_THROUGH;
use sub_resources::SubResources;
pub use sub_resources::{SUB_RESOURCES, proposed_subresources};
pub use third_party::renames_version;

/// Annotations that hold what v1 cannot; no face shows them.
pub const ANNOTATION_PREFIX: &str = "face.kindom.dev/";

/// A way of looking at a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Face {
    /// `apiextensions.k8s.io/v1` CustomResourceDefinition.
    V1,
    /// `apiextensions.k8s.io/v1beta1` CustomResourceDefinition, which Kubernetes served until 1.21.
    V1beta1,
    /// `apiextension.k8s.io/v1beta1` ThirdPartyResource, which was only ever proposed.
    ThirdPartyResource,
    /// `apiextensions.kindom.dev/v1` CustomResourceDefinition: [`Face::V1`] in a group that a host's aggregator may forward, since
    /// `apiextensions.k8s.io` is the host's own.
    Aggregated,
}

impl Face {
    /// Every face.
    pub const ALL: [Self; 4] = [Self::V1, Self::V1beta1, Self::ThirdPartyResource, Self::Aggregated];

    /// The `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => API_VERSION,
            Self::V1beta1 => "apiextensions.k8s.io/v1beta1",
            Self::ThirdPartyResource => "apiextension.k8s.io/v1beta1",
            Self::Aggregated => "apiextensions.kindom.dev/v1",
        }
    }

    /// Its API group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::V1 | Self::V1beta1 => GROUP,
            Self::ThirdPartyResource => "apiextension.k8s.io",
            Self::Aggregated => "apiextensions.kindom.dev",
        }
    }

    /// Its version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::V1 | Self::Aggregated => "v1",
            Self::V1beta1 | Self::ThirdPartyResource => "v1beta1",
        }
    }

    /// The `kind` of its objects.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::V1 | Self::V1beta1 | Self::Aggregated => "CustomResourceDefinition",
            Self::ThirdPartyResource => "ThirdPartyResource",
        }
    }

    /// The face whose objects have this `apiVersion` and `kind`.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|face| face.api_version() == api_version && face.kind() == kind)
    }

    /// The face whose shape and rules it has: its own, or that which it only names anew.
    #[must_use]
    pub fn rules(self) -> Self {
        if self == Self::Aggregated { Self::V1 } else { self }
    }

    /// The Go type of its objects.
    #[must_use]
    pub fn go_type(self) -> &'static Struct {
        match self {
            Self::V1 | Self::Aggregated => &CRD,
            Self::V1beta1 => v1beta1::go_type(),
            Self::ThirdPartyResource => &third_party::RESOURCE,
        }
    }

    /// A new object of this face, with nothing but the fields that Go never omits; `None` for the face without a Go type.
    #[must_use]
    pub fn empty(self) -> Option<Value> {
        let empty = CustomResourceDefinition {
            api_version: self.api_version().to_owned(),
            kind: self.kind().to_owned(),
            ..CustomResourceDefinition::default()
        };
        let mut empty = empty.to_value();
        match self {
            Self::V1 | Self::Aggregated => Some(empty),
            Self::V1beta1 => {
                map_at(&mut empty, "spec").remove("versions");
                Some(empty)
            }
            Self::ThirdPartyResource => None,
        }
    }

    /// Brings an object from the wire into this face's shape, as a typed decoder does: drops unknown fields (and lists them
    /// in `unknown`, if given) and fills in the face's defaults. Returns the warnings for the client.
    ///
    /// # Errors
    /// The text of a 400: a value of a wrong JSON type.
    pub fn decode(
        self,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let (decoded, fields, warnings) = match self {
            Self::V1 | Self::Aggregated => {
                let (mut crd, fields) = decode_crd(object).map_err(|e| e.to_string())?;
                default_crd(&mut crd);
                (crd.to_value(), fields, Vec::new())
            }
            Self::V1beta1 => v1beta1::decode(object).map_err(|e| e.to_string())?,
            Self::ThirdPartyResource => third_party::decode(object).map_err(|e| e.to_string())?,
        };
        if let Some(unknown) = unknown {
            unknown.extend(fields);
        }
        *object = decoded;
        Ok(warnings)
    }

    /// Turns a stored registration into the form that this face shows.
    #[must_use]
    pub fn show(self, mut stored: Value) -> Value {
        let mut hidden = annotations::take(&mut stored);
        match self {
            Self::V1 => stored,
            Self::Aggregated => of_version(stored, self),
            Self::V1beta1 => v1beta1::show(stored, &SubResources::take(&mut hidden)),
            Self::ThirdPartyResource => third_party::show(stored),
        }
    }

    /// `true` if stored bytes are what [`Face::show`] gives, so that nobody needs to read them. A scan for one string: it
    /// may say no where yes would do.
    #[must_use]
    pub fn shows_as_stored(self, json: &[u8]) -> bool {
        self == Self::V1 && memchr::memmem::find(json, ANNOTATION_PREFIX.as_bytes()).is_none()
    }

    /// Turns an object that [`Face::decode`] returned into the form to store: `old` is what is stored now, `None` on a
    /// create; `subresource` is the one that the client writes through.
    ///
    /// A write to the object keeps the status of `old`, and one to `status` keeps its spec. The caller validates, and checks
    /// the rules that every face shares (who may set which field).
    ///
    /// # Errors
    /// A field that the stored form cannot hold, or must not lose; a 422.
    pub fn read(
        self,
        mut object: Value,
        old: Option<&Value>,
        subresource: Option<&str>,
    ) -> Result<Value, ErrorList> {
        let mut hidden = annotations::merge(&mut object, old)?;
        if old.is_none() {
            annotations::register_through(&mut hidden, self);
        }
        let is_status = subresource == Some("status");
        let mut sub_resources = SubResources::take(&mut hidden);
        let mut stored = match self {
            Self::V1 => object,
            Self::Aggregated => of_version(object, Self::V1),
            Self::V1beta1 => v1beta1::read(object, old, is_status, &mut sub_resources)?,
            Self::ThirdPartyResource => third_party::read(object, old, is_status)?,
        };
        let renamed = old.filter(|_| self == Self::ThirdPartyResource);
        let renamed = renamed.and_then(|old| third_party::renamed_version(old, &stored));
        // The spec of a write to the status is not what will be stored.
        let spec = old.filter(|_| is_status).unwrap_or(&stored);
        sub_resources.put(spec, renamed, &mut hidden);
        annotations::put(&mut stored, hidden);
        Ok(stored)
    }
}

/// The same object in the other of the two faces that differ in nothing but their names.
fn of_version(mut object: Value, face: Face) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion", face.api_version());
    }
    object
}

/// The face that a registration came in by. Some of the proposal's rules hold for the objects of those that came in as
/// a ThirdPartyResource (T-47, T-53).
#[must_use]
pub fn registered_through(stored: &Value) -> Face {
    let registered_through =
        annotations::get(stored, annotations::REGISTERED_THROUGH).and_then(Value::as_str);
    Face::ALL.into_iter().find(|face| registered_through == Some(face.api_version())).unwrap_or(Face::V1)
}

/// A registration as any API server may have stored it, in the stored form: kube-apiserver still stores registrations as
/// v1beta1 (apiextensions `pkg/cmd/server/options`, `LegacyCodec`), and decodes either version. Unknown fields are dropped,
/// as it does. If a field stands both in the versions and beside them, the latter wins, as in upstream's conversion.
///
/// # Errors
/// The reason why upstream could not decode it either.
pub fn stored_form(tree: &Value) -> Result<Value, String> {
    let text = |field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    match Face::of(api_version, kind) {
        Some(Face::V1) => {
            let (mut crd, _) = decode_crd(tree).map_err(|e| e.to_string())?;
            default_crd(&mut crd);
            Ok(crd.to_value())
        }
        Some(Face::V1beta1) => v1beta1::stored_form(tree),
        Some(Face::ThirdPartyResource | Face::Aggregated) | None if tree.as_object().is_none() => {
            Err("it is no JSON object".to_owned())
        }
        Some(Face::ThirdPartyResource | Face::Aggregated) | None => {
            Err(format!("no kind {kind:?} is registered for version {api_version:?}"))
        }
    }
}

/// A decoded tree in the stored form, with v1's defaults and as v1 encodes it, so that equal registrations are equal
/// bytes.
///
/// # Errors
/// A value of a type that v1 does not have there, which no face's own decoding lets through.
fn normal(stored: &Value) -> Result<Value, ErrorList> {
    let crd = json::from_value(stored);
    let mut crd: CustomResourceDefinition =
        crd.map_err(|e| ErrorList::from(Error::internal(&Path::root(), e.to_string())))?;
    default_crd(&mut crd);
    Ok(crd.to_value())
}

/// A part of a tree, taken out of it.
fn take(value: &mut Value, field: &str) -> Option<Value> {
    value.as_object_mut()?.remove(field)
}

/// The map at a field of an object, which is put there if it is not one.
fn map_at<'a>(value: &'a mut Value, field: &str) -> &'a mut Map {
    map_in(as_map(value), field)
}

/// As [`map_at`].
fn map_in<'a>(map: &'a mut Map, field: &str) -> &'a mut Map {
    as_map(map.entry_or_insert_with(field, || Map::new().into()))
}

/// A value as the map that it is, or is made.
fn as_map(value: &mut Value) -> &mut Map {
    if value.as_object().is_none() {
        *value = Map::new().into();
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("invariant: it was made a map just above"),
    }
}
