//! The match conditions of webhooks: expressions on a write (`matchconditions/matcher.go`, `pkg/admission/plugin/cel`).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kindom_api::Value;
use kindom_cel::check::compile;
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::eval::{COST_MAX, Program};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::{EvalError, Value as CelValue};
use kindom_formats::pattern::Budget;

/// The most that all conditions of one webhook may cost (`RuntimeCELCostBudgetMatchConditions`).
const BUDGET: u64 = 2_500_000;
/// Steps that their regular expressions may take in all: a fraction of a second.
const PATTERNS_MAX: usize = 10_000_000;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The match conditions of a webhook.
#[derive(Debug)]
pub struct Conditions {
    conditions: Vec<Condition>,
    fails_open: bool,
}

#[derive(Debug)]
struct Condition {
    expression: String,
    /// Or why it does not compile.
    program: Result<Program, String>,
}

impl Conditions {
    /// Those of a configuration.
    pub(super) fn of(conditions: &[Value], fails_open: bool) -> Self {
        let condition = |condition: &Value| {
            let expression = condition.text_at(&["expression"]).to_owned();
            let program = program(&expression);
            Condition { expression, program }
        };
        Self { conditions: conditions.iter().map(condition).collect(), fails_open }
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if all of them hold for a write: its `request` ([`review_request`](super::review_request)) and its objects in
    /// the version of the webhook's rule.
    ///
    /// # Errors
    /// The reason why nobody knows, if the write fails for that.
    pub fn hold(&self, request: &Value, object: Option<&Value>, old: Option<&Value>) -> Result<bool, String> {
        static NULL: Value = Value::Null;
        let (object, old) = (object.unwrap_or(&NULL), old.unwrap_or(&NULL));
        let absent = |name: &str| Err(EvalError::Message(format!("no such attribute(s): {name}")));
        let variables = [
            CelValue::of(object, &Untyped),
            CelValue::of(old, &Untyped),
            CelValue::of(request, &Untyped),
            absent("namespaceObject"),
            absent("authorizer"),
            absent("authorizer.requestResource"),
        ];
        let (mut left, mut patterns, mut errors) = (BUDGET, Budget::new(PATTERNS_MAX), Vec::new());
        let undecided = |why: String| if self.fails_open { Ok(false) } else { Err(why) };
        for condition in &self.conditions {
            let program = match &condition.program {
                Ok(program) => program,
                Err(why) => {
                    errors.push(format!("compilation error: {why}"));
                    continue;
                }
            };
            let outcome = program.run_within(&variables, COST_MAX, &mut patterns);
            let Some(rest) = left.checked_sub(outcome.cost) else { return undecided(OUT_OF_BUDGET.into()) };
            left = rest;
            match outcome.result {
                // Whatever the others say.
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) => {
                    errors.push(format!("expression '{}' resulted in error: {why}", condition.expression))
                }
            }
        }
        match errors.len() {
            0 => Ok(true),
            1 => undecided(errors.remove(0)),
            _ => {
                let mut once: Vec<String> = Vec::new();
                for error in errors {
                    if !once.contains(&error) {
                        once.push(error);
                    }
                }
                undecided(format!("[{}]", once.join(", ")))
            }
        }
    }
}

/// Checks that a condition compiles.
///
/// # Errors
/// The reason why not, in upstream's words.
pub(crate) fn check_condition(expression: &str) -> Result<(), String> {
    program(expression).map(drop)
}

fn program(expression: &str) -> Result<Program, String> {
    let checked = compile(expression, &*VARIABLES);
    let checked = checked.map_err(|issues| format!("compilation failed: {issues}"))?;
    match checked.result() {
        Type::Bool => {}
        other => return Err(format!("must evaluate to bool but got {other}")),
    }
    Program::plan(&checked).map_err(|why| format!("program instantiation failed: {why}"))
}

/// The variables of expressions on writes (`mustBuildEnvs`).
static VARIABLES: LazyLock<[(&str, Type); 6]> = LazyLock::new(|| {
    [
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", request_type().to_type()),
        ("namespaceObject", namespace_type().to_type()),
        ("authorizer", Type::Opaque("kubernetes.authorization.Authorizer")),
        ("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck")),
    ]
});

fn plain(of: Type) -> Decl {
    Decl { kind: Kind::Plain(of), ..Decl::default() }
}

fn text() -> Decl {
    plain(Type::String)
}

fn texts() -> Decl {
    Decl { kind: Kind::List(Arc::new(text())), ..Decl::default() }
}

fn by_text(value: Decl) -> Decl {
    Decl { kind: Kind::Map(Arc::new((text(), value))), ..Decl::default() }
}

fn object<const N: usize>(name: &str, fields: [(&str, Decl); N]) -> Decl {
    let fields: BTreeMap<Box<str>, Decl> =
        fields.into_iter().map(|(name, decl)| (name.into(), decl)).collect();
    Decl { kind: Kind::Object(Arc::new(Object { name: name.to_owned(), fields })), ..Decl::default() }
}

/// `BuildRequestType`
fn request_type() -> Decl {
    let named =
        |name, last: &'static str| object(name, [("group", text()), ("version", text()), (last, text())]);
    let kind = || named("kubernetes.GroupVersionKind", "kind");
    let resource = || named("kubernetes.GroupVersionResource", "resource");
    let user = object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", by_text(texts()))],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", plain(Type::Bool)),
            ("options", plain(Type::Dyn)),
        ],
    )
}

/// `BuildNamespaceType`
fn namespace_type() -> Decl {
    let time = || plain(Type::Timestamp);
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let conditions = Decl { kind: Kind::List(Arc::new(condition)), ..Decl::default() };
    let status = object("kubernetes.NamespaceStatus", [("conditions", conditions), ("phase", text())]);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", by_text(text())),
            ("annotations", by_text(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", plain(Type::Int)),
            ("deletionTimestamp", time()),
            ("generation", plain(Type::Int)),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}
