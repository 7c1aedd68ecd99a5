//! The names and addresses that certificates are for.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use x509_parser::prelude::{GeneralName, X509Certificate};

/// The most names that a certificate which several servers share is for.
pub(super) const SHARED_NAMES_MAX: usize = 100;

/// The names and addresses that a serving certificate is for.
pub(crate) enum Names {
    /// These and no others.
    Exactly(BTreeSet<String>),
    /// These, beside those of others who share the folder and serve with the same certificate.
    AtLeast(BTreeSet<String>),
}

impl Names {
    pub(super) fn fit(&self, there: &BTreeSet<String>) -> bool {
        match self {
            Self::Exactly(names) => names == there,
            Self::AtLeast(names) => names.is_subset(there),
        }
    }

    /// The names of a new certificate in place of one that is for `had`. Machines that come and go under new names must not
    /// make it grow for ever: beyond a bound it forgets names, and a server that misses its own makes another certificate.
    pub(super) fn of_new(&self, had: BTreeSet<String>) -> BTreeSet<String> {
        match self {
            Self::AtLeast(names) if had.len() + names.len() <= SHARED_NAMES_MAX => {
                had.union(names).cloned().collect()
            }
            Self::Exactly(names) | Self::AtLeast(names) => names.clone(),
        }
    }
}

/// The names and addresses by which clients may call a server bound to `bind` on the machine `host`:
/// those of the local machine, of the service that a cluster would reach it by, these two, and `more`.
pub(crate) fn serving_names(bind: IpAddr, host: Option<&str>, more: &[String]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(str::to_owned)
            .into();
    if !bind.is_unspecified() {
        names.insert(bind.to_string());
    }
    let is_name = |host: &&str| {
        (1..=253).contains(&host.len())
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    names.extend(host.filter(is_name).map(str::to_ascii_lowercase));
    names.extend(more.iter().cloned());
    names
}

/// The machine's name, if it is known without asking a network.
pub(crate) fn host_name() -> Option<String> {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| fs::read_to_string("/etc/hostname"));
    Some(name.ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The URL at which clients on this machine reach a server bound to `address`.
pub(crate) fn server_url(address: SocketAddr) -> String {
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(reachable, address.port()))
}

/// The names and addresses of a certificate.
pub(super) fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(v4), _) => IpAddr::from(v4).to_string(),
            (_, Ok(v6)) => IpAddr::from(v6).to_string(),
            _ => format!("{name:?}"),
        },
        GeneralName::DNSName(name) => (*name).to_owned(),
        // Never asked for, so it differs from every wanted set.
        other => format!("{other:?}"),
    };
    names.value.general_names.iter().map(text).collect()
}
