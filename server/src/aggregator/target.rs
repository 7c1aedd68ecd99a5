//! The server that an APIService names: where it is, and whom it has to prove to be.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::Value;
use kindom_objects::webhook_client::{WebhookClient, WebhookPlace};

/// The annotation with the address of the server: `https://host:port`.
pub(super) const URL_ANNOTATION: &str = "kindom.dev/url";

/// The address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// `host:port`
    pub(crate) address: String,
}

/// Parses `NAMESPACE/NAME:PORT=HOST:PORT`.
///
/// # Errors
/// The form that is expected.
pub(crate) fn service(text: &str) -> Result<Service, String> {
    let parse = || {
        let (service, address) = text.split_once('=')?;
        let (namespace, rest) = service.split_once('/')?;
        let (name, port) = rest.rsplit_once(':')?;
        let (host, own_port) = address.rsplit_once(':')?;
        let named = ![namespace, name, host].contains(&"");
        let port = port.parse().ok().filter(|port| *port > 0)?;
        own_port.parse::<u16>().ok().filter(|port| *port > 0 && named)?;
        let (namespace, name, address) = (namespace.to_owned(), name.to_owned(), address.to_owned());
        Some(Service { namespace, name, port, address })
    };
    parse().ok_or_else(|| "expected NAMESPACE/NAME:PORT=HOST:PORT".to_owned())
}

/// The reason why a server cannot be reached, as a condition has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreachable {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Finds the addresses of services.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    services: BTreeMap<(String, String, u16), String>,
    allowed_hosts: Vec<String>,
}

/// The server of an APIService, which is reached over connections of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    /// `host:port`
    pub(super) address: String,
    /// The name that the server's certificate is for.
    pub(super) server_name: String,
    /// PEM; empty for the authorities that the machine trusts.
    pub(super) authorities: Vec<u8>,
    pub(super) skips_verification: bool,
}

impl Resolver {
    pub(super) fn new(services: &[Service], allowed_hosts: &[String]) -> Self {
        let by_name = services.iter().cloned();
        let services = by_name.map(|of| ((of.namespace, of.name, of.port), of.address)).collect();
        Self { services, allowed_hosts: allowed_hosts.to_vec() }
    }

    /// The server of a remote APIService.
    pub(super) fn target(&self, object: &Value) -> Result<Target, Unreachable> {
        let (namespace, name) =
            (object.text_at(&["spec", "service", "namespace"]), object.text_at(&["spec", "service", "name"]));
        let port = object.at(&["spec", "service", "port"]).and_then(Value::as_i64).unwrap_or(443);
        let url = object.text_at(&["metadata", "annotations", URL_ANNOTATION]);
        let (address, server_name) = match url {
            "" => self.of_service(namespace, name, u16::try_from(port).unwrap_or(0))?,
            url => self.of_url(url, URL_ANNOTATION)?,
        };
        // Without them the machine's authorities would count.
        let authorities = STANDARD.decode(object.text_at(&["spec", "caBundle"]));
        let authorities = authorities.map_err(|error| Unreachable {
            reason: "FailedDiscoveryCheck",
            message: format!("spec.caBundle is no base64: {error}"),
        })?;
        Ok(Target {
            group: object.text_at(&["spec", "group"]).to_owned(),
            version: object.text_at(&["spec", "version"]).to_owned(),
            address,
            server_name,
            authorities,
            skips_verification: object.at(&["spec", "insecureSkipTLSVerify"]) == Some(&Value::Bool(true)),
        })
    }

    /// The program that a registration names for a subresource.
    pub(super) fn program(&self, program: &WebhookClient) -> Result<Target, Unreachable> {
        let (address, server_name) = match &program.place {
            WebhookPlace::Url(url) => self.of_url(url, "url")?,
            WebhookPlace::Service { namespace, name, port, .. } => self.of_service(namespace, name, *port)?,
        };
        Ok(Target {
            group: String::new(),
            version: String::new(),
            address,
            server_name,
            authorities: program.authorities.clone(),
            skips_verification: false,
        })
    }

    /// The address of a service, and the name of its certificate.
    fn of_service(&self, namespace: &str, name: &str, port: u16) -> Result<(String, String), Unreachable> {
        let found = self.services.get(&(namespace.to_owned(), name.to_owned(), port));
        let address = found.ok_or_else(|| self.not_found(namespace, name, port))?;
        Ok((address.clone(), format!("{name}.{namespace}.svc")))
    }

    /// In the words of `remote_available_controller.go`.
    fn not_found(&self, namespace: &str, name: &str, port: u16) -> Unreachable {
        let knows_another_port =
            self.services.keys().any(|(of, called, _)| of == namespace && called == name);
        match knows_another_port {
            true => Unreachable {
                reason: "ServicePortError",
                message: format!("service/{name} in \"{namespace}\" is not listening on port {port}"),
            },
            false => Unreachable {
                reason: "ServiceNotFound",
                message: format!("service/{name} in \"{namespace}\" is not present"),
            },
        }
    }

    /// The address and the host of a URL. This proxy's certificate must not go to hosts that users choose.
    fn of_url(&self, url: &str, field: &str) -> Result<(String, String), Unreachable> {
        let wrong = |message: String| Unreachable { reason: "ServiceAccessError", message };
        let parsed = url.parse::<hyper::Uri>().ok().filter(|uri| {
            uri.scheme_str() == Some("https") && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
        });
        let authority = parsed.as_ref().and_then(hyper::Uri::authority);
        let authority = authority.filter(|authority| !authority.as_str().contains('@'));
        let Some(authority) = authority else {
            return Err(wrong(format!("{field} must be https://HOST or https://HOST:PORT")));
        };
        let host = authority.host();
        let address = format!("{host}:{}", authority.port_u16().unwrap_or(443));
        let is_allowed =
            |allowed: &String| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(&address);
        if !self.allowed_hosts.iter().any(is_allowed) {
            let message = format!("{field} names {address}, which --aggregator-allowed-hosts does not");
            return Err(wrong(message));
        }
        Ok((address, host.trim_start_matches('[').trim_end_matches(']').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn api_service(url: &str, port: i64) -> Value {
        let service = object! { "namespace": "default", "name": "api", "port": Value::Int(port) };
        let mut annotations = kindom_api::Map::new();
        if !url.is_empty() {
            annotations.insert(URL_ANNOTATION, url);
        }
        object! {
            "metadata": object! { "name": "v1.example.com", "annotations": Value::Object(annotations) },
            "spec": object! { "group": "example.com", "version": "v1", "service": service },
        }
    }

    fn check(url: &str, port: i64, wanted: Result<(&str, &str), &str>) {
        let services = [service("default/api:443=10.0.0.1:6443").unwrap()];
        let resolver = Resolver::new(&services, &["api.example.com".to_owned(), "[::1]:8443".to_owned()]);
        let found = resolver.target(&api_service(url, port));
        let found = found.map(|target| (target.address, target.server_name));
        let wanted = wanted.map(|(address, name)| (address.to_owned(), name.to_owned()));
        assert_eq!(
            found.map_err(|why| format!("{}: {}", why.reason, why.message)),
            wanted.map_err(str::to_owned)
        );
    }

    #[test]
    fn a_service_is_where_the_map_says() {
        check("", 443, Ok(("10.0.0.1:6443", "api.default.svc")));
        check("", 8443, Err("ServicePortError: service/api in \"default\" is not listening on port 8443"));
        let nowhere = Resolver::default().target(&api_service("", 443)).unwrap_err();
        assert_eq!(nowhere.reason, "ServiceNotFound");
        assert_eq!(nowhere.message, "service/api in \"default\" is not present");
    }

    #[test]
    fn a_url_names_an_allowed_host() {
        check("https://api.example.com", 443, Ok(("api.example.com:443", "api.example.com")));
        check("https://API.example.com:99/", 443, Ok(("API.example.com:99", "API.example.com")));
        check("https://[::1]:8443", 443, Ok(("[::1]:8443", "::1")));
        let not = |address: &str| {
            format!(
                "ServiceAccessError: kindom.dev/url names {address}, which --aggregator-allowed-hosts does not"
            )
        };
        check("https://[::1]:8444", 443, Err(&not("[::1]:8444")));
        check("https://evil.example.com", 443, Err(&not("evil.example.com:443")));
        check("https://api.example.com.evil", 443, Err(&not("api.example.com.evil:443")));
        let form = "ServiceAccessError: kindom.dev/url must be https://HOST or https://HOST:PORT";
        for url in [
            "http://api.example.com",
            "https://api.example.com/path",
            "https://api.example.com@evil.com",
            "api.example.com",
            "https://",
            " ",
        ] {
            check(url, 443, Err(form));
        }
    }

    #[test]
    fn a_bundle_that_cannot_be_read_is_not_left_out() {
        let mut object = api_service("https://api.example.com", 443);
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("caBundle", "QU\nJD");
        }
        let resolver = Resolver::new(&[], &["api.example.com".to_owned()]);
        let why = resolver.target(&object).unwrap_err();
        assert!(why.message.starts_with("spec.caBundle is no base64"), "{}", why.message);
    }

    #[test]
    fn a_map_has_a_form() {
        for wrong in ["", "a/b=c:1", "a/b:1=c", "a:1=c:1", "a/b:0=c:1", "/b:1=c:1", "a/b:1=:1", "a/b:x=c:1"] {
            assert!(service(wrong).is_err(), "{wrong}");
        }
        assert_eq!(service("a/b:1=[::1]:2").unwrap().address, "[::1]:2");
    }
}
