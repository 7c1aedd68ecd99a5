//! Certificates made for tests.

use std::{net::IpAddr, ops::Range};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SigningKey as _,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};

pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(super) struct Issued {
    pub(super) der: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
}

#[derive(Clone)]
pub(super) struct ClientCert<'a> {
    pub(super) name: &'a str,
    pub(super) groups: &'a [&'a str],
    /// The days from now on which it is valid.
    pub(super) days: Range<i64>,
    pub(super) for_servers: bool,
    pub(super) no_usage: bool,
    pub(super) addresses: &'a [IpAddr],
}

impl Default for ClientCert<'_> {
    fn default() -> Self {
        Self {
            name: "client",
            groups: &[],
            days: -1..30,
            for_servers: false,
            no_usage: false,
            addresses: &[],
        }
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        Self(CertifiedIssuer::self_signed(authority_params(name), KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::signed_by(authority_params(name), key, &self.0).unwrap())
    }

    pub(super) fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    pub(super) fn issue(&self, wanted: &ClientCert<'_>) -> Issued {
        let mut params = CertificateParams::default();
        // rcgen's default names one.
        params.distinguished_name = rcgen::DistinguishedName::new();
        // rcgen holds one value of each type: a second organization goes in by its number.
        let organization = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        assert!(wanted.groups.len() <= organization.len(), "at most two groups");
        for (kind, group) in organization.into_iter().zip(wanted.groups) {
            params.distinguished_name.push(kind, *group);
        }
        if !wanted.name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, wanted.name);
        }
        let now = OffsetDateTime::now_utc();
        params.not_before = now + Duration::days(wanted.days.start);
        params.not_after = now + Duration::days(wanted.days.end);
        params.subject_alt_names = wanted.addresses.iter().copied().map(SanType::IpAddress).collect();
        params.extended_key_usages = match (wanted.no_usage, wanted.for_servers) {
            (true, _) => vec![],
            (false, true) => vec![ExtendedKeyUsagePurpose::ServerAuth],
            (false, false) => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &self.0).unwrap().der().clone();
        Issued { der, key: key.into() }
    }
}

/// A self-signed certificate of version 1, which rcgen does not make.
pub(super) fn version_1(name: &str) -> Issued {
    let sequence = |parts: &[&[u8]]| tlv(0x30, &parts.concat());
    let bits = |bits: &[u8]| tlv(0x03, &[&[0], bits].concat());
    let key = KeyPair::generate().unwrap();
    let ecdsa_with_sha256 = sequence(&[&tlv(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2])]);
    let common_name = sequence(&[&tlv(0x06, &[0x55, 4, 3]), &tlv(0x0c, name.as_bytes())]);
    let subject = sequence(&[&tlv(0x31, &common_name)]);
    let validity = sequence(&[&tlv(0x17, b"200101000000Z"), &tlv(0x17, b"491231235959Z")]);
    let to_be_signed = sequence(&[
        &tlv(0x02, &[1]),
        &ecdsa_with_sha256,
        &subject,
        &validity,
        &subject,
        &key.subject_public_key_info(),
    ]);
    let signature = key.sign(&to_be_signed).unwrap();
    let der = sequence(&[&to_be_signed, &ecdsa_with_sha256, &bits(&signature)]);
    Issued { der: der.into(), key: key.into() }
}

/// DER: tag, length, value.
fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap();
    let [high, low] = length.to_be_bytes();
    let mut out = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    out.extend_from_slice(value);
    out
}
