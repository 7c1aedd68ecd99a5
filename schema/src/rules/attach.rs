//! Puts compiled rules into the nodes that they stand in (`schema/cel/validation.go`, `NewValidator`).

use kindom_api::Value;

use super::compile::compile;
use super::declare::Declared;
use super::{Expressions, More, Reason, Rule};
use crate::crd::field_path;
use crate::crd::props::{
    OrBool, additional_properties, entries, flag, item, list, optional_text, property, text,
};
use crate::node::{Additional, Node, Rules};

const KEYWORD: &str = "x-kubernetes-validations";

/// Compiles the rules of a schema into its tree. The root is that of a resource.
pub(crate) fn attach(root: &mut Node, schema: &Value) {
    if has_rules(schema) {
        node(root, schema, true, None);
    }
}

/// Returns true if a schema has rules, or any schema has that its values lead to.
pub(crate) fn has_rules(schema: &Value) -> bool {
    if !list(schema, KEYWORD).is_empty() {
        return true;
    }
    if item(schema).is_some_and(has_rules) {
        return true;
    }
    if let Some(OrBool::Schema(schema)) = additional_properties(schema)
        && has_rules(schema)
    {
        return true;
    }
    entries(schema, "properties").any(|(_, schema)| has_rules(schema))
}

/// `around` is the declaration of the node above, once there is one. Returns true if there are rules.
fn node(node: &mut Node, schema: &Value, is_root: bool, around: Option<Option<Declared>>) -> bool {
    let rules = list(schema, KEYWORD);
    let is_root = is_root || flag(schema, "x-kubernetes-embedded-resource");
    let declared = match around {
        None if rules.is_empty() => None,
        None => Some(Declared::new(schema, is_root)),
        known => known,
    };
    let mut any = false;
    if let (Some(Some(declared)), false) = (&declared, rules.is_empty()) {
        let keep = node.rules.get_or_insert_with(|| Box::new(Rules::default()));
        keep.expressions = Some(Box::new(expressions(rules, schema, declared)));
        any = true;
    }
    let known = declared.as_ref().map(Option::as_ref);
    if let (Some(child), Some(schema)) = (node.items.as_deref_mut(), item(schema)) {
        any |= self::node(child, schema, false, known.map(|declared| declared?.element()));
    }
    if let Some(fields) = node.fields.as_deref_mut() {
        if let (Additional::Schema(child), Some(OrBool::Schema(schema))) =
            (fields.additional_mut(), additional_properties(schema))
        {
            any |= self::node(child, schema, false, known.map(|declared| declared?.element()));
        }
        for (name, child) in fields.properties_mut() {
            if let Some(schema) = property(schema, name) {
                any |=
                    self::node(child, schema, false, known.map(|declared| declared?.property(name, schema)));
            }
        }
    }
    node.below.expressions = any;
    any
}

fn expressions(rules: &[Value], schema: &Value, declared: &Declared) -> Expressions {
    let rules: Box<[Rule]> = rules.iter().filter_map(|rule| one(rule, schema, declared)).collect();
    Expressions { use_old_self: rules.iter().any(|rule| rule.uses_old_self), rules }
}

/// None if there is no rule.
fn one(rule: &Value, schema: &Value, declared: &Declared) -> Option<Rule> {
    let compiled = compile(rule, declared);
    let uses_old_self = compiled.uses_old_self();
    let program = match compiled.rule {
        Ok(None) => return None,
        Ok(Some(expression)) => Ok(expression.program),
        Err(text) => Err(text),
    };
    let (source, said) = (text(rule, "rule"), text(rule, "message"));
    let has_message = !said.is_empty();
    let message = compiled.message.and_then(Result::ok);
    let path = text(rule, "fieldPath");
    let more = More {
        message: message.map(|expression| (expression.program, text(rule, "messageExpression").into())),
        field_path: field_path::find(path, Some(schema), true)
            .ok()
            .map(|found| found.steps.concat())
            .filter(|path| !path.is_empty())
            .map(|path| path.strip_prefix('.').unwrap_or(&path).into()),
    };
    Some(Rule {
        program: program.map_err(String::into_boxed_str),
        text: if has_message { said } else { source }.trim().into(),
        has_message,
        reason: match optional_text(rule, "reason") {
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            _ => Reason::Invalid,
        },
        uses_old_self,
        optional_old_self: flag(rule, "optionalOldSelf"),
        more: (more.message.is_some() || more.field_path.is_some()).then(|| Box::new(more)),
    })
}
