//! The treatment of the objects that an object owns.

/// The treatment of the objects that an object owns when it goes. The garbage collector's two finalizers on the object say it
/// (`deletionFinalizersForGarbageCollection`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// As the object's finalizers say, if they do.
    #[default]
    Unsaid,
    /// They stay, unless the object's finalizers say otherwise.
    OrphanUnlessSaid,
    /// They stay, and lose their reference to it.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}
