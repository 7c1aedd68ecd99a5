//! Any request for a subresource that the program of a kind answers itself (B-52); upstream's verb for such ones is CONNECT.
//!
//! **Flow.** The body is read as a whole, and the object as it is now; both go to the [`Handler`](crate::handlers::Handler).
//!
//! **Guarantees.** A handler runs in the pool of processors, and each of its steps is a foreign one (`kindom_actor_kit::foreign`): one that
//! blocks costs its thread, one that panics its own request. Unless its subresource is one whose answers have no end, it is given
//! up at the request's deadline.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header;
use bytes::Bytes;
use futures::future::FutureExt as _;
use futures::stream::{StreamExt as _, unfold};
use kindom_actor_kit::{DEAR, Flow, Processors, dear, foreign_future};
use kindom_api::Value;
use kindom_objects::render;
use kindom_resource_actor::{Knowledge, ReadError, WriteOptions};
use tokio::time::Instant;

use crate::RequestError;
use crate::aggregate::Pieces;
use crate::body::{Received, plain};
use crate::call::Call;
use crate::cost;
use crate::forward::{flushed, has_no_end_of, until};
use crate::handlers::{Answered, AnsweredContent, Handled, HandlerError};
use crate::query;
use crate::response::{Builder, Response};
use crate::state::{LATE, REQUEST_TIMEOUT};
use crate::status::{Failure, internal, refused_by_program};
use crate::verbs::get;
use crate::writing::options;

/// The answer of the program's own handler.
pub(crate) async fn connect(call: &Call<'_>, payload: Payload) -> Result<Response, Failure> {
    let (state, info, spec) = (call.state, call.info, Arc::clone(&call.spec));
    let resource = call.resource();
    let registration = format!("{}.{}", resource.resource, resource.group);
    let handler = state.handlers.as_ref().and_then(|all| all.find(&registration, &info.subresource));
    let handler = handler.ok_or_else(|| {
        let (resource, subresource) = (&resource.resource, &info.subresource);
        RequestError::Unavailable(format!("this server's program does not serve {resource}/{subresource}"))
    })?;
    let query = query::WriteOptions::for_update(call.query)?;
    let received = Received::read(call, payload, state.bounds.budget.begin(&call.share)).await;
    let object = get::latest(call).await?;
    let request = Handled {
        verb: info.verb.as_str(),
        version: info.resource.version.clone(),
        namespace: call.namespace().map(str::to_owned),
        name: info.required_name()?.to_owned(),
        object: Value::Null,
        path: behind(call.request.path(), call.namespace().is_some()),
        parameters: call.query.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        content_type: call.header(header::CONTENT_TYPE).to_owned(),
        body: Bytes::new(),
        handle: call.handle.clone(),
        // The state that the type was looked up on may be older than the handler's change.
        options: WriteOptions {
            knowledge: Knowledge::Latest,
            admission: None,
            explanation: None,
            ..options(call, &query, &[])
        },
    };
    let name = request.name.clone();
    let (encoding, bytes_max) = (call.header(header::CONTENT_ENCODING).to_owned(), state.body_bytes_max);
    let (of_read, foreign) = (resource.clone(), Arc::clone(&spec.prefix));
    let handled = async move {
        dear(DEAR + cost::parse(object.json().len())).await?;
        // Kept for as long as the handler has the body.
        let body = plain(received, &encoding, bytes_max).await?;
        let read = |why: ReadError| Failure::Read(why, of_read.clone());
        let version = spec.version(&request.version).ok_or(RequestError::NotFound)?;
        let tree = render::decode(&spec, version, &object).map_err(|why| read(why.into()))?;
        let options = WriteOptions { bytes: body.len(), ..request.options };
        let request = Handled { object: tree, body: body.bytes(), options, ..request };
        let answer = AssertUnwindSafe(async move { handler.handle(request).await }).catch_unwind();
        foreign_future(&foreign, answer)
            .await?
            .map_err(|_| failed("the handler of this subresource panicked; the server's log says where"))
    };
    let ran = state.bounds.processors.run(call.flow, handled);
    let answered: Result<_, Failure> =
        ran.within(call.deadline.instant() + LATE).await.map_err(RequestError::from)?;
    match answered? {
        Ok(answered) => {
            let is_bare = call.request.method() == "HEAD" || matches!(answered.code, 204 | 304);
            let has_no_end = has_no_end_of(info);
            let (processors, prefix) = (state.bounds.processors.clone(), Arc::clone(&call.spec.prefix));
            written(answered, is_bare, has_no_end, processors, call.flow, prefix)
        }
        Err(HandlerError::Write(error)) => Err(Failure::Write(error, resource, call.spec.group_kind())),
        Err(HandlerError::Refused(refusal)) if !(400..600).contains(&refusal.code) => {
            Err(failed(&format!("the handler of this subresource refused with code {}", refusal.code)))
        }
        Err(HandlerError::Refused(refusal)) => Err(refused_by_program(&resource, &name, refusal)),
    }
}

/// The path behind the subresource in one such as `/apis/g.io/v1/namespaces/ns/widgets/name/exec/more`.
fn behind(path: &str, is_namespaced: bool) -> String {
    let before = if is_namespaced { 8 } else { 6 };
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.skip(before).collect::<Vec<_>>().join("/")
}

fn failed(why: &str) -> Failure {
    Failure::Status(Box::new(internal(why)))
}

fn written(
    answered: Answered,
    is_bare: bool,
    has_no_end: bool,
    processors: Processors,
    flow: Flow,
    prefix: Arc<str>,
) -> Result<Response, Failure> {
    let Answered { code, content_type, content } = answered;
    if !(200..600).contains(&code) {
        return Err(failed(&format!("the handler of this subresource answered with code {code}")));
    }
    let mut builder = Builder::new(code);
    builder.content_type(&content_type);
    Ok(match content {
        _ if is_bare => builder.finish(),
        AnsweredContent::Whole(bytes) => builder.body(bytes),
        AnsweredContent::Pieces(pieces) => {
            let pieces = in_pool(pieces, processors, flow, prefix);
            let deadline = Instant::now() + REQUEST_TIMEOUT;
            builder.streaming(flushed(if has_no_end { pieces } else { until(deadline, pieces) }))
        }
    })
}

/// Makes the pieces of an answer in the pool, as a connection's thread does not wait for a program.
fn in_pool(pieces: Pieces, processors: Processors, flow: Flow, prefix: Arc<str>) -> Pieces {
    unfold(Some(pieces), move |pieces| {
        let (processors, prefix) = (processors.clone(), Arc::clone(&prefix));
        async move {
            let mut pieces = pieces?;
            let next = async move {
                let next = foreign_future(&prefix, AssertUnwindSafe(pieces.next()).catch_unwind()).await;
                (next, pieces)
            };
            let broken = |why: &str| Some((Err(std::io::Error::other(why.to_owned())), None));
            match processors.run(flow, next).await {
                Ok((Ok(Ok(piece)), pieces)) => piece.map(|piece| (piece, Some(pieces))),
                Ok((Ok(Err(_)), _)) => broken("the handler panicked"),
                Ok((Err(overloaded), _)) => broken(&overloaded.to_string()),
                Err(lost) => broken(&lost.to_string()),
            }
        }
    })
    .boxed()
}
