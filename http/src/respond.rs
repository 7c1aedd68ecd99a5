//! Answers: bytes with a content type, compressed where that pays.

use std::io::{self, Write as _};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::{Method, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::unfold;
use kindom_actor_kit::{Flow, Processors};
use kindom_api::Value;
use kindom_api::json::{self, Indenter};
use kindom_api::status::Status;
use kindom_audit::Record;
use kindom_codec::{Format, protobuf, yaml};
use kindom_objects::Declared;

use crate::RequestError;
use crate::cost::{self, WHOLE_BYTES_MAX};
use crate::form::{GZIP_BYTES_MIN, is_pretty, takes_gzip};
use crate::head::{Head, header_of};
use crate::layout::{LaidOut, Layout};
use crate::negotiate::{Accepted, Endpoint, JSON, Shape, YAML, accept};
use crate::response::{Builder, Response};
use crate::status::{Answer, Failure};
use crate::warning::warning_headers;

/// With fewer bytes of JSON, an answer is short in any layout.
const LONG_BYTES_MIN: usize = 2 << 10;

/// An answer before it is encoded.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<String>,
    pub(crate) headers: Vec<(header::HeaderName, String)>,
    /// The declaration of the kind that the body is an object of, or a list of; it has the protobuf.
    pub(crate) declared: Option<&'static Declared>,
    /// The turns in which an answer is laid out that takes many more bytes than its body; without them it is laid out at once.
    turns: Option<PieceTurns>,
    /// The pieces are protobuf already.
    is_protobuf: bool,
    /// The record of its request has it. Upstream's has no failure that the client would not have taken.
    is_recorded: bool,
}

/// A body in the making.
pub(crate) enum Body {
    /// JSON as it is; only for clients that take JSON.
    Json(Vec<u8>),
    /// A tree, to be written in the format that the client takes.
    Tree(Value),
    /// A Status, which has an order of fields.
    Status(Box<Status>),
    /// JSON in pieces.
    Pieces(Pieces, PieceTurns),
}

impl Body {
    /// Adds itself to the record of its request.
    fn recorded(self, record: &Arc<Record>) -> Self {
        match &self {
            Self::Status(status) => record.response_status(&status.to_value()),
            _ => record.forget_response(),
        }
        if !record.wants_response() {
            return self;
        }
        match &self {
            Self::Status(status) => record.response_json(&status.to_json()),
            Self::Tree(tree) => record.response_object(tree),
            Self::Json(bytes) => record.response_json(bytes),
            Self::Pieces(..) => record.response_begins(),
        }
        let Self::Pieces(mut pieces, turns) = self else { return self };
        let record = Arc::clone(record);
        let seen = iter::from_fn(move || {
            let piece = pieces.next();
            match &piece {
                Some(Ok(piece)) => record.response_piece(piece),
                // A failure cuts the answer off.
                Some(Err(_)) => {}
                None => record.response_ends(),
            }
            piece
        });
        Self::Pieces(Box::new(seen), turns)
    }

    fn into_tree(self) -> Result<Value, Failure> {
        let bytes = match self {
            Self::Tree(tree) => return Ok(tree),
            Self::Status(status) => return Ok(status.to_value()),
            Self::Json(bytes) => bytes,
            Self::Pieces(pieces, _) => {
                let mut bytes = Vec::new();
                for piece in pieces {
                    bytes.extend(piece?);
                }
                bytes
            }
        };
        let rendered = json::parse_own(&bytes);
        Ok(rendered.map_err(|why| RequestError::Internal(format!("the answer can't be rendered: {why}")))?)
    }
}

impl Reply {
    fn new(code: u16, body: Body) -> Self {
        Self {
            code,
            body,
            warnings: Vec::new(),
            headers: Vec::new(),
            declared: None,
            turns: None,
            is_protobuf: false,
            is_recorded: true,
        }
    }

    pub(crate) fn json(code: u16, bytes: Vec<u8>) -> Self {
        Self::new(code, Body::Json(bytes))
    }

    pub(crate) fn tree(code: u16, tree: Value) -> Self {
        Self::new(code, Body::Tree(tree))
    }

    pub(crate) fn pieces(code: u16, pieces: Pieces, turns: PieceTurns) -> Self {
        Self::new(code, Body::Pieces(pieces, turns))
    }

    /// With pieces of protobuf, for a client that takes that and a request whose record has no answer.
    pub(crate) fn protobuf_pieces(code: u16, pieces: Pieces, turns: PieceTurns) -> Self {
        Self { is_protobuf: true, ..Self::pieces(code, pieces, turns) }
    }

    pub(crate) fn status(status: Status) -> Self {
        let code = if status.code == 0 { 200 } else { status.code };
        Self::new(code, Body::Status(Box::new(status)))
    }

    pub(crate) fn declared(mut self, declared: Option<&'static Declared>) -> Self {
        self.declared = declared;
        self
    }

    pub(crate) fn with_header(mut self, name: header::HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// With the turns of the pieces that it comes in, if somebody wants to read it and it is long.
    pub(crate) fn paced(mut self, turns: impl FnOnce() -> PieceTurns) -> Self {
        let may_be_long = match &self.body {
            Body::Json(bytes) => bytes.len() >= LONG_BYTES_MIN,
            Body::Tree(_) => true,
            Body::Status(_) | Body::Pieces(..) => false,
        };
        self.turns = may_be_long.then(turns);
        self
    }

    /// With a change to the tree of its body.
    ///
    /// # Errors
    /// [`RequestError::Internal`] for a body that is no tree.
    pub(crate) fn map_tree(mut self, change: impl FnOnce(&mut Value)) -> Result<Self, Failure> {
        let mut tree = self.body.into_tree()?;
        change(&mut tree);
        self.body = Body::Tree(tree);
        Ok(self)
    }

    /// Writes it in the format accepted. A body that can't be written so is a failure, and never another answer.
    pub(crate) fn write(mut self, request: &Head, accepted: Accepted) -> Response {
        if let Some(record) = request.record() {
            match self.is_recorded {
                true => self.body = self.body.recorded(record),
                false => record.forget_response(),
            }
            record.response_code(self.code);
        }
        let mut builder = start(self.code);
        for (name, value) in self.headers {
            builder.insert_header((name, value));
        }
        for warning in warning_headers(&self.warnings) {
            builder.append_header((header::WARNING, warning));
        }
        let layout = match accepted.format {
            Format::Json if is_pretty(request, accepted) => Layout::Indented(Indenter::default()),
            Format::Yaml => Layout::Yaml(yaml::Writer::default()),
            Format::Protobuf => {
                return match self.body {
                    Body::Pieces(pieces, turns) if self.is_protobuf => {
                        builder.content_type(protobuf::MEDIA_TYPE);
                        sent(request, send_pieces(request, builder, pieces, turns))
                    }
                    body => whole_protobuf(request, builder, body, self.declared),
                };
            }
            Format::Json => {
                builder.content_type(JSON);
                return match self.body {
                    Body::Json(bytes) => send(request, builder, line(bytes)),
                    Body::Tree(tree) => send(request, builder, line(tree.to_vec())),
                    Body::Status(status) => send(request, builder, line(status.to_json())),
                    Body::Pieces(pieces, turns) => {
                        sent(request, send_pieces(request, builder, pieces, turns))
                    }
                };
            }
        };
        builder.content_type(if matches!(layout, Layout::Yaml(_)) { YAML } else { JSON });
        let json = match self.body {
            Body::Pieces(pieces, turns) => {
                let laid_out = LaidOut::new(layout, pieces);
                return sent(request, send_pieces(request, builder, Box::new(laid_out), turns));
            }
            Body::Json(bytes) => bytes,
            Body::Tree(tree) => tree.to_vec(),
            // YAML has all keys sorted, and JSON those of a Status as Go's struct has them.
            Body::Status(status) if accepted.format == Format::Yaml => status.to_value().to_vec(),
            Body::Status(status) => status.to_json(),
        };
        let made_of = json.len();
        let laid_out = LaidOut::new(layout, iter::once(Ok(line(json))));
        let answer = match self.turns {
            Some(turns) => send_pieces(request, builder, Box::new(laid_out), turns),
            None => {
                laid_out.collect::<Result<Vec<_>, _>>().map(|pieces| send(request, builder, pieces.concat()))
            }
        };
        sent(request, answer).made_of(made_of)
    }
}

/// An answer, or that to its failure.
fn sent(request: &Head, answer: Result<Response, Failure>) -> Response {
    answer.unwrap_or_else(|why| {
        tracing::error!(?why, path = request.path(), "an answer can't be rendered");
        failure(request, why)
    })
}

/// An answer in protobuf, whose fields begin with their lengths: it is made as a whole.
fn whole_protobuf(
    request: &Head,
    mut builder: Builder,
    body: Body,
    declared: Option<&'static Declared>,
) -> Response {
    let tree = match body.into_tree() {
        Ok(tree) => tree,
        Err(why) => return sent(request, Err(why)),
    };
    let (bytes, content_type) = match to_protobuf(&tree, declared) {
        Some(bytes) => (bytes, protobuf::MEDIA_TYPE),
        // An answer without a kind is JSON, whatever the client accepts (`WriteRawJSON`).
        None => (line(tree.to_vec()), JSON),
    };
    builder.content_type(content_type);
    send(request, builder, bytes)
}

/// A tree as protobuf, by its own apiVersion and kind; `None` if they have none.
pub(crate) fn to_protobuf(tree: &Value, declared: Option<&Declared>) -> Option<Vec<u8>> {
    let message = declared.and_then(|declared| declared.message_of(tree));
    message.map(|message| protobuf::encode_as(tree, message)).or_else(|| protobuf::encode(tree))
}

/// JSON that is not indented ends its line (`json.go` `doEncode`).
fn line(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(b'\n');
    bytes
}

/// An answer with the headers that all have.
pub(crate) fn start(code: u16) -> Builder {
    let mut builder = Builder::new(code);
    builder.insert_header((header::CACHE_CONTROL, "no-cache, private"));
    builder
}

/// Sends bytes, compressed if they are many and the client takes gzip.
pub(crate) fn send(request: &Head, mut builder: Builder, bytes: Vec<u8>) -> Response {
    if bytes.len() < GZIP_BYTES_MIN || !takes_gzip(request) {
        return builder.body(bytes);
    }
    compressed_body(builder, compressed(&bytes))
}

/// The gzip of these bytes.
pub(crate) fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// An answer whose body is gzip.
pub(crate) fn compressed_body(mut builder: Builder, body: impl Into<Bytes>) -> Response {
    builder.insert_header((header::CONTENT_ENCODING, "gzip"));
    builder.insert_header((header::VARY, "Accept-Encoding"));
    builder.body(body)
}

/// A chunk has so many bytes of gzip, or is made of so many that were compressed: blanks become a thousandth.
const GZIP_CHUNK_BYTES: usize = 64 << 10;
const ZIPPED_AT_ONCE_BYTES: usize = 2 << 20;

/// The pieces of a long answer. An error cuts what was sent off.
pub(crate) type Pieces = Box<dyn Iterator<Item = Result<Vec<u8>, Failure>> + Send>;

/// The processors that make the pieces of an answer, and the flow that they make them for.
#[derive(Clone)]
pub(crate) struct PieceTurns {
    pub(crate) processors: Processors,
    pub(crate) flow: Flow,
    /// The cost of a piece, without its compression.
    pub(crate) each: Duration,
}

/// Sends an answer that comes in pieces, which is never there as a whole if it is long. Between two pieces others have
/// their turn.
///
/// # Errors
/// That of a piece, if nothing was sent yet.
pub(crate) fn send_pieces(
    request: &Head,
    mut builder: Builder,
    mut pieces: Pieces,
    turns: PieceTurns,
) -> Result<Response, Failure> {
    let mut head = Vec::new();
    while head.len() < WHOLE_BYTES_MAX {
        match pieces.next() {
            Some(piece) if head.is_empty() => head = piece?,
            Some(piece) => head.extend(piece?),
            None => return Ok(send(request, builder, head)),
        }
    }
    if request.method() == Method::HEAD {
        return Ok(builder.finish());
    }
    let gzip = takes_gzip(request).then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    if gzip.is_some() {
        builder.insert_header((header::CONTENT_ENCODING, "gzip"));
        builder.append_header((header::VARY, "Accept-Encoding"));
    }
    let zipped = gzip.as_ref().map_or(Duration::ZERO, |_| cost::zip(WHOLE_BYTES_MAX));
    let (PieceTurns { processors, flow, each }, pieces) = (turns, iter::once(Ok(head)).chain(pieces));
    let state = Some((pieces, gzip, processors));
    let body = unfold(state, move |state| async move {
        let (mut pieces, mut gzip, processors) = state?;
        tokio::task::yield_now().await;
        let made = processors.compute(flow, each + zipped, move || {
            let chunk = next_chunk(&mut pieces, &mut gzip);
            (chunk, pieces, gzip)
        });
        match made.await {
            Ok((chunk, pieces, gzip)) => match chunk? {
                Ok(chunk) => Some((Ok(Bytes::from(chunk)), Some((pieces, gzip, processors)))),
                Err(why) => {
                    tracing::error!(?why, "an answer is cut off");
                    Some((Err(io::Error::other("the answer could not be finished")), None))
                }
            },
            Err(lost) => Some((Err(io::Error::other(lost)), None)),
        }
    });
    Ok(builder.streaming(body))
}

/// The next bytes to send; none after the last.
fn next_chunk(
    pieces: &mut impl Iterator<Item = Result<Vec<u8>, Failure>>,
    gzip: &mut Option<GzEncoder<Vec<u8>>>,
) -> Option<Result<Vec<u8>, Failure>> {
    let Some(encoder) = gzip else { return pieces.next() };
    let mut zipped = 0;
    for piece in pieces {
        // Writing to memory does not fail.
        match piece {
            Ok(piece) => {
                encoder.write_all(&piece).ok()?;
                zipped += piece.len();
            }
            Err(why) => return Some(Err(why)),
        }
        if zipped >= ZIPPED_AT_ONCE_BYTES {
            // A chunk without bytes would end the answer.
            encoder.flush().ok()?;
        }
        if zipped >= ZIPPED_AT_ONCE_BYTES || encoder.get_ref().len() >= GZIP_CHUNK_BYTES {
            return Some(Ok(std::mem::take(encoder.get_mut())));
        }
    }
    gzip.take()?.finish().ok().map(Ok)
}

/// The form of a failure: that of any Status, which has protobuf too (`ErrorNegotiated`). A client that wants tables or
/// metadata gets the same encoding.
fn failure_form(request: &Head) -> Option<Accepted> {
    let header = header_of(request, header::ACCEPT);
    let of_shapes = || accept(header, Endpoint::Resource).ok().filter(|a| a.format != Format::Protobuf);
    accept(header, Endpoint::Plain).ok().or_else(of_shapes)
}

/// The answer to a failed request, in the format that the client takes, or else JSON.
pub(crate) fn failure(request: &Head, failure: Failure) -> Response {
    let (failure, warnings) = match failure {
        Failure::Warned(failure, warnings) => (*failure, warnings),
        failure => (failure, Vec::new()),
    };
    let answer = failure.answer();
    if let (Some(record), Answer::PageNotFound | Answer::TooManyInFlight | Answer::Internal(_)) =
        (request.record(), &answer)
    {
        record.forget_response();
    }
    match answer {
        Answer::PageNotFound => {
            let mut builder = start(404);
            builder.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
            builder.content_type("text/plain; charset=utf-8").body("404 page not found\n")
        }
        // `http.Error`, as apiserver's `tooManyRequests` has it.
        Answer::TooManyInFlight => {
            let mut builder = start(429);
            builder.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
            builder.insert_header((header::RETRY_AFTER, "1"));
            let text = "Too many requests, please try again later.\n";
            builder.content_type("text/plain; charset=utf-8").body(text)
        }
        // `http.Error`, as `responsewriters.InternalError` has it.
        Answer::Internal(text) => {
            let mut builder = start(500);
            builder.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
            builder.content_type("text/plain; charset=utf-8").body(format!("{text}\n"))
        }
        Answer::Status(status) => {
            let json = Accepted { format: Format::Json, shape: Shape::Whole, pretty: false };
            let accepted = failure_form(request).unwrap_or(json);
            let seconds = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0);
            let mut reply = Reply::status(status).with_warnings(warnings);
            reply.is_recorded = request.audit().is_none()
                || accept(header_of(request, header::ACCEPT), Endpoint::Plain).is_ok();
            if let Some(seconds) = seconds {
                reply = reply.with_header(header::RETRY_AFTER, seconds.to_string());
            }
            reply.write(request, accepted)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn little_is_compressed_at_a_time() {
        let mut left = 100;
        let mut pieces = iter::from_fn(|| {
            left -= usize::from(left > 0);
            (left > 0).then(|| Ok(vec![b' '; 128 << 10]))
        });
        let (mut gzip, mut chunks) = (Some(GzEncoder::new(Vec::new(), Compression::fast())), Vec::new());
        while let Some(chunk) = next_chunk(&mut pieces, &mut gzip) {
            let Ok(chunk) = chunk else { panic!("no piece failed") };
            assert!(!chunk.is_empty());
            chunks.push(chunk);
        }
        assert_eq!(chunks.len(), 1 + 99 / 16);
        let mut read = Vec::new();
        GzDecoder::new(chunks.concat().as_slice()).read_to_end(&mut read).unwrap();
        assert!(read.len() == 99 * (128 << 10) && read.iter().all(|byte| *byte == b' '));
    }
}
