//! The variables of expressions on writes, and their types (`pkg/admission/plugin/cel/compile.go`, `composition.go`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use kindom_cel::ast::{Ast, Kind as Node, Literal, operators};
use kindom_cel::check::{Checked, Reference, check, check_patch};
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::eval::Program;
use kindom_cel::parse::{Issue, Issues, parse};
use kindom_cel::types::Type;
use kindom_cel::value::message::JSON_PATCH;

/// The places of some variables. Every expression has those before [`slot::COUNT`], declared or not, as [`TYPES`] has them.
pub(super) mod slot {
    pub(super) const OBJECT: usize = 0;
    pub(super) const OLD_OBJECT: usize = 1;
    pub(in crate::admission) const PARAMS: usize = 4;
    pub(in crate::admission) const AUTHORIZER: usize = 5;
    pub(in crate::admission) const REQUEST_RESOURCE: usize = 6;
    pub(in crate::admission) const COMPOSED: usize = 7;
    /// The number of them; behind them are the composed variables that an expression names.
    pub(in crate::admission) const COUNT: usize = 8;
}

/// The name of the composed variables' object.
const COMPOSED: &str = "variables";

/// The types of the variables that are always there, by their places.
static TYPES: LazyLock<[(&str, Type); slot::COMPOSED]> = LazyLock::new(|| {
    [
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", request_type().to_type()),
        ("namespaceObject", namespace_type().to_type()),
        ("params", Type::Dyn),
        ("authorizer", Type::Opaque("kubernetes.authorization.Authorizer")),
        ("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck")),
    ]
});

/// The type that the value of an expression has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    Bool,
    String,
    /// A string or null.
    Text,
    /// An apply configuration.
    Object,
    /// The operations of a JSON patch.
    Patch,
}

impl Wanted {
    fn check(self, found: &Type) -> Result<(), String> {
        match (self, found) {
            (Self::Any, _)
            | (Self::Bool, Type::Bool)
            | (Self::String, Type::String)
            | (Self::Text, Type::String | Type::Null) => Ok(()),
            (Self::Object, Type::Message(name)) if **name == *"Object" => Ok(()),
            (Self::Patch, Type::List(of)) if matches!(&**of, Type::Message(name) if **name == *JSON_PATCH) => {
                Ok(())
            }
            (Self::Object, _) => Err(format!("must evaluate to Object but got {}", name(found))),
            (Self::Patch, _) => Err(format!("must evaluate to list(JSONPatch) but got {}", name(found))),
            (Self::Bool, _) => Err(format!("must evaluate to bool but got {}", name(found))),
            (Self::String, _) => Err(format!("must evaluate to string but got {}", name(found))),
            (Self::Text, _) => {
                Err(format!("must evaluate to one of [string null_type] but got {}", name(found)))
            }
        }
    }
}

/// A type as Go prints it (`types.Type.String`).
fn name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(item) => format!("list({})", name(item)),
        Type::Map(parts) => format!("map({}, {})", name(&parts.0), name(&parts.1)),
        Type::Optional(of) => format!("optional_type({})", name(of)),
        Type::Type(of) => format!("type({})", name(of)),
        other => other.to_string(),
    }
}

/// An expression, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    /// As it was written.
    pub(super) source: String,
    /// Or why it does not compile.
    pub(super) program: Result<Program, String>,
    /// The composed variables behind [`slot::COUNT`], by their places in the composition.
    pub(super) names: Vec<u32>,
    /// The most lists, maps and optional values within each other that its value may be made of.
    nesting: usize,
    /// If it takes the composed variables as one object, the number that there were before it.
    pub(super) takes: Option<u32>,
}

impl Expression {
    /// The reason why it does not compile.
    pub(crate) fn error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }
}

/// The types of the objects that expressions are about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subjects {
    /// That of `object` and `oldObject`.
    pub(crate) object: Type,
    pub(crate) params: Type,
}

/// A compiler of expressions that share composed variables, which it is given one by one.
#[derive(Debug, Default)]
pub(crate) struct Composition {
    /// Those of expressions that are only checked; without, the objects may be any.
    subjects: Option<Subjects>,
    /// There are parameters.
    has_params: bool,
    /// `variables` is declared.
    composes: bool,
    /// By name; of two with one name, the later.
    by_name: HashMap<String, (u32, Decl)>,
    /// The deepest nesting of a variable so far.
    deepest: usize,
    /// By place.
    pub(crate) variables: Vec<(String, Expression)>,
}

impl Composition {
    /// Without variables yet; expressions may name parameters, or variables that are composed.
    pub(crate) fn new(has_params: bool, composes: bool) -> Self {
        Self { has_params, composes, ..Self::default() }
    }

    /// For expressions about objects of known types, whose [`issues`](Self::issues) are looked for.
    pub(crate) fn of_types(has_params: bool, subjects: Subjects) -> Self {
        Self { subjects: Some(subjects), ..Self::new(has_params, true) }
    }

    /// Adds a variable for expressions whose issues are looked for.
    pub(crate) fn declare(&mut self, name: &str, source: &str) {
        let found = self.checked(source);
        let decl = found.map(|checked| decl_of(checked.result())).unwrap_or_default();
        self.by_name.insert(name.to_owned(), (0, decl));
    }

    /// The errors in the types of an expression, of which it may have any.
    pub(crate) fn issues(&self, source: &str) -> Option<Issues> {
        self.checked(source).err().map(|issues| Issues::new(source, issues))
    }

    fn checked(&self, source: &str) -> Result<Checked, Vec<Issue>> {
        let ast = parse(source)?;
        let named = self.named_by(&fields_named(&ast));
        check(ast, &self.declarations(&named, true))
    }

    /// Adds a variable, which later expressions may name, even if its own does not compile.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(crate) fn add(&mut self, name: &str, source: &str) -> Result<(), String> {
        let (expression, found) = self.compiled(source, Wanted::Any, true);
        let why = expression.error().map(str::to_owned);
        let decl = found.as_ref().map(decl_of).unwrap_or_default();
        self.deepest = self.deepest.max(expression.nesting);
        self.by_name.insert(name.to_owned(), (self.known(), decl));
        self.variables.push((name.to_owned(), expression));
        why.map_or(Ok(()), Err)
    }

    fn known(&self) -> u32 {
        u32::try_from(self.variables.len()).unwrap_or(u32::MAX)
    }

    /// An expression of some type. Only one that `may_ask` has an authorizer.
    pub(crate) fn compile(&self, source: &str, wanted: Wanted, may_ask: bool) -> Expression {
        self.compiled(source, wanted, may_ask).0
    }

    fn compiled(&self, source: &str, wanted: Wanted, may_ask: bool) -> (Expression, Option<Type>) {
        let mut made = Expression {
            source: source.to_owned(),
            program: Err(String::new()),
            names: Vec::new(),
            nesting: 0,
            takes: None,
        };
        let mut found = None;
        made.program = self.program(source, wanted, may_ask, &mut made, &mut found);
        (made, found)
    }

    fn program(
        &self,
        source: &str,
        wanted: Wanted,
        may_ask: bool,
        made: &mut Expression,
        found: &mut Option<Type>,
    ) -> Result<Program, String> {
        let failed = |issues| format!("compilation failed: {}", Issues::new(source, issues));
        let ast = parse(source).map_err(failed)?;
        let fields = if self.composes { fields_named(&ast) } else { Vec::new() };
        let by_field: HashSet<u32> = fields.iter().map(|(operand, _)| *operand).collect();
        let named = self.named_by(&fields);
        made.names = named.iter().map(|of| of.place).collect();
        let declarations = self.declarations(&named, may_ask);
        let checked = match wanted {
            Wanted::Object | Wanted::Patch => check_patch(ast, &declarations),
            _ => check(ast, &declarations),
        };
        let checked = checked.map_err(failed)?;
        let takes = |(id, to): (u32, &Reference)| {
            matches!(to, Reference::Variable(at) if *at as usize == slot::COMPOSED) && !by_field.contains(&id)
        };
        made.takes = (0..).zip(&checked.references).any(takes).then(|| self.known());
        let result = checked.result();
        *found = Some(result.clone());
        wanted.check(result)?;
        made.nesting =
            nesting_of(&checked, checked.ast.root, &|at| self.nesting_of_variable(&made.names, at));
        if made.nesting > NESTING_MAX {
            return Err(format!(
                "compilation failed: values nest deeper than {NESTING_MAX} through variables"
            ));
        }
        let program =
            Program::plan(&checked).map_err(|why| format!("program instantiation failed: {why}"))?;
        let fields = named.into_iter().map(|of| of.name.into());
        Ok(program.with_fields(u32::try_from(slot::COUNT).unwrap_or(u32::MAX), fields))
    }

    /// The composed variables that an expression names by these fields, each once.
    fn named_by(&self, fields: &[(u32, &str)]) -> Vec<Named> {
        let names: BTreeSet<&str> = fields.iter().map(|(_, name)| *name).collect();
        names.into_iter().filter_map(|name| self.named(name)).collect()
    }

    fn named(&self, name: &str) -> Option<Named> {
        let (place, decl) = self.by_name.get(name)?;
        let qualified = format!("{COMPOSED}.{name}");
        Some(Named { name: name.to_owned(), qualified, place: *place, decl: decl.clone() })
    }

    /// The variables of an expression, by their places. Of those that are composed, only what the expression names is there: there may
    /// be a great many.
    fn declarations<'n>(&self, named: &'n [Named], may_ask: bool) -> Vec<(&'n str, Type)> {
        // No name is empty.
        let declared = |is_declared: bool, name| if is_declared { name } else { "" };
        let mut variables: Vec<(&str, Type)> = TYPES.to_vec();
        if let Some(Subjects { object, params }) = &self.subjects {
            for (place, known) in [(slot::OBJECT, object), (slot::OLD_OBJECT, object), (slot::PARAMS, params)]
            {
                if let Some((_, of)) = variables.get_mut(place) {
                    *of = known.clone();
                }
            }
        }
        // Upstream's checker has no resource of the request (`buildEnvSet`).
        let has_resource = may_ask && self.subjects.is_none();
        for (place, is_declared) in [
            (slot::PARAMS, self.has_params),
            (slot::AUTHORIZER, may_ask),
            (slot::REQUEST_RESOURCE, has_resource),
        ] {
            if let Some((name, _)) = variables.get_mut(place) {
                *name = declared(is_declared, name);
            }
        }
        let fields = named.iter().map(|of| (of.name.as_str().into(), of.decl.clone())).collect();
        let object = Object { name: "kubernetes.variables".to_owned(), fields };
        variables.push((declared(self.composes, COMPOSED), Type::Object(Arc::new(object))));
        variables.extend(named.iter().map(|of| (of.qualified.as_str(), of.decl.to_type())));
        variables
    }

    /// The nesting of a variable of an expression that names these composed ones.
    fn nesting_of_variable(&self, names: &[u32], variable: u32) -> usize {
        let nesting = |place: u32| self.variables.get(place as usize).map_or(0, |(_, of)| of.nesting);
        match (variable as usize).checked_sub(slot::COUNT) {
            Some(at) => names.get(at).copied().map_or(0, nesting),
            None if variable as usize == slot::COMPOSED => self.deepest + 1,
            None => 0,
        }
    }
}

/// A composed variable that an expression names.
struct Named {
    name: String,
    /// `variables.name`
    qualified: String,
    place: u32,
    decl: Decl,
}

/// The fields of the composed variables' object that an expression names, each with the id of the object's name there.
fn fields_named(ast: &Ast) -> Vec<(u32, &str)> {
    let is_composed =
        |id: u32| matches!(&ast.get(id).kind, Node::Ident(name) if name.trim_start_matches('.') == COMPOSED);
    let named = ast.exprs.iter().filter_map(|expr| field_of(ast, &expr.kind));
    named.filter(|(operand, _)| is_composed(*operand)).collect()
}

/// The operand of `operand.field` or `operand.?field`, and the field.
fn field_of<'e>(ast: &'e Ast, node: &'e Node) -> Option<(u32, &'e str)> {
    match node {
        Node::Select { operand, field, .. } => Some((*operand, field)),
        Node::Call { function, args, .. } if **function == *operators::OPT_SELECT => {
            let [operand, name] = args.as_slice() else { return None };
            match &ast.get(*name).kind {
                Node::Literal(Literal::String(name)) => Some((*operand, name)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Values are dropped and compared level by level, on the stack: as deep as one expression may write them.
const NESTING_MAX: usize = 250;

/// A bound on the nesting of an expression's value; `variable` has that of each variable. It is as deep as the tree, which the
/// parser bounds.
fn nesting_of(checked: &Checked, id: u32, variable: &dyn Fn(u32) -> usize) -> usize {
    let of = |id: &u32| nesting_of(checked, *id, variable);
    let deepest = |ids: &[u32]| ids.iter().map(of).max().unwrap_or_default();
    if let Some(Reference::Variable(at)) = checked.references.get(id as usize) {
        return variable(*at);
    }
    let is_scalar = matches!(
        checked.types.get(id as usize),
        Some(Type::Bool | Type::Int | Type::Uint | Type::Double | Type::String | Type::Bytes | Type::Null)
    );
    match &checked.ast.get(id).kind {
        _ if is_scalar => 0,
        Node::Select { operand, .. } => of(operand),
        Node::List { items, .. } => 1 + deepest(items),
        Node::Map(entries) => {
            1 + entries.iter().map(|of_entry| of(&of_entry.value)).max().unwrap_or_default()
        }
        Node::Struct { fields, .. } => {
            1 + fields.iter().map(|field| of(&field.value)).max().unwrap_or_default()
        }
        Node::Call { target, function, args } => {
            // Other operators give one of their operands, or a part of them; their names are no words.
            let is_optional = matches!(&**function, operators::OPT_SELECT | operators::OPT_INDEX);
            let is_word = function.starts_with(|c: char| c.is_ascii_alphabetic());
            let makes = is_optional || is_word && &**function != "dyn";
            usize::from(makes) + deepest(args).max(target.as_ref().map_or(0, of))
        }
        // What it goes over ends up in what it makes.
        Node::Comprehension(fold) => {
            [fold.iter_range, fold.accu_init, fold.loop_step, fold.result].iter().map(of).sum()
        }
        _ => 0,
    }
}

/// The declaration of a variable by the type of its expression (`convertCelTypeToDeclType`).
fn decl_of(found: &Type) -> Decl {
    let kind = match found {
        Type::List(item) => Kind::List(Arc::new(decl_of(item))),
        Type::Map(parts) => Kind::Map(Arc::new((decl_of(&parts.0), decl_of(&parts.1)))),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => Kind::Plain(found.clone()),
        _ => Kind::default(),
    };
    Decl { kind, ..Decl::default() }
}

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
