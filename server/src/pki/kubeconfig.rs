//! The administrator's kubeconfig, and how it has clients verify the server.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::names::names_of;
use super::sec1;

/// A certificate in PEM.
pub(crate) fn certificate_pem(der: &[u8]) -> String {
    sec1::pem("CERTIFICATE", der)
}

/// The means by which clients verify the server.
pub(crate) struct Trust {
    /// The certificates that vouch for it; none leaves that to those that the client's system trusts.
    pub(crate) authorities_pem: Option<String>,
    /// A name in the server's certificate, if the URL's host is not in it.
    pub(super) server_name: Option<String>,
}

impl Trust {
    /// For a server at `url` with a certificate from elsewhere: the self-signed certificates of its file vouch for it. An
    /// intermediate does not count: clients that trust it would fail once another one replaces it.
    pub(crate) fn of_chain(chain: &[CertificateDer<'_>], url: &str) -> Self {
        let parsed =
            chain.iter().filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, x509)| (der, x509)));
        let mut authorities_pem = String::new();
        for (der, x509) in parsed {
            if x509.issuer() == x509.subject() && x509.verify_signature(None).is_ok() {
                authorities_pem.push_str(&certificate_pem(der));
            }
        }
        let authorities_pem = Some(authorities_pem).filter(|pem| !pem.is_empty());
        let names = chain.first().and_then(|own| X509Certificate::from_der(own).ok());
        let names = names.map(|(_, own)| names_of(&own)).unwrap_or_default();
        let host: Option<SocketAddr> = url.strip_prefix("https://").and_then(|address| address.parse().ok());
        let host = host.map(|address| address.ip().to_string());
        let server_name = match host {
            Some(host) if names.contains(&host) => None,
            _ => names
                .iter()
                .find(|name| name.parse::<IpAddr>().is_err())
                // Any name under it will do.
                .map(|name| {
                    name.strip_prefix("*.").map_or_else(|| name.clone(), |rest| format!("kindom.{rest}"))
                }),
        };
        Self { authorities_pem, server_name }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.authorities_pem {
            Some(_) => write!(f, "the server is verified with the authority in its certificate's file")?,
            None => write!(
                f,
                "the server is verified with the authorities of the client's system, as its certificate's file has none"
            )?,
        }
        self.server_name.as_ref().map_or(Ok(()), |name| write!(f, ", as {name}"))
    }
}

/// The kubeconfig of the client with this certificate and key.
pub(super) fn kubeconfig(url: &str, trust: &Trust, certificate_pem: &str, key_pem: &str) -> String {
    let [certificate, key] = [certificate_pem, key_pem].map(|pem| BASE64.encode(pem));
    let mut text = String::new();
    let mut cluster = String::new();
    if let Some(pem) = &trust.authorities_pem {
        let _ = write!(cluster, "\n    certificate-authority-data: {}", BASE64.encode(pem));
    }
    if let Some(name) = &trust.server_name {
        let _ = write!(cluster, "\n    tls-server-name: {name}");
    }
    let _ = write!(
        text,
        "\
apiVersion: v1
kind: Config
clusters:
- name: kindom
  cluster:
    server: {url}{cluster}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@kindom
  context:
    cluster: kindom
    user: kubernetes-admin
current-context: kubernetes-admin@kindom
preferences: {{}}
"
    );
    text
}
