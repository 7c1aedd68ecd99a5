//! Parts that the kinds of the network share (`pkg/apis/core/validation`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_port_name, is_port_number, is_qualified_name};

use crate::kinds::fields::{text, texts};

/// The protocols of ports, sorted.
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The error in a port's protocol.
pub(super) fn protocol(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        errors.push(Error::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
}

/// The errors in a port's protocol of the application, if it has one.
pub(super) fn app_protocol(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        texts(is_qualified_name(protocol), protocol, &at.child("appProtocol"), errors);
    }
}

/// The errors in a port that is a number or the name of one (`ValidatePortNumOrName`).
pub(super) fn port_number_or_name(port: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match port.as_str() {
        Some(name) => texts(is_port_name(name), name, at, errors),
        None => {
            let number = port.as_i64().unwrap_or_default();
            errors.extend(is_port_number(number).map(|why| Error::invalid(at, number, why)));
        }
    }
}
