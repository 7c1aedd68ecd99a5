//! Subresources that a program answers itself (B-52).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{FutureExt as _, TryFutureExt as _};
use futures::stream::{Stream, StreamExt as _};
use kindom_api::{User, Value};
use kindom_http::{Handler, HandlerAnswer, HandlerContent, HandlerError, HandlerRefusal, HandlerRequest};
use kindom_objects::plan::check_uid;
use kindom_objects::{PlanError, Refusal, RuleContext, Subresource, render};
use kindom_resource_actor::{Target, WriteError};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::form::{Form, Forms};
use super::strategy::Strategy;

/// The handler of a subresource of objects in these forms.
pub(super) fn handler<H, F>(
    forms: &Arc<Forms<H>>,
    handler: impl Fn(SubresourceRequest<H>) -> F + Send + Sync + 'static,
) -> Handler
where
    H: Strategy,
    F: Future<Output = Result<SubresourceAnswer, SubresourceError>> + Send + 'static,
{
    let (forms, handler) = (Arc::clone(forms), Arc::new(handler));
    Arc::new(move |mut request: HandlerRequest| {
        let (forms, handler) = (Arc::clone(&forms), Arc::clone(&handler));
        async move {
            let tree = std::mem::take(&mut request.object);
            let read = form(&forms, &request.version)?.read(&tree);
            let uid = tree.text_at(&["metadata", "uid"]).to_owned();
            drop(tree);
            let object = read.map_err(|why| {
                SubresourceError::internal(format!("the object is none of its type: {why}"))
            })?;
            let warnings = Arc::default();
            let request = SubresourceRequest { object, uid, request, forms, warnings: Arc::clone(&warnings) };
            let SubresourceAnswer(mut answer) = handler(request).await?;
            answer.warnings = std::mem::take(&mut *warnings.lock());
            Ok(answer)
        }
        .map_err(|SubresourceError(error)| error)
        .boxed()
    })
}

fn form<'f, H: Strategy>(forms: &'f Forms<H>, version: &str) -> Result<&'f Form<H>, SubresourceError> {
    forms
        .get(version)
        .ok_or_else(|| SubresourceError::internal("the program has no type for the stored version"))
}

/// A request for a subresource of an object that is there. Its user may make it: permissions name `sloops/sail`, say, and the verb.
pub struct SubresourceRequest<H> {
    object: H,
    uid: String,
    request: HandlerRequest,
    forms: Arc<Forms<H>>,
    warnings: Arc<Mutex<Vec<String>>>,
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
        self.request.verb
    }

    /// The path behind the subresource, decoded: `a/b` in `…/sloops/argo/signal/a/b`. Empty if it ends there.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.request.path
    }

    /// The first value of a parameter of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.request.parameters.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The type of the body; empty if the client gave none.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.request.content_type
    }

    /// The body; empty if there is none.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.request.body
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    /// 400: it is none, or does not have this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, SubresourceError> {
        serde_json::from_slice(&self.request.body)
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
        self.request.options.dry_run
    }

    fn user(&self) -> &User {
        &self.request.options.user
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
        let HandlerRequest { version, namespace, name, handle, options, .. } = &self.request;
        let target = Target { version, subresource, namespace: namespace.as_deref(), name };
        let form = form(&self.forms, version)?;
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            // The handler has seen this one, and no other of the same name.
            check_uid(cx, target.namespace, name, &self.uid, stored.text_at(&["metadata", "uid"]))?;
            let mut object = stored.clone();
            let mut outcome = Ok(());
            form.change(&mut object, None, |object| outcome = change(object));
            outcome.map_err(|SubresourceError(error)| match error {
                HandlerError::Refused(refusal) => PlanError::Caller(Refusal::new(refusal)),
                HandlerError::Write(error) => PlanError::Internal(error.to_string()),
            })?;
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let written =
            handle.update(target, true, &mut wanted, options).await.map_err(SubresourceError::of)?;
        self.warnings.lock().extend(written.warnings);
        let version = written.spec.version(version);
        let tree = version.and_then(|version| render::decode(&written.spec, version, &written.object).ok());
        let object = tree.and_then(|tree| form.read(&tree).ok());
        object.ok_or_else(|| SubresourceError::internal("the object that was written cannot be read"))
    }
}

/// The answer of a handler.
pub struct SubresourceAnswer(HandlerAnswer);

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
        Self::of(content_type, HandlerContent::Whole(content.into()))
    }

    /// A content that is sent piece by piece, as it comes. It ends within a minute, unless the subresource is called `attach`, `exec`,
    /// `log`, `portforward` or `proxy`.
    #[must_use]
    pub fn pieces(
        content_type: impl Into<String>,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self::of(content_type, HandlerContent::Pieces(pieces.boxed()))
    }

    /// The same with another code, from 200 to 599.
    #[must_use]
    pub fn with_code(self, code: u16) -> Self {
        Self(HandlerAnswer { code, ..self.0 })
    }

    fn of(content_type: impl Into<String>, content: HandlerContent) -> Self {
        Self(HandlerAnswer { code: 200, content_type: content_type.into(), warnings: Vec::new(), content })
    }
}

/// The reason why a handler does not do what it was asked for. The client gets it as a Status.
#[derive(Debug)]
pub struct SubresourceError(HandlerError);

impl SubresourceError {
    /// Any code from 400 to 599, with a reason for programs, such as `Conflict`.
    #[must_use]
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self(HandlerError::Refused(HandlerRefusal {
            code,
            reason: reason.to_owned(),
            message: message.into(),
        }))
    }

    /// That of a write, or what its change refused with.
    fn of(error: WriteError) -> Self {
        Self(match error {
            WriteError::Plan(PlanError::Caller(refusal)) => match refusal.get::<HandlerRefusal>() {
                Some(refusal) => HandlerError::Refused(refusal.clone()),
                None => HandlerError::Write(Box::new(PlanError::Caller(refusal).into())),
            },
            error => HandlerError::Write(Box::new(error)),
        })
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
