//! The consequences of etcd's errors for the caller.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use crate::{Applied, StorageError};

/// The reason why a call failed, by its consequence. The texts are those of `api/v3rpc/rpctypes/error.go` (3.4 to 3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// History starts after the revision asked for.
    Compacted,
    /// The revision asked for has not happened.
    Future,
    /// The request is larger than the server takes.
    TooLarge(String),
    /// The server takes no more at the moment, and has done nothing.
    Busy,
    /// The database is full. The server may have done it all the same: the one write that crosses the quota is applied
    /// and refused (`quotaApplierV3`).
    Full(String),
    /// Trying again is of no use: it asks for other credentials, say.
    Refused(String),
    /// It was not sent, or certainly not done; another endpoint may do it.
    NotDone(String),
    /// The certificates don't fit; it was not sent.
    Untrusted(String),
    /// The answer was lost, or reports an unknown outcome.
    Lost(String),
}

impl Trouble {
    pub(super) fn timed_out() -> Self {
        Self::Lost("etcd did not answer in time".to_owned())
    }

    /// Returns true if a read may succeed elsewhere or later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::NotDone(_) | Self::Lost(_) | Self::Busy | Self::Untrusted(_))
    }

    /// The error of a call that is neither about revisions nor too large.
    pub(super) fn into_error(self, read: bool) -> StorageError {
        let unavailable = |reason, applied| StorageError::Unavailable { reason, applied };
        match self {
            Self::Busy => StorageError::Busy,
            Self::Full(reason) => StorageError::ReadOnly { reason, applied: Applied::Unknown },
            Self::Lost(reason) if !read => unavailable(reason, Applied::Unknown),
            Self::Refused(reason)
            | Self::NotDone(reason)
            | Self::Untrusted(reason)
            | Self::TooLarge(reason)
            | Self::Lost(reason) => unavailable(reason, Applied::No),
            Self::Compacted => unavailable("etcd has compacted it".to_owned(), Applied::No),
            Self::Future => unavailable("etcd has not got there".to_owned(), Applied::No),
        }
    }
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        of(&status)
    }
}

fn of(status: &Status) -> Trouble {
    let reason = describe(status);
    if let Some(connect) = find::<ConnectError>(status) {
        // Errors of TLS come as `InvalidData`.
        let untrusted =
            find::<std::io::Error>(connect).is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidData);
        return if untrusted { Trouble::Untrusted(reason) } else { Trouble::NotDone(reason) };
    }
    // In TLS 1.3 a server refuses a client's certificate after the client takes itself for connected.
    if ["BadCertificate", "CertificateRequired", "CertificateUnknown", "UnknownCA", "AccessDenied"]
        .iter()
        .any(|alert| reason.contains(&format!("received fatal alert: {alert}")))
    {
        return Trouble::Untrusted(reason);
    }
    let message = status.message();
    let says = |text: &str| message.contains(text);
    match status.code() {
        Code::OutOfRange if says("compacted") => Trouble::Compacted,
        Code::OutOfRange if says("future revision") => Trouble::Future,
        Code::InvalidArgument if says("request is too large") => Trouble::TooLarge(reason),
        Code::ResourceExhausted if says("larger than max") => Trouble::TooLarge(reason),
        Code::ResourceExhausted if says("too many requests") => Trouble::Busy,
        Code::ResourceExhausted if says("space exceeded") => Trouble::Full(reason),
        // Said before anything is proposed: by the interceptor that the header `hasleader` asks for, and by raft.
        Code::Unavailable if says("no leader") => Trouble::NotDone(reason),
        _ if says("raft proposal dropped") => Trouble::NotDone(reason),
        // Others are no learners, and this one is for a time only.
        _ if says("not supported for learner") => Trouble::NotDone(reason),
        Code::InvalidArgument
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => Trouble::Refused(reason),
        _ => Trouble::Lost(reason),
    }
}

/// The text, and what lies behind it where that says more.
fn describe(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = if text.is_empty() { more } else { format!("{text}: {more}") };
        }
        source = error.source();
    }
    match &text {
        text if text.is_empty() => format!("etcd: {}", status.code()),
        text if text.starts_with("etcd") => text.clone(),
        text => format!("etcd: {text}"),
    }
}

/// The first cause of that type; an I/O error also hides its own cause.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = error.source();
    if let Some(connect) = error.downcast_ref::<ConnectError>() {
        next = Some(&*connect.0);
    }
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = match error.downcast_ref::<ConnectError>() {
            Some(connect) => Some(&*connect.0),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(status: Status) -> (Applied, bool) {
        let trouble = Trouble::from(status);
        let passing = trouble.is_passing();
        (trouble.into_error(false).applied(), passing)
    }

    #[test]
    fn only_what_is_certain_counts_as_not_done() {
        let cases = [
            (Code::Unavailable, "etcdserver: leader changed", Applied::Unknown, true),
            (Code::Unavailable, "etcdserver: request timed out", Applied::Unknown, true),
            (Code::Unavailable, "etcdserver: server stopped", Applied::Unknown, true),
            (Code::Unavailable, "etcdserver: no leader", Applied::No, true),
            (Code::Unknown, "raft proposal dropped", Applied::No, true),
            (Code::FailedPrecondition, "etcdserver: rpc not supported for learner", Applied::No, true),
            (Code::ResourceExhausted, "etcdserver: too many requests", Applied::No, true),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Applied::Unknown, false),
            (Code::PermissionDenied, "etcdserver: permission denied", Applied::No, false),
            (Code::Cancelled, "", Applied::Unknown, true),
            (Code::Internal, "h2 protocol error", Applied::Unknown, true),
        ];
        for (code, message, expected, passing) in cases {
            assert_eq!(applied(Status::new(code, message)), (expected, passing), "{message}");
        }
    }
}
