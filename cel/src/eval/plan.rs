//! From a checked expression to a program (cel-go `interpreter/planner.go` and `decorators.go`).

use std::collections::HashMap;
use std::sync::Arc;

use kindom_formats::{Pattern, pattern};

use crate::ast::{Comprehension, Entry, Id, Kind, Literal, StructField, operators};
use crate::check::{Checked, Reference};
use crate::eval::attribute::invalid_qualifier;
use crate::eval::set::Set;
use crate::eval::{By, Condition, Fold, MadeMessage, Node, Place, Program, Qualifier, Run, WORK_MAX, run};
use crate::library::{Function, Functions, Overload, regex};
use crate::types::Type;
use crate::value::{Entries, List, Value, Work, runtime_name};

/// Functions that are called while planning if their argument is a constant (`overloads.IsTypeConversionFunction`).
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
/// Functions whose second argument is a regular expression, which is read while planning if it is a constant.
const REGEX: [&str; 3] = ["matches", "find", "findAll"];
/// The functions that add to a comprehension's own accumulator, with how many arguments.
const ACCUMULATING: [(&str, usize); 3] = [(operators::ADD, 2), ("cel.@mapInsert", 3), ("cel.@mapInsert", 2)];

impl Program {
    /// Plans an expression.
    ///
    /// # Errors
    /// Upstream's text where a constant part of the expression is an error already: `type conversion error from 'string' to
    /// 'int'`.
    pub fn plan(checked: &Checked) -> Result<Self, String> {
        let mut planner =
            Planner { checked, made: Made::default(), scopes: Vec::new(), names: HashMap::new() };
        let root = planner.plan(checked.ast.root)?;
        let made = planner.made;
        Ok(Self {
            nodes: made.nodes.into(),
            root,
            places: made.places.into(),
            qualifiers: made.qualifiers.into(),
            names: made.names.into(),
            constants: made.constants.into(),
            messages: made.messages.into(),
            folds: made.folds.into(),
            patterns: made.patterns.into(),
            sets: made.sets.into(),
            locals: made.locals,
            fields_from: u32::MAX,
            fields: Box::default(),
        })
    }
}

struct Planner<'c> {
    checked: &'c Checked,
    made: Made,
    /// The variables of comprehensions that are known here.
    scopes: Vec<(&'c str, u32)>,
    names: HashMap<&'c str, u32>,
}

#[derive(Default)]
struct Made {
    nodes: Vec<Node>,
    places: Vec<Place>,
    qualifiers: Vec<Qualifier>,
    names: Vec<Box<str>>,
    constants: Vec<Value<'static>>,
    messages: Vec<MadeMessage>,
    folds: Vec<Fold>,
    patterns: Vec<Arc<Pattern>>,
    sets: Vec<Set>,
    locals: u32,
}

type Planned = Result<Place, String>;

fn index(len: usize) -> Result<u32, String> {
    u32::try_from(len).map_err(|_| "expression is too large".to_owned())
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(n) => Value::Int(*n),
        Literal::Uint(n) => Value::Uint(*n),
        Literal::Double(x) => Value::Double(*x),
        Literal::String(text) => Value::string(&**text),
        Literal::Bytes(bytes) => Value::Bytes(Arc::from(&**bytes)),
    }
}

impl<'c> Planner<'c> {
    fn add(&mut self, node: Node) -> Planned {
        self.made.nodes.push(node);
        index(self.made.nodes.len() - 1)
    }

    fn constant(&mut self, value: Value<'static>) -> Planned {
        self.made.constants.push(value);
        let constant = index(self.made.constants.len() - 1)?;
        self.add(Node::Constant(constant))
    }

    fn node(&self, place: Place) -> Option<&Node> {
        self.made.nodes.get(place as usize)
    }

    /// The value of a node that is a constant.
    fn as_constant(&self, place: Place) -> Option<&Value<'static>> {
        match self.node(place)? {
            Node::Constant(constant) => self.made.constants.get(*constant as usize),
            _ => None,
        }
    }

    fn run(&mut self, places: &[Place]) -> Result<Run, String> {
        let from = index(self.made.places.len())?;
        let len = u16::try_from(places.len()).map_err(|_| "expression is too large".to_owned())?;
        self.made.places.extend_from_slice(places);
        Ok(Run { from, len })
    }

    fn plan(&mut self, id: Id) -> Planned {
        let checked = self.checked;
        match &checked.ast.get(id).kind {
            Kind::Literal(literal) => self.constant(constant(literal)),
            Kind::Ident(name) => self.ident(id, name),
            Kind::Select { .. } => self.chain(id),
            Kind::Call { target, function, args } => match &**function {
                operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => self.chain(id),
                _ => self.call(id, *target, args),
            },
            Kind::List { items, optional } => self.list(items, optional),
            Kind::Map(entries) => self.map(entries),
            Kind::Comprehension(fold) => self.fold(fold),
            Kind::Struct { name, fields } => self.message(name, fields),
            Kind::Error => Err("unsupported expr".to_owned()),
        }
    }

    fn ident(&mut self, id: Id, name: &'c str) -> Planned {
        match self.checked.references.get(id as usize) {
            Some(Reference::Variable(variable)) => self.add(Node::Variable(*variable)),
            // Names of messages that wrap a scalar are known to the checker alone.
            Some(Reference::Type(of))
                if matches!(of, Type::Message(_)) || name.contains('.') && runtime_name(of) != name =>
            {
                Err(format!("reference to undefined type: {name}"))
            }
            Some(Reference::Type(of)) => self.constant(Value::Type(of.clone())),
            Some(Reference::Local) => match self.scopes.iter().rev().find(|(known, _)| *known == name) {
                Some((_, local)) => {
                    let local = *local;
                    self.add(Node::Local(local))
                }
                None => Err(format!("no such attribute(s): {name}")),
            },
            _ => Err(format!("no such attribute(s): {name}")),
        }
    }

    /// Selections and indices on something.
    fn chain(&mut self, id: Id) -> Planned {
        let checked = self.checked;
        let mut steps = Vec::new();
        let (mut at, mut has) = (id, false);
        loop {
            let known = matches!(
                checked.references.get(at as usize),
                Some(Reference::Variable(_) | Reference::Local | Reference::Type(_))
            );
            match &checked.ast.get(at).kind {
                Kind::Select { operand, field, test_only } if !known && (!test_only || at == id) => {
                    has |= *test_only;
                    steps.push((Step::Name(field), false, self.is_message(*operand)));
                    at = *operand;
                }
                Kind::Call { function, args, .. } => {
                    let optional = match &**function {
                        operators::INDEX => false,
                        operators::OPT_INDEX | operators::OPT_SELECT => true,
                        _ => break,
                    };
                    let [operand, key] = args.as_slice() else { return Err("unsupported expr".to_owned()) };
                    let of_message = &**function == operators::OPT_SELECT && self.is_message(*operand);
                    steps.push((Step::Key(*key), optional, of_message));
                    at = *operand;
                }
                _ => break,
            }
        }
        let root = if at == id { self.ident(id, "")? } else { self.plan(at)? };
        let mut qualifiers = Vec::with_capacity(steps.len());
        for (step, optional, of_message) in steps.into_iter().rev() {
            let by = match step {
                Step::Name(name) => self.name(name)?,
                Step::Key(key) => self.key(key)?,
            };
            qualifiers.push(Qualifier { by, optional, of_message });
        }
        let from = index(self.made.qualifiers.len())?;
        let len = u16::try_from(qualifiers.len()).map_err(|_| "expression is too large".to_owned())?;
        self.made.qualifiers.append(&mut qualifiers);
        self.add(Node::Attribute { root, qualifiers: Run { from, len }, test_only: has })
    }

    fn is_message(&self, id: Id) -> bool {
        matches!(self.checked.types.get(id as usize), Some(Type::Message(_)))
    }

    fn name(&mut self, name: &'c str) -> Result<By, String> {
        // Two underscores may be part of an escape, which stands for another name (or for none) in objects, and has no
        // meaning in maps.
        if name.contains("__") {
            return self.key_of(Value::string(name));
        }
        if let Some(known) = self.names.get(name) {
            return Ok(By::Name(*known));
        }
        let place = index(self.made.names.len())?;
        self.made.names.push(name.into());
        self.names.insert(name, place);
        Ok(By::Name(place))
    }

    fn key(&mut self, id: Id) -> Result<By, String> {
        if let Kind::Literal(Literal::String(name)) = &self.checked.ast.get(id).kind {
            return self.name(name);
        }
        let place = self.plan(id)?;
        match self.as_constant(place) {
            Some(value) => {
                let value = value.clone();
                self.key_of(value)
            }
            None => Ok(By::Value(place)),
        }
    }

    fn key_of(&mut self, value: Value<'static>) -> Result<By, String> {
        match value {
            Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                self.made.constants.push(value);
                Ok(By::Constant(index(self.made.constants.len() - 1)?))
            }
            other => Err(invalid_qualifier(&other)),
        }
    }

    fn call(&mut self, id: Id, target: Option<Id>, args: &'c [Id]) -> Planned {
        let Some(Reference::Call(function, overloads)) = self.checked.references.get(id as usize) else {
            return Err("unsupported expr".to_owned());
        };
        let (function, overload): (&'static Function, _) = match overloads.as_slice() {
            [one] => (*function, Some(*one)),
            _ => (*function, None),
        };
        let mark = (self.made.nodes.len(), self.made.constants.len());
        let mut places = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args.iter().copied()) {
            places.push(self.plan(arg)?);
        }
        match (function.name, places.as_slice()) {
            (operators::AND, [a, b]) => self.add(Node::And(*a, *b)),
            (operators::OR, [a, b]) => self.add(Node::Or(*a, *b)),
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                self.add(Node::Conditional(*condition, *then, *otherwise))
            }
            (operators::EQUALS, [a, b]) => self.add(Node::Equals { a: *a, b: *b, not: false }),
            (operators::NOT_EQUALS, [a, b]) => self.add(Node::Equals { a: *a, b: *b, not: true }),
            (operators::NOT_STRICTLY_FALSE, [arg]) => self.add(Node::NotStrictlyFalse(*arg)),
            ("or", [a, b]) => self.add(Node::OptionalOr(*a, *b)),
            ("orValue", [a, b]) => self.add(Node::OptionalOrValue(*a, *b)),
            (name, [arg]) if CONVERSIONS.contains(&name) => {
                let Some(value) = self.as_constant(*arg) else {
                    return self.invocation(function, overload, &places);
                };
                let converted =
                    run::invoke(function, overload, std::slice::from_ref(value), &mut Work::new(WORK_MAX))
                        .map_err(|error| error.to_string())?;
                self.made.nodes.truncate(mark.0);
                self.made.constants.truncate(mark.1);
                self.constant(converted)
            }
            (operators::IN, [arg, list]) if overload.is_some_and(|overload| overload.id == "in_list") => {
                match self.membership(*arg, *list)? {
                    Some(planned) => Ok(planned),
                    None => self.invocation(function, overload, &places),
                }
            }
            (name, [text, expression, ..]) if REGEX.contains(&name) => {
                let Some(Value::String(expression)) = self.as_constant(*expression) else {
                    return self.invocation(function, overload, &places);
                };
                let expression = expression.as_str().to_owned();
                pattern::check(&expression)?;
                // Keeps the expression compiled for functions that look it up by its text.
                self.made.patterns.push(Pattern::shared(&expression));
                let pattern = index(self.made.patterns.len() - 1)?;
                if name == "matches" {
                    return self.add(Node::Matches { text: *text, pattern, overload });
                }
                // Upstream gives the call another meaning then, which stops at an argument that is an error.
                let function = Functions::all().get(regex::of_constant(name)).unwrap_or(function);
                let args = self.run(&places)?;
                self.add(Node::Call { function, overload, args, stops: true })
            }
            _ => self.invocation(function, overload, &places),
        }
    }

    fn invocation(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        places: &[Place],
    ) -> Planned {
        let dispatched = overload.is_none() && function.singleton.is_none();
        // Upstream binds it as one that takes any number of arguments.
        let many = places.len() > 2 || function.name == "format";
        let args = self.run(places)?;
        self.add(Node::Call { function, overload, args, stops: dispatched || many })
    }

    /// Membership in a constant list.
    fn membership(&mut self, arg: Place, list: Place) -> Result<Option<Place>, String> {
        let Some(Value::List(list)) = self.as_constant(list) else { return Ok(None) };
        if list.is_empty() {
            return self.constant(Value::Bool(false)).map(Some);
        }
        let Some(set) = Set::of(list) else { return Ok(None) };
        // The list was made last, and nothing else has it.
        self.made.nodes.pop();
        self.made.constants.pop();
        self.made.sets.push(set);
        let set = index(self.made.sets.len() - 1)?;
        self.add(Node::InSet { arg, set }).map(Some)
    }

    fn list(&mut self, items: &'c [Id], optional: &[u32]) -> Planned {
        let mark = (self.made.nodes.len(), self.made.constants.len());
        let mut places = Vec::with_capacity(items.len());
        let mut optional = optional.iter().copied().peekable();
        for (i, item) in items.iter().enumerate() {
            let mut place = self.plan(*item)?;
            if optional.next_if(|at| *at as usize == i).is_some() {
                place = self.add(Node::OptionalPart(place))?;
            }
            places.push(place);
        }
        let constants: Option<Vec<_>> =
            places.iter().map(|place| self.as_constant(*place).cloned()).collect();
        if let Some(constants) = constants {
            self.made.nodes.truncate(mark.0);
            self.made.constants.truncate(mark.1);
            return self.constant(Value::List(List::Owned(constants.into())));
        }
        let items = self.run(&places)?;
        self.add(Node::List(items))
    }

    fn map(&mut self, entries: &'c [Entry]) -> Planned {
        let mark = (self.made.nodes.len(), self.made.constants.len());
        let mut places = Vec::with_capacity(entries.len() * 2);
        for entry in entries {
            places.push(self.plan(entry.key)?);
            let mut value = self.plan(entry.value)?;
            if entry.optional {
                value = self.add(Node::OptionalPart(value))?;
            }
            places.push(value);
        }
        let constants: Option<Vec<_>> =
            places.iter().map(|place| self.as_constant(*place).cloned()).collect();
        if let Some(constants) = constants {
            self.made.nodes.truncate(mark.0);
            self.made.constants.truncate(mark.1);
            let mut made = Entries::default();
            let mut constants = constants.into_iter();
            while let (Some(key), Some(value)) = (constants.next(), constants.next()) {
                made.insert(key, value);
            }
            return self.constant(Value::map(made));
        }
        let entries = self.run(&places)?;
        self.add(Node::Map(entries))
    }

    fn message(&mut self, name: &str, fields: &[StructField]) -> Planned {
        let mut places = Vec::with_capacity(fields.len());
        for field in fields {
            let mut value = self.plan(field.value)?;
            if field.optional {
                value = self.add(Node::OptionalPart(value))?;
            }
            places.push(value);
        }
        let fields = fields.iter().map(|field| (*field.name).into()).collect();
        let name = name.strip_prefix('.').unwrap_or(name).into();
        self.made.messages.push(MadeMessage { name, fields });
        let message = index(self.made.messages.len() - 1)?;
        let fields = self.run(&places)?;
        self.add(Node::Message { message, fields })
    }

    fn local(&mut self) -> u32 {
        self.made.locals += 1;
        self.made.locals - 1
    }

    fn fold(&mut self, fold: &'c Comprehension) -> Planned {
        let init = self.plan(fold.accu_init)?;
        let range = self.plan(fold.iter_range)?;
        let (accumulator, first) = (self.local(), self.local());
        let second = fold.iter_var2.as_ref().map(|_| self.local());
        let outside = self.scopes.len();
        // The accumulator is found before the others.
        if let (Some(name), Some(second)) = (&fold.iter_var2, second) {
            self.scopes.push((name, second));
        }
        self.scopes.push((&fold.iter_var, first));
        self.scopes.push((&fold.accu_var, accumulator));
        let condition = self.condition(fold.loop_condition, accumulator)?;
        let step = self.plan(fold.loop_step)?;
        self.scopes.truncate(outside);
        self.scopes.push((&fold.accu_var, accumulator));
        let result = self.plan(fold.result)?;
        self.scopes.truncate(outside);
        if matches!(self.as_constant(init), Some(Value::List(_) | Value::Map(_))) {
            self.accumulate(step, accumulator);
        }
        self.made.folds.push(Fold { range, accumulator, first, second, init, condition, step, result });
        let fold = index(self.made.folds.len() - 1)?;
        self.add(Node::Fold(fold))
    }

    /// The conditions that macros have are known by sight.
    fn condition(&mut self, id: Id, accumulator: u32) -> Result<Condition, String> {
        let place = self.plan(id)?;
        let own =
            |place: Place| matches!(self.node(place), Some(Node::Local(local)) if *local == accumulator);
        Ok(match self.node(place) {
            Some(Node::Constant(_)) if matches!(self.as_constant(place), Some(Value::Bool(true))) => {
                Condition::Always
            }
            Some(Node::NotStrictlyFalse(arg)) if own(*arg) => Condition::Until(false),
            Some(Node::NotStrictlyFalse(arg)) => match self.node(*arg) {
                Some(Node::Call { function, args, .. })
                    if function.name == operators::NOT && args.len == 1 =>
                {
                    let negated = self.made.places.get(args.from as usize).is_some_and(|place| own(*place));
                    if negated { Condition::Until(true) } else { Condition::Value(place) }
                }
                _ => Condition::Value(place),
            },
            _ => Condition::Value(place),
        })
    }

    /// Lets a step whose outcome is the accumulator with something added do so in place.
    fn accumulate(&mut self, step: Place, accumulator: u32) {
        let replacement = match self.node(step) {
            Some(Node::Conditional(_, then, otherwise)) => {
                let (then, otherwise) = (*then, *otherwise);
                self.accumulate(then, accumulator);
                return self.accumulate(otherwise, accumulator);
            }
            Some(Node::Call { function, overload, args, .. })
                if ACCUMULATING.contains(&(function.name, args.len as usize)) =>
            {
                let own = self.made.places.get(args.from as usize).and_then(|place| self.node(*place));
                if !matches!(own, Some(Node::Local(local)) if *local == accumulator) {
                    return;
                }
                Node::Accumulate { function, overload: *overload, args: *args }
            }
            _ => return,
        };
        if let Some(node) = self.made.nodes.get_mut(step as usize) {
            *node = replacement;
        }
    }
}

enum Step<'c> {
    Name(&'c str),
    Key(Id),
}
