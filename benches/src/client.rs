//! One connection to a server, HTTP/1.1 or HTTP/2 over TLS, with as little code in between as possible: the client's cost is
//! not measured, but it takes its share of the machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::LoadError;

/// The protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// The address to connect to, and the client's identity.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let what = file.display().to_string();
    let found = CertificateDer::pem_file_iter(file).map_err(LoadError::transport(what.clone()))?;
    found.collect::<Result<_, _>>().map_err(LoadError::transport(what))
}

impl Endpoint {
    /// The server of this data folder, as its administrator.
    pub(crate) fn new(address: SocketAddr, pki: &Path) -> Result<Self, LoadError> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in chain(&pki.join("ca.crt"))? {
            roots.add(certificate).map_err(LoadError::transport("the authority"))?;
        }
        let key = PrivateKeyDer::from_pem_file(pki.join("admin.key"))
            .map_err(LoadError::transport("the administrator's key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(LoadError::transport("TLS"))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&pki.join("admin.crt"))?, key)
            .map_err(LoadError::transport("the administrator's certificate"))?;
        Ok(Self { address, tls: Arc::new(tls) })
    }

    /// Connects.
    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection, LoadError> {
        let failed = || format!("connecting to {}", self.address);
        let tcp = TcpStream::connect(self.address).await.map_err(LoadError::io(failed()))?;
        tcp.set_nodelay(true).map_err(LoadError::io(failed()))?;
        let mut tls = rustls::ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![protocol.alpn().to_vec()];
        let name = ServerName::from(self.address.ip());
        let stream =
            TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.map_err(LoadError::io(failed()))?;
        let io = TokioIo::new(stream);
        // The connection's task ends with its sender; what goes wrong shows in the answers.
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) =
                    http1::handshake(io).await.map_err(LoadError::transport(failed()))?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io)
                    .await
                    .map_err(LoadError::transport(failed()))?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Ok(Connection { sender, authority: self.address.to_string() })
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// The status that is measured; every other one is an error.
    pub(crate) status: u16,
    /// Further headers.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET",
            path: path.into(),
            content_type: "",
            body: Bytes::new(),
            status: 200,
            headers: &[],
        }
    }

    fn json(method: &'static str, path: impl Into<String>, body: impl Into<Bytes>, status: u16) -> Self {
        Self {
            method,
            path: path.into(),
            content_type: "application/json",
            body: body.into(),
            status,
            headers: &[],
        }
    }

    pub(crate) fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::json("POST", path, body, 201)
    }

    pub(crate) fn with(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    pub(crate) fn put(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::json("PUT", path, body, 200)
    }

    pub(crate) fn merge_patch(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { content_type: "application/merge-patch+json", ..Self::json("PATCH", path, body, 200) }
    }

    /// A server-side apply: 201 where it creates.
    pub(crate) fn apply(path: impl Into<String>, body: impl Into<Bytes>, status: u16) -> Self {
        Self { content_type: "application/apply-patch+yaml", ..Self::json("PATCH", path, body, status) }
    }

    fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// One connection; one request at a time.
pub(crate) struct Connection {
    sender: Sender,
    authority: String,
}

impl Connection {
    /// Another client of the same connection; `None` for HTTP/1.1, which has one.
    pub(crate) fn share(&self) -> Option<Self> {
        let Sender::Http2(sender) = &self.sender else { return None };
        Some(Self { sender: Sender::Http2(sender.clone()), authority: self.authority.clone() })
    }

    async fn begin(&mut self, ask: &Ask) -> Result<Response<Incoming>, LoadError> {
        let mut request = Request::builder().method(ask.method);
        // HTTP/2 takes authority and scheme from the address, HTTP/1.1 has them in a header.
        request = match self.sender {
            Sender::Http1(_) => request.uri(&ask.path).header("host", &self.authority),
            Sender::Http2(_) => request.uri(format!("https://{}{}", self.authority, ask.path)),
        };
        request = request.header("accept", "application/json").header("user-agent", "kindom-load");
        if !ask.content_type.is_empty() {
            request = request.header("content-type", ask.content_type);
        }
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(ask.body.clone())).map_err(LoadError::transport(ask.what()))?;
        let answered = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.map_err(LoadError::transport(ask.what()))?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.map_err(LoadError::transport(ask.what()))?;
                sender.send_request(request).await
            }
        };
        answered.map_err(LoadError::transport(ask.what()))
    }

    /// Sends it, and reads the whole answer, whatever its status.
    pub(crate) async fn send(&mut self, ask: &Ask) -> Result<(u16, Bytes), LoadError> {
        let answer = self.begin(ask).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(LoadError::transport(ask.what()))?;
        Ok((status, body.to_bytes()))
    }

    /// As [`Connection::send`], where another status than the one asked for is an error.
    pub(crate) async fn expect(&mut self, ask: &Ask) -> Result<Bytes, LoadError> {
        let (status, body) = self.send(ask).await?;
        if status == ask.status {
            return Ok(body);
        }
        let body = String::from_utf8_lossy(&body).chars().take(400).collect();
        Err(LoadError::Answer { what: ask.what(), status, body })
    }

    /// Opens a stream of lines. The connection is used up.
    pub(crate) async fn lines(mut self, path: String) -> Result<Lines, LoadError> {
        let ask = Ask::get(path);
        let answer = self.begin(&ask).await?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(LoadError::Answer { what: ask.what(), status, body: String::new() });
        }
        Ok(Lines { what: ask.what(), body: answer.into_body(), partial: BytesMut::new(), _connection: self })
    }
}

/// A watch's answer.
pub(crate) struct Lines {
    what: String,
    body: Incoming,
    partial: BytesMut,
    _connection: Connection,
}

impl Lines {
    async fn data(&mut self) -> Result<Bytes, LoadError> {
        loop {
            let frame = self.body.frame().await;
            let frame = frame.ok_or_else(|| LoadError::Transport {
                what: self.what.clone(),
                cause: "the server ended the stream".to_owned(),
            })?;
            if let Ok(data) = frame.map_err(LoadError::transport(self.what.clone()))?.into_data() {
                return Ok(data);
            }
        }
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> Result<Bytes, LoadError> {
        loop {
            if let Some(at) = self.partial.iter().position(|&byte| byte == b'\n') {
                return Ok(self.partial.split_to(at + 1).freeze());
            }
            let data = self.data().await?;
            self.partial.extend_from_slice(&data);
        }
    }

    /// Reads on until so many lines have ended.
    pub(crate) async fn skip(&mut self, lines: usize) -> Result<(), LoadError> {
        let mut seen = 0;
        while seen < lines {
            let data = self.data().await?;
            seen += data.iter().filter(|&&byte| byte == b'\n').count();
        }
        Ok(())
    }
}
