//! The server that collects garbage, as far as deletes have to know.

/// The server that collects garbage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Collector {
    /// Nobody.
    #[default]
    Nobody,
    /// This server.
    Own,
    /// A host, of what it is shown of this server.
    Host,
}
