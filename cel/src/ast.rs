//! Expressions as a tree in one arena, macros expanded.

/// The place of an expression in [`Ast::exprs`].
pub type Id = u32;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Ast {
    /// All expressions, operands before what uses them is not promised.
    pub exprs: Vec<Expr>,
    /// The whole.
    pub root: Id,
}

/// One expression and where it was written.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The kind of the expression, with its operands.
    pub kind: Kind,
    /// In code points from the beginning of the source, as cel-go's `common.Location` offsets are: where messages point.
    pub at: u32,
}

/// The kinds of expressions (`cel.expr.Expr`).
#[derive(Debug, Clone)]
pub enum Kind {
    /// A constant.
    Literal(Literal),
    /// A variable or a type's name; a qualified name is one too once the checker has found it.
    Ident(Box<str>),
    /// A field of an operand.
    Select {
        /// The expression that has the field.
        operand: Id,
        /// The field as it was written, not unescaped.
        field: Box<str>,
        /// `has(operand.field)`: whether it is there.
        test_only: bool,
    },
    /// A function of arguments, or of a target and arguments. Operators are functions: see [`operators`].
    Call {
        /// `target.function(…)`
        target: Option<Id>,
        /// Its name.
        function: Box<str>,
        /// Without the target.
        args: Vec<Id>,
    },
    /// `[a, ?b]`
    List {
        /// In order.
        items: Vec<Id>,
        /// The positions of the optional items, ascending.
        optional: Vec<u32>,
    },
    /// `{k: v, ?k: v}`
    Map(Vec<Entry>),
    /// `Name{field: v, ?field: v}`
    Struct {
        /// The name of the type.
        name: Box<str>,
        /// In order.
        fields: Vec<StructField>,
    },
    /// The expansion of a macro over a list or map.
    Comprehension(Box<Comprehension>),
    /// The place of a syntax error; only in an AST that has issues.
    Error,
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `"a"`
    String(Box<str>),
    /// `b"a"`
    Bytes(Box<[u8]>),
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Any expression.
    pub key: Id,
    /// An optional value if `optional`.
    pub value: Id,
    /// `?k: v`
    pub optional: bool,
    /// The offset of the entry, in code points.
    pub at: u32,
}

/// A field of a message.
#[derive(Debug, Clone)]
pub struct StructField {
    /// As it was written.
    pub name: Box<str>,
    /// An optional value if `optional`.
    pub value: Id,
    /// `?name: v`
    pub optional: bool,
    /// The offset of the field, in code points.
    pub at: u32,
}

/// A fold over a list or the keys of a map (`cel.expr.Expr.Comprehension`).
#[derive(Debug, Clone)]
pub struct Comprehension {
    /// The list or map that the comprehension iterates over.
    pub iter_range: Id,
    /// The item or key; the index or key if there are two.
    pub iter_var: Box<str>,
    /// The item or value, in two-variable comprehensions.
    pub iter_var2: Option<Box<str>>,
    /// The accumulator's name: [`ACCUMULATOR`] but for nested forms.
    pub accu_var: Box<str>,
    /// The accumulator at first.
    pub accu_init: Id,
    /// The comprehension goes on while this is true.
    pub loop_condition: Id,
    /// The accumulator after an item.
    pub loop_step: Id,
    /// The whole's value.
    pub result: Id,
}

/// The accumulator variable of macros (cel-go `parser.HiddenAccumulatorName`), which no source can spell.
pub const ACCUMULATOR: &str = "@result";

/// The functions that operators stand for (cel-go `common/operators`).
#[allow(missing_docs, reason = "each is the operator of its name")]
pub mod operators {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const AND: &str = "_&&_";
    pub const OR: &str = "_||_";
    pub const NOT: &str = "!_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const LESS: &str = "_<_";
    pub const LESS_EQUALS: &str = "_<=_";
    pub const GREATER: &str = "_>_";
    pub const GREATER_EQUALS: &str = "_>=_";
    pub const ADD: &str = "_+_";
    pub const SUBTRACT: &str = "_-_";
    pub const MULTIPLY: &str = "_*_";
    pub const DIVIDE: &str = "_/_";
    pub const MODULO: &str = "_%_";
    pub const NEGATE: &str = "-_";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const IN: &str = "@in";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}

impl Ast {
    /// The expression of an id.
    #[must_use]
    #[allow(clippy::indexing_slicing, reason = "ids are indices of the arena that gave them out")]
    pub fn get(&self, id: Id) -> &Expr {
        &self.exprs[id as usize]
    }
}
