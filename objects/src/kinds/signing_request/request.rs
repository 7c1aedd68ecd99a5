//! Certificates and requests for them in PEM (`ParseCSR` of `pkg/apis/certificates`, `validateCertificate` of its validation, 1.37).
//!
//! The errors of Go's parsers are not rebuilt: what they refuse in one of many texts has one text here.

use x509_parser::asn1_rs::Tag;
use x509_parser::error::X509Error;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509Certificate, X509CertificationRequest};

/// The start of the names of ECDSA's signatures.
const ECDSA: &str = "1.2.840.10045.4.";
const ED25519: &str = "1.3.101.112";

/// Reads a request (`ParseCSR`).
fn parsed<T>(
    bytes: &[u8],
    read: impl FnOnce(X509CertificationRequest<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let block = pem::parse(bytes).ok().filter(|block| block.tag() == "CERTIFICATE REQUEST");
    let Some(block) = block else {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    let (rest, request) = X509CertificationRequest::from_der(block.contents())
        .map_err(|_| "asn1: structure error: no certificate request".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    read(request)
}

/// The organizations of a request's subject, which are the groups of the user with its certificate.
///
/// # Errors
/// There is no request.
pub(super) fn organizations(bytes: &[u8]) -> Result<Vec<String>, String> {
    parsed(bytes, |request| {
        let of = request.certification_request_info.subject.iter_organization();
        Ok(of.map(organization).collect())
    })
}

/// In whatever way it is encoded: a signer may encode it anew.
fn organization(name: &AttributeTypeAndValue<'_>) -> String {
    if let Ok(text) = name.as_str() {
        return text.to_owned();
    }
    let bytes = name.attr_value().data;
    match name.attr_value().tag() {
        Tag::BmpString => {
            let unit = |pair: &[u8]| pair.iter().fold(0, |unit: u16, byte| unit << 8 | u16::from(*byte));
            String::from_utf16_lossy(&bytes.chunks(2).map(unit).collect::<Vec<_>>())
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Checks that there is a request, and that who made it has the key that it is for (`validateCSR`).
///
/// # Errors
/// The reason why not.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    parsed(bytes, |request| verify(&request))
}

fn verify(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureVerificationError if algorithm.starts_with(ECDSA) => {
            "x509: ECDSA verification failure".to_owned()
        }
        X509Error::SignatureVerificationError if algorithm == ED25519 => {
            "x509: Ed25519 verification failure".to_owned()
        }
        X509Error::SignatureVerificationError => "crypto/rsa: verification error".to_owned(),
        _ => "x509: cannot verify signature: algorithm unimplemented".to_owned(),
    })
}

/// Checks that there is at least one certificate, and nothing else; no bytes at all are right, too.
///
/// # Errors
/// The reason why not.
pub(super) fn check_certificates(bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Ok(());
    }
    let blocks = pem::parse_many(bytes).unwrap_or_default();
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().try_for_each(check_certificate_block)
}

fn check_certificate_block(block: &pem::Pem) -> Result<(), String> {
    if block.tag() != "CERTIFICATE" {
        let found = kindom_api::field::go_quote(block.tag());
        return Err(format!("only CERTIFICATE PEM blocks are allowed, found {found}"));
    }
    if block.headers().iter().next().is_some() {
        return Err("no PEM block headers are permitted".to_owned());
    }
    if block.contents().is_empty() {
        return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
    }
    let mut rest = block.contents();
    while !rest.is_empty() {
        let parsed = X509Certificate::from_der(rest);
        (rest, _) = parsed.map_err(|_| "x509: malformed certificate".to_owned())?;
    }
    Ok(())
}
