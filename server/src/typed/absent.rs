//! The hooks that a type does not have. Reading an object into the type and writing it back costs more than most hooks, so a hook that
//! turned out to be the trait's own is not called again.

use std::any::TypeId;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// A hook that needs an object, or the one before it, only to call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Hook {
    ApplyDefaults = 1,
    PrepareForCreate = 2,
    PrepareForUpdate = 4,
    ValidateUpdate = 8,
    Canonicalize = 16,
}

thread_local! {
    static LAST: Cell<Option<(TypeId, Hook)>> = const { Cell::new(None) };
}

/// Says that `T` has no such hook: the body of the trait's own.
pub(super) fn absent<T: 'static>(hook: Hook) {
    LAST.set(Some((TypeId::of::<T>(), hook)));
}

/// The hooks that a type is known not to have.
#[derive(Debug, Default)]
pub(super) struct Absent(AtomicU8);

impl Absent {
    /// Returns true if the hook is known to be absent.
    pub(super) fn knows(&self, hook: Hook) -> bool {
        self.0.load(Ordering::Relaxed) & hook as u8 != 0
    }

    /// Runs `call`, which calls `T`'s hook if anything, unless the hook is known to be absent.
    pub(super) fn unless<T: 'static>(&self, hook: Hook, call: impl FnOnce()) {
        if self.knows(hook) {
            return;
        }
        LAST.set(None);
        call();
        // One that calls the hook of another type has one.
        if LAST.get() == Some((TypeId::of::<T>(), hook)) {
            self.0.fetch_or(hook as u8, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_traits_own_hook_is_absent() {
        let known = Absent::default();
        let mut calls = 0;
        let mut call = |hook, body: fn()| {
            known.unless::<u8>(hook, || {
                calls += 1;
                body();
            })
        };
        call(Hook::Canonicalize, || {});
        call(Hook::Canonicalize, || absent::<u16>(Hook::Canonicalize));
        call(Hook::Canonicalize, || absent::<u8>(Hook::PrepareForCreate));
        call(Hook::Canonicalize, || absent::<u8>(Hook::Canonicalize));
        call(Hook::Canonicalize, || panic!("it is known"));
        call(Hook::PrepareForCreate, || {});
        assert_eq!(calls, 5);
    }
}
