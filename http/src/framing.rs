//! Watch events on the wire: lines of JSON, lengths and protobuf, or frames of a WebSocket (apiserver
//! `pkg/endpoints/handlers/watch.go`, apimachinery `pkg/runtime/serializer/streaming`, 1.37).

use actix_http::ws::{OpCode, Parser};
use bytes::BytesMut;
use kindom_api::json;
use kindom_codec::{Format, protobuf};

use kindom_objects::Declared;

use crate::negotiate::{JSON, PROTOBUF_STREAM};
use crate::respond::to_protobuf;
use crate::status::internal;

/// The form in which events are sent. All are first written as a line of JSON, which is the most common one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing {
    protobuf: bool,
    websocket: bool,
    /// The declaration of the objects' kind; it has the protobuf.
    declared: Option<&'static Declared>,
}

impl Framing {
    /// For a watch in this format, in frames of a WebSocket or in chunks.
    pub(crate) fn new(format: Format, websocket: bool, declared: Option<&'static Declared>) -> Self {
        Self { protobuf: format == Format::Protobuf, websocket, declared }
    }

    /// The Content-Type of a stream in chunks.
    pub(crate) fn content_type(self) -> &'static str {
        if self.protobuf { PROTOBUF_STREAM } else { JSON }
    }

    /// Turns the line that `out` holds from `start` on, a whole event with its line end, into a frame.
    pub(crate) fn frame(self, out: &mut Vec<u8>, start: usize) {
        if !self.protobuf && !self.websocket {
            return;
        }
        let line = out.split_off(start);
        let (event, code) = if self.protobuf {
            (event_of(&line, self.declared), OpCode::Binary)
        } else {
            (line, OpCode::Text)
        };
        if self.websocket {
            let mut frame = BytesMut::new();
            Parser::write_message(&mut frame, &event, code, true, false);
            out.extend_from_slice(&frame);
        } else {
            let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&event);
        }
    }
}

/// An event that was written as JSON, as protobuf.
fn event_of(line: &[u8], declared: Option<&Declared>) -> Vec<u8> {
    let read = json::parse_own(line).ok();
    let object = read.as_ref().and_then(|event| event.get("object"));
    let object = object.and_then(|object| to_protobuf(object, declared));
    let kind = read.as_ref().and_then(|event| event.get("type")).and_then(json::Value::as_str);
    match (kind, object) {
        (Some(kind), Some(object)) => protobuf::watch_event(kind, &object),
        // Only types that have protobuf are negotiated to be sent so.
        _ => {
            let status = internal("the event has no protobuf").to_value();
            protobuf::watch_event("ERROR", &protobuf::encode(&status).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_objects::kinds::namespace::NAMESPACE;

    use super::*;

    const LINE: &[u8] = b"{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Namespace\"}}\n";

    fn framed(format: Format, websocket: bool) -> Vec<u8> {
        let mut out = b"before".to_vec();
        out.extend_from_slice(LINE);
        Framing::new(format, websocket, Some(&NAMESPACE)).frame(&mut out, 6);
        out.strip_prefix(b"before").unwrap().to_vec()
    }

    #[test]
    fn events_are_framed() {
        assert_eq!(framed(Format::Json, false), LINE);
        let length = u8::try_from(LINE.len()).unwrap();
        assert_eq!(framed(Format::Json, true), [&[0x81, length], LINE].concat());
        let event = event_of(LINE, Some(&NAMESPACE));
        let length = u8::try_from(event.len()).unwrap();
        assert_eq!(event.get(..7), Some(&b"\x0a\x05ADDED"[..]));
        assert_eq!(framed(Format::Protobuf, false), [&[0, 0, 0, length], event.as_slice()].concat());
        assert_eq!(framed(Format::Protobuf, true), [&[0x82, length], event.as_slice()].concat());
    }
}
