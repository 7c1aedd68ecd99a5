//! Any request for a subresource that the program of a kind answers itself (B-52); upstream's verb for such ones is CONNECT.
//!
//! **Flow.** The object as it is now and the body as a whole go to the [`Handler`](crate::handlers::Handler). What it streams comes from
//! the pool through a channel.
//!
//! **Guarantees.** The code of a handler runs in the pool of processors, its destructors included, and each step of it is a foreign one
//! (`kindom_actor_kit::foreign`): one that blocks costs its thread, one that panics its own request. The request's deadline ends it, and
//! also a stream, unless that is one of upstream's long-running ones.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix_web::http::header;
use bytes::Bytes;
use futures::future::FutureExt as _;
use futures::stream::{StreamExt as _, unfold};
use kindom_actor_kit::{DEAR, Flow, Foreign, Held, Processors, Run, dear, foreign, foreign_future};
use kindom_api::{Value, field, json};
use kindom_objects::declared_subresources::EndpointServer;
use kindom_objects::{Subresource, render};
use kindom_resource_actor::{Knowledge, ReadError, ResourceHandle, Target, WriteOptions};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::RequestError;
use crate::aggregate::Pieces;
use crate::body::{Plain, Received, plain_body};
use crate::call::Call;
use crate::cost;
use crate::forward::{flushed, has_no_end_of, until};
use crate::handlers::{HandlerAnswer, HandlerContent, HandlerError, HandlerRequest};
use crate::query;
use crate::request_info::{ResourceRequest, Verb};
use crate::respond::start;
use crate::response::{Response, SLICE_BYTES};
use crate::status::{Failure, internal, refused_by_program};
use crate::verbs::get;
use crate::warning::warning_headers;
use crate::writing::{check_extensions, options};

/// The most slices of a stream that wait for the connection.
const SLICES: usize = 2;

/// The admission of a request that a program answers.
#[derive(Default)]
pub(crate) struct Admitted {
    pub(crate) warnings: Vec<String>,
    /// A webhook was waited for.
    pub(crate) has_waited: bool,
}

/// Has policies and webhooks judge a request that a program answers (`ConnectResource`).
async fn admit(
    handle: &ResourceHandle,
    info: &ResourceRequest,
    options: &WriteOptions,
) -> Result<Admitted, Failure> {
    let namespace = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let (version, name) = (info.resource.version.as_str(), info.required_name()?);
    let subresource = Subresource::of_registered(&info.subresource);
    let admitted = handle.admit_connect(&Target { version, subresource, namespace, name }, options).await;
    let warnings = options.admission.as_ref().map(|asked| std::mem::take(&mut *asked.warnings.lock()));
    let warnings = warnings.unwrap_or_default();
    match admitted {
        Ok(has_waited) => Ok(Admitted { warnings, has_waited }),
        Err(error) => {
            let kind = handle.spec().map(|spec| spec.group_kind()).unwrap_or_default();
            Err(Failure::Write(Box::new(error), info.group_resource(), kind).warned(warnings))
        }
    }
}

/// The same for a request that goes on to another program, whose body was not read. That program may not know dry runs.
pub(crate) async fn admit_forwarded(call: &Call<'_>) -> Result<Admitted, Failure> {
    if call.query.all("dryRun").next().is_some() {
        return Err(RequestError::BadRequest("dryRun is not supported".to_owned()).into());
    }
    let query = query::WriteOptions::default();
    let (handle, info, options) = (call.handle.clone(), call.info.clone(), options(call, &query, &[]));
    let admitted = async move { admit(&handle, &info, &options).await }.in_current_span();
    let admitted = call.state.bounds.processors.run(call.flow, admitted).await;
    admitted.map_err(|lost| RequestError::Internal(lost.to_string()))?
}

fn is_dry_run_by_query(call: &Call<'_>) -> bool {
    call.query.all("dryRun").any(|wanted| wanted == "All")
}

/// The answer of the program's own handler.
pub(crate) async fn connect(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
    let mut warnings = Vec::new();
    answer(call, received, &mut warnings).await.map_err(|why| why.warned(warnings))
}

/// Answers the request. If that fails, `warnings` has those of webhooks and policies.
async fn answer(
    call: &Call<'_>,
    received: Option<Received>,
    warnings: &mut Vec<String>,
) -> Result<Response, Failure> {
    let (info, resource) = (call.info, call.resource());
    let registration = format!("{}.{}", resource.resource, resource.group);
    let handlers = call.state.handlers.as_ref();
    let handler = handlers.and_then(|handlers| handlers.find(&registration, &info.subresource));
    let handler = handler.ok_or_else(|| {
        let (resource, subresource) = (&resource.resource, &info.subresource);
        RequestError::Unavailable(format!("this server's program does not serve {resource}/{subresource}"))
    })?;
    let mut query = match info.verb {
        Verb::Get => {
            query::WriteOptions { dry_run: is_dry_run_by_query(call), ..query::WriteOptions::default() }
        }
        _ => query::WriteOptions::for_update(call.query)?,
    };
    check_extensions(call, &query)?;
    let mut body = match received {
        Some(received) => Some(plain_body(call, received).await?),
        None => None,
    };
    if info.verb == Verb::Delete
        && let Some(body) = &mut body
        && body.read(is_dry_run, |_| 0).await?
    {
        query.dry_run = true;
    }
    let options = WriteOptions { explanation: None, ..options(call, &query, &[]) };
    let mut admitted = admit(&call.handle, info, &options).await?;
    warnings.append(&mut admitted.warnings);
    drop(call.until_admitted.lock().take());
    let again = if admitted.has_waited { Some(after_wait(call).await?) } else { None };
    let call = again.as_ref().unwrap_or(call);
    let stored = get::latest(call).await?;
    dear(DEAR + cost::parse(stored.json().len())).await?;
    // Hooks see the hub, and the storage version is nearest to it.
    let version = call.spec.storage().ok_or(RequestError::NotFound)?;
    let name: Arc<str> = format!("{}{}", call.spec.prefix, info.subresource).into();
    // The program's conversion may be needed for it.
    let object = foreign(&name, || render::decode(&call.spec, version, &stored))?;
    let object = object.map_err(|why| call.read_failure(ReadError::from(why)))?;
    let mut held = call.room().begin();
    held.grow(field::bytes(&object))?;
    drop(stored);
    let request = HandlerRequest {
        verb: info.verb.as_str(),
        namespace: call.namespace().map(str::to_owned),
        name: info.required_name()?.to_owned(),
        object,
        version: version.name.clone(),
        path: info.rest.clone().unwrap_or_default(),
        parameters: call.query.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        content_type: call.header(header::CONTENT_TYPE).to_owned(),
        body: body.as_ref().map(|body| body.bytes()).unwrap_or_default(),
        handle: call.handle.clone(),
        // What a handler changes is not what the client wrote: its length says nothing about the cost of the type's writes. Webhooks
        // and policies have judged the request.
        options: WriteOptions { knowledge: Knowledge::Latest, admission: None, ..options },
    };
    let of_answer = Arc::clone(&name);
    let handled = async move { Foreign::new(&of_answer, handler(request).await) };
    let handled = foreign_future(&name, AssertUnwindSafe(handled).catch_unwind()).await?;
    let answer = handled.map_err(|panic| {
        drop(Foreign::new(&name, panic));
        failed("the handler of this subresource panicked; the server's log says where")
    })?;
    let refused = |error| match error {
        HandlerError::Write(error) => Failure::Write(error, resource.clone(), call.spec.group_kind()),
        HandlerError::Refused(refusal) if !(400..600).contains(&refusal.code) => {
            failed(&format!("the handler of this subresource refused with code {}", refusal.code))
        }
        HandlerError::Refused(refusal) => {
            refused_by_program(&resource, info.required_name().unwrap_or_default(), refusal)
        }
    };
    match answer.into_inner() {
        Some(Ok(answer)) => written(call, name, answer, std::mem::take(warnings), (body, held)),
        Some(Err(error)) => Err(refused(error)),
        None => Err(failed("the handler of this subresource has no answer")),
    }
}

/// The call as the type is now, which must still have the subresource.
async fn after_wait<'c>(call: &Call<'c>) -> Result<Call<'c>, Failure> {
    let ((handle, spec), knowledge) = call.look_up_again().await?;
    let (user, share) = (Arc::clone(&call.user), call.share.clone());
    let call = Call { user, handle, spec, knowledge, share, ..*call };
    let is_there = matches!(call.endpoint_server(), Some(EndpointServer::Own))
        && call.verbs_through().is_some_and(|verbs| verbs.contains(&call.info.verb.as_str()));
    if is_there { Ok(call) } else { Err(RequestError::NotFound.into()) }
}

fn failed(why: &str) -> Failure {
    Failure::Status(Box::new(internal(why)))
}

/// The options of a delete may be in its body.
fn is_dry_run(body: &[u8]) -> bool {
    let Ok(options) = json::parse(body) else { return false };
    let kind = options.text_at(&["kind"]);
    let dry_run = options.get("dryRun").and_then(Value::as_array);
    matches!(kind, "" | "DeleteOptions") && dry_run.is_some_and(|dry_run| !dry_run.is_empty())
}

/// `kept` has the memory that the handler's stream may still hold.
fn written(
    call: &Call<'_>,
    name: Arc<str>,
    answer: HandlerAnswer,
    of_judges: Vec<String>,
    kept: (Option<Plain>, Held),
) -> Result<Response, Failure> {
    let HandlerAnswer { code, content_type, warnings, content } = answer;
    let content = match content {
        HandlerContent::Whole(bytes) => Ok(bytes),
        HandlerContent::Pieces(pieces) => Err(Foreign::new(&name, pieces)),
    };
    if !(200..600).contains(&code) {
        return Err(failed(&format!("the handler of this subresource answered with code {code}")));
    }
    let mut builder = start(code);
    builder.content_type(&content_type);
    let deprecated = call.version()?.deprecation_warning.clone();
    let warnings: Vec<String> = deprecated.into_iter().chain(of_judges).chain(warnings).collect();
    for warning in warning_headers(&warnings) {
        builder.append_header((header::WARNING, warning));
    }
    let is_bare = call.request.method() == "HEAD" || matches!(code, 204 | 304);
    Ok(match content {
        _ if is_bare => builder.finish(),
        Ok(bytes) => builder.body(bytes),
        Err(pieces) => {
            let pieces = streamed(pieces, &call.state.bounds.processors, call.flow, name, kept);
            let deadline = call.deadline.instant();
            let pieces = if has_no_end_of(call.info) { pieces } else { until(deadline, pieces) };
            builder.streaming(flushed(pieces))
        }
    })
}

/// A stream under way in the pool.
struct Pumped {
    run: Option<Run<bool>>,
    /// True once all of it was sent.
    is_whole: bool,
    from: mpsc::Receiver<Result<Bytes, std::io::Error>>,
    _kept: (Option<Plain>, Held),
}

/// Makes the pieces of an answer in the pool, as a connection's thread does not wait for a program.
fn streamed(
    pieces: Foreign<Pieces>,
    processors: &Processors,
    flow: Flow,
    name: Arc<str>,
    kept: (Option<Plain>, Held),
) -> Pieces {
    let (to, from) = mpsc::channel(SLICES);
    let pump = async move {
        let Some(mut pieces) = pieces.into_inner() else { return false };
        let sent = async move {
            while let Some(piece) = pieces.next().await {
                let mut piece = piece;
                // In slices, so that of a long piece there is one for each stream.
                while let Ok(long) = &mut piece
                    && long.len() > SLICE_BYTES
                {
                    if to.send(Ok(long.split_to(SLICE_BYTES))).await.is_err() {
                        return;
                    }
                }
                if to.send(piece).await.is_err() {
                    return;
                }
            }
        };
        match foreign_future(&name, AssertUnwindSafe(sent).catch_unwind()).await {
            Ok(Ok(())) => true,
            Ok(Err(panic)) => {
                drop(Foreign::new(&name, panic));
                false
            }
            Err(_) => false,
        }
    };
    let run = Some(processors.run(flow, pump));
    let pumped = Pumped { run, is_whole: false, from, _kept: kept };
    unfold(Some(pumped), |pumped| async {
        let mut pumped = pumped?;
        match pumped.next().await {
            Some(Ok(bytes)) => Some((Ok(bytes), Some(pumped))),
            Some(Err(error)) => Some((Err(error), None)),
            None => None,
        }
    })
    .boxed()
}

impl Pumped {
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        if let Some(run) = &mut self.run {
            tokio::select! {
                biased;
                piece = self.from.recv() => match piece {
                    Some(piece) => return Some(piece),
                    None => self.is_whole = run.await == Ok(true),
                },
                ended = &mut *run => self.is_whole = ended == Ok(true),
            }
            self.run = None;
        }
        // What came before the end, which a bug may have been.
        let broken = || Err(std::io::Error::other("the handler's stream ended by a bug"));
        self.from.recv().await.or_else(|| (!self.is_whole).then(broken))
    }
}
