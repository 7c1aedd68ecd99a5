//! The most that an expression can cost (cel-go `checker/cost.go`, `apiserver/pkg/cel/library/cost.go`).
//!
//! The estimate decides which rules a registration may have, so it is upstream's number, oddities included. In one place it
//! is that of Kubernetes 1.34, which is lower: `matches(text, regex)` costs 1 there, and only `text.matches(regex)` costs by
//! the lengths.

mod calls;
mod path;
mod range;

pub use range::Range;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, Id, Kind, Literal};
use crate::check::{Checked, Reference};
use crate::decl::{Decl, Kind as DeclKind};
use crate::types::Type;

use path::{Arrays, Path};

/// The bounds of the values of variables.
pub trait Bounds {
    /// The most elements of the value that these steps lead to: fields by the names that expressions use, `@items`,
    /// `@keys` and `@values`. The variable itself is no step. None if there is no such value.
    fn max_elements(&self, steps: &[&str]) -> Option<u64>;
}

impl Bounds for Decl {
    fn max_elements(&self, steps: &[&str]) -> Option<u64> {
        let mut at = self;
        for step in steps {
            at = match (*step, &at.kind) {
                ("@items" | "@values", DeclKind::List(item)) => item,
                ("@items" | "@values", DeclKind::Map(parts)) => &parts.1,
                ("@keys", DeclKind::Map(parts)) => &parts.0,
                (field, DeclKind::Object(object)) => object.fields.get(field)?,
                _ => return None,
            };
        }
        Some(at.max_elements)
    }
}

/// The least and the most that a checked expression costs. All its variables have the same bounds, as `self` and `oldSelf`
/// have.
#[must_use]
pub fn estimate(checked: &Checked, bounds: &dyn Bounds) -> Range {
    let expressions = checked.ast.exprs.len();
    let mut estimator = Estimator {
        checked,
        bounds,
        arrays: Arrays::new(),
        paths: vec![Path::default(); expressions],
        sizes: vec![None; expressions],
        entries: vec![None; expressions],
        locals: Vec::new(),
    };
    estimator.cost(checked.ast.root)
}

const SELECT: Range = Range::fixed(1);
const LIST: Range = Range::fixed(10);
const MAP: Range = Range::fixed(30);
const STRUCT: Range = Range::fixed(40);
/// The cost of reading a byte of a string.
const PER_BYTE: f64 = 0.1;
/// The cost of a character of a regular expression, for each unit of cost of the matched text.
const PER_REGEX_CHAR: f64 = 0.25;

struct Estimator<'a> {
    checked: &'a Checked,
    bounds: &'a dyn Bounds,
    arrays: Arrays<'a>,
    /// By expression.
    paths: Vec<Path>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entry>>,
    locals: Vec<Local<'a>>,
}

/// The sizes of the keys and values in a list or map.
#[derive(Debug, Clone, Copy)]
struct Entry {
    is_list: bool,
    key: Range,
    value: Range,
}

#[derive(Debug)]
struct Local<'a> {
    name: &'a str,
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// An operand as the estimates of functions see it.
#[derive(Debug, Clone, Copy)]
struct Operand<'a> {
    path: Path,
    ty: &'a Type,
    expr: &'a Expr,
    id: Id,
    size: Option<Range>,
}

/// An estimate of a call.
#[derive(Debug, Clone, Copy)]
struct Call {
    cost: Range,
    /// The size of the result.
    size: Option<Range>,
}

fn union_of(one: Option<Entry>, other: Option<Entry>) -> Option<Entry> {
    let (one, other) = (one?, other?);
    Some(Entry { key: one.key.union(other.key), value: one.value.union(other.value), ..one })
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, id: Id) -> Range {
        match &self.checked.ast.get(id).kind {
            Kind::Literal(_) | Kind::Error => Range::default(),
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path,
                    None => self.arrays.variable(name),
                };
                self.set_path(id, path);
                SELECT
            }
            // Asking whether something is there costs nothing (`PresenceTestHasCost(false)`).
            Kind::Select { operand, test_only: true, .. } => self.cost(*operand),
            Kind::Select { operand, field, .. } => {
                let mut sum = self.cost(*operand);
                if is_selected_at_a_cost(self.ty(*operand)) {
                    sum = sum.add(SELECT);
                }
                let path = self.path(*operand);
                let path = self.arrays.append(path, field);
                self.set_path(id, path);
                sum
            }
            Kind::Call { target, function, args } => self.call(id, *target, function, args),
            Kind::List { items, .. } => {
                let mut sum = Range::default();
                let mut size = if items.is_empty() { Range::default() } else { Range::EMPTY };
                for item in items {
                    sum = sum.add(self.cost(*item));
                    size = size.union(self.size_or_unknown(*item));
                }
                self.set_entry(id, Some(Entry { is_list: true, key: Range::fixed(1), value: size }));
                sum.add(LIST)
            }
            Kind::Map(entries) => {
                let mut sum = Range::default();
                let empty = if entries.is_empty() { Range::default() } else { Range::EMPTY };
                let (mut keys, mut values) = (empty, empty);
                for entry in entries {
                    sum = sum.add(self.cost(entry.key)).add(self.cost(entry.value));
                    keys = keys.union(self.size_or_unknown(entry.key));
                    values = values.union(self.size_or_unknown(entry.value));
                }
                self.set_entry(id, Some(Entry { is_list: false, key: keys, value: values }));
                sum.add(MAP)
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(Range::default(), |sum, field| sum.add(self.cost(field.value))).add(STRUCT)
            }
            Kind::Comprehension(fold) => {
                if self.is_bind(fold) {
                    self.bind(id, fold)
                } else {
                    self.comprehension(id, fold)
                }
            }
        }
    }

    fn call(&mut self, id: Id, target: Option<Id>, function: &'a str, args: &'a [Id]) -> Range {
        if let ("dyn", [arg, ..]) = (function, args) {
            let cost = self.cost(*arg);
            self.copy_sizes(id, *arg);
            return Range::fixed(1).add(cost);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            operands.push(self.operand(*arg));
        }
        let Some(Reference::Call(_, overloads)) = self.checked.references.get(id as usize) else {
            return Range::default();
        };
        if overloads.is_empty() {
            return Range::default();
        }
        let mut sum = Range::default();
        let mut on = None;
        if let Some(target) = target {
            sum = self.cost(target);
            on = Some(self.operand(target));
        }
        let mut cost = Range::EMPTY;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let one = self.overload(id, function, overload.id, on.as_ref(), &operands, &costs);
            cost = cost.union(one.cost);
            size = match (size, one.size) {
                (Some(size), Some(other)) => Some(size.union(other)),
                (size, other) => size.or(other),
            };
            let step = match overload.id {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(first)) = (step, args.first()) {
                size = self.entry(*first).map(|entry| entry.value);
                let path = self.path(*first);
                let path = self.arrays.append(path, step);
                self.set_path(id, path);
            }
            size = size.or_else(|| self.size(id));
        }
        self.set_size(id, size);
        sum.add(cost)
    }

    fn comprehension(&mut self, id: Id, fold: &'a Comprehension) -> Range {
        let mut sum = self.cost(fold.iter_range).add(self.cost(fold.accu_init));
        self.push_local(&fold.accu_var, fold.accu_init);
        match &fold.iter_var2 {
            Some(second) => {
                self.push_step(&fold.iter_var, fold.iter_range, Step::Key);
                self.push_step(second, fold.iter_range, Step::Value);
            }
            None => self.push_step(&fold.iter_var, fold.iter_range, Step::Single),
        }
        let condition = self.cost(fold.loop_condition);
        let step = self.cost(fold.loop_step);
        self.pop_local(&fold.iter_var);
        if let Some(second) = &fold.iter_var2 {
            self.pop_local(second);
        }
        sum = sum.add(self.cost(fold.result));
        self.pop_local(&fold.accu_var);
        let times = self.size_or_unknown(fold.iter_range);
        sum = sum.add(times.multiply(step.add(condition)));
        match self.checked.ast.get(fold.accu_init).kind {
            Kind::Literal(_) => {
                let size = self.size(fold.accu_init);
                self.set_size(id, size);
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.set_size(id, Some(times));
                let entry = self.entry(fold.loop_step);
                self.set_entry(id, entry);
            }
            _ => {}
        }
        sum
    }

    /// Returns true if a fold over an empty list only gives a value a name (`cel.bind`).
    fn is_bind(&self, fold: &Comprehension) -> bool {
        let ast = &self.checked.ast;
        matches!(&ast.get(fold.iter_range).kind, Kind::List { items, .. } if items.is_empty())
            && matches!(ast.get(fold.loop_condition).kind, Kind::Literal(Literal::Bool(false)))
            && *fold.accu_var != *ACCUMULATOR
    }

    fn bind(&mut self, id: Id, fold: &'a Comprehension) -> Range {
        let mut sum = self.cost(fold.iter_range).add(self.cost(fold.accu_init));
        self.push_local(&fold.accu_var, fold.accu_init);
        sum = sum.add(self.cost(fold.result));
        self.pop_local(&fold.accu_var);
        self.copy_sizes(id, fold.result);
        sum
    }

    fn push_local(&mut self, name: &'a str, value: Id) {
        let (path, entry) = (self.path(value), self.entry(value));
        let size = self.size(value);
        self.locals.push(Local { name, path, size, entry });
    }

    fn push_step(&mut self, name: &'a str, range: Id, step: Step) {
        let entry = self.entry(range);
        let is_list = entry.map_or_else(|| matches!(self.ty(range), Type::List(_)), |entry| entry.is_list);
        let key = entry.map(|entry| entry.key);
        let value = entry.map(|entry| entry.value);
        let (step, size) = match (step, is_list) {
            (Step::Key, true) => ("@indices", key),
            (Step::Key | Step::Single, false) => ("@keys", key),
            (Step::Value | Step::Single, true) => ("@items", value),
            (Step::Value, false) => ("@values", value),
        };
        let path = self.path(range);
        let path = self.arrays.append(path, step);
        self.locals.push(Local { name, path, size, entry: None });
    }

    fn local(&self, name: &str) -> Option<&Local<'a>> {
        self.locals.iter().rfind(|local| local.name == name)
    }

    fn pop_local(&mut self, name: &str) {
        if let Some(at) = self.locals.iter().rposition(|local| local.name == name) {
            self.locals.remove(at);
        }
    }

    fn ty(&self, id: Id) -> &'a Type {
        self.checked.types.get(id as usize).unwrap_or(&Type::Dyn)
    }

    fn path(&self, id: Id) -> Path {
        if let Kind::Ident(name) = &self.checked.ast.get(id).kind
            && let Some(local) = self.local(name)
        {
            return local.path;
        }
        self.paths.get(id as usize).copied().unwrap_or_default()
    }

    fn set_path(&mut self, id: Id, path: Path) {
        if let Some(place) = self.paths.get_mut(id as usize) {
            *place = path;
        }
    }

    fn operand(&mut self, id: Id) -> Operand<'a> {
        let mut path = self.path(id);
        if self.arrays.steps(path).first().is_some_and(|name| *name == ACCUMULATOR) {
            path = Path::default();
        }
        let size = self.size(id);
        Operand { path, ty: self.ty(id), expr: self.checked.ast.get(id), id, size }
    }

    fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let known @ Some(_) = self.sizes.get(id as usize).copied().flatten() {
            return known;
        }
        let expr = self.checked.ast.get(id);
        let written = match &expr.kind {
            Kind::Literal(Literal::String(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List { items, .. } => Some(items.len()),
            Kind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = written {
            return Some(Range::fixed(size as u64));
        }
        if let size @ Some(_) = self.size_at(self.path(id)) {
            self.set_size(id, size);
            return size;
        }
        if is_scalar(self.ty(id)) {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// The size of the declared value that a path leads to, whatever variable it begins with.
    fn size_at(&self, path: Path) -> Option<Range> {
        let (_, steps) = self.arrays.steps(path).split_first()?;
        self.bounds.max_elements(steps).map(|max| Range { min: 0, max })
    }

    fn set_size(&mut self, id: Id, size: Option<Range>) {
        if let (Some(place), Some(_)) = (self.sizes.get_mut(id as usize), size) {
            *place = size;
        }
    }

    fn entry(&self, id: Id) -> Option<Entry> {
        if let known @ Some(_) = self.entries.get(id as usize).copied().flatten() {
            return known;
        }
        match &self.checked.ast.get(id).kind {
            Kind::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }

    fn set_entry(&mut self, id: Id, entry: Option<Entry>) {
        if let (Some(place), Some(_)) = (self.entries.get_mut(id as usize), entry) {
            *place = entry;
        }
    }

    fn copy_sizes(&mut self, to: Id, from: Id) {
        let size = self.size(from);
        self.set_size(to, size);
        let entry = self.entry(from);
        self.set_entry(to, entry);
    }
}

/// The part of its range that a variable of a comprehension holds.
#[derive(Debug, Clone, Copy)]
enum Step {
    Key,
    Value,
    /// The item of a list, the key of a map.
    Single,
}

fn is_selected_at_a_cost(ty: &Type) -> bool {
    match ty {
        Type::Map(_) | Type::Object(_) | Type::Message(_) | Type::Param(_) | Type::Var(_) => true,
        // The types of libraries are declared as messages, but for these two.
        Type::Opaque(name) => !matches!(*name, "net.IP" | "net.CIDR"),
        _ => false,
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}
