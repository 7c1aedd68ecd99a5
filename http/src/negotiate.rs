//! Media types: those that a client accepts, and those that it sends (apiserver `pkg/endpoints/handlers/negotiation`, 1.37).

use kindom_codec::Format;
use kindom_codec::protobuf::MEDIA_TYPE as PROTOBUF;

use crate::RequestError;

/// Content type of JSON bodies.
pub const JSON: &str = "application/json";
/// Content type of YAML bodies.
pub const YAML: &str = "application/yaml";
/// Content type of aggregated discovery.
pub const AGGREGATED_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The media types that errors offer. Every type has something in protobuf: custom objects their metadata.
pub(crate) const SERVED: &[&str] = &[JSON, YAML, PROTOBUF];
/// The media types offered to a client that asks for custom objects in protobuf.
const SERVED_TEXTS: &[&str] = &[JSON, YAML];
const SERVED_STREAMS: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
/// Content type of watches in protobuf.
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The part of a format's media type behind `application/`.
fn subtype(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
        Format::Protobuf => "vnd.kubernetes.protobuf",
    }
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

/// The shape in which the client gets an object or list.
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

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding.
    pub format: Format,
    /// The shape of the object.
    pub shape: Shape,
    /// `true` if it is indented (`pretty=1` in the media type).
    pub pretty: bool,
}

impl Accepted {
    /// The Content-Type of the answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self.format {
            Format::Json => JSON,
            Format::Yaml => YAML,
            Format::Protobuf => PROTOBUF,
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
    /// `true` if it takes `application/<subtype>`.
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

    /// The parameters `as`, `g` and `v`: (kind, group, version), if the clause has any of them.
    fn target(&self) -> Option<(&str, &str, &str)> {
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if kind.is_none() && group.is_none() && version.is_none() {
            return None;
        }
        Some((kind.unwrap_or(""), group.unwrap_or(""), version.unwrap_or("")))
    }

    fn accept(&self, format: Format, endpoint: Endpoint) -> Option<Accepted> {
        let stream = self.parameter("stream").unwrap_or("");
        if !self.takes(subtype(format))
            || !(stream.is_empty() || (stream == "watch" && format != Format::Yaml))
        {
            return None;
        }
        if !matches!(self.parameter("sv").unwrap_or(""), "" | "v1") {
            return None;
        }
        let shape = match self.target() {
            None if format == Format::Protobuf && endpoint == Endpoint::Resource => return None,
            None => Shape::Whole,
            Some(_) if endpoint == Endpoint::Plain => return None,
            Some((kind, "meta.k8s.io", version)) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match kind {
                    "Table" if format != Format::Protobuf => Shape::Table(version),
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

/// The shapes into which an endpoint can turn its documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Custom objects and lists of them: also tables and metadata. Only metadata has protobuf.
    Resource,
    /// Objects and lists of a built-in type that has protobuf: also tables, which have none, and metadata.
    Typed,
    /// Everything else (discovery, version, errors): nothing.
    Plain,
}

/// The form of the answer, by the Accept header (empty if there is none).
///
/// # Errors
/// [`RequestError::NotAcceptable`]
pub fn accept(header: &str, endpoint: Endpoint) -> Result<Accepted, RequestError> {
    if matches!(header, "" | "*/*" | JSON) {
        return Ok(Accepted { format: Format::Json, shape: Shape::Whole, pretty: false });
    }
    let clauses = clauses(header);
    let found = clauses.iter().find_map(|clause| {
        [Format::Json, Format::Yaml, Format::Protobuf].into_iter().find_map(|f| clause.accept(f, endpoint))
    });
    found.ok_or_else(|| {
        let wants_objects = |clause: &Clause<'_>| {
            (clause.kind, clause.subtype) == ("application", subtype(Format::Protobuf))
                && clause.target().is_none()
        };
        let refused = endpoint == Endpoint::Resource && clauses.iter().any(wants_objects);
        RequestError::NotAcceptable(if refused { SERVED_TEXTS } else { SERVED })
    })
}

/// The client's favourite among several media types, without regard to parameters; the first if it states none (kube-openapi
/// `pkg/handler`).
pub(crate) fn preferred<T: Copy>(header: &str, offers: &[(&'static str, T)]) -> Option<T> {
    let header = if header.is_empty() { "*/*" } else { header };
    clauses(header).iter().find_map(|clause| {
        let taken = |(media, _): &&(&str, T)| {
            media.strip_prefix("application/").is_some_and(|subtype| clause.takes(subtype))
        };
        offers.iter().find(taken).map(|(_, offer)| *offer)
    })
}

/// The form in which to stream a watch: JSON, or protobuf where [`accept`] takes it.
///
/// # Errors
/// [`RequestError::NotAcceptable`]
pub fn accept_watch(header: &str, endpoint: Endpoint) -> Result<Accepted, RequestError> {
    match accept(header, endpoint) {
        Ok(accepted) if accepted.format != Format::Yaml => Ok(accepted),
        Ok(_) => Err(RequestError::NotAcceptable(SERVED_STREAMS)),
        Err(error) => Err(error),
    }
}

/// `true` if discovery is wanted aggregated; it is served so if any clause asks for it, whatever its quality, else as
/// for [`Endpoint::Plain`].
#[must_use]
pub fn wants_aggregated_discovery(header: &str) -> bool {
    clauses(header).iter().any(|clause| {
        clause.takes("json")
            && clause.target() == Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"))
            && clause.parameter("stream").unwrap_or("").is_empty()
    })
}

/// The format of a request's body; JSON if the header is empty or missing. `protobuf`: whether the body may be that.
///
/// # Errors
/// [`RequestError::UnsupportedMediaType`]
pub fn body_format(content_type: &str, protobuf: bool) -> Result<Format, RequestError> {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "" if content_type.is_empty() => Ok(Format::Json),
        JSON => Ok(Format::Json),
        YAML => Ok(Format::Yaml),
        PROTOBUF if protobuf => Ok(Format::Protobuf),
        PROTOBUF => Err(RequestError::UnsupportedMediaType(SERVED_TEXTS.to_vec())),
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
        Endpoint, Format, MetaVersion, PatchType, Shape, accept, accept_watch, body_format, preferred,
        wants_aggregated_discovery,
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
        check("application/cbor", NONE);
        check("text/html", NONE);
        check("text/*", NONE);
        check("garbage", NONE);
        check("a/b/c", NONE);
    }

    #[test]
    fn protobuf_where_there_is_some() {
        let check = |endpoint: Endpoint, header: &str, want: &str| {
            let got = match accept(header, endpoint) {
                Ok(a) => format!("{:?} {:?}", a.format, a.shape),
                Err(e) => e.to_string(),
            };
            assert_eq!(got, want, "{header}");
        };
        let typed = |header, want| check(Endpoint::Typed, header, want);
        typed("", "Json Whole");
        typed("*/*", "Json Whole");
        typed("application/vnd.kubernetes.protobuf", "Protobuf Whole");
        typed("application/vnd.kubernetes.protobuf, */*", "Protobuf Whole");
        typed("application/json,application/vnd.kubernetes.protobuf", "Json Whole");
        typed("application/vnd.kubernetes.protobuf;q=0.1, application/yaml;q=0.5", "Yaml Whole");
        typed(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
            "Json Table(V1)",
        );
        // `RequestScope.AllowsStreamSchema`
        typed("application/vnd.kubernetes.protobuf;stream=watch", "Protobuf Whole");
        typed("application/vnd.kubernetes.protobuf;stream=other", NONE);
        typed("text/plain", NONE);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        typed(metadata, "Protobuf Metadata(V1)");
        typed("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", NONE);
        check(Endpoint::Resource, metadata, "Protobuf Metadata(V1)");
        check(Endpoint::Plain, "application/vnd.kubernetes.protobuf", "Protobuf Whole");
        check(Endpoint::Plain, metadata, NONE);
    }

    /// Custom objects have no protobuf: the 406 for a client that asks for it does not list protobuf as accepted.
    #[test]
    fn what_is_not_accepted_is_not_offered() {
        let offered = |header| accept(header, Endpoint::Resource).unwrap_err().to_string();
        let texts = "only the following media types are accepted: application/json, application/yaml";
        assert_eq!(offered("application/vnd.kubernetes.protobuf"), texts);
        assert_eq!(offered("text/plain, application/vnd.kubernetes.protobuf"), texts);
        assert_eq!(offered("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"), NONE);
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
            // As the real server answers, of custom objects too.
            "Protobuf MetadataList(V1)",
        );
        check("application/json;as=Table;v=v1;g=meta.k8s.io;sv=v2", NONE);
        assert!(accept("application/json;as=Table;v=v1;g=meta.k8s.io", Endpoint::Plain).is_err());
    }

    #[test]
    fn preferences() {
        let choice =
            |header| preferred(header, &[("application/json", 'j'), ("application/x+protobuf", 'p')]);
        assert_eq!(choice(""), Some('j'));
        assert_eq!(choice("*/*"), Some('j'));
        assert_eq!(choice("application/x+protobuf"), Some('p'));
        assert_eq!(choice("application/json;q=0.5, application/x+protobuf, */*"), Some('p'));
        assert_eq!(choice("text/html, application/yaml"), None);
    }

    #[test]
    fn watches_are_json_or_protobuf() {
        let custom = |header| accept_watch(header, Endpoint::Resource);
        assert_eq!(custom("").map(|a| a.format), Ok(Format::Json));
        assert_eq!(custom("application/json;stream=watch").map(|a| a.shape), Ok(Shape::Whole));
        assert_eq!(
            custom("application/json;as=Table;v=v1;g=meta.k8s.io").map(|a| a.shape),
            Ok(Shape::Table(MetaVersion::V1))
        );
        assert_eq!(
            custom("application/yaml").unwrap_err().to_string(),
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
        assert_eq!(custom("text/plain").unwrap_err().to_string(), NONE);
        assert!(custom("application/json;stream=other").is_err());
        let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
        assert!(custom(protobuf).is_err());
        assert_eq!(accept_watch(protobuf, Endpoint::Typed).map(|a| a.format), Ok(Format::Protobuf));
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
        assert_eq!(body_format("", false), Ok(Format::Json));
        assert_eq!(body_format("application/json", false), Ok(Format::Json));
        assert_eq!(body_format("Application/JSON; charset=utf-8", false), Ok(Format::Json));
        assert_eq!(body_format("application/yaml", false), Ok(Format::Yaml));
        let all = "the body of the request was in an unknown format - accepted media types include: \
                   application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for bad in ["text/plain", "application/x-yaml", " ", ";"] {
            assert_eq!(body_format(bad, false).unwrap_err().to_string(), all);
            assert_eq!(body_format(bad, true).unwrap_err().to_string(), all);
        }
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(body_format(protobuf, true), Ok(Format::Protobuf));
        assert_eq!(
            body_format(protobuf, false).unwrap_err().to_string(),
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml"
        );
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
            let _ = (accept(&header, Endpoint::Resource), body_format(&header, true), wants_aggregated_discovery(&header));
        }
    }
}
