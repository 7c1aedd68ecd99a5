//! Expressions as text that shows all of them: each with the code point where it stands, and with what is known of it.

use kindom_cel::ast::{Ast, Id, Kind, Literal};

/// An expression and all below it. `known` is what follows the place of each.
pub(crate) fn write(ast: &Ast, id: Id, known: &dyn Fn(Id) -> String) -> String {
    let below = |id: Id| write(ast, id, known);
    let many = |ids: &[Id]| ids.iter().map(|id| format!(" {}", below(*id))).collect::<String>();
    let optional = |optional: bool| if optional { "?" } else { "" };
    let expr = ast.get(id);
    let kind = match &expr.kind {
        Kind::Literal(literal) => constant(literal),
        Kind::Ident(name) => format!(":{name}"),
        Kind::Select { operand, field, test_only } => {
            format!("({} {} {field})", if *test_only { "has" } else { "sel" }, below(*operand))
        }
        Kind::Call { target: Some(target), function, args } => {
            format!("({function} {} .{})", below(*target), many(args))
        }
        Kind::Call { target: None, function, args } => format!("({function}{})", many(args)),
        Kind::List { items, optional: marked } => {
            let mark = |index: usize| marked.iter().any(|marked| *marked as usize == index);
            let items = items.iter().enumerate();
            let items = items.map(|(index, item)| format!(" {}{}", optional(mark(index)), below(*item)));
            format!("[{}]", items.collect::<String>())
        }
        Kind::Map(entries) => {
            let entries = entries
                .iter()
                .map(|e| format!(" @{}{} {} {}", e.at, optional(e.optional), below(e.key), below(e.value)));
            format!("{{{}}}", entries.collect::<String>())
        }
        Kind::Struct { name, fields } => {
            let fields = fields
                .iter()
                .map(|f| format!(" @{}{}{} {}", f.at, optional(f.optional), f.name, below(f.value)));
            format!("{name}{{{}}}", fields.collect::<String>())
        }
        Kind::Comprehension(fold) => {
            let second = fold.iter_var2.as_deref().map(|name| format!(",{name}")).unwrap_or_default();
            let parts = [fold.iter_range, fold.accu_init, fold.loop_condition, fold.loop_step, fold.result];
            format!("(fold {}{second} {}{})", fold.iter_var, fold.accu_var, many(&parts))
        }
        Kind::Error => "error".to_owned(),
    };
    format!("{}{}{kind}", expr.at, known(id))
}

fn constant(literal: &Literal) -> String {
    match literal {
        Literal::Null => "null".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Uint(value) => format!("{value}u"),
        Literal::Double(value) => format!("f{value:?}"),
        Literal::String(value) => format!("{value:?}"),
        Literal::Bytes(value) => format!("b{value:x?}"),
    }
}
