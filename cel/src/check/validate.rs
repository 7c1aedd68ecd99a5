//! Checks of an expression whose types are right: literals that can never be what they are used as, and lists and maps of
//! mixed types (cel-go `cel/validator.go`, as `environment/base.go` adds them).

use kindom_formats::pattern;

use crate::ast::{Id, Kind, Literal};
use crate::check::{Checked, Reference, unify};
use crate::library::{Function, Run, string_format};
use crate::parse::Issue;
use crate::types::Type;
use crate::value::{Text, Value};

/// All of them.
pub(super) fn issues(checked: &Checked) -> Vec<Issue> {
    let mut validator = Validator { checked, issues: Vec::new() };
    validator.walk(checked.ast.root, false);
    validator.formats(checked.ast.root);
    validator.issues
}

struct Validator<'c> {
    checked: &'c Checked,
    issues: Vec<Issue>,
}

impl Validator<'_> {
    /// `formatted`: whether this is within a call of `format`, which takes lists of mixed types.
    fn walk(&mut self, id: Id, formatted: bool) {
        let checked = self.checked;
        match &checked.ast.get(id).kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Error => {}
            Kind::Select { operand, .. } => self.walk(*operand, formatted),
            Kind::Call { target, function, args } => {
                self.literal_of(id, function, args);
                let formatted = formatted || &**function == "format";
                for part in target.iter().chain(args) {
                    self.walk(*part, formatted);
                }
            }
            Kind::List { items, optional } => {
                if !formatted {
                    let marked = |index: usize| optional.iter().any(|marked| *marked as usize == index);
                    self.uniform(items.iter().enumerate().map(|(index, item)| (*item, marked(index))), true);
                }
                for item in items {
                    self.walk(*item, formatted);
                }
            }
            Kind::Map(entries) => {
                if !formatted {
                    self.uniform(entries.iter().map(|entry| (entry.key, false)), false);
                    self.uniform(entries.iter().map(|entry| (entry.value, entry.optional)), false);
                }
                for entry in entries {
                    self.walk(entry.key, formatted);
                    self.walk(entry.value, formatted);
                }
            }
            Kind::Struct { fields, .. } => {
                for field in fields {
                    self.walk(field.value, formatted);
                }
            }
            Kind::Comprehension(fold) => {
                for part in
                    [fold.iter_range, fold.accu_init, fold.loop_condition, fold.loop_step, fold.result]
                {
                    self.walk(part, formatted);
                }
            }
        }
    }

    /// Checks that constant formats fit their arguments. Reported last, outer calls first.
    fn formats(&mut self, root: Id) {
        let checked = self.checked;
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if let Some((at, message)) = string_format::check(checked, id) {
                self.issue(at, message);
            }
            let from = open.len();
            match &checked.ast.get(id).kind {
                Kind::Literal(_) | Kind::Ident(_) | Kind::Error => {}
                Kind::Select { operand, .. } => open.push(*operand),
                Kind::Call { target, args, .. } => open.extend(target.iter().chain(args)),
                Kind::List { items, .. } => open.extend(items),
                Kind::Map(entries) => open.extend(entries.iter().flat_map(|entry| [entry.key, entry.value])),
                Kind::Struct { fields, .. } => open.extend(fields.iter().map(|field| field.value)),
                Kind::Comprehension(fold) => open.extend([
                    fold.iter_range,
                    fold.accu_init,
                    fold.loop_condition,
                    fold.loop_step,
                    fold.result,
                ]),
            }
            if let Some(parts) = open.get_mut(from..) {
                parts.reverse();
            }
        }
    }

    fn issue(&mut self, id: Id, message: String) {
        self.issues.push(Issue { at: Some(self.checked.ast.get(id).at), message });
    }

    fn ty(&self, id: Id) -> Type {
        self.checked.types.get(id as usize).cloned().unwrap_or_default()
    }

    /// All items are of the first one's type. In lists the first that is not ends the search.
    fn uniform(&mut self, items: impl Iterator<Item = (Id, bool)>, once: bool) {
        let mut expected: Option<Type> = None;
        for (item, optional) in items {
            let ty = match self.ty(item) {
                Type::Optional(of) if optional => (*of).clone(),
                ty => ty,
            };
            match &expected {
                None => expected = Some(ty),
                Some(expected) if unify::same(expected, &ty) => {}
                Some(expected) => {
                    self.issue(item, format!("expected type '{expected}' but found '{ty}'"));
                    if once {
                        return;
                    }
                }
            }
        }
    }

    /// A literal is what its function takes.
    fn literal_of(&mut self, id: Id, function: &str, args: &[Id]) {
        let Some(first) = args.first() else { return };
        let Kind::Literal(literal) = &self.checked.ast.get(*first).kind else { return };
        let Some(Reference::Call(declared, overloads)) = self.checked.references.get(id as usize) else {
            return;
        };
        let run = |declared: &Function| -> Option<Run> {
            declared.singleton.or_else(|| overloads.iter().find_map(|overload| overload.run))
        };
        let wrong = match (function, literal) {
            // The remaining literal is null, which fits every nullable type.
            ("duration" | "timestamp", literal) => {
                run(declared).is_some_and(|run| value(literal).is_none_or(|value| run(&[value]).is_err()))
            }
            // cel-go looks at the first argument, also where that is not the expression.
            // Upstream compiles it; to take it apart is enough to know.
            ("matches", Literal::String(text)) => pattern::check(text).is_err(),
            _ => false,
        };
        if wrong {
            self.issue(*first, format!("invalid {function} argument"));
        }
    }
}

/// The value of a literal that a function may take.
fn value(literal: &Literal) -> Option<Value<'_>> {
    match literal {
        Literal::Int(value) => Some(Value::Int(*value)),
        Literal::String(value) => Some(Value::String(Text::Borrowed(value))),
        _ => None,
    }
}
