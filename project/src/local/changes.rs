//! Changes of a project's sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::Error;

/// An editor writes several files one after the other: a change is whole when nothing has followed for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Folders of a project that hold no sources.
const OUTPUT: [&str; 2] = ["target", "bin"];

pub(super) struct Changes {
    root: PathBuf,
    watcher: RecommendedWatcher,
    changed: Arc<Notify>,
    /// True from a change on until it was reported.
    pending: bool,
}

impl Changes {
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        let changed = Arc::new(Notify::new());
        let seen = Arc::clone(&changed);
        let root = folder.canonicalize().map_err(Error::file("watch", folder))?;
        let watched = root.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error, like events that were lost, may have been a change.
            if event.map_or(true, |event| event.need_rescan() || is_change(&watched, &event)) {
                seen.notify_one();
            }
        });
        let watcher = watcher.map_err(|error| failed(folder, error))?;
        Ok(Self { root, watcher, changed, pending: false })
    }

    /// Forgets the changes so far, and watches the folders that there are now: one that was replaced is watched no more.
    pub(super) fn forget(&mut self) -> Result<(), Error> {
        let root = self.root.clone();
        let entries = std::fs::read_dir(&root).map_err(Error::file("watch", &root))?;
        let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
        self.watch(&root, RecursiveMode::NonRecursive)?;
        for folder in folders.filter(|path| path.is_dir() && is_source(path)) {
            self.watch(&folder, RecursiveMode::Recursive)?;
        }
        self.pending = false;
        // The permit of a change from before, if there is one.
        let _ = self.changed.notified().now_or_never();
        Ok(())
    }

    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> Result<(), Error> {
        match self.watcher.watch(path, mode) {
            Ok(()) => Ok(()),
            // It went in this moment, which the watch of the project's folder sees.
            Err(error) if matches!(error.kind, ErrorKind::PathNotFound) => Ok(()),
            Err(error) => Err(failed(path, error)),
        }
    }

    /// Waits for a change, and until no other one follows. A wait that is dropped loses nothing.
    pub(super) async fn settled(&mut self) {
        if !self.pending {
            self.changed.notified().await;
            self.pending = true;
        }
        while timeout(QUIET, self.changed.notified()).await.is_ok() {}
        self.pending = false;
    }
}

fn failed(path: &Path, error: notify::Error) -> Error {
    Error::file("watch", path)(std::io::Error::other(error))
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && !OUTPUT.contains(&name.as_ref())
}

/// True for what may give another build: cargo itself reads the sources, and writes its lock file.
fn is_change(root: &Path, event: &Event) -> bool {
    let matters = |path: &PathBuf| match path.parent() == Some(root) {
        true => {
            path.file_name().is_some_and(|name| name == "Cargo.toml")
                || path.extension().is_none() && is_source(path)
        }
        false => is_source(path),
    };
    !matches!(event.kind, EventKind::Access(_)) && event.paths.iter().any(matters)
}
