//! A response in the making, which may be made on another thread than that of its connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BodyStream, BoxBody, MessageBody};
use actix_web::http::header::{HeaderName, HeaderValue, TryIntoHeaderPair, TryIntoHeaderValue as _};
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};

use crate::cost::WHOLE_BYTES_MAX;
use crate::warning::warning_headers;

/// The most bytes that are handed to a connection at once.
pub(crate) const SLICE_BYTES: usize = 64 << 10;

/// A response, or the beginning of one.
pub(crate) struct Response {
    code: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    content: Content,
}

enum Content {
    Bytes(Bytes),
    /// An error cuts the connection.
    Stream {
        chunks: BoxStream<'static, Result<Bytes, std::io::Error>>,
        bytes_held: usize,
    },
}

/// The head of a response to which a content is added.
pub(crate) struct Builder {
    code: StatusCode,
    /// A list: actix-web has the map, and keeps its memory for the next response.
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Builder {
    pub(crate) fn new(code: u16) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, headers: Vec::with_capacity(8) }
    }

    /// Replaces a header. One that cannot be sent is left out.
    pub(crate) fn insert_header(&mut self, header: impl TryIntoHeaderPair) -> &mut Self {
        if let Ok((name, value)) = header.try_into_pair() {
            self.set(name, value);
        }
        self
    }

    /// Adds a header to those of its name. One that cannot be sent is left out.
    pub(crate) fn append_header(&mut self, header: impl TryIntoHeaderPair) -> &mut Self {
        self.headers.extend(header.try_into_pair().ok());
        self
    }

    pub(crate) fn content_type(&mut self, media_type: &str) -> &mut Self {
        if let Ok(value) = media_type.try_into_value() {
            self.set(header::CONTENT_TYPE, value);
        }
        self
    }

    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.retain(|(of, _)| *of != name);
        self.headers.push((name, value));
    }

    pub(crate) fn finish(&mut self) -> Response {
        self.body(Bytes::new())
    }

    pub(crate) fn body(&mut self, bytes: impl Into<Bytes>) -> Response {
        self.with(Content::Bytes(bytes.into()))
    }

    /// A content that is sent as it comes.
    pub(crate) fn streaming(
        &mut self,
        chunks: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
    ) -> Response {
        self.with(Content::Stream { chunks: chunks.boxed(), bytes_held: WHOLE_BYTES_MAX })
    }

    fn with(&mut self, content: Content) -> Response {
        Response { code: self.code, headers: std::mem::take(&mut self.headers), content }
    }
}

impl Response {
    /// Adds warnings to those that it has.
    pub(crate) fn warn(&mut self, warnings: &[String]) {
        let headers = warning_headers(warnings).into_iter();
        self.headers.extend(headers.filter_map(|warning| Some((header::WARNING, warning.parse().ok()?))));
    }

    /// With so many bytes that its content is made of as it is sent, and that nobody else has.
    pub(crate) fn made_of(mut self, bytes: usize) -> Self {
        if let Content::Stream { bytes_held, .. } = &mut self.content {
            *bytes_held += bytes;
        }
        self
    }

    /// The bytes that it holds until it is sent.
    pub(crate) fn bytes_held(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) if bytes.len() <= SLICE_BYTES => 0,
            Content::Bytes(bytes) => bytes.len(),
            Content::Stream { bytes_held, .. } => *bytes_held,
        }
    }

    /// As actix-web sends it.
    pub(crate) fn into_http(self) -> HttpResponse {
        self.into_http_with(())
    }

    /// As actix-web sends it, with something that is kept until all of it was handed to the connection.
    pub(crate) fn into_http_with(self, kept: impl Unpin + 'static) -> HttpResponse {
        let body = match self.content {
            Content::Bytes(bytes) if bytes.len() <= SLICE_BYTES => BoxBody::new(bytes),
            Content::Bytes(bytes) => BoxBody::new(Slices { size: bytes.len() as u64, bytes, _kept: kept }),
            Content::Stream { chunks, .. } => {
                let kept = chunks.map(move |chunk| {
                    let _kept = &kept;
                    chunk
                });
                BoxBody::new(BodyStream::new(kept))
            }
        };
        let mut response = HttpResponse::with_body(self.code, body);
        let headers = response.headers_mut();
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

/// A long content, which the connection takes in slices: it would copy all that it is given.
struct Slices<K> {
    size: u64,
    bytes: Bytes,
    _kept: K,
}

impl<K: Unpin> MessageBody for Slices<K> {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.size)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let slice = self.bytes.len().min(SLICE_BYTES);
        Poll::Ready((slice > 0).then(|| Ok(self.bytes.split_to(slice))))
    }
}
