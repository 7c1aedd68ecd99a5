//! Admission policies and their bindings, compiled, and how they judge (`policy/validating/validator.go`, `dispatcher.go`). How they
//! change objects is in [`mutation`](super::mutation).

use std::sync::Arc;

use kindom_api::selector::LabelSelector;
use kindom_api::{GroupVersionKind, Value};
use kindom_cel::eval::COST_MAX;
use kindom_cel::value::Value as CelValue;

use super::condition::{Conditions, Undecided, names_authorizer};
use super::environment::{Composition, Expression, Wanted};
use super::evaluation::{Evaluation, Inputs, OUT_OF_BUDGET, Pending, Stop};
use super::matching::Matching;
use super::mutation::Mutation;

/// The most that the expressions of a policy may cost for one write and one parameter (`RuntimeCELCostBudget`).
pub(super) const BUDGET: u64 = 10_000_000;
/// The longest message that an expression may make (`MaxEvaluatedMessageExpressionSizeBytes`).
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// A policy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// The writes that it is about.
    pub matching: Matching,
    /// The kind of its parameters.
    pub param_kind: Option<GroupVersionKind>,
    /// A failure lets writes through.
    pub fails_open: bool,
    /// An expression may name the write's namespace.
    pub names_namespace: bool,
    /// An expression may ask for permissions.
    pub(super) names_authorizer: bool,
    /// Its changes, one after the other.
    pub mutations: Vec<Mutation>,
    /// They are made again if something else changes the object after them.
    pub is_reinvoked: bool,
    /// The expressions that decide whether it is asked.
    pub conditions: Conditions,
    pub(super) composed: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    /// Each with its key.
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    reason: Option<Arc<str>>,
    message_expression: Option<Expression>,
}

/// The verdict of one expression of a policy on a write; of most that let it through, there is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place of the expression among the policy's validations.
    pub index: usize,
    /// The write may go on: the expression failed, and the policy fails open.
    pub allows: bool,
    /// The expression failed.
    pub is_error: bool,
    /// The binding's actions decide; else the write is refused.
    pub is_of_validation: bool,
    /// The text for the client.
    pub message: String,
    /// The reason of a refusal; `None` for `Invalid`.
    pub reason: Option<Arc<str>>,
}

/// The judgement of a policy on a write, with one parameter or none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The verdicts that matter, in the order of the expressions.
    pub findings: Vec<Finding>,
    /// The keys of audit annotations without the policy's name, and their values.
    pub annotations: Vec<(String, String)>,
}

impl From<Vec<Finding>> for Judgement {
    fn from(findings: Vec<Finding>) -> Self {
        Self { findings, annotations: Vec::new() }
    }
}

/// The parts of a policy that are compiled: of one that is written, and of one that judges.
pub(crate) struct Compiled<'p> {
    spec: &'p Value,
    /// With its variables, once they are added.
    pub(crate) composition: Composition,
}

impl<'p> Compiled<'p> {
    /// Of a policy's spec, without its variables. At its validation, `variables` are declared only if there are some.
    pub(crate) fn new(spec: &'p Value, composes: bool) -> Self {
        Self { spec, composition: Composition::new(has_params(spec), composes) }
    }

    fn items(&self, field: &str) -> &'p [Value] {
        self.spec.get(field).and_then(Value::as_array).unwrap_or_default()
    }

    /// The expression of a validation.
    pub(crate) fn validation(&self, source: &str) -> Expression {
        self.composition.compile(source, Wanted::Bool, true)
    }

    /// That of its message.
    pub(crate) fn message(&self, source: &str) -> Expression {
        self.composition.compile(source, Wanted::String, false)
    }

    /// That of a change, by a JSON patch or an apply configuration.
    pub(crate) fn mutation(&self, makes_patch: bool, source: &str) -> Expression {
        let wanted = if makes_patch { Wanted::Patch } else { Wanted::Object };
        self.composition.compile(source, wanted, true)
    }

    /// That of an audit annotation.
    pub(crate) fn annotation(&self, source: &str) -> Expression {
        self.composition.compile(source, Wanted::Text, true)
    }
}

impl Policy {
    /// A policy as it is stored.
    #[must_use]
    pub fn of(policy: &Value) -> Self {
        static NONE: Value = Value::Null;
        let spec = policy.get("spec").unwrap_or(&NONE);
        let fails_open = spec.text_at(&["failurePolicy"]) == "Ignore";
        let mut compiled = Compiled::new(spec, true);
        for variable in compiled.items("variables") {
            // One that does not compile fails where it is needed.
            drop(compiled.composition.add(variable.text_at(&["name"]), variable.text_at(&["expression"])));
        }
        let has_params = has_params(spec);
        let validation = |validation: &Value| {
            let text = |field| validation.text_at(&[field]);
            let message_expression = text("messageExpression");
            Validation {
                expression: compiled.validation(text("expression")),
                message: text("message").trim().to_owned(),
                reason: validation.get("reason").and_then(Value::as_str).map(Into::into),
                message_expression: (!message_expression.is_empty())
                    .then(|| compiled.message(message_expression)),
            }
        };
        let validations: Vec<_> = compiled.items("validations").iter().map(validation).collect();
        let annotations = compiled.items("auditAnnotations").iter();
        let annotation = |of: &Value| {
            let key = of.text_at(&["key"]).to_owned();
            (key, compiled.annotation(of.text_at(&["valueExpression"])))
        };
        let annotations = annotations.map(annotation).collect();
        Self {
            name: policy.text_at(&["metadata", "name"]).to_owned(),
            matching: Matching::of_resources(spec.get("matchConstraints").unwrap_or(&NONE)),
            param_kind: has_params.then(|| param_kind(spec)),
            fails_open,
            names_namespace: spec.to_string().contains("namespaceObject"),
            names_authorizer: names_authorizer(spec),
            conditions: Conditions::of(compiled.items("matchConditions"), has_params, fails_open),
            mutations: compiled.items("mutations").iter().map(|of| Mutation::of(&compiled, of)).collect(),
            is_reinvoked: spec.text_at(&["reinvocationPolicy"]) == "IfNeeded",
            validations,
            annotations,
            composed: compiled.composition.variables,
        }
    }

    /// Judges a write.
    ///
    /// # Errors
    /// A decision is yet to be asked for.
    pub fn judge(&self, inputs: &Inputs<'_>) -> Result<Judgement, Pending> {
        if !self.conditions.is_empty() {
            match self.conditions.hold(inputs) {
                Ok(true) => {}
                Ok(false) => return Ok(Judgement::default()),
                Err(Undecided::Failed(why)) => return Ok(vec![self.error(0, why)].into()),
                Err(Undecided::Pending) => return Err(Pending),
            }
        }
        match self.judged(inputs) {
            Ok(verdicts) => Ok(verdicts),
            Err(Stop::Pending(pending)) => Err(pending),
            Err(Stop::OutOfBudget) => Ok(vec![self.error(0, OUT_OF_BUDGET.to_owned())].into()),
            Err(Stop::Failed(why)) => Ok(vec![self.error(0, why)].into()),
        }
    }

    fn judged(&self, inputs: &Inputs<'_>) -> Result<Judgement, Stop> {
        let mut scope = Evaluation::new(inputs, &self.composed, BUDGET, self.names_authorizer);
        let mut failed = Vec::new();
        for validation in &self.validations {
            match scope.evaluate(&validation.expression) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => failed.push((validation, None)),
                Err(Stop::Failed(why)) => failed.push((validation, Some(why))),
                Err(stop) => return Err(stop),
            }
        }
        let mut findings = self.explained(inputs, failed, scope.left())?;
        let mut annotations = Vec::new();
        if self.annotations.is_empty() {
            return Ok(findings.into());
        }
        let mut scope = Evaluation::new(inputs, &self.composed, BUDGET, false).without_authorizer();
        for (key, annotation) in &self.annotations {
            match scope.evaluate(annotation) {
                Ok(CelValue::String(text)) => {
                    let text = text.as_str().trim();
                    if !text.is_empty() {
                        annotations.push((key.clone(), text.to_owned()));
                    }
                }
                Ok(CelValue::Null) => {}
                Ok(other) => {
                    let (source, of) = (&annotation.source, other.type_name());
                    let why = format!(
                        "valueExpression '{source}' resulted in unsupported return type: {of}. Return type must be either string or null."
                    );
                    // Whatever the policy does when it fails.
                    findings.push(Finding { allows: false, is_of_validation: false, ..self.error(0, why) });
                }
                Err(Stop::Failed(_)) if self.fails_open => {}
                Err(Stop::Failed(why)) => {
                    findings.push(Finding { is_of_validation: false, ..self.error(0, why) });
                }
                Err(stop) => return Err(stop),
            }
        }
        Ok(Judgement { findings, annotations })
    }

    /// The verdicts of validations that have failed, with their errors if they have; messages may cost what is left.
    fn explained(
        &self,
        inputs: &Inputs<'_>,
        failed: Vec<(&Validation, Option<String>)>,
        left: u64,
    ) -> Result<Vec<Finding>, Stop> {
        let messages = self.validations.iter().filter(|of| of.message_expression.is_some()).count();
        // Every message counts, also those that nobody sees; it matters only if they may cost too much.
        let all_fit = (messages + self.composed.len()) as u64 * COST_MAX <= left;
        if failed.is_empty() && all_fit {
            return Ok(Vec::new());
        }
        let mut scope = Evaluation::new(inputs, &self.composed, left, false).without_authorizer();
        let mut verdicts = Vec::with_capacity(failed.len());
        let mut left_to_explain = failed.iter().peekable();
        for (index, validation) in self.validations.iter().enumerate() {
            // Both are in the order of the policy.
            let failure = left_to_explain.next_if(|(of, _)| std::ptr::eq(*of, validation));
            let message = match &validation.message_expression {
                Some(expression) if !all_fit || failure.is_some() => match scope.evaluate(expression) {
                    Ok(CelValue::String(text)) => text.as_str().trim().to_owned(),
                    Ok(_) | Err(Stop::Failed(_)) => String::new(),
                    Err(Stop::OutOfBudget) => return Ok(self.unexplained(failed)),
                    Err(stop) => return Err(stop),
                },
                _ => String::new(),
            };
            verdicts.extend(failure.map(|(_, error)| match error {
                Some(why) => self.error(index, why.clone()),
                None => validation.refusal(index, message),
            }));
        }
        Ok(verdicts)
    }

    /// The verdicts if messages cost too much: even what holds has failed.
    fn unexplained(&self, failed: Vec<(&Validation, Option<String>)>) -> Vec<Finding> {
        let mut failed = failed.into_iter().peekable();
        let verdict = |(index, validation): (usize, &Validation)| {
            let error = failed.next_if(|(of, _)| std::ptr::eq(*of, validation)).and_then(|(_, error)| error);
            self.error(index, error.unwrap_or_else(|| format!("failed messageExpression: {OUT_OF_BUDGET}")))
        };
        self.validations.iter().enumerate().map(verdict).collect()
    }

    fn error(&self, index: usize, message: String) -> Finding {
        let (allows, is_of_validation) = (self.fails_open, true);
        Finding { index, allows, is_error: true, is_of_validation, message, reason: None }
    }
}

impl Validation {
    /// The verdict on a write that it refuses. A message that is too long, or has several lines, is none.
    fn refusal(&self, index: usize, made: String) -> Finding {
        let is_usable = !made.is_empty() && made.len() <= MESSAGE_BYTES_MAX && !made.contains('\n');
        let message = match is_usable {
            true => made,
            false if !self.message.is_empty() => self.message.clone(),
            false => format!("failed expression: {}", self.expression.source.trim()),
        };
        let reason = self.reason.clone();
        Finding { index, allows: false, is_error: false, is_of_validation: true, message, reason }
    }
}

pub(super) fn has_params(spec: &Value) -> bool {
    spec.get("paramKind").is_some_and(|kind| !kind.is_null())
}

pub(super) fn param_kind(spec: &Value) -> GroupVersionKind {
    let text = |field| spec.text_at(&["paramKind", field]);
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    GroupVersionKind::new(group, version, text("kind"))
}

/// A binding: the writes and the parameters that a policy judges by it.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The policy's name.
    pub policy: String,
    /// The writes of the policy's that it is about; all if there is none.
    pub matching: Option<Matching>,
    /// The parameters; without, the policy judges once, without any.
    pub params: Option<ParamRef>,
    /// The consequences of a refusal.
    pub actions: Vec<Enforcement>,
}

/// The consequence of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// The write is refused.
    Deny,
    /// The client is warned.
    Warn,
    /// The audit event says so.
    Audit,
}

impl Enforcement {
    /// Its name in bindings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

/// The parameters of a binding.
#[derive(Debug)]
pub struct ParamRef {
    /// The name of the object; empty if a selector selects several.
    pub name: String,
    /// The namespace; empty for that of the write.
    pub namespace: String,
    /// By labels.
    pub selector: Option<LabelSelector>,
    /// A write is refused if there are none.
    pub needs_some: bool,
}

impl Binding {
    /// A binding as it is stored.
    #[must_use]
    pub fn of(binding: &Value) -> Self {
        static NONE: Value = Value::Null;
        let spec = binding.get("spec").unwrap_or(&NONE);
        let present = |field| spec.get(field).filter(|value| !value.is_null());
        let action = |action: &Value| match action.as_str()? {
            "Deny" => Some(Enforcement::Deny),
            "Warn" => Some(Enforcement::Warn),
            "Audit" => Some(Enforcement::Audit),
            _ => None,
        };
        let actions = spec.get("validationActions").and_then(Value::as_array).unwrap_or_default();
        Self {
            name: binding.text_at(&["metadata", "name"]).to_owned(),
            policy: spec.text_at(&["policyName"]).to_owned(),
            matching: present("matchResources").map(Matching::of_resources),
            params: present("paramRef").map(ParamRef::of),
            actions: actions.iter().filter_map(action).collect(),
        }
    }
}

impl ParamRef {
    fn of(reference: &Value) -> Self {
        let text = |field| reference.text_at(&[field]).to_owned();
        let selector = reference.get("selector").filter(|selector| !selector.is_null());
        Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector
                .map(|of| LabelSelector::of_object(of).unwrap_or_else(|_| LabelSelector::nothing())),
            needs_some: text("parameterNotFoundAction") == "Deny",
        }
    }
}
