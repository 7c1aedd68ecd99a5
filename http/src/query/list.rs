//! ListOptions (apimachinery `pkg/apis/meta/internalversion`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::selector::{FieldSelector, LabelSelector};

use super::{Query, number_error};
use crate::RequestError;

/// The meaning of a list's `resourceVersion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// The state at this very revision.
    Exact,
    /// Any state that is not older.
    NotOlderThan,
}

/// The options of a list, a watch or a deletecollection. [`Self::parse`] reads them from the query, and [`Self::validate`]
/// must follow (upstream answers a malformed query 400 and an invalid combination 422).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// By labels.
    pub label_selector: LabelSelector,
    /// By fields; which ones the type has is not checked here.
    pub field_selector: FieldSelector,
    /// `true` if it is a watch.
    pub watch: bool,
    /// `true` if a watcher wants bookmarks.
    pub allow_watch_bookmarks: bool,
    /// As sent; empty if not given. See [`parse_resource_version`].
    pub resource_version: String,
    /// As sent; empty if not given. See [`Self::version_match`].
    pub resource_version_match: String,
    /// The longest that a watch may last, in seconds.
    pub timeout_seconds: Option<i64>,
    /// The most items on a page; 0 or a negative number for all.
    pub limit: i64,
    /// The token of the next page; empty for the first page.
    pub continue_token: String,
    /// `true` if a watch begins with the present state; `None` if the query does not give it.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options. A watch from no or from the oldest state begins with the present state
    /// (`SetListOptionsDefaults`).
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a malformed selector or number.
    pub fn parse(query: &Query) -> Result<Self, RequestError> {
        let bad = RequestError::BadRequest;
        let mut options = Self {
            label_selector: LabelSelector::parse(query.get("labelSelector").unwrap_or("")).map_err(bad)?,
            field_selector: FieldSelector::parse(query.get("fieldSelector").unwrap_or("")).map_err(bad)?,
            watch: query.flag("watch"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion"),
            resource_version_match: query.text("resourceVersionMatch"),
            timeout_seconds: query.integer("timeoutSeconds")?,
            limit: query.integer("limit")?.unwrap_or(0),
            continue_token: query.text("continue"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let from_now = matches!(options.resource_version.as_str(), "" | "0");
        let unsaid = options.send_initial_events.is_none() && options.resource_version_match.is_empty();
        if options.watch && from_now && unsaid {
            options.send_initial_events = Some(true);
            options.resource_version_match = "NotOlderThan".to_owned();
        }
        Ok(options)
    }

    /// Checks the combination (`ValidateListOptions`).
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `ListOptions.meta.k8s.io`.
    pub fn validate(&self) -> Result<(), RequestError> {
        let errors = if self.watch { self.watch_errors() } else { self.list_errors() };
        RequestError::invalid_options("ListOptions", errors)
    }

    /// Selects the one object of a path such as `/api/v1/watch/namespaces/n/pods/name` (`listOptionsFromRequest` of apiserver
    /// `pkg/endpoints/handlers/get.go`).
    ///
    /// # Errors
    /// The fields select another one.
    pub(crate) fn select_name(&mut self, name: &str) -> Result<(), RequestError> {
        const NAME: &str = "metadata.name";
        if name.is_empty() {
            return Ok(());
        }
        if self.field_selector.is_empty() {
            self.field_selector = FieldSelector::exactly(NAME, name);
        } else if self.field_selector.exact_match(NAME) != Some(name) {
            let why = "fieldSelector metadata.name doesn't match requested name";
            return Err(RequestError::BadRequest(why.to_owned()));
        }
        Ok(())
    }

    fn list_errors(&self) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        let wanted = self.resource_version_match.as_str();
        if !wanted.is_empty() {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(Error::forbidden(&path, detail));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(Error::forbidden(&path, detail));
            }
            if self.version_match().is_none() {
                errors.push(Error::not_supported(&path, wanted, &["Exact", "NotOlderThan", ""]));
            }
            if wanted == "Exact" && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(&path, detail));
            }
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(Error::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        let wanted = self.resource_version_match.as_str();
        if self.send_initial_events.is_some() && wanted != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, detail));
        }
        if !wanted.is_empty() {
            if self.send_initial_events.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(Error::forbidden(&path, detail));
            }
            if wanted != "NotOlderThan" {
                errors.push(Error::not_supported(&path, wanted, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(Error::forbidden(&path, detail));
            }
        }
        errors
    }

    /// The meaning of the resourceVersion; `None` if the query does not give it.
    #[must_use]
    pub fn version_match(&self) -> Option<VersionMatch> {
        match self.resource_version_match.as_str() {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        }
    }

    /// The continue token, if there is one.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] if it is malformed, or comes with a resourceVersion.
    pub fn continue_from(&self) -> Result<Option<super::ContinueToken>, RequestError> {
        if self.continue_token.is_empty() {
            return Ok(None);
        }
        let token = super::ContinueToken::decode(&self.continue_token)?;
        if !matches!(self.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(RequestError::BadRequest(message.to_owned()));
        }
        Ok(Some(token))
    }
}

/// Reads a resourceVersion; 0 if it is empty.
///
/// # Errors
/// [`RequestError::BadRequest`] with upstream's text for a list.
pub fn parse_resource_version(text: &str) -> Result<u64, RequestError> {
    if text.is_empty() {
        return Ok(0);
    }
    // Go's ParseUint takes no sign.
    let digits = if text.starts_with('+') { "" } else { text };
    digits.parse::<u64>().map_err(|e| {
        let detail = number_error("ParseUint", text, e.kind());
        let error = Error::invalid(&Path::new("resourceVersion"), text, detail);
        RequestError::BadRequest(format!("invalid resource version: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::{ListOptions, parse_resource_version};
    use crate::query::Query;

    fn check(query: &str, want: &str) {
        let result = ListOptions::parse(&Query::parse(query)).and_then(|o| o.validate().map(|()| o));
        let got = match result.and_then(|o| o.continue_from().map(|_| o)) {
            Ok(o) => format!(
                "{}{} limit {} {:?} {:?}",
                if o.watch { "watch" } else { "list" },
                if o.allow_watch_bookmarks { "+bookmarks" } else { "" },
                o.limit,
                o.send_initial_events,
                o.version_match(),
            ),
            Err(e) => e.to_string(),
        };
        assert_eq!(got, want, "{query}");
    }

    #[test]
    fn options_are_read() {
        check("", "list limit 0 None None");
        check("limit=500&resourceVersion=0", "list limit 500 None None");
        check("limit=-1", "list limit -1 None None");
        check("watch=1&allowWatchBookmarks=true&resourceVersion=5", "watch+bookmarks limit 0 None None");
        check("watch=1", "watch limit 0 Some(true) Some(NotOlderThan)");
        check("watch=1&resourceVersion=0", "watch limit 0 Some(true) Some(NotOlderThan)");
        check(
            "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            "watch limit 0 Some(false) Some(NotOlderThan)",
        );
        check("resourceVersion=5&resourceVersionMatch=Exact", "list limit 0 None Some(Exact)");
    }

    #[test]
    fn malformed_options_are_400() {
        check("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax");
        check("limit=", "strconv.ParseInt: parsing \"\": invalid syntax");
        check("timeoutSeconds=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax");
        check(
            "limit=9223372036854775808",
            "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
        );
        check(
            "labelSelector=a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        );
        check("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'");
        check(
            "continue=!",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        );
        let token = crate::query::ContinueToken { revision: Some(7), start: "a".into() }.encode();
        check(
            &format!("continue={token}&resourceVersion=5"),
            "specifying resource version is not allowed when using continue",
        );
        check(&format!("continue={token}&resourceVersion=0"), "list limit 0 None None");
    }

    #[test]
    fn invalid_combinations_are_422() {
        let start = "ListOptions.meta.k8s.io is invalid: ";
        for (query, want) in [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=x&resourceVersion=1",
                "resourceVersionMatch: Unsupported value: \"x\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=Exact&continue=x&resourceVersion=1",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&sendInitialEvents=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "watch=1&resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (
                "watch=1&resourceVersionMatch=Exact",
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                 sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \"Exact\": supported \
                 values: \"NotOlderThan\"]",
            ),
        ] {
            check(query, &format!("{start}{want}"));
        }
    }

    #[test]
    fn resource_versions() {
        let parse = |text: &str| parse_resource_version(text).map_err(|e| e.to_string());
        assert_eq!(parse(""), Ok(0));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
        let error = |text: &str, what: &str| {
            Err(format!(
                "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \
                 \"{text}\": {what}"
            ))
        };
        assert_eq!(parse("x"), error("x", "invalid syntax"));
        assert_eq!(parse("-1"), error("-1", "invalid syntax"));
        assert_eq!(parse("+1"), error("+1", "invalid syntax"));
        assert_eq!(parse("18446744073709551616"), error("18446744073709551616", "value out of range"));
    }
}
