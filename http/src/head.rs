//! The head of a request: its line and its headers.

use std::sync::{Arc, OnceLock};

use actix_web::dev::ServiceRequest;
use actix_web::http::header::HeaderMap;
use actix_web::http::{Method, Uri, Version, header};
use kindom_audit::Record;

use crate::recorded::Audit;

/// The head of a request. It belongs to no connection, so that another thread than the connection's can answer it.
#[derive(Debug)]
pub(crate) struct Head {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    upgrades: bool,
    audit: OnceLock<Audit>,
}

impl Head {
    /// Takes the head out of a request.
    pub(crate) fn take(request: &mut ServiceRequest) -> Self {
        let upgrades = request.head().upgrade();
        let head = request.head_mut();
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            headers: std::mem::take(&mut head.headers),
            upgrades,
            audit: OnceLock::new(),
        }
    }

    /// Has the request recorded from now on.
    pub(crate) fn audited(&self, audit: Audit) {
        // A request is begun once.
        let _ = self.audit.set(audit);
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.audit.get()
    }

    /// The request's record; none if nobody wants one.
    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        self.audit().map(|audit| &audit.record)
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(crate) fn query_string(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn into_headers(self) -> HeaderMap {
        self.headers
    }

    /// Returns true if the client wants the connection to become another.
    pub(crate) fn upgrades(&self) -> bool {
        self.upgrades
    }
}

/// A header's value; empty if the header is absent or no text.
pub(crate) fn header_of(request: &Head, name: header::HeaderName) -> &str {
    request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}
