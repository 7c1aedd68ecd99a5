//! A response in the making, which may be made on another thread than that of its connection.

use actix_web::HttpResponse;
use actix_web::body::{BodyStream, BoxBody};
use actix_web::http::header::{HeaderMap, TryIntoHeaderPair, TryIntoHeaderValue as _};
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};

/// A response, or the beginning of one.
pub(crate) struct Response {
    code: StatusCode,
    headers: HeaderMap,
    content: Content,
}

enum Content {
    Bytes(Bytes),
    /// An error cuts the connection.
    Stream(BoxStream<'static, Result<Bytes, std::io::Error>>),
}

/// The head of a response to which a content is added.
pub(crate) struct Builder {
    code: StatusCode,
    headers: HeaderMap,
}

impl Builder {
    pub(crate) fn new(code: u16) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, headers: HeaderMap::new() }
    }

    /// Replaces a header. One that cannot be sent is left out.
    pub(crate) fn insert_header(&mut self, header: impl TryIntoHeaderPair) -> &mut Self {
        if let Ok((name, value)) = header.try_into_pair() {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds a header to those of its name. One that cannot be sent is left out.
    pub(crate) fn append_header(&mut self, header: impl TryIntoHeaderPair) -> &mut Self {
        if let Ok((name, value)) = header.try_into_pair() {
            self.headers.append(name, value);
        }
        self
    }

    pub(crate) fn content_type(&mut self, media_type: &str) -> &mut Self {
        if let Ok(value) = media_type.try_into_value() {
            self.headers.insert(header::CONTENT_TYPE, value);
        }
        self
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
        self.with(Content::Stream(chunks.boxed()))
    }

    fn with(&mut self, content: Content) -> Response {
        Response { code: self.code, headers: std::mem::take(&mut self.headers), content }
    }
}

impl Response {
    /// Keeps something until the content is sent, or handed to the connection as a whole.
    pub(crate) fn holding(self, held: Option<impl Send + 'static>) -> Self {
        let content = match (self.content, held) {
            (Content::Stream(chunks), Some(held)) => Content::Stream(
                chunks
                    .map(move |chunk| {
                        let _held = &held;
                        chunk
                    })
                    .boxed(),
            ),
            (content, _) => content,
        };
        Self { content, ..self }
    }

    /// As actix-web sends it.
    pub(crate) fn into_http(self) -> HttpResponse {
        let body = match self.content {
            Content::Bytes(bytes) => BoxBody::new(bytes),
            Content::Stream(chunks) => BoxBody::new(BodyStream::new(chunks)),
        };
        let mut response = HttpResponse::with_body(self.code, body);
        *response.headers_mut() = self.headers;
        response
    }
}
