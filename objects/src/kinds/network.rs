//! Parts that the kinds of the network share (`pkg/apis/core/validation`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_qualified_name;

use crate::kinds::fields::{text, texts};

/// The protocols of ports, sorted.
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The errors in a port's protocol, and in its protocol of the application if it has one.
pub(super) fn protocols(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        errors.push(Error::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        texts(is_qualified_name(protocol), protocol, &at.child("appProtocol"), errors);
    }
}
