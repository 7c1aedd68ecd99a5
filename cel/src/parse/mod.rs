//! From text to [`Ast`](crate::ast::Ast).

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// In code points from the beginning of the source.
    pub at: u32,
    /// cel-go's text.
    pub message: String,
}
