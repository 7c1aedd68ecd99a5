//! CreateOptions, UpdateOptions and PatchOptions (apimachinery `pkg/apis/meta/v1/validation`, 1.37).

use kindom_api::field::{BadValue, Error, ErrorList, ErrorType, Path, go_quote};
use kindom_api::json::Value;
use kindom_codec::FieldValidation;

use super::Query;
use crate::RequestError;

const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// A condition of a registration that a write can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// The type is served.
    Established,
    /// All its names are its own.
    NamesAccepted,
}

impl WaitFor {
    const ALL: [Self; 2] = [Self::Established, Self::NamesAccepted];

    /// The condition's type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Established => "Established",
            Self::NamesAccepted => "NamesAccepted",
        }
    }

    fn parse(text: &str) -> Result<Option<Self>, RequestError> {
        let known = || Self::ALL.map(|one| go_quote(one.as_str())).join(", ");
        match text {
            "" => Ok(None),
            text => Self::ALL.into_iter().find(|one| one.as_str() == text).map(Some).ok_or_else(|| {
                let text = go_quote(text);
                RequestError::BadRequest(format!("waitFor: unknown condition {text}: there are {}", known()))
            }),
        }
    }
}

/// The options of a create, an update or a patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// `true` if nothing is to be stored.
    pub dry_run: bool,
    /// The writer; empty if not given.
    pub field_manager: String,
    /// The treatment of unknown fields.
    pub field_validation: FieldValidation,
    /// `true` if an apply takes over fields of others; only an apply may say it.
    pub force: Option<bool>,
    /// The state that the answer waits for; only for registrations. An extension of kindom: Kubernetes ignores it.
    pub wait_for: Option<WaitFor>,
    /// The answer is what the stages of a dry run did. An extension of kindom, as well.
    pub explain: bool,
}

impl WriteOptions {
    /// The options of a create.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `CreateOptions.meta.k8s.io`; [`RequestError::BadRequest`] for a `waitFor` of an
    /// unknown condition and for an `explain` of anything but the stages of a dry run, here and in the others.
    pub fn for_create(query: &Query) -> Result<Self, RequestError> {
        Self::parse(query, "CreateOptions", ErrorList::new())
    }

    /// The options of an update.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `UpdateOptions.meta.k8s.io`.
    pub fn for_update(query: &Query) -> Result<Self, RequestError> {
        Self::parse(query, "UpdateOptions", ErrorList::new())
    }

    /// The options of a patch.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] of kind `PatchOptions.meta.k8s.io`.
    pub fn for_patch(query: &Query, apply: bool) -> Result<Self, RequestError> {
        let force = query.optional_flag("force");
        let mut errors = ErrorList::new();
        if !apply && force.is_some() {
            errors.push(Error::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        if apply && query.text("fieldManager").is_empty() {
            errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        Ok(Self { force, ..Self::parse(query, "PatchOptions", errors)? })
    }

    /// The writer: the name that the client gives, or else the beginning of its user agent (`managerOrUserAgent` in
    /// apiserver `handlers/create.go`).
    #[must_use]
    pub fn manager(&self, user_agent: &[u8]) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        let name = user_agent.split(|byte| *byte == b'/').next().unwrap_or_default();
        let mut manager = String::new();
        for chunk in name.utf8_chunks() {
            let replaced = chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER);
            for c in chunk.valid().chars().chain(replaced).filter(|c| is_printable(*c)) {
                if manager.len() + c.len_utf8() > FIELD_MANAGER_BYTES_MAX {
                    return manager;
                }
                manager.push(c);
            }
        }
        manager
    }

    fn parse(query: &Query, kind: &str, mut errors: ErrorList) -> Result<Self, RequestError> {
        let field_manager = query.text("fieldManager");
        errors.extend(field_manager_errors(&field_manager));
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        errors.extend(dry_run_errors(&dry_run));
        let field_validation = match query.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(Error::not_supported(&Path::new("fieldValidation"), other, &known));
                FieldValidation::Warn
            }
        };
        RequestError::invalid_options(kind, errors)?;
        let wait_for = WaitFor::parse(query.get("waitFor").unwrap_or_default())?;
        let (explain, dry_run) = (explains(query)?, !dry_run.is_empty());
        if explain && !dry_run {
            let why = "explain is only for dry runs: dryRun=All is needed, too".to_owned();
            return Err(RequestError::BadRequest(why));
        }
        Ok(Self { dry_run, field_manager, field_validation, force: None, wait_for, explain })
    }

    /// The state that the answer waits for; `None` for a dry run, which never reaches it.
    #[must_use]
    pub fn waits_for(&self) -> Option<WaitFor> {
        self.wait_for.filter(|_| !self.dry_run)
    }
}

fn explains(query: &Query) -> Result<bool, RequestError> {
    match query.get("explain").unwrap_or_default() {
        "" => Ok(false),
        "stages" => Ok(true),
        other => {
            let why = format!("explain: unknown value {}: there is \"stages\"", go_quote(other));
            Err(RequestError::BadRequest(why))
        }
    }
}

pub(super) fn dry_run_errors(values: &[&str]) -> ErrorList {
    if values.iter().all(|v| *v == "All") {
        return ErrorList::new();
    }
    let list: Vec<Value> = values.iter().map(|v| Value::from(*v)).collect();
    Error::not_supported(&Path::new("dryRun"), list, &["All"]).into()
}

fn field_manager_errors(name: &str) -> ErrorList {
    let path = Path::new("fieldManager");
    let mut errors = ErrorList::new();
    if name.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(Error {
            kind: ErrorType::TooLong,
            field: path.to_string(),
            bad_value: BadValue::Omitted,
            detail: format!("may not be more than {FIELD_MANAGER_BYTES_MAX} bytes"),
        });
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        // An error shows the whole name.
        if errors.is_full() {
            break;
        }
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(Error::invalid(&path, name, detail));
    }
    errors
}

/// As Go's `unicode.IsPrint`: what Rust does not escape in the middle of a string.
fn is_printable(c: char) -> bool {
    let mut text = [0; 5];
    text[0] = b'a';
    let length = 1 + c.encode_utf8(&mut text[1..]).len();
    let text = text.get(..length).and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default();
    matches!(c, '"' | '\'' | '\\') || text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::{FieldValidation, WaitFor, WriteOptions};
    use crate::query::Query;

    fn check(query: &str, want: &str) {
        let got = WriteOptions::for_create(&Query::parse(query)).unwrap_err().to_string();
        assert_eq!(got, format!("CreateOptions.meta.k8s.io is invalid: {want}"));
    }

    #[test]
    fn options_are_read() {
        let query = Query::parse("dryRun=All&fieldManager=k%20l&fieldValidation=Strict");
        let options = WriteOptions::for_create(&query).unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_manager, "k l");
        assert_eq!(options.field_validation, FieldValidation::Strict);
        let options = WriteOptions::for_update(&Query::parse("")).unwrap();
        assert_eq!(options, WriteOptions::default());
        assert_eq!(options.field_validation, FieldValidation::Warn);
    }

    /// Each character that does not print is an error that shows the whole name: 250 GB, of a URL of 1.5 MB.
    #[test]
    fn a_long_field_manager_is_told_in_no_more_than_there_is_room_for() {
        let query = format!("fieldManager={}", "%01".repeat(500_000));
        let text = WriteOptions::for_create(&Query::parse(&query)).unwrap_err().to_string();
        assert!(text.contains("invalid character U+0001 (at position 0)"));
        assert!(text.contains("too many errors: more are not listed"));
        assert!(text.len() < 64 << 20, "{}", text.len());
    }

    #[test]
    fn who_writes_is_said_or_the_user_agent() {
        let manager = |query: &str, user_agent: &[u8]| {
            WriteOptions::for_create(&Query::parse(query)).unwrap().manager(user_agent)
        };
        assert_eq!(manager("fieldManager=me", b"kubectl/v1.30"), "me");
        assert_eq!(manager("", b"kubectl/v1.30 (linux/amd64)"), "kubectl");
        assert_eq!(manager("", "gr\u{fc}n\t \"x\"".as_bytes()), "gr\u{fc}n \"x\"");
        assert_eq!(manager("", b"/x"), "");
        assert_eq!(manager("", b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
        assert_eq!(manager("", "a".repeat(200).as_bytes()), "a".repeat(128));
        assert_eq!(manager("", "\u{20ac}".repeat(50).as_bytes()), "\u{20ac}".repeat(42));
    }

    #[test]
    fn a_wait_names_a_condition() {
        let wait = |query: &str| {
            let options = WriteOptions::for_create(&Query::parse(query));
            options.map(|o| o.wait_for.map(WaitFor::as_str)).map_err(|e| e.to_string())
        };
        assert_eq!(wait("waitFor="), Ok(None));
        assert_eq!(wait("waitFor=Established"), Ok(Some("Established")));
        assert_eq!(wait("waitFor=NamesAccepted"), Ok(Some("NamesAccepted")));
        assert_eq!(
            wait("waitFor=established"),
            Err("waitFor: unknown condition \"established\": there are \"Established\", \"NamesAccepted\""
                .into())
        );
    }

    #[test]
    fn dry_runs_alone_are_explained() {
        let explain = |query: &str| {
            let options = WriteOptions::for_create(&Query::parse(query));
            options.map(|options| options.explain).map_err(|error| error.to_string())
        };
        assert_eq!(explain("explain=&dryRun=All"), Ok(false));
        assert_eq!(explain("explain=stages&dryRun=All"), Ok(true));
        let unknown = "explain: unknown value \"all\": there is \"stages\"";
        assert_eq!(explain("explain=all&dryRun=All"), Err(unknown.to_owned()));
        assert!(explain("explain=stages").unwrap_err().contains("dryRun=All is needed"));
    }

    #[test]
    fn invalid_options_are_422() {
        check("dryRun=x", "dryRun: Unsupported value: [\"x\"]: supported values: \"All\"");
        check("dryRun=", "dryRun: Unsupported value: [\"\"]: supported values: \"All\"");
        check(
            "fieldValidation=x",
            "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        );
        check(
            &format!("fieldManager={}", "a".repeat(129)),
            "fieldManager: Too long: may not be more than 128 bytes",
        );
        check(
            "fieldManager=a%0Ab",
            "fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
        );
        assert!(WriteOptions::for_create(&Query::parse("fieldManager=%C3%A9%22'x")).is_ok());
    }

    #[test]
    fn force_is_for_apply_only() {
        let error = |query: &str, apply| {
            WriteOptions::for_patch(&Query::parse(query), apply).map_err(|e| e.to_string()).map(|o| o.force)
        };
        assert_eq!(
            error("force=true", false),
            Err("PatchOptions.meta.k8s.io is invalid: force: Forbidden: may not be specified for non-apply patch"
                .into())
        );
        assert_eq!(
            error("", true),
            Err("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
                .into())
        );
        assert_eq!(error("fieldManager=a&force=1", true), Ok(Some(true)));
    }
}
