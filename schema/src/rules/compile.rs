//! From the texts of a rule to expressions whose types are known (`schema/cel/compilation.go`).

use kindom_api::Value;
use kindom_cel::ast::Kind;
use kindom_cel::check::{Checked, Reference};
use kindom_cel::eval::Program;
use kindom_cel::parse::Issues;
use kindom_cel::types::Type;

use super::declare::Declared;
use crate::crd::props::{flag, text};

/// A rule whose texts have been compiled.
pub(crate) struct Compiled {
    /// None if there is no rule; upstream's words if it does not compile.
    pub(crate) rule: Result<Option<Expression>, String>,
    /// Its `messageExpression`; not looked at if the rule does not compile.
    pub(crate) message: Option<Result<Expression, String>>,
}

/// An expression whose types are right, ready to run.
pub(crate) struct Expression {
    pub(crate) checked: Checked,
    pub(crate) program: Program,
}

impl Compiled {
    /// Returns true if the rule uses `oldSelf`. A variable of a macro counts if it has the name, as upstream looks no
    /// further.
    pub(crate) fn uses_old_self(&self) -> bool {
        let Ok(Some(Expression { checked, .. })) = &self.rule else { return false };
        checked.ast.exprs.iter().zip(&checked.references).any(|(expr, to)| {
            matches!(&expr.kind, Kind::Ident(name) if &**name == "oldSelf")
                && matches!(to, Reference::Variable(_) | Reference::Local)
        })
    }
}

/// Compiles a rule on a value that is declared so.
pub(crate) fn compile(rule: &Value, declared: &Declared) -> Compiled {
    let source = text(rule, "rule");
    if source.trim().is_empty() {
        return Compiled { rule: Ok(None), message: None };
    }
    let optional = flag(rule, "optionalOldSelf");
    let message_source = text(rule, "messageExpression");
    let rule = check(source, declared, optional).map_err(|issues| format!("compilation failed: {issues}"));
    let rule = rule.and_then(|checked| match checked.result() {
        Type::Bool => plan(checked).map_err(|text| format!("program instantiation failed: {text}")),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    });
    let rule = match rule {
        Ok(rule) => rule,
        Err(text) => return Compiled { rule: Err(declared.rename(text)), message: None },
    };
    let message = (!message_source.is_empty()).then(|| {
        let message = check(message_source, declared, optional);
        let message = message.map_err(|issues| format!("messageExpression compilation failed: {issues}"));
        message
            .and_then(|checked| match checked.result() {
                Type::String => {
                    plan(checked).map_err(|text| format!("messageExpression instantiation failed: {text}"))
                }
                _ => Err("messageExpression must evaluate to a string".to_owned()),
            })
            .map_err(|text| declared.rename(text))
    });
    Compiled { rule: Ok(Some(rule)), message }
}

fn plan(checked: Checked) -> Result<Expression, String> {
    Ok(Expression { program: Program::plan(&checked)?, checked })
}

/// `self` and `oldSelf`, by their places.
fn check(source: &str, declared: &Declared, optional: bool) -> Result<Checked, Issues> {
    let ty = declared.decl.to_type();
    let old = if optional { Type::optional(ty.clone()) } else { ty.clone() };
    kindom_cel::check::compile(source, &[("self", ty), ("oldSelf", old)])
}
