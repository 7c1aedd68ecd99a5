//! The table of requests (`printCertificateSigningRequest` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_schema::columns::{TableColumn, age, name_column};

use super::{APPROVED, DENIED, FAILED};
use crate::kinds::fields::{items, number, part, text};
use crate::kinds::table_column;

/// The columns; the descriptions are those that the fields had in v1beta1.
pub(super) fn columns() -> Vec<TableColumn> {
    let column = |name: &str, description: &str| table_column(name, "string", 0, description);
    vec![
        name_column(),
        column("Age", ""),
        column("SignerName", SIGNER_NAME),
        column("Requestor", "Base64-encoded PKCS#10 CSR data"),
        column("RequestedDuration", EXPIRATION),
        column("Condition", "Conditions applied to the request, such as approval or denial."),
    ]
}

const SIGNER_NAME: &str = concat!(
    "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If ",
    "empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    ",
    "\"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is ",
    "assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned ",
    "\"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select ",
    "on this field using `spec.signerName`.",
);
const EXPIRATION: &str = concat!(
    "expirationSeconds is the requested duration of validity of the issued certificate. The certificate ",
    "signer may issue a certificate with a different validity duration so a client must check the delta ",
    "between the notBefore and and notAfter fields in the issued certificate to determine the actual ",
    "duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes signers will honor this ",
    "field as long as the requested duration is not greater than the maximum duration they will honor per the ",
    "--cluster-signing-duration CLI flag to the Kubernetes controller manager.\n\nCertificate signers may not ",
    "honor this field for various reasons:\n\n  1. Old signer that is unaware of the field (such as the ",
    "in-tree\n     implementations prior to v1.22)\n  2. Signer whose configured maximum is shorter than the ",
    "requested duration\n  3. Signer whose configured minimum is longer than the requested duration\n\nThe ",
    "minimum valid value for expirationSeconds is 600, i.e. 10 minutes.",
);

/// `printCertificateSigningRequest`
pub(super) fn cells(request: &Value, now: i64) -> Vec<Value> {
    let (metadata, spec) = (part(request, "metadata"), part(request, "spec"));
    let or_none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    // An age is the duration since a time: since the epoch, it is the duration itself.
    let duration = number(spec, "expirationSeconds").map(|seconds| age("1970-01-01T00:00:00Z", seconds));
    vec![
        text(metadata, "name").into(),
        age(text(metadata, "creationTimestamp"), now).into(),
        or_none(text(spec, "signerName")),
        text(spec, "username").into(),
        or_none(duration.as_deref().unwrap_or_default()),
        state(request).into(),
    ]
}

/// `extractCSRStatus`
fn state(request: &Value) -> String {
    let status = part(request, "status");
    let has = |kind| items(status, "conditions").iter().any(|condition| text(condition, "type") == kind);
    let verdict = match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has(FAILED) { ",Failed" } else { "" };
    let issued = if text(status, "certificate").is_empty() { "" } else { ",Issued" };
    format!("{verdict}{failed}{issued}")
}
