//! The place of a webhook, as a registration or a configuration has it (`WebhookClientConfig`; 1.37).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::Value;

/// A webhook, as whoever connects to it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebhookClient {
    /// The place where it answers.
    pub place: WebhookPlace,
    /// Certificates in PEM; empty for the authorities that the machine trusts.
    pub authorities: Vec<u8>,
    /// The reason why it is asked.
    pub purpose: WebhookPurpose,
}

/// The reason why a webhook is asked, which decides the credentials that it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookPurpose {
    /// It converts, or serves an endpoint: whoever registers a type names it.
    OfType,
    /// It changes what is written.
    Mutating,
    /// It judges what is written.
    Validating,
}

/// The place of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WebhookPlace {
    /// `https://host:port/path`
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Begins with a slash, or is empty.
        path: String,
        /// Its port.
        port: u16,
    },
}

impl WebhookClient {
    /// That of a `clientConfig`, which was validated when it was written.
    #[must_use]
    pub fn of(config: &Value, purpose: WebhookPurpose) -> Self {
        let service = config.get("service").filter(|service| !service.is_null());
        let place = match service {
            None => WebhookPlace::Url(config.text_at(&["url"]).to_owned()),
            Some(service) => WebhookPlace::Service {
                namespace: service.text_at(&["namespace"]).to_owned(),
                name: service.text_at(&["name"]).to_owned(),
                path: service.text_at(&["path"]).to_owned(),
                port: service
                    .get("port")
                    .and_then(Value::as_i64)
                    .and_then(|port| port.try_into().ok())
                    .unwrap_or(443),
            },
        };
        let authorities = STANDARD.decode(config.text_at(&["caBundle"])).unwrap_or_default();
        let authorities = if authorities.trim_ascii().is_empty() { Vec::new() } else { authorities };
        Self { place, authorities, purpose }
    }
}

/// The first of a webhook's review versions that is known here.
pub(crate) fn review_version(versions: Option<&Value>) -> Option<&'static str> {
    let versions = versions.and_then(Value::as_array).unwrap_or_default();
    versions
        .iter()
        .find_map(|version| ["v1", "v1beta1"].into_iter().find(|known| version.as_str() == Some(known)))
}
