//! Changes of a project's sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::Error;

/// An editor writes several files one after the other: a change is whole when nothing has followed for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Folders of a project that hold no sources.
const OUTPUT: [&str; 2] = ["target", "bin"];

pub(super) struct Changes {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    changed: Arc<Notify>,
}

impl Changes {
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        let changed = Arc::new(Notify::new());
        let told = Arc::clone(&changed);
        let root = folder.canonicalize().map_err(Error::file("watch", folder))?;
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.map_or(true, |event| is_change(&root, &event)) {
                told.notify_one();
            }
        });
        let watcher = watcher.map_err(|error| failed(folder, error))?;
        Ok(Self { watcher, watched: BTreeSet::new(), changed })
    }

    /// Forgets the changes so far, and watches folders that are new as well.
    pub(super) fn forget(&mut self, folder: &Path) -> Result<(), Error> {
        let root = folder.canonicalize().map_err(Error::file("watch", folder))?;
        let entries = std::fs::read_dir(&root).map_err(Error::file("watch", folder))?;
        let folders: BTreeSet<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir() && is_source(path))
            .collect();
        self.watch(&root, RecursiveMode::NonRecursive)?;
        for folder in &folders {
            self.watch(folder, RecursiveMode::Recursive)?;
        }
        // A folder that comes again is watched anew.
        self.watched.retain(|path| *path == root || folders.contains(path));
        // The permit of a change from before, if there is one.
        let _ = self.changed.notified().now_or_never();
        Ok(())
    }

    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> Result<(), Error> {
        if self.watched.insert(path.to_owned()) {
            self.watcher.watch(path, mode).map_err(|error| failed(path, error))?;
        }
        Ok(())
    }

    /// Waits for a change, and until no other one follows.
    pub(super) async fn settled(&mut self) {
        self.changed.notified().await;
        while timeout(QUIET, self.changed.notified()).await.is_ok() {}
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
        true => path.is_dir() && is_source(path) || path.file_name().is_some_and(|name| name == "Cargo.toml"),
        false => is_source(path),
    };
    !matches!(event.kind, EventKind::Access(_)) && event.paths.iter().any(matters)
}
