//! The body of a request, within its bounds in bytes and time.

use std::ops::Deref;

use actix_web::dev::Payload;
use actix_web::http::{Version, header};
use bytes::{Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use futures::StreamExt as _;
use kindom_actor_kit::{Deadline, Held, Overloaded, dear};
use tokio::time::timeout_at;

use crate::RequestError;
use crate::call::Call;
use crate::cost;
use crate::head::{Head, header_of};
use crate::status::Failure;

/// The most memory that is taken for a body because it was announced: a client may announce what it never sends.
const RESERVED_BYTES_MAX: usize = 3 << 20;

/// The bytes of a body that are decompressed before there has to be room for more.
const UNZIPPED_AT_ONCE: u64 = 64 << 10;

/// The most members of a gzip body: an empty one has 20 bytes, and takes as long to begin as a large one.
const MEMBERS_MAX: usize = 1_000;

/// A body as it was received, or the reason why it was not: a verb may refuse its request for another.
pub(crate) struct Received {
    body: Result<Bytes, Failure>,
    held: Held,
}

impl Received {
    /// Reads the body of a request, on the thread of its connection.
    pub(crate) async fn read(call: &Call<'_>, payload: Payload, mut held: Held) -> Self {
        let body = body(call.request, call.state.body_bytes_max, call.deadline, payload, &mut held).await;
        Self { body, held }
    }
}

/// A body, decompressed, with the memory that it and what was read of it hold.
pub(crate) struct Plain {
    bytes: Bytes,
    held: Held,
}

impl Deref for Plain {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Plain {
    /// The bytes, which are counted for as long as `self` is there.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Counts what was made of it and is kept with it.
    ///
    /// # Errors
    /// [`Overloaded`] if there is no room for it.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Overloaded> {
        self.held.grow(bytes)
    }

    /// Reads the body into a tree that is kept while the request waits, when it is the request's turn.
    pub(crate) async fn read<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> T,
        memory: impl FnOnce(&T) -> usize,
    ) -> Result<T, Failure> {
        dear(cost::parse(self.bytes.len())).await?;
        let tree = read(&self.bytes);
        self.keep(memory(&tree))?;
        Ok(tree)
    }
}

/// The body, decompressed, within the bound.
pub(crate) async fn plain_body(call: &Call<'_>, received: Received) -> Result<Plain, Failure> {
    plain(received, call.header(header::CONTENT_ENCODING), call.state.body_bytes_max).await
}

/// A body, decompressed by its encoding, within a bound.
pub(crate) async fn plain(received: Received, encoding: &str, bytes_max: usize) -> Result<Plain, Failure> {
    let Received { body, mut held } = received;
    let mut bytes = body?;
    if encoding == "gzip" {
        // A byte may stand for a thousand.
        dear(cost::unzip(bytes.len(), bytes_max)).await?;
        bytes = unzip(&bytes, bytes_max, &mut |more| held.grow(more))?;
    }
    Ok(Plain { bytes, held })
}

fn too_large(bytes_max: usize) -> Failure {
    RequestError::TooLarge(format!("limit is {bytes_max}")).into()
}

/// The body as it was sent, within the bound and the deadline.
pub(crate) async fn body(
    request: &Head,
    bytes_max: usize,
    deadline: Deadline,
    mut payload: Payload,
    held: &mut Held,
) -> Result<Bytes, Failure> {
    let announced = header_of(request, header::CONTENT_LENGTH).parse::<usize>().unwrap_or(0);
    if announced > bytes_max {
        return Err(too_large(bytes_max));
    }
    let mut body = BytesMut::with_capacity(announced.min(RESERVED_BYTES_MAX));
    let never_ends = runs_on(request);
    loop {
        if never_ends && body.len() >= announced {
            body.truncate(announced);
            break;
        }
        match timeout_at(deadline.instant(), payload.next()).await {
            Ok(Some(Ok(chunk))) => {
                if body.len() + chunk.len() > bytes_max {
                    return Err(too_large(bytes_max));
                }
                held.grow(chunk.len())?;
                body.extend_from_slice(&chunk);
            }
            Ok(Some(Err(error))) => {
                return Err(RequestError::BadRequest(format!("unable to read the body: {error}")).into());
            }
            Ok(None) => break,
            Err(_) => {
                let why = "timed out reading the body".to_owned();
                return Err(RequestError::BadRequest(why).into());
            }
        }
    }
    Ok(body.freeze())
}

/// All members of the body, one after the other (RFC 1952, 2.2): a body of which the rest is dropped is another one.
fn unzip(
    body: &[u8],
    bytes_max: usize,
    grow: &mut dyn FnMut(usize) -> Result<(), Overloaded>,
) -> Result<Bytes, Failure> {
    use std::io::Read as _;
    let (mut rest, mut plain) = (body, Vec::new());
    for _ in 0..MEMBERS_MAX {
        let mut member = GzDecoder::new(rest);
        loop {
            let read = member.by_ref().take(UNZIPPED_AT_ONCE).read_to_end(&mut plain);
            let broken = |error| RequestError::BadRequest(format!("unable to decompress the body: {error}"));
            let read = read.map_err(broken)?;
            if plain.len() > bytes_max {
                return Err(too_large(bytes_max));
            }
            if read == 0 {
                break;
            }
            grow(read)?;
        }
        rest = member.into_inner();
        if rest.is_empty() {
            return Ok(plain.into());
        }
    }
    let why = format!("unable to decompress the body: it has more than {MEMBERS_MAX} members");
    Err(RequestError::BadRequest(why).into())
}

/// `true` if actix-http takes all that follows the head for the body: it does so where an `Upgrade` names a WebSocket, whatever
/// the length, the version and `Connection` are. Such a body ends where it was announced to end, as any other (RFC 9112, 6.3).
pub(crate) fn runs_on(request: &Head) -> bool {
    let is = |name, text: &str| {
        let values = request.headers().get_all(name).filter_map(|value| value.to_str().ok());
        values.map(str::trim).any(|value| value.eq_ignore_ascii_case(text))
    };
    let version = request.version();
    let is_chunked = version == Version::HTTP_11 && is(header::TRANSFER_ENCODING, "chunked");
    version < Version::HTTP_2 && is(header::UPGRADE, "websocket") && !is_chunked
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_member_of_a_gzip_is_read() {
        let unzip = |body: &[u8]| unzip(body, 100, &mut |_| Ok(())).ok();
        let whole = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        assert_eq!(unzip(&member(b"spec: {}")), whole("spec: {}"));
        let three = [member(b"spec:\n  a: 1\n"), member(b""), member(b"  b: 2\n")].concat();
        assert_eq!(unzip(&three), whole("spec:\n  a: 1\n  b: 2\n"));
        assert_eq!(unzip(&[member(b"spec: {}"), b"more".to_vec()].concat()), None);
        assert_eq!(
            unzip(&[member(&[b'x'; 60]), member(&[b'x'; 40])].concat()).map(|text| text.len()),
            Some(100)
        );
        assert_eq!(unzip(&[member(&[b'x'; 60]), member(&[b'x'; 41])].concat()), None);
        assert_eq!(unzip(&[member(&[b'x'; 100]), member(b"")].concat()).map(|text| text.len()), Some(100));
        assert_eq!(unzip(b""), None);
        assert_eq!(unzip(&member(b"").repeat(MEMBERS_MAX)), whole(""));
        assert_eq!(unzip(&member(b"").repeat(MEMBERS_MAX + 1)), None);
    }
}
