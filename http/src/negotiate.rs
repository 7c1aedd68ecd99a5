//! Media types: what a client accepts, and what it sends (apiserver `pkg/endpoints/handlers/negotiation`, 1.37).

use crate::RequestError;

/// Content type of JSON bodies.
pub const JSON: &str = "application/json";
/// Content type of YAML bodies.
pub const YAML: &str = "application/yaml";
/// Content type of aggregated discovery.
pub const AGGREGATED_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What errors offer. Protobuf is among them as upstream's errors name it for every type, though custom objects have
/// none there either.
pub(crate) const SERVED: &[&str] = &[JSON, YAML, "application/vnd.kubernetes.protobuf"];
const SERVED_STREAMS: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// How a document is written or was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// A version of the group `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1`
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an object or list is turned into for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As it is.
    Whole,
    /// Rows and columns.
    Table(MetaVersion),
    /// Only its metadata.
    Metadata(MetaVersion),
    /// Only its metadata, asked for as a list: upstream answers 406 where an object, not a list, is served.
    MetadataList(MetaVersion),
}

/// What to answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// How it is written.
    pub format: Format,
    /// What the object is turned into.
    pub shape: Shape,
    /// Whether it is indented (`pretty=1` in the media type).
    pub pretty: bool,
}

impl Accepted {
    /// The Content-Type of the answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self.format {
            Format::Json => JSON,
            Format::Yaml => YAML,
        }
    }
}

/// One clause of an Accept header.
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The clauses, best first: by quality, then the less general ones, then in order (`goautoneg`).
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .filter_map(|part| {
            let mut pieces = part.trim_matches(' ').split(';');
            let range = pieces.next().unwrap_or("");
            let (kind, subtype) = match range.split_once('/') {
                Some((_, subtype)) if subtype.contains('/') => return None,
                Some((kind, subtype)) => (kind.trim_matches(' '), subtype.trim_matches(' ')),
                None if range.trim_matches(' ') == "*" => ("*", "*"),
                None => return None,
            };
            let mut clause = Clause { kind, subtype, quality: 1.0, parameters: Vec::new() };
            for (name, value) in pieces.filter_map(|p| p.split_once('=')) {
                match name.trim_matches(' ') {
                    "q" => clause.quality = value.parse().ok().filter(|q: &f64| !q.is_nan()).unwrap_or(0.0),
                    name => clause.parameters.push((name, value.trim_matches(' '))),
                }
            }
            Some(clause)
        })
        .collect();
    let general = |c: &Clause<'_>| (c.kind == "*", c.subtype == "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then_with(|| general(a).cmp(&general(b))));
    clauses
}

impl Clause<'_> {
    /// Whether it takes `application/<subtype>`.
    fn takes(&self, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            ("application", "*") => true,
            ("application", own) => own == subtype,
            _ => false,
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// What `as`, `g` and `v` ask for: (kind, group, version), if any of them stands there.
    fn target(&self) -> Option<(&str, &str, &str)> {
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if kind.is_none() && group.is_none() && version.is_none() {
            return None;
        }
        Some((kind.unwrap_or(""), group.unwrap_or(""), version.unwrap_or("")))
    }

    fn accept(&self, subtype: &str, format: Format, endpoint: Endpoint) -> Option<Accepted> {
        let stream = self.parameter("stream").unwrap_or("");
        if !self.takes(subtype) || !(stream.is_empty() || (stream == "watch" && format == Format::Json)) {
            return None;
        }
        if !matches!(self.parameter("sv").unwrap_or(""), "" | "v1") {
            return None;
        }
        let shape = match self.target() {
            None => Shape::Whole,
            Some(_) if endpoint == Endpoint::Plain => return None,
            Some((kind, "meta.k8s.io", version)) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match kind {
                    "Table" => Shape::Table(version),
                    "PartialObjectMetadata" => Shape::Metadata(version),
                    "PartialObjectMetadataList" => Shape::MetadataList(version),
                    _ => return None,
                }
            }
            Some(_) => return None,
        };
        Some(Accepted { format, shape, pretty: self.parameter("pretty") == Some("1") })
    }
}

/// What an endpoint can turn its documents into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Objects and lists: also tables and metadata.
    Resource,
    /// Everything else (discovery, version): nothing.
    Plain,
}

/// What to answer with, given the Accept header (empty if there is none).
///
/// # Errors
/// [`RequestError::NotAcceptable`]
pub fn accept(header: &str, endpoint: Endpoint) -> Result<Accepted, RequestError> {
    if header.is_empty() {
        return Ok(Accepted { format: Format::Json, shape: Shape::Whole, pretty: false });
    }
    clauses(header)
        .iter()
        .find_map(|clause| {
            clause
                .accept("json", Format::Json, endpoint)
                .or_else(|| clause.accept("yaml", Format::Yaml, endpoint))
        })
        .ok_or(RequestError::NotAcceptable(SERVED))
}

/// What to answer a client of a type that has protobuf too with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedForm {
    /// JSON or YAML.
    Text(Accepted),
    /// The object as it is, in protobuf.
    Protobuf,
}

/// As [`accept`] for [`Endpoint::Resource`], where protobuf is on offer: for the object as it is, behind JSON and YAML.
///
/// # Errors
/// [`RequestError::NotAcceptable`]
pub(crate) fn accept_typed(header: &str) -> Result<TypedForm, RequestError> {
    let whole = |clause: &Clause<'_>| {
        let plain = |name, values: [&str; 2]| clause.parameter(name).is_none_or(|v| values.contains(&v));
        clause.target().is_none() && plain("stream", ["", ""]) && plain("sv", ["", "v1"])
    };
    for clause in &clauses(header) {
        let text = clause
            .accept("json", Format::Json, Endpoint::Resource)
            .or_else(|| clause.accept("yaml", Format::Yaml, Endpoint::Resource));
        if let Some(accepted) = text {
            return Ok(TypedForm::Text(accepted));
        }
        if clause.takes("vnd.kubernetes.protobuf") && whole(clause) {
            return Ok(TypedForm::Protobuf);
        }
    }
    accept(header, Endpoint::Resource).map(TypedForm::Text)
}

/// Which of several media types the client likes best, without regard to parameters; the first if it has no wish
/// (kube-openapi `pkg/handler`).
pub(crate) fn preferred<T: Copy>(header: &str, offers: &[(&'static str, T)]) -> Option<T> {
    let header = if header.is_empty() { "*/*" } else { header };
    clauses(header).iter().find_map(|clause| {
        let taken = |(media, _): &&(&str, T)| {
            media.strip_prefix("application/").is_some_and(|subtype| clause.takes(subtype))
        };
        offers.iter().find(taken).map(|(_, offer)| *offer)
    })
}

/// What to stream a watch as: JSON always.
///
/// # Errors
/// [`RequestError::NotAcceptable`]
pub fn accept_watch(header: &str) -> Result<Accepted, RequestError> {
    match accept(header, Endpoint::Resource) {
        Ok(accepted) if accepted.format == Format::Json => Ok(accepted),
        Ok(_) => Err(RequestError::NotAcceptable(SERVED_STREAMS)),
        Err(error) => Err(error),
    }
}

/// Whether discovery is wanted aggregated; it is served so if any clause asks for it, whatever its quality, else as
/// for [`Endpoint::Plain`].
#[must_use]
pub fn wants_aggregated_discovery(header: &str) -> bool {
    clauses(header).iter().any(|clause| {
        clause.takes("json")
            && clause.target() == Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"))
            && clause.parameter("stream").unwrap_or("").is_empty()
    })
}

/// The format of a request's body; JSON if the header is empty or missing.
///
/// # Errors
/// [`RequestError::UnsupportedMediaType`]
pub fn body_format(content_type: &str) -> Result<Format, RequestError> {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "" if content_type.is_empty() => Ok(Format::Json),
        JSON => Ok(Format::Json),
        YAML => Ok(Format::Yaml),
        _ => Err(RequestError::UnsupportedMediaType(SERVED.to_vec())),
    }
}

/// The kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902
    Json,
    /// RFC 7386
    Merge,
    /// For built-in types only.
    StrategicMerge,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// Its Content-Type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The type of a patch by its Content-Type, which must match exactly up to `;`.
    ///
    /// # Errors
    /// [`RequestError::UnsupportedMediaType`] that lists `served`, in order.
    pub fn of(content_type: &str, served: &[Self]) -> Result<Self, RequestError> {
        let essence = match content_type.split_once(';') {
            Some((essence, _)) if !essence.is_empty() => essence,
            _ => content_type,
        };
        served.iter().copied().find(|t| t.content_type() == essence).ok_or_else(|| {
            RequestError::UnsupportedMediaType(served.iter().map(|t| t.content_type()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        Endpoint, Format, MetaVersion, PatchType, Shape, TypedForm, accept, accept_typed, accept_watch,
        body_format, preferred, wants_aggregated_discovery,
    };

    fn check(header: &str, want: &str) {
        let got = match accept(header, Endpoint::Resource) {
            Ok(a) => format!("{:?} {:?}{}", a.format, a.shape, if a.pretty { " pretty" } else { "" }),
            Err(e) => e.to_string(),
        };
        assert_eq!(got, want, "{header}");
    }

    const NONE: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";

    #[test]
    fn formats() {
        check("", "Json Whole");
        check("*/*", "Json Whole");
        check("*", "Json Whole");
        check("application/*", "Json Whole");
        check("application/yaml", "Yaml Whole");
        check("application/json;q=0.5, application/yaml", "Yaml Whole");
        check("*/*, application/yaml", "Yaml Whole");
        check("application/vnd.kubernetes.protobuf,application/json", "Json Whole");
        check("application/json; charset=utf-8", "Json Whole");
        check("application/json;pretty=1", "Json Whole pretty");
        check("application/vnd.kubernetes.protobuf", NONE);
        check("application/cbor", NONE);
        check("text/html", NONE);
        check("text/*", NONE);
        check("garbage", NONE);
        check("a/b/c", NONE);
    }

    #[test]
    fn protobuf_where_there_is_some() {
        let check = |header: &str, want: &str| {
            let got = match accept_typed(header) {
                Ok(TypedForm::Protobuf) => "protobuf".to_owned(),
                Ok(TypedForm::Text(a)) => format!("{:?} {:?}", a.format, a.shape),
                Err(e) => e.to_string(),
            };
            assert_eq!(got, want, "{header}");
        };
        check("", "Json Whole");
        check("*/*", "Json Whole");
        check("application/vnd.kubernetes.protobuf", "protobuf");
        check("application/vnd.kubernetes.protobuf, */*", "protobuf");
        check("application/json,application/vnd.kubernetes.protobuf", "Json Whole");
        check("application/vnd.kubernetes.protobuf;q=0.1, application/yaml;q=0.5", "Yaml Whole");
        check(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
            "Json Table(V1)",
        );
        check("application/vnd.kubernetes.protobuf;stream=watch", NONE);
        check("text/plain", NONE);
    }

    #[test]
    fn shapes() {
        check("application/json;as=Table;v=v1;g=meta.k8s.io", "Json Table(V1)");
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
             application/json",
            "Json Table(V1Beta1)",
        );
        check("application/json;as=Other;v=v1;g=meta.k8s.io,application/json", "Json Whole");
        check("application/json;as=Table", NONE);
        check("application/yaml;as=Table;v=v1;g=meta.k8s.io", "Yaml Table(V1)");
        check("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "Json Metadata(V1)");
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            "Json MetadataList(V1)",
        );
        check("application/json;as=Table;v=v1;g=meta.k8s.io;sv=v2", NONE);
        assert!(accept("application/json;as=Table;v=v1;g=meta.k8s.io", Endpoint::Plain).is_err());
    }

    #[test]
    fn preferences() {
        let of = |header| preferred(header, &[("application/json", 'j'), ("application/x+protobuf", 'p')]);
        assert_eq!(of(""), Some('j'));
        assert_eq!(of("*/*"), Some('j'));
        assert_eq!(of("application/x+protobuf"), Some('p'));
        assert_eq!(of("application/json;q=0.5, application/x+protobuf, */*"), Some('p'));
        assert_eq!(of("text/html, application/yaml"), None);
    }

    #[test]
    fn watches_are_json() {
        assert_eq!(accept_watch("").map(|a| a.format), Ok(Format::Json));
        assert_eq!(accept_watch("application/json;stream=watch").map(|a| a.shape), Ok(Shape::Whole));
        assert_eq!(
            accept_watch("application/json;as=Table;v=v1;g=meta.k8s.io").map(|a| a.shape),
            Ok(Shape::Table(MetaVersion::V1))
        );
        assert_eq!(
            accept_watch("application/yaml").unwrap_err().to_string(),
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
        assert_eq!(accept_watch("text/plain").unwrap_err().to_string(), NONE);
        assert!(accept_watch("application/json;stream=other").is_err());
    }

    #[test]
    fn aggregated_discovery() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert!(wants_aggregated_discovery(v2));
        assert!(wants_aggregated_discovery(&format!("application/json,{v2};q=0.1")));
        assert!(wants_aggregated_discovery(&format!("{v2};profile=nopeer")));
        assert!(!wants_aggregated_discovery(&v2.replace("v2", "v2beta1")));
        assert!(!wants_aggregated_discovery("application/json"));
        assert!(!wants_aggregated_discovery("*/*"));
        assert!(!wants_aggregated_discovery(&v2.replace("json", "vnd.kubernetes.protobuf")));
    }

    #[test]
    fn bodies() {
        assert_eq!(body_format(""), Ok(Format::Json));
        assert_eq!(body_format("application/json"), Ok(Format::Json));
        assert_eq!(body_format("Application/JSON; charset=utf-8"), Ok(Format::Json));
        assert_eq!(body_format("application/yaml"), Ok(Format::Yaml));
        for bad in ["text/plain", "application/x-yaml", " ", ";", "application/vnd.kubernetes.protobuf"] {
            assert_eq!(
                body_format(bad).unwrap_err().to_string(),
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf"
            );
        }
    }

    #[test]
    fn patches() {
        let served = [PatchType::Json, PatchType::Merge];
        assert_eq!(PatchType::of("application/merge-patch+json", &served), Ok(PatchType::Merge));
        assert_eq!(PatchType::of("application/json-patch+json; charset=utf-8", &served), Ok(PatchType::Json));
        for bad in ["application/strategic-merge-patch+json", "", "application/json"] {
            assert_eq!(
                PatchType::of(bad, &served).unwrap_err().to_string(),
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json"
            );
        }
    }

    proptest! {
        #[test]
        fn no_header_panics(header in "[a-z/*;=q0-9., ]{0,60}") {
            let _ = (accept(&header, Endpoint::Resource), body_format(&header), wants_aggregated_discovery(&header));
        }
    }
}
