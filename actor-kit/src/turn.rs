//! One turn of an actor, from which no panic escapes.

use std::{
    any::Any,
    cell::RefCell,
    convert::Infallible,
    error::Error,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, panic_any, set_hook, take_hook},
    sync::{Arc, Once},
};

/// A failure's text is kept for the list of actors; a longer one is cut.
const TEXT_MAX: usize = 512;

thread_local! {
    /// The name of the actor whose turn runs on this thread, for the panic hook.
    static TURN: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The payload of a panic that [`ActorTable::kill`](crate::ActorTable::kill) ordered.
struct Killed;

/// The reason why an incarnation ended unasked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fall {
    /// By order.
    Killed,
    /// By a panic, which is a bug; with its text.
    Panicked(String),
    /// Without a bug: the factory could not load, or the incarnation asked for a successor; with the reason.
    Failed(String),
}

impl Fall {
    pub(crate) fn unloadable(error: &dyn Error) -> Self {
        Self::Failed(cut(&format!("could not load: {error}")))
    }

    pub(crate) fn reload(why: &str) -> Self {
        Self::Failed(cut(&format!("reload: {why}")))
    }

    /// The text of a fall that counts against the restart budget. A kill on request does not count.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Killed => None,
            Self::Panicked(text) | Self::Failed(text) => Some(text),
        }
    }

    fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        if payload.is::<Killed>() {
            return Self::Killed;
        }
        Self::Panicked(cut(&format!("panic: {}", payload_text(payload.as_ref()))))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// Runs `f` as a turn of the actor `name` and catches a panic in it.
pub(crate) fn turn<T>(name: &Arc<str>, f: impl FnOnce() -> T) -> Result<T, Fall> {
    let _inside = Inside::enter(name);
    catch_unwind(AssertUnwindSafe(f)).map_err(Fall::from_payload)
}

/// A turn that a kill order ends.
pub(crate) fn die(name: &Arc<str>) -> Fall {
    match turn::<Infallible>(name, || panic_any(Killed)) {
        Err(fall) => fall,
        Ok(never) => match never {},
    }
}

/// Drops what an actor owned; a panic in it changes nothing any more.
pub(crate) fn drop_caught<T>(name: &Arc<str>, value: T) {
    let _ = turn(name, move || drop(value));
}

/// Sets the name for the panic hook while it lives.
struct Inside(Option<Arc<str>>);

impl Inside {
    fn enter(name: &Arc<str>) -> Self {
        Self(TURN.try_with(|turn| turn.replace(Some(name.clone()))).unwrap_or_default())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let before = self.0.take();
        // A thread that is ending has no name to put back.
        let _ = TURN.try_with(|turn| turn.replace(before));
    }
}

fn payload_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
}

/// Makes panics in actors lines of the log, with the actor's name.
///
/// A kill that was ordered is logged as such, at `info` and without a location: it is no bug. Panics
/// outside of actors go to the hook that was installed before. Installing it twice does nothing.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let actor = TURN.try_with(|turn| turn.try_borrow().ok()?.clone());
            match actor.ok().flatten() {
                Some(actor) => log(&actor, info),
                None => before(info),
            }
        }));
    });
}

fn log(actor: &str, info: &PanicHookInfo<'_>) {
    if info.payload().is::<Killed>() {
        tracing::info!(actor, chaos = true, "killed by order");
        return;
    }
    let text = info.payload_as_str().unwrap_or("a value that is no text");
    let location = info.location().map(ToString::to_string);
    tracing::error!(
        actor,
        location = location.as_deref(),
        backtrace = %std::backtrace::Backtrace::capture(),
        "panic: {text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_tells_a_kill_from_a_panic() {
        install_panic_hook();
        let name: Arc<str> = "a".into();
        assert_eq!(turn(&name, || 1), Ok(1));
        assert_eq!(die(&name), Fall::Killed);
        let fall = |f: fn()| turn(&name, f).unwrap_err();
        assert_eq!(fall(|| panic!("one")), Fall::Panicked("panic: one".to_owned()));
        assert_eq!(fall(|| panic!("{}", 1)), Fall::Panicked("panic: 1".to_owned()));
        assert_eq!(fall(|| panic_any(1)), Fall::Panicked("panic: a value that is no text".to_owned()));
        TURN.with_borrow(|turn| assert!(turn.is_none()));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(cut(&"ü".repeat(10_000)), "ü".repeat(TEXT_MAX));
    }

    #[test]
    fn the_hook_logs_with_the_actors_name_and_a_kill_as_no_error() {
        install_panic_hook();
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let name: Arc<str> = "resource/a".into();
            let _ = die(&name);
            let _ = turn(&name, || panic!("out of luck"));
        });
        let text = String::from_utf8(log.0.lock().clone()).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("actor=")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            lines[0].trim_start(),
            r#"INFO kindom_actor_kit::turn: killed by order actor="resource/a" chaos=true"#
        );
        let panic = r#"ERROR kindom_actor_kit::turn: panic: out of luck actor="resource/a" location="#;
        assert!(lines[1].starts_with(panic), "{text}");
        assert!(lines[1].contains("turn.rs:"), "{text}");
    }

    #[derive(Clone, Default)]
    struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
