//! From [`Ast`] to types (cel-go `checker/checker.go`), and the checks of an expression whose types are right
//! (`cel/validator.go`).

mod names;
mod unify;
mod validate;

use std::collections::{HashMap, HashSet};

use crate::ast::{Ast, Comprehension, Entry, Expr, Id, Kind, Literal, StructField, operators};
use crate::library::{Function, Functions, Overload};
use crate::parse::{Issue, Issues};
use crate::types::Type;
use crate::value::message::{JSON_PATCH, is_message};
use unify::Bindings;

/// An expression whose types are known.
#[derive(Debug)]
pub struct Checked {
    /// With qualified names made one.
    pub ast: Ast,
    /// The type of each expression, by id.
    pub types: Vec<Type>,
    /// The reference of each name and call, by id.
    pub references: Vec<Reference>,
}

/// The declaration that a name or a call refers to.
#[derive(Debug, Default)]
pub enum Reference {
    /// Nothing: the expression is neither.
    #[default]
    None,
    /// A variable of the environment, by its place there.
    Variable(u32),
    /// A variable of a comprehension, by its name in the AST.
    Local,
    /// A type.
    Type(Type),
    /// A function and those of its overloads that the arguments allow.
    Call(&'static Function, Vec<&'static Overload>),
}

impl Checked {
    /// The type of the whole.
    #[must_use]
    pub fn result(&self) -> &Type {
        self.types.get(self.ast.root as usize).unwrap_or(&Type::Dyn)
    }
}

/// Parses and checks an expression that may refer to these variables.
///
/// # Errors
///
/// Every issue that cel-go would report: those of the syntax if it has any, else those of the types, else those of
/// literals.
pub fn compile(source: &str, variables: &[(&str, Type)]) -> Result<Checked, Issues> {
    let ast = crate::parse::parse(source).map_err(|issues| Issues::new(source, issues))?;
    check(ast, variables).map_err(|issues| Issues::new(source, issues))
}

/// Finds the types of an expression that may refer to these variables.
///
/// # Errors
///
/// Every issue that cel-go would report, in no order.
pub fn check(ast: Ast, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    check_in(ast, variables, false)
}

/// As [`check`], for an expression that may make the messages of patches (`HasPatchTypes`).
///
/// # Errors
///
/// As [`check`].
pub fn check_patch(ast: Ast, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    check_in(ast, variables, true)
}

fn check_in(ast: Ast, variables: &[(&str, Type)], makes_patches: bool) -> Result<Checked, Vec<Issue>> {
    let count = ast.exprs.len();
    let mut checker = Checker {
        ast: &ast,
        variables,
        places: places(variables),
        functions: Functions::all(),
        makes_patches,
        types: vec![Type::Dyn; count],
        references: std::iter::repeat_with(Reference::default).take(count).collect(),
        locals: Vec::new(),
        bindings: Bindings::default(),
        issues: Vec::new(),
        renamed: Vec::new(),
        too_large: false,
    };
    checker.check(ast.root);
    let Checker { mut types, references, bindings, issues, renamed, too_large, .. } = checker;
    if too_large || bindings.exhausted() {
        // The other issues are of no use then.
        return Err(vec![Issue { at: None, message: "types of the expression are too large".to_owned() }]);
    }
    if !issues.is_empty() {
        return Err(issues);
    }
    // A type that is still open is `dyn`.
    for ty in &mut types {
        if let Some(closed) = bindings.close(ty) {
            *ty = closed;
        }
    }
    let mut ast = ast;
    for (id, kind) in renamed {
        if let Some(expr) = ast.exprs.get_mut(id as usize) {
            expr.kind = kind;
        }
    }
    let checked = Checked { ast, types, references };
    match validate::issues(&checked) {
        issues if issues.is_empty() => Ok(checked),
        issues => Err(issues),
    }
}

/// The places of variables, by name; and the first parts of names that have several.
#[derive(Default)]
struct Places<'e> {
    by_name: HashMap<&'e str, u32>,
    roots: HashSet<&'e str>,
}

fn places<'e>(variables: &'e [(&'e str, Type)]) -> Places<'e> {
    let mut places = Places::default();
    for (place, (name, _)) in (0..).zip(variables) {
        places.by_name.entry(name).or_insert(place);
        places.roots.extend(name.split_once('.').map(|(root, _)| root));
    }
    places
}

struct Checker<'e> {
    ast: &'e Ast,
    variables: &'e [(&'e str, Type)],
    places: Places<'e>,
    functions: &'static Functions,
    /// Expressions may make messages, and have the functions that go with them.
    makes_patches: bool,
    types: Vec<Type>,
    references: Vec<Reference>,
    /// The variables of comprehensions, innermost last.
    locals: Vec<(&'e str, Type)>,
    bindings: Bindings,
    issues: Vec<Issue>,
    /// Expressions that are other ones, now that names are known.
    renamed: Vec<(Id, Kind)>,
    /// `true` if a type has grown larger than any may be. cel-go has no such limit, and takes as long as it takes.
    too_large: bool,
}

impl<'e> Checker<'e> {
    fn ty(&self, id: Id) -> Type {
        self.types.get(id as usize).cloned().unwrap_or_default()
    }

    fn set(&mut self, id: Id, ty: Type) {
        let ty = match unify::is_too_large(&ty) {
            true => {
                self.too_large = true;
                Type::Error
            }
            false => ty,
        };
        if let Some(place) = self.types.get_mut(id as usize) {
            *place = ty;
        }
    }

    fn refer(&mut self, id: Id, reference: Reference) {
        if let Some(place) = self.references.get_mut(id as usize) {
            *place = reference;
        }
    }

    fn issue(&mut self, at: u32, message: String) {
        self.issues.push(Issue { at: Some(at), message });
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.issue(self.ast.get(id).at, format!("undeclared reference to '{name}' (in container '')"));
        self.set(id, Type::Error);
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.issue(self.ast.get(id).at, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Finds the type of an expression. It is as deep as the tree, which the parser bounds.
    fn check(&mut self, id: Id) {
        let expr = self.ast.get(id);
        match &expr.kind {
            Kind::Literal(literal) => self.set(id, type_of(literal)),
            Kind::Ident(name) => self.ident(id, name),
            Kind::Select { operand, field, test_only } => self.select(id, expr, *operand, field, *test_only),
            Kind::Call { target, function, args } => self.call(id, *target, function, args),
            Kind::List { items, optional } => self.list(id, items, optional),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Struct { name, fields } => self.message(id, name, fields),
            Kind::Comprehension(fold) => self.fold(id, fold),
            Kind::Error => self.set(id, Type::Error),
        }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        self.functions.get(name).filter(|_| self.makes_patches || !names::is_of_patches(name))
    }

    /// The type of a name.
    fn type_named(&self, name: &str) -> Option<Type> {
        match self.makes_patches && is_message(name) {
            true => Some(Type::Message(name.into())),
            false => names::type_named(name).filter(|_| self.knows(name)),
        }
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.locals.iter().rev().find(|(local, _)| *local == name).map(|(_, ty)| ty)
    }

    fn ident(&mut self, id: Id, name: &str) {
        if let Some(ty) = self.local(name) {
            let ty = ty.clone();
            self.set(id, ty);
            self.refer(id, Reference::Local);
        } else if !self.global(id, name.strip_prefix('.').unwrap_or(name)) {
            self.undeclared(id, name);
        }
    }

    /// Makes an expression that of a variable or a type of the environment, if there is one of this name.
    fn global(&mut self, id: Id, name: &str) -> bool {
        let place = self.places.by_name.get(name).copied();
        if let Some((place, (_, ty))) =
            place.and_then(|place| Some((place, self.variables.get(place as usize)?)))
        {
            self.set(id, ty.clone());
            self.refer(id, Reference::Variable(place));
        } else if let Some(ty) = self.type_named(name) {
            self.set(id, Type::type_of(ty.clone()));
            self.refer(id, Reference::Type(ty));
        } else if name == names::NULL_VALUE {
            self.set(id, Type::Int);
            self.renamed.push((id, Kind::Literal(Literal::Int(0))));
            return true;
        } else {
            return false;
        }
        let Kind::Ident(written) = &self.ast.get(id).kind else {
            self.renamed.push((id, Kind::Ident(name.into())));
            return true;
        };
        // The written name distinguishes it from a variable of a comprehension: only that has no dot.
        if **written != *name && self.local(name).is_none() {
            self.renamed.push((id, Kind::Ident(name.into())));
        }
        true
    }

    /// Two types have these names by the provider of declared types alone, which there is where anything is declared.
    fn knows(&self, name: &str) -> bool {
        !self.variables.is_empty() || !matches!(name, "duration" | "timestamp")
    }

    /// The name at the beginning of a chain of fields.
    fn root(&self, mut id: Id) -> Option<&'e str> {
        loop {
            match &self.ast.get(id).kind {
                Kind::Ident(name) => return Some(name),
                Kind::Select { operand, test_only: false, .. } => id = *operand,
                _ => return None,
            }
        }
    }

    /// A chain of fields as one name.
    fn qualified(&self, mut id: Id) -> String {
        let mut parts: Vec<&str> = Vec::new();
        loop {
            match &self.ast.get(id).kind {
                Kind::Select { operand, field, .. } => {
                    parts.push(field);
                    id = *operand;
                }
                Kind::Ident(name) => {
                    parts.push(name);
                    break;
                }
                _ => break,
            }
        }
        parts.reverse();
        parts.join(".")
    }

    fn select(&mut self, id: Id, expr: &Expr, operand: Id, field: &str, test_only: bool) {
        if !test_only
            && let Some(root) = self.root(operand)
            && self.qualifies(root)
            && (root.starts_with('.') || self.local(root).is_none())
        {
            let name = self.qualified(id);
            if self.global(id, name.strip_prefix('.').unwrap_or(&name)) {
                return;
            }
        }
        let ty = self.field(expr.at, operand, field, false);
        let ty = if test_only { Type::Bool } else { self.bindings.resolve(&ty) };
        self.set(id, ty);
    }

    /// Returns true if `root` may be the first part of a longer dotted name.
    fn qualifies(&self, root: &str) -> bool {
        let root = root.strip_prefix('.').unwrap_or(root);
        names::NAMESPACES.contains(&root)
            || self.makes_patches && root == "Object"
            || self.places.roots.contains(root)
    }

    /// The type of a field of an operand. `at` is where an issue with it points.
    fn field(&mut self, at: u32, operand: Id, field: &str, optional: bool) -> Type {
        self.check(operand);
        let ty = self.bindings.resolve(&self.ty(operand));
        let (ty, of_optional) = match &ty {
            Type::Optional(of) => (&**of, true),
            _ => (&ty, false),
        };
        let result = match ty {
            Type::Map(parts) => parts.1.clone(),
            Type::Object(object) => match names::field(object, field) {
                Some(ty) => ty,
                None => {
                    self.issue(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Message(name) => match (**name == *JSON_PATCH, field) {
                (true, "op" | "path" | "from") => Type::String,
                _ => Type::Dyn,
            },
            Type::Opaque(name) if names::is_message(name) => {
                self.issue(at, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Var(_) | Type::Param(_) => {
                self.bindings.assignable(&Type::Dyn, ty);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                self.issue(at, format!("type '{ty}' does not support field selection"));
                Type::Dyn
            }
        };
        if of_optional || optional { Type::optional(result) } else { result }
    }

    fn optional_select(&mut self, id: Id, operand: Id, field: Id) {
        let expr = self.ast.get(id);
        let Kind::Literal(Literal::String(name)) = &self.ast.get(field).kind else {
            // Only the parser makes such calls, and it gives them names.
            self.issue(expr.at, "unsupported optional field selection: incorrect signature".to_owned());
            return;
        };
        let ty = self.field(expr.at, operand, name, true);
        let ty = self.bindings.resolve(&ty);
        self.set(id, ty);
        if let Some(function) = self.function(operators::OPT_SELECT) {
            self.refer(id, Reference::Call(function, function.overloads.iter().collect()));
        }
    }

    fn call(&mut self, id: Id, target: Option<Id>, name: &'e str, args: &[Id]) {
        if let (operators::OPT_SELECT, [operand, field]) = (name, args) {
            return self.optional_select(id, *operand, *field);
        }
        for arg in args {
            self.check(*arg);
        }
        let Some(target) = target else {
            let plain = name.strip_prefix('.').unwrap_or(name);
            let Some(function) = self.function(plain) else {
                return self.undeclared(id, name);
            };
            if plain != name {
                self.rename_call(id, function, args);
            }
            return self.resolve(id, function, None, args);
        };
        if let Some(root) = self.root(target)
            && names::has_functions(root.strip_prefix('.').unwrap_or(root))
        {
            let qualified = format!("{}.{name}", self.qualified(target));
            if let Some(function) = self.function(qualified.strip_prefix('.').unwrap_or(&qualified)) {
                self.rename_call(id, function, args);
                return self.resolve(id, function, None, args);
            }
        }
        self.check(target);
        match self.function(name) {
            Some(function) => self.resolve(id, function, Some(target), args),
            None => self.undeclared(id, name),
        }
    }

    fn rename_call(&mut self, id: Id, function: &Function, args: &[Id]) {
        self.renamed
            .push((id, Kind::Call { target: None, function: function.name.into(), args: args.to_vec() }));
    }

    /// Finds the overloads that a call may mean, and its type.
    fn resolve(&mut self, id: Id, function: &'static Function, target: Option<Id>, args: &[Id]) {
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.ty(*arg)).collect();
        let mut found: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in function.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            if matches!(function.name, operators::AND | operators::OR) {
                return self.logic(id, function, overload, args);
            }
            let Some(result) = self.bindings.apply(overload, &given) else { continue };
            matching.push(overload);
            found = Some(match found {
                None => result,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if unify::same(&before, &result) => before,
                Some(_) => Type::Dyn,
            });
        }
        match found {
            Some(ty) => {
                self.set(id, ty);
                self.refer(id, Reference::Call(function, matching));
            }
            None => {
                let shown = |ty: &Type| self.bindings.close(ty).unwrap_or_else(|| ty.clone()).to_string();
                let mut shown = given.iter().map(shown).collect::<Vec<_>>();
                let on = if target.is_some() { format!("{}.", shown.remove(0)) } else { String::new() };
                let signature = format!("{on}({})", shown.join(", "));
                let message =
                    format!("found no matching overload for '{}' applied to '{signature}'", function.name);
                self.issue(self.ast.get(id).at, message);
                self.set(id, Type::Error);
            }
        }
    }

    /// Checks that each operand of `&&` and `||` is a bool.
    fn logic(&mut self, id: Id, function: &'static Function, overload: &'static Overload, args: &[Id]) {
        let mut ty = Type::Bool;
        for arg in args {
            let found = self.ty(*arg);
            if !self.bindings.assignable(&found, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, &found);
                ty = Type::Error;
            }
        }
        self.set(id, ty);
        self.refer(id, Reference::Call(function, vec![overload]));
    }

    /// The type of the value in an optional entry.
    fn unwrapped(&mut self, id: Id) -> Type {
        match self.ty(id) {
            Type::Optional(of) => (*of).clone(),
            Type::Dyn => Type::Dyn,
            ty => {
                self.mismatch(id, &Type::optional(ty.clone()), &ty);
                ty
            }
        }
    }

    /// The type of items of which some are known.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.bindings.assignable(&before, &next) => unify::most_general(before, next),
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, id: Id, items: &[Id], optional: &[u32]) {
        let mut item_type = None;
        let mut optional = optional.iter().peekable();
        for (index, item) in items.iter().enumerate() {
            self.check(*item);
            let ty = match optional.next_if(|marked| **marked as usize == index) {
                Some(_) => self.unwrapped(*item),
                None => self.ty(*item),
            };
            item_type = Some(self.join(item_type, ty));
        }
        let item_type = item_type.unwrap_or_else(|| self.bindings.fresh());
        self.set(id, Type::list(item_type));
    }

    fn map(&mut self, id: Id, entries: &[Entry]) {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            self.check(entry.key);
            let ty = self.ty(entry.key);
            key = Some(self.join(key, ty));
            self.check(entry.value);
            let ty = if entry.optional { self.unwrapped(entry.value) } else { self.ty(entry.value) };
            value = Some(self.join(value, ty));
        }
        let key = key.unwrap_or_else(|| self.bindings.fresh());
        let value = value.unwrap_or_else(|| self.bindings.fresh());
        self.set(id, Type::map(key, value));
    }

    /// Besides those of patches, only messages of protocol buffers can be made in cel-go, of which there are none; its own of
    /// Google's are left out.
    fn message(&mut self, id: Id, name: &str, fields: &[StructField]) {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if self.makes_patches && is_message(plain) {
            self.set(id, Type::Message(plain.into()));
            return self.fields_of_message(plain, fields);
        }
        let message = match names::type_named(plain) {
            None => return self.undeclared(id, name),
            Some(_) if plain.starts_with("google.protobuf.") => format!("'{plain}' cannot be made here"),
            Some(ty) => format!("'{ty}' is not a message type"),
        };
        self.issue(self.ast.get(id).at, message);
        self.set(id, Type::Error);
        for field in fields {
            self.check(field.value);
        }
    }

    fn fields_of_message(&mut self, name: &str, fields: &[StructField]) {
        for StructField { name: field, value, optional, at } in fields {
            self.check(*value);
            let found = if *optional { self.unwrapped(*value) } else { self.ty(*value) };
            let declared = match (name == JSON_PATCH, &**field) {
                (false, _) | (true, "value") => Type::Dyn,
                (true, "op" | "path" | "from") => Type::String,
                (true, _) => {
                    self.issue(*at, format!("undefined field '{field}'"));
                    continue;
                }
            };
            if !self.bindings.assignable(&declared, &found) {
                let why = format!(
                    "expected type of field '{field}' is '{declared}' but provided type is '{found}'"
                );
                self.issue(*at, why);
            }
        }
    }

    fn fold(&mut self, id: Id, fold: &'e Comprehension) {
        self.check(fold.iter_range);
        self.check(fold.accu_init);
        let range = self.bindings.resolve(&self.ty(fold.iter_range));
        let accu = self.ty(fold.accu_init);
        let depth = self.locals.len();
        self.locals.push((&fold.accu_var, accu.clone()));
        let (first, second) = self.variables_over(fold, &range);
        self.locals.push((&fold.iter_var, first));
        if let Some(name) = &fold.iter_var2 {
            self.locals.push((name, second));
        }
        self.check(fold.loop_condition);
        self.expect(fold.loop_condition, &Type::Bool);
        self.check(fold.loop_step);
        self.expect(fold.loop_step, &accu);
        self.locals.truncate(depth + 1);
        self.check(fold.result);
        self.locals.truncate(depth);
        let ty = self.bindings.resolve(&self.ty(fold.result));
        self.set(id, ty);
    }

    /// The types of a comprehension's variables.
    fn variables_over(&mut self, fold: &Comprehension, range: &Type) -> (Type, Type) {
        let two = fold.iter_var2.is_some();
        match range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(parts) => (parts.0.clone(), parts.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) | Type::Param(_) => {
                self.bindings.assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(self.ast.get(fold.iter_range).at, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, id: Id, ty: &Type) {
        let found = self.ty(id);
        if !self.bindings.assignable(ty, &found) {
            self.mismatch(id, ty, &found);
        }
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
