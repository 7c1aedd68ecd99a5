//! DeleteOptions, from the query or from a body (apimachinery `meta/v1`, apiserver `pkg/endpoints/handlers/delete.go`).

use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::json::{Map, Value};

use super::write::dry_run_errors;
use super::{Query, is_true, texts};
use crate::RequestError;
use kindom_codec::SCHEME;
use kindom_codec::go_json::go_type;
use kindom_objects::{Propagation, Removal};
use kindom_resource_actor::SentOptions;

/// The options of a delete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeleteOptions {
    /// The grace period of the object's end, its conditions, and the treatment of the objects that it owns; `orphanDependents` is turned into it.
    pub removal: Removal,
    /// `true` if nothing is to be deleted.
    pub dry_run: bool,
    /// `true` if an object goes that can't be read, and only such a one; without a look at anything else.
    pub ignore_store_read_error: bool,
    /// The options as the client sent them, for webhooks.
    pub(crate) sent: SentOptions,
}

const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The options as sent, before they are validated.
#[derive(Clone, Default)]
pub(crate) struct SentDeleteOptions {
    grace_period_seconds: Option<i64>,
    /// The preconditions alone.
    pub(crate) preconditions: Removal,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    /// Any value asks for a dry run, and is valid or not.
    pub(crate) dry_run: Vec<String>,
    has_preconditions: bool,
    pub(crate) ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// Reads them from the query, as a delete without a body has them.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a malformed number, [`RequestError::Invalid`] of kind
    /// `DeleteOptions.meta.k8s.io`.
    pub fn from_query(query: &Query) -> Result<Self, RequestError> {
        SentDeleteOptions {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            preconditions: Removal::default(),
            orphan_dependents: query.get("orphanDependents").map(is_true),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            has_preconditions: false,
            ignore_store_read_error: query.get(IGNORE_READ_ERROR).is_some_and(is_true),
        }
        .validate()
    }

    /// Reads `dryRun` alone from the query, of a request that has its other options in its body.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `DeleteOptions.meta.k8s.io`.
    pub fn dry_run_of_query(query: &Query) -> Result<bool, RequestError> {
        let dry_run = query.all("dryRun").map(str::to_owned).collect();
        Ok(SentDeleteOptions { dry_run, ..SentDeleteOptions::default() }.validate()?.dry_run)
    }

    /// Reads them from a decoded body; the query is then ignored but for `dryRun`, as upstream does. Any group's `DeleteOptions` are
    /// taken, and kind and apiVersion may be missing; unknown fields are ignored.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for another kind or a field of the wrong type, [`RequestError::Invalid`] of kind
    /// `DeleteOptions.meta.k8s.io`.
    pub fn from_body(body: &Value) -> Result<Self, RequestError> {
        SentDeleteOptions::from_body(body)?.validate()
    }
}

impl SentDeleteOptions {
    /// Reads them from a decoded body, as [`DeleteOptions::from_body`] does, without validating them.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`]
    pub(crate) fn from_body(body: &Value) -> Result<Self, RequestError> {
        let bad = |found: &Value, what: &str, want: &str| {
            let found = go_type(found);
            let why = format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.{what} of type {want}"
            );
            RequestError::BadRequest(why)
        };
        if body.as_object().is_none() {
            return Err(RequestError::BadRequest(
                "decoding DeleteOptions: the body must be an object".to_owned(),
            ));
        }
        let present = |value: &Value| !value.is_null();
        let text = |owner: &Value, name: &str, field: &str| match owner.get(field).filter(|v| present(v)) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(bad(other, name, "string")),
        };
        if let Some(kind) = text(body, "kind", "kind")?
            && !matches!(kind.as_str(), "" | "DeleteOptions")
        {
            let api_version = text(body, "apiVersion", "apiVersion")?.unwrap_or_default();
            let (kind, version) = (go_quote(&kind), go_quote(&api_version));
            let message = format!("no kind {kind} is registered for version {version} in scheme {SCHEME}");
            return Err(RequestError::BadRequest(message));
        }
        let mut raw = SentDeleteOptions {
            propagation_policy: text(body, "propagationPolicy", "propagationPolicy")?,
            ..SentDeleteOptions::default()
        };
        if let Some(value) = body.get("gracePeriodSeconds").filter(|v| present(v)) {
            raw.grace_period_seconds =
                Some(value.as_i64().ok_or_else(|| bad(value, "gracePeriodSeconds", "int64"))?);
        }
        if let Some(value) = body.get("orphanDependents").filter(|v| present(v)) {
            raw.orphan_dependents =
                Some(value.as_bool().ok_or_else(|| bad(value, "orphanDependents", "bool"))?);
        }
        if let Some(value) = body.get(IGNORE_READ_ERROR).filter(|v| present(v)) {
            raw.ignore_store_read_error =
                value.as_bool().ok_or_else(|| bad(value, IGNORE_READ_ERROR, "bool"))?;
        }
        if let Some(value) = body.get("preconditions").filter(|v| present(v)) {
            raw.has_preconditions = true;
            if value.as_object().is_none() {
                return Err(bad(value, "preconditions", "v1.Preconditions"));
            }
            raw.preconditions = Removal {
                uid: text(value, "preconditions.uid", "uid")?,
                resource_version: text(value, "preconditions.resourceVersion", "resourceVersion")?,
                ..Removal::default()
            };
        }
        if let Some(value) = body.get("dryRun").filter(|v| present(v)) {
            let items = value.as_array().ok_or_else(|| bad(value, "dryRun", "[]string"))?;
            for item in items {
                raw.dry_run.push(item.as_str().ok_or_else(|| bad(item, "dryRun", "string"))?.to_owned());
            }
        }
        Ok(raw)
    }

    /// `ValidateDeleteOptions`, `ValidateIgnoreStoreReadError`
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `DeleteOptions.meta.k8s.io`.
    pub(crate) fn validate(self) -> Result<DeleteOptions, RequestError> {
        let sent = self.as_sent();
        let path = Path::new("propagationPolicy");
        let mut errors = ErrorList::new();
        let beside = [
            (".propagationPolicy", self.propagation_policy.is_some()),
            (".orphanDependents", self.orphan_dependents.is_some()),
            (".gracePeriodSeconds", self.grace_period_seconds.is_some()),
            (".preconditions", self.has_preconditions),
        ];
        let beside = beside.into_iter().filter(|(_, is_set)| *is_set && self.ignore_store_read_error);
        let beside: Vec<Error> = beside
            .map(|(field, _)| {
                let why = format!("cannot be set together with {field}");
                Error::invalid(&Path::new(IGNORE_READ_ERROR), true, why)
            })
            .collect();
        let mut propagation = match self.orphan_dependents {
            Some(true) => Propagation::Orphan,
            Some(false) => Propagation::Background,
            None => Propagation::Unsaid,
        };
        if let Some(text) = self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(Error::invalid(&path, text.as_str(), detail));
            }
            propagation = match text.as_str() {
                "Foreground" => Propagation::Foreground,
                "Background" => Propagation::Background,
                "Orphan" => Propagation::Orphan,
                other => {
                    let known = ["Foreground", "Background", "Orphan", "nil"];
                    errors.push(Error::not_supported(&path, other, &known));
                    Propagation::Unsaid
                }
            };
        }
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        errors.extend(dry_run_errors(&dry_run));
        errors.extend(beside);
        RequestError::invalid_options("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            removal: Removal { propagation, grace: self.grace_period_seconds, ..self.preconditions },
            dry_run: !dry_run.is_empty(),
            ignore_store_read_error: self.ignore_store_read_error,
            sent,
        })
    }

    fn as_sent(&self) -> SentOptions {
        let mut sent = SentOptions::new();
        if let Some(seconds) = self.grace_period_seconds {
            sent.push(("gracePeriodSeconds", seconds.into()));
        }
        if self.has_preconditions {
            let mut preconditions = Map::new();
            let Removal { uid, resource_version, .. } = &self.preconditions;
            for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
                if let Some(value) = value {
                    preconditions.insert(field, value.as_str());
                }
            }
            sent.push(("preconditions", preconditions.into()));
        }
        if let Some(orphan) = self.orphan_dependents {
            sent.push(("orphanDependents", orphan.into()));
        }
        if let Some(policy) = &self.propagation_policy {
            sent.push(("propagationPolicy", policy.as_str().into()));
        }
        if !self.dry_run.is_empty() {
            sent.push(("dryRun", texts(self.dry_run.iter().map(String::as_str))));
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::{DeleteOptions, Propagation};
    use crate::RequestError;
    use crate::query::Query;
    use kindom_api::json::parse;

    fn body(json: &str) -> Result<DeleteOptions, String> {
        DeleteOptions::from_body(&parse(json.as_bytes()).unwrap()).map_err(|e| e.to_string())
    }

    /// With a body, the rest of the query is not even validated (`rest.DeleteResource`, 1.37).
    #[test]
    fn beside_a_body_the_query_says_dry_run_alone() {
        let dry_run = |query: &str| {
            DeleteOptions::dry_run_of_query(&Query::parse(query)).map_err(|error| error.to_string())
        };
        assert_eq!(dry_run("dryRun=All&propagationPolicy=x&gracePeriodSeconds=y"), Ok(true));
        assert_eq!(dry_run("propagationPolicy=x"), Ok(false));
        assert!(dry_run("dryRun=x").is_err());
    }

    #[test]
    fn options_are_read() {
        let query = Query::parse("propagationPolicy=Foreground&gracePeriodSeconds=5&dryRun=All");
        let options = DeleteOptions::from_query(&query).unwrap();
        assert_eq!(options.removal.propagation, Propagation::Foreground);
        assert_eq!(options.removal.grace, Some(5));
        assert!(options.dry_run);

        let options = body(
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","orphanDependents":true,"dryRun":null,"x":1,
                "preconditions":{"uid":"u","resourceVersion":"7"}}"#,
        )
        .unwrap();
        assert_eq!(options.removal.propagation, Propagation::Orphan);
        assert_eq!(options.removal.uid.as_deref(), Some("u"));
        assert_eq!(options.removal.resource_version.as_deref(), Some("7"));
        assert!(!options.dry_run);
        assert_eq!(body("{}"), Ok(DeleteOptions::default()));
    }

    #[test]
    fn what_can_t_be_read_goes_alone() {
        let query = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
        assert!(DeleteOptions::from_query(&Query::parse(query)).unwrap().ignore_store_read_error);
        let wanted = r#""ignoreStoreReadErrorWithClusterBreakingPotential":true"#;
        assert!(body(&format!("{{{wanted},\"dryRun\":[\"All\"]}}")).unwrap().ignore_store_read_error);
        for beside in [
            r#""propagationPolicy":"Orphan""#,
            r#""orphanDependents":true"#,
            r#""gracePeriodSeconds":0"#,
            r#""preconditions":{}"#,
        ] {
            let json = format!("{{{wanted},{beside}}}");
            let Err(RequestError::Invalid { errors, .. }) =
                DeleteOptions::from_body(&parse(json.as_bytes()).unwrap())
            else {
                panic!("{json}");
            };
            let text = errors[0].to_string();
            let field =
                "ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set";
            assert!(text.starts_with(field), "{text}");
        }
    }

    #[test]
    fn malformed_options_are_400() {
        assert!(DeleteOptions::from_query(&Query::parse("gracePeriodSeconds=x")).is_err());
        assert_eq!(body("[]"), Err("decoding DeleteOptions: the body must be an object".into()));
        assert_eq!(
            body(r#"{"kind":"Widget"}"#),
            Err("no kind \"Widget\" is registered for version \"\" in scheme \"pkg/runtime/scheme.go:111\""
                .into())
        );
        assert_eq!(
            body(r#"{"preconditions":{"uid":5}}"#),
            Err("json: cannot unmarshal number into Go struct field DeleteOptions.preconditions.uid of type string"
                .into())
        );
        for bad in [
            r#"{"gracePeriodSeconds":1.5}"#,
            r#"{"dryRun":"All"}"#,
            r#"{"dryRun":[1]}"#,
            r#"{"orphanDependents":"true"}"#,
            r#"{"preconditions":[]}"#,
            r#"{"propagationPolicy":1}"#,
        ] {
            assert!(body(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn invalid_options_are_422() {
        let start = "DeleteOptions.meta.k8s.io is invalid: ";
        assert_eq!(
            body(r#"{"orphanDependents":false,"propagationPolicy":"Orphan"}"#),
            Err(format!(
                "{start}propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot \
                 be both set"
            ))
        );
        assert_eq!(
            body(r#"{"propagationPolicy":"x"}"#),
            Err(format!(
                "{start}propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \
                 \"Background\", \"Orphan\", \"nil\""
            ))
        );
        assert_eq!(
            body(r#"{"dryRun":["x"]}"#),
            Err(format!("{start}dryRun: Unsupported value: [\"x\"]: supported values: \"All\""))
        );
    }
}
