//! The log: as text or JSON, chosen by `-v`, `KINDOM_LOG` or `RUST_LOG`, and of what anybody can cause at most a line a second.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use clap::ValueEnum;
use kindom_http::access;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, dynamic_filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

/// The filter of the log unless the environment has another. The client of a host reports failures that their callers
/// report too.
const DEFAULT: &str = "info,actix_server=warn,kube_client=off";

/// The variables that may hold a filter; the first that is set counts, and stands above `-v`.
const VARIABLES: [&str; 2] = ["KINDOM_LOG", "RUST_LOG"];

/// The layout of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
}

/// The filter that a number of `-v` stands for: with one the access log, with two also our own code's debug messages.
fn verbose(count: u8) -> String {
    let ours = if count > 1 { ",kindom=debug" } else { "" };
    match count {
        0 => DEFAULT.to_owned(),
        _ => format!("{DEFAULT},{}=debug{ours}", access::TARGET),
    }
}

/// # Errors
/// Names the variable whose filter does not parse.
fn filter(count: u8, variable: impl Fn(&str) -> Option<String>) -> Result<EnvFilter, String> {
    let chosen = VARIABLES.into_iter().find_map(|name| Some((name, variable(name)?)));
    match chosen.filter(|(_, filter)| !filter.is_empty()) {
        Some((name, filter)) => EnvFilter::try_new(filter).map_err(|error| format!("{name}: {error}")),
        None => EnvFilter::try_new(verbose(count)).map_err(|error| error.to_string()),
    }
}

/// The modules whose lines anybody who connects can cause: malformed requests, and credentials that do not hold.
const ANYBODYS: [&str; 2] = ["actix_http", "kindom_http::dispatch"];

/// The least time between two lines of a place in those modules.
const EVERY: Duration = Duration::from_secs(1);

/// Starts the log. A filter in the environment that does not parse is named, and the default holds instead.
pub(crate) fn start(format: Format, verbosity: u8) {
    let (chosen, wrong) = match filter(verbosity, |name| std::env::var(name).ok()) {
        Ok(chosen) => (chosen, None),
        Err(wrong) => (EnvFilter::new(verbose(verbosity)), Some(wrong)),
    };
    let chosen = chosen.and(throttled(Instant::now));
    let colours = has_colours(stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let out = fmt::layer().with_writer(stderr);
    match format {
        Format::Text => registry().with(out.with_ansi(colours).with_filter(chosen)).init(),
        Format::Json => registry().with(out.json().flatten_event(true).with_filter(chosen)).init(),
    }
    if let Some(wrong) = wrong {
        tracing::warn!(wrong, "the filter of the log does not parse");
    }
}

/// `true` if the log is for a terminal whose user has not asked for no colours: by NO_COLOR, whatever it says, unless it is
/// empty (<https://no-color.org>).
fn has_colours(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Lets log messages through, but each place of [`ANYBODYS`] only once in a while.
fn throttled<S>(
    now: impl Fn() -> Instant + Send + Sync + 'static,
) -> impl tracing_subscriber::layer::Filter<S> + Send + Sync + 'static
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + 'static,
{
    // One entry for each place in the program that logs.
    let last: Mutex<HashMap<Identifier, Instant>> = Mutex::default();
    let filter = dynamic_filter_fn(move |event: &Metadata<'_>, _| {
        if !ANYBODYS.iter().any(|module| event.target().starts_with(module)) {
            return true;
        }
        let now = now();
        let mut last = last.lock();
        let due = last.get(&event.callsite()).is_none_or(|at| now.duration_since(*at) >= EVERY);
        if due {
            last.insert(event.callsite(), now);
        }
        due
    });
    filter.with_max_level_hint(LevelFilter::TRACE)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_filter_is_the_environments_or_that_of_the_flags() {
        let check = |count: u8, variables: &[(&str, &str)], want: Result<&[&str], &str>| {
            let found = filter(count, |name| {
                let found = variables.iter().find(|(variable, _)| *variable == name)?;
                Some(found.1.to_owned())
            });
            match (found.map(|filter| filter.to_string()), want) {
                (Ok(filter), Ok(parts)) => {
                    let mut found: Vec<&str> = filter.split(',').collect();
                    found.sort_unstable();
                    assert_eq!(found, parts);
                }
                (Err(why), Err(start)) => assert!(why.starts_with(start), "{why}"),
                (found, want) => panic!("{found:?} and not {want:?}"),
            }
        };
        check(0, &[], Ok(&["actix_server=warn", "info", "kube_client=off"]));
        check(1, &[], Ok(&["actix_server=warn", "info", "kindom_http::access=debug", "kube_client=off"]));
        check(
            2,
            &[],
            Ok(&[
                "actix_server=warn",
                "info",
                "kindom=debug",
                "kindom_http::access=debug",
                "kube_client=off",
            ]),
        );
        check(1, &[("RUST_LOG", "warn")], Ok(&["warn"]));
        check(1, &[("RUST_LOG", "warn"), ("KINDOM_LOG", "trace")], Ok(&["trace"]));
        check(
            0,
            &[("KINDOM_LOG", ""), ("RUST_LOG", "warn")],
            Ok(&["actix_server=warn", "info", "kube_client=off"]),
        );
        check(0, &[("KINDOM_LOG", "kindom=loud")], Err("KINDOM_LOG: "));
    }

    #[test]
    fn no_color_is_honoured() {
        for (no_color, wanted) in [(None, true), (Some(""), true), (Some("1"), false), (Some("0"), false)] {
            let no_color = no_color.map(OsStr::new);
            assert_eq!(has_colours(true, no_color), wanted, "{no_color:?}");
            assert!(!has_colours(false, no_color), "a file has no colours");
        }
    }

    #[test]
    fn what_anybody_can_cause_is_logged_once_a_second() {
        let (lines, clock) = (Lines::default(), Arc::new(Mutex::new(Instant::now())));
        let (written, time) = (lines.clone(), clock.clone());
        let out = fmt::layer().with_writer(move || lines.clone()).with_ansi(false);
        let filter = EnvFilter::new(DEFAULT).and(throttled(move || *time.lock()));
        let log = registry().with(out.with_filter(filter));
        tracing::subscriber::with_default(log, || {
            for second in 0..3 {
                for _ in 0..1000 {
                    tracing::error!(target: "actix_http::h1::dispatcher", "stream error");
                    tracing::info!(target: "kindom_http::dispatch", "refused");
                    tracing::trace!(target: "actix_http::h1::dispatcher", "details");
                }
                tracing::info!("ours {second}");
                tracing::info!("ours {second}");
                *clock.lock() += EVERY;
            }
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("stream error"), count("refused"), count("ours")), (3, 3, 6), "{text}");
        assert_eq!(count("details"), 0, "{text}");
    }
}
