//! Typed kinds, without their types.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use kindom_api::Value;
use kindom_http::Handler;
use kindom_objects::declared_subresources::mistake_of_endpoint;
use kindom_objects::kinds::typed::TypedObjects;

use super::definition::{Definition, Resource};
use super::form::{Form, Forms};
use super::hooks::Rules;
use super::registration::{name, registration, version, whole_schema};
use super::strategy::{Strategy, Version};
use super::subresource::{SubresourceAnswer, SubresourceError, SubresourceRequest, handler as handler_of};

/// Kinds that belong together.
#[derive(Clone, Default)]
pub struct Group {
    pub(super) kinds: Vec<Kind>,
}

impl Group {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind with one version, of any API group.
    #[must_use]
    pub fn kind<T: Strategy + Version>(self) -> Self {
        self.versions(Versions::<T>::stored_as::<T>())
    }

    /// Adds a kind with several versions, of any API group.
    #[must_use]
    pub fn versions<H: Strategy>(mut self, versions: Versions<H>) -> Self {
        self.kinds.push(versions.into_kind());
        self
    }
}

/// The versions of a kind, with the hub `H` between them, which alone has hooks (B-14, B-21).
///
/// Objects are stored in one version, and shown in the one that is asked for. To get from one to another, an object goes through the
/// hub: a field that the hub or the other version lacks is lost, unless `From` keeps it in an annotation.
///
/// ```
/// # use kindom_server::{Strategy, Version, Versions};
/// fn versions<Hub, New, Old>() -> Versions<Hub>
/// where
///     Hub: Strategy + From<New> + From<Old>,
///     New: Version + From<Hub>,
///     Old: Version + From<Hub>,
/// {
///     Versions::stored_as::<New>().with::<Old>()
/// }
/// ```
pub struct Versions<H> {
    definition: Definition,
    forms: Forms<H>,
    /// As a registration lists them.
    versions: Vec<Value>,
    /// The whole schemas of those that have one, by their `apiVersion`.
    whole: Vec<(String, serde_json::Value)>,
    subresources: Vec<Served<H>>,
    mistake: Option<String>,
}

/// Makes a handler, once all forms of the objects are known.
type MakeHandler<H> = Box<dyn FnOnce(&Arc<Forms<H>>) -> Handler>;

/// A subresource of a kind.
struct Served<H> {
    name: &'static str,
    verbs: &'static [&'static str],
    handler: MakeHandler<H>,
}

impl<H: Strategy> Versions<H> {
    /// The version that objects are stored in. Its names, short names and categories are those of the kind.
    #[must_use]
    pub fn stored_as<V: Version + Into<H> + From<H>>() -> Self {
        Self {
            definition: V::DEFINITION,
            forms: Forms::new(Form::of::<V>()),
            versions: vec![version::<V>(true)],
            whole: whole_schema::<V>().into_iter().collect(),
            subresources: Vec::new(),
            mistake: None,
        }
    }

    /// Adds another version, of the same group, kind, plural and scope.
    #[must_use]
    pub fn with<V: Version + Into<H> + From<H>>(mut self) -> Self {
        let mistake = self.mistake_in::<V>();
        self.mistake = self.mistake.or(mistake);
        self.forms.push(Form::of::<V>());
        self.versions.push(version::<V>(false));
        self.whole.extend(whole_schema::<V>());
        self
    }

    /// Adds a subresource that `handler` answers, with these of the verbs `create` (POST), `delete`, `get`, `patch` and `update` (PUT), in every
    /// version (B-52). It gets requests for objects that are there. The name has at most 32 lower-case letters, digits and `-`.
    ///
    /// The handler may wait, and it may block or panic: the client gets 504 at the deadline then, or 500. A client that got 504 may send the
    /// request again, though the handler went far. Tasks that the handler spawns run on the server's own thread, so they must not block.
    ///
    /// ```
    /// # use kindom_server::{Strategy, SubresourceAnswer, Versions};
    /// fn with_greeting<Hub: Strategy>(versions: Versions<Hub>) -> Versions<Hub> {
    ///     versions.subresource("greeting", &["get"], async |request| {
    ///         Ok(SubresourceAnswer::text(format!("hello, {}", request.user_name())))
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn subresource<F>(
        mut self,
        name: &'static str,
        verbs: &'static [&'static str],
        handler: impl Fn(SubresourceRequest<H>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<SubresourceAnswer, SubresourceError>> + Send + 'static,
    {
        let is_known = self.subresources.iter().any(|known| known.name == name);
        let mistake = match is_known {
            true => Some(format!("it has two subresources {name}")),
            false => mistake_of_endpoint(name, verbs),
        };
        self.mistake = self.mistake.or(mistake);
        let handler = Box::new(|forms: &Arc<Forms<H>>| handler_of(forms, handler));
        self.subresources.push(Served { name, verbs, handler });
        self
    }

    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }

    pub(super) fn forms(&self) -> &Forms<H> {
        &self.forms
    }

    /// As a registration lists them.
    pub(super) fn registered(&self) -> &[Value] {
        &self.versions
    }

    fn mistake_in<V: Resource>(&self) -> Option<String> {
        let (kind, other) = (&self.definition, &V::DEFINITION);
        if self.forms.get(other.version).is_some() {
            return Some(format!("it has two versions {}", other.version));
        }
        let names = |of: &Definition| (of.group, of.kind, of.plural, of.namespaced);
        (names(kind) != names(other)).then(|| {
            format!(
                "version {} has another group, kind, plural or scope than version {}",
                other.version, kind.version
            )
        })
    }

    fn into_kind(self) -> Kind {
        let forms = Arc::new(self.forms);
        let of_handlers = Arc::clone(&forms);
        let rules = Arc::new(Rules::new(Arc::clone(&forms)));
        let objects = match forms.is_one() {
            true => TypedObjects::new(rules),
            false => TypedObjects::new(rules).converted_by(forms),
        };
        let declared = self.subresources.iter().map(|served| (served.name, served.verbs));
        let registration = registration(&self.definition, self.versions, self.whole, declared);
        let handlers =
            self.subresources.into_iter().map(|served| (served.name, (served.handler)(&of_handlers)));
        Kind {
            name: name(&self.definition),
            registration,
            handlers: handlers.collect(),
            strategy: Arc::new(objects),
            mistake: self.mistake,
        }
    }
}

/// One kind.
#[derive(Clone)]
pub(super) struct Kind {
    /// The name of its registration.
    pub(super) name: String,
    /// As a client would post it.
    pub(super) registration: Value,
    pub(super) strategy: Arc<dyn kindom_objects::Strategy>,
    /// The handlers of its subresources.
    pub(super) handlers: BTreeMap<&'static str, Handler>,
    /// The reason why it cannot be served.
    pub(super) mistake: Option<String>,
}
