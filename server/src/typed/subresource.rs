//! Subresources that a program answers itself (B-52).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{Stream, StreamExt as _};
use kindom_api::User;
use kindom_http::{Answered, AnsweredContent, Handled, Handler, HandlerError, Refusal};
use kindom_objects::{PlanError, Subresource, render};
use kindom_resource_actor::Target;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::form::Forms;
use super::strategy::Strategy;

/// A subresource of a kind.
pub(super) struct Served<H> {
    pub(super) name: &'static str,
    pub(super) verbs: &'static [&'static str],
    call: Call<H>,
}

type Call<H> = Arc<
    dyn Fn(SubresourceRequest<H>) -> BoxFuture<'static, Result<SubresourceAnswer, SubresourceError>>
        + Send
        + Sync,
>;

impl<H: Strategy> Served<H> {
    pub(super) fn new<F>(
        name: &'static str,
        verbs: &'static [&'static str],
        handler: impl Fn(SubresourceRequest<H>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<SubresourceAnswer, SubresourceError>> + Send + 'static,
    {
        Self { name, verbs, call: Arc::new(move |request| handler(request).boxed()) }
    }

    /// The handler, of objects in these forms.
    pub(super) fn handler(&self, forms: &Arc<Forms<H>>) -> Arc<dyn Handler> {
        Arc::new(Adapted { call: Arc::clone(&self.call), forms: Arc::clone(forms) })
    }
}

/// A handler of values, as one of trees.
struct Adapted<H> {
    call: Call<H>,
    forms: Arc<Forms<H>>,
}

impl<H: Strategy> Handler for Adapted<H> {
    fn handle(&self, handled: Handled) -> BoxFuture<'static, Result<Answered, HandlerError>> {
        let (call, forms) = (Arc::clone(&self.call), Arc::clone(&self.forms));
        async move {
            let read = forms.get(&handled.version).map(|form| form.read(&handled.object));
            let object = match read {
                Some(Ok(object)) => object,
                Some(Err(why)) => return Err(SubresourceError::internal(format!("the object is none of its type: {why}")).0),
                None => return Err(SubresourceError::internal("the program has no type for this version").0),
            };
            match call(SubresourceRequest { object, handled, forms }).await {
                Ok(answer) => Ok(answer.0),
                Err(error) => Err(error.0),
            }
        }
        .boxed()
    }
}

/// A request for a subresource of an object that is there. Its user may make it: permissions name `sloops/sail`, say, and the verb.
pub struct SubresourceRequest<H> {
    object: H,
    handled: Handled,
    forms: Arc<Forms<H>>,
}

impl<H: Strategy> SubresourceRequest<H> {
    /// The object, as it was after the request came.
    #[must_use]
    pub fn object(&self) -> &H {
        &self.object
    }

    /// `create` for a POST, `update` for a PUT, or `delete`, `get` or `patch`.
    #[must_use]
    pub fn verb(&self) -> &str {
        self.handled.verb
    }

    /// The path behind the subresource, as it stands in the request: `a/b` in `…/sloops/argo/signal/a/b`. Empty if it ends there.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.handled.path
    }

    /// The first value of a parameter of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.handled.parameters.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The type of the body; empty if the client gave none.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.handled.content_type
    }

    /// The body; empty if there is none.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.handled.body
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    /// 400: it is none, or does not have this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, SubresourceError> {
        serde_json::from_slice(&self.handled.body)
            .map_err(|why| SubresourceError::bad_request(format!("the body: {why}")))
    }

    /// The name of the user who asks.
    #[must_use]
    pub fn user_name(&self) -> &str {
        &self.user().name
    }

    /// The groups of the user who asks.
    #[must_use]
    pub fn user_groups(&self) -> &[String] {
        &self.user().groups
    }

    /// True if nothing is to be changed. [`update`](Self::update) keeps to it.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.handled.options.dry_run
    }

    fn user(&self) -> &User {
        &self.handled.options.user
    }

    /// Changes the object, but for its status, as a PUT by the user does: by way of its schema and its hooks. Webhooks and
    /// policies are not asked, and the user needs no permission for it. `change` gets the object as it is then, again for
    /// each time that somebody else was faster. Returns the object as it is now.
    ///
    /// # Errors
    /// That of `change`, or of the write.
    pub async fn update(
        &self,
        change: impl FnMut(&mut H) -> Result<(), SubresourceError> + Send,
    ) -> Result<H, SubresourceError> {
        self.write(None, change).await
    }

    /// Changes the object's status, in the same way.
    ///
    /// # Errors
    /// That of `change`, or of the write.
    pub async fn update_status(
        &self,
        change: impl FnMut(&mut H) -> Result<(), SubresourceError> + Send,
    ) -> Result<H, SubresourceError> {
        self.write(Some(Subresource::Status), change).await
    }

    async fn write(
        &self,
        subresource: Option<Subresource>,
        mut change: impl FnMut(&mut H) -> Result<(), SubresourceError> + Send,
    ) -> Result<H, SubresourceError> {
        let Handled { version, namespace, name, handle, options, .. } = &self.handled;
        let target = Target { version, subresource, namespace: namespace.as_deref(), name };
        let form = self
            .forms
            .get(version)
            .ok_or_else(|| SubresourceError::internal("the program has no type for this version"))?;
        let mut refused = None;
        let written = handle
            .update(
                target,
                true,
                &mut |_, stored| {
                    let mut object = stored.clone();
                    let mut outcome = Ok(());
                    form.change(&mut object, |object| outcome = change(object));
                    outcome.map(|()| object).map_err(|why| {
                        refused = Some(why);
                        PlanError::Internal("the handler refused".to_owned())
                    })
                },
                options,
            )
            .await;
        match (written, refused) {
            (Err(_), Some(why)) => Err(why),
            (Err(error), None) => Err(SubresourceError(HandlerError::Write(Box::new(error)))),
            (Ok(written), _) => {
                let spec = written.spec.version(version);
                let tree = spec.and_then(|spec| render::decode(&written.spec, spec, &written.object).ok());
                let object = tree.and_then(|tree| form.read(&tree).ok());
                object.ok_or_else(|| SubresourceError::internal("the object that was written cannot be read"))
            }
        }
    }
}

/// The answer of a handler.
pub struct SubresourceAnswer(Answered);

impl SubresourceAnswer {
    /// A value as JSON, with 200.
    ///
    /// # Errors
    /// 500: it cannot be written so.
    pub fn json(value: &impl Serialize) -> Result<Self, SubresourceError> {
        match serde_json::to_vec(value) {
            Ok(text) => Ok(Self::whole("application/json", text)),
            Err(why) => Err(SubresourceError::internal(format!("the answer: {why}"))),
        }
    }

    /// A text, with 200.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::whole("text/plain; charset=utf-8", text.into())
    }

    /// Something else, with 200.
    #[must_use]
    pub fn whole(content_type: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self::of(content_type, AnsweredContent::Whole(content.into()))
    }

    /// A content that is sent piece by piece, as it comes. It ends within a minute, unless the subresource is called `attach`, `exec`,
    /// `log`, `portforward` or `proxy`.
    #[must_use]
    pub fn pieces(
        content_type: impl Into<String>,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self::of(content_type, AnsweredContent::Pieces(pieces.boxed()))
    }

    /// The same with another code, from 200 to 599.
    #[must_use]
    pub fn with_code(self, code: u16) -> Self {
        Self(Answered { code, ..self.0 })
    }

    fn of(content_type: impl Into<String>, content: AnsweredContent) -> Self {
        Self(Answered { code: 200, content_type: content_type.into(), content })
    }
}

/// The reason why a handler does not do what it was asked for. The client gets it as a Status.
#[derive(Debug)]
pub struct SubresourceError(HandlerError);

impl SubresourceError {
    /// Any code from 400 to 599, with a reason for programs, such as `Conflict`.
    #[must_use]
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self(HandlerError::Refused(Refusal { code, reason: reason.to_owned(), message: message.into() }))
    }

    /// 400
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// 404
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "NotFound", message)
    }

    /// 409
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// 500
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }
}
