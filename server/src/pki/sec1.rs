//! Private keys on elliptic curves as SEC 1 (`BEGIN EC PRIVATE KEY`, RFC 5915), the form in which kind, k3s and kubeadm
//! write them. fabric8's client, and whatever is built on it, reads keys on elliptic curves in no other form; the library
//! that signs reads PKCS #8 (RFC 5958) alone. The two differ by an envelope that names the curve.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use kindom_accounts::der::tagged;
use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _};

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// `parameters` of an ECPrivateKey: the curve.
const PARAMETERS: u8 = 0xa0;
/// `id-ecPublicKey`
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PEM_COLUMNS: usize = 64;

/// The key as SEC 1, or as PKCS #8 if it is not on an elliptic curve.
pub(super) fn to_pem(key: &KeyPair) -> String {
    match of_pkcs8(key.serialized_der()) {
        Some(der) => pem("EC PRIVATE KEY", &der),
        None => key.serialize_pem(),
    }
}

/// Reads a key in SEC 1 or PKCS #8.
///
/// # Errors
/// The reason why it is neither, or why the signing library refuses it.
pub(super) fn from_pem(text: &str) -> Result<KeyPair, String> {
    let der = match PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string())? {
        PrivateKeyDer::Sec1(der) => {
            let der = to_pkcs8(der.secret_sec1_der());
            PrivatePkcs8KeyDer::from(der.ok_or("it is an EC PRIVATE KEY that does not name its curve")?)
        }
        PrivateKeyDer::Pkcs8(der) => der,
        _ => return Err("it is neither a PRIVATE KEY nor an EC PRIVATE KEY".to_owned()),
    };
    KeyPair::try_from(&der).map_err(|error| error.to_string())
}

/// The ECPrivateKey in a PrivateKeyInfo, with the curve that the envelope names.
fn of_pkcs8(der: &[u8]) -> Option<Vec<u8>> {
    let (info, _) = element(der, SEQUENCE)?;
    let (_version, rest) = element(info, INTEGER)?;
    let (algorithm, rest) = element(rest, SEQUENCE)?;
    let (kind, curve) = element(algorithm, OBJECT_ID)?;
    let (curve, _) = element(curve, OBJECT_ID).filter(|_| kind == EC_PUBLIC_KEY)?;
    let (key, _) = element(rest, OCTETS)?;
    let (key, _) = element(key, SEQUENCE)?;
    let (version, rest) = element(key, INTEGER)?;
    let (secret, rest) = element(rest, OCTETS)?;
    // The curve may stand there already.
    let public = element(rest, PARAMETERS).map_or(rest, |(_, rest)| rest);
    let fields = [
        tagged(INTEGER, version),
        tagged(OCTETS, secret),
        tagged(PARAMETERS, &tagged(OBJECT_ID, curve)),
        public.to_vec(),
    ];
    Some(tagged(SEQUENCE, &fields.concat()))
}

/// An ECPrivateKey that names its curve, as a PrivateKeyInfo.
pub(crate) fn to_pkcs8(der: &[u8]) -> Option<Vec<u8>> {
    let (key, _) = element(der, SEQUENCE)?;
    let (_version, rest) = element(key, INTEGER)?;
    let (_secret, rest) = element(rest, OCTETS)?;
    let (curve, _) = element(rest, PARAMETERS)?;
    let algorithm = [&tagged(OBJECT_ID, EC_PUBLIC_KEY), curve].concat();
    let fields = [tagged(INTEGER, &[0]), tagged(SEQUENCE, &algorithm), tagged(OCTETS, der)];
    Some(tagged(SEQUENCE, &fields.concat()))
}

/// The contents of the DER element that `bytes` begin with, and the bytes behind it; nothing if it has another tag.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| *found == tag)
}

/// DER of a kind as PEM.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(PEM_COLUMNS));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::PublicKeyData as _;

    use super::*;

    #[test]
    fn a_key_is_written_as_sec1_and_read_in_either_form() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let sec1 = to_pem(&key);
            assert!(sec1.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{sec1}");
            for text in [sec1, key.serialize_pem()] {
                let read = from_pem(&text).unwrap();
                assert_eq!(read.subject_public_key_info(), key.subject_public_key_info());
                assert_eq!(to_pem(&read), to_pem(&key));
            }
        }
        let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        assert_eq!(to_pem(&other), other.serialize_pem());
        assert_eq!(from_pem(&to_pem(&other)).unwrap().serialized_der(), other.serialized_der());
    }

    /// A key that `openssl ecparam -name prime256v1 -genkey -noout` wrote.
    #[test]
    fn a_key_that_openssl_wrote_is_read() {
        let text = "-----BEGIN EC PRIVATE KEY-----\n\
            MHcCAQEEIKYPYZEhy3F/HEvU6uPBcVwtlZ45HhNTWfASibsClwZuoAoGCCqGSM49\n\
            AwEHoUQDQgAEeIG5bh5A/FPt0kOruVoO744mZaEAqYWouMrI8TWECfUNKl1IxFFY\n\
            zf3bAlRYK9MSa7kjqQMnlsSBi+xmqFB0ew==\n\
            -----END EC PRIVATE KEY-----\n";
        assert_eq!(to_pem(&from_pem(text).unwrap()), text);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (of_pkcs8(&bytes), to_pkcs8(&bytes), from_pem(&pem("EC PRIVATE KEY", &bytes)));
        }
    }
}
