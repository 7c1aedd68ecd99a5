//! `kindom snapshot`: saves the whole content of a store to a file, checks the file, and makes it a store again.
//!
//! **Flow.** A snapshot is a cut: all keys as of one revision, whatever is written meanwhile. It comes from a running
//! server, or from a store that no server has open. The file is written under another name, read back, and only then gets
//! its own. A restore reads the whole file once before it touches anything.
//!
//! **Guarantees.** A file that has its name was whole on the disk. A folder is restored whole or not at all, and no server
//! serves a cluster that is not whole. A restore or copy ends with reading both sides and finding them equal.

mod fill;
mod place;
mod progress;

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, pin_mut};
use kindom_storage::snapshot::{Content, Cut, Header, Reader, Verdict, stream, verify};
use kindom_storage::{KeyValue, Revision, Storage};

use crate::BoxError;
use crate::client::Client;
use crate::flags::Snapshot;
use crate::kubeconfig;
pub(crate) use fill::is_unfinished;
use place::Target;
pub(crate) use place::{Place, store_of};
use progress::{Progress, Unit};

/// The prefixes of a snapshot's keys: objects, and the holders of names. Leases and markers belong to a store.
const PREFIXES: [&str; 2] = ["/kindom/registry/claims/", "/registry/"];

/// [`PREFIXES`] as bytes, for a cut.
pub(crate) fn prefixes() -> Vec<Bytes> {
    PREFIXES.iter().map(|prefix| Bytes::from_static(prefix.as_bytes())).collect()
}

/// Runs the command, and prints what it did.
///
/// # Errors
/// One line with the reason. Files and stores are then as they were, unless the line says otherwise.
pub(crate) fn run(command: &Snapshot) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        match command {
            Snapshot::Save(options) => match options.store.place() {
                Some(place) => save_store(&place, &options.file).await,
                None => {
                    let config = kubeconfig::load(
                        options.kubeconfig.as_deref(),
                        options.context.as_deref(),
                        options.server.as_deref(),
                    )?;
                    let answer = Client::new(config)?.stream("/debug/snapshot").await?;
                    let saved = save(answer, &options.file).await;
                    saved.map_err(|error| {
                        format!("{error}\na server gives a save up if nothing is read for a minute, or after 30 minutes")
                            .into()
                    })
                }
            },
            Snapshot::Verify(options) => check(&options.file).map(|(header, content)| {
                format!("{} is whole: {}", options.file.display(), describe(header.revision, &content))
            }),
            Snapshot::Restore(options) => {
                let place = options.store.place();
                let place = place.ok_or("restore to where? give --data-dir or --etcd-servers")?;
                restore(&options.file, &place).await
            }
            Snapshot::Copy(options) => {
                let (from, to) = options.places();
                copy(&from, &to).await
            }
        }
    })?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn describe(revision: Revision, content: &Content) -> String {
    let (keys, bytes) = (content.keys(), progress::bytes(content.bytes()));
    format!("revision {revision}, {keys} keys, {bytes}, contents sha256:{}", content.hash())
}

async fn save_store(place: &Place, file: &Path) -> Result<String, BoxError> {
    let store = place.open_whole().await?;
    let cut = Cut::begin(Arc::clone(&store), prefixes(), None).await?;
    let saved = save(stream(cut).map(|chunk| chunk.map_err(BoxError::from)), file).await;
    store.close().await?;
    saved
}

/// Writes a snapshot to a file, which is there when it is whole.
async fn save(chunks: impl Stream<Item = Result<Bytes, BoxError>>, file: &Path) -> Result<String, BoxError> {
    let (temporary, out) = Temporary::create(file)?;
    let named = |error: std::io::Error| format!("{}: {error}", temporary.path.display());
    let mut out = BufWriter::new(out);
    let mut progress = Progress::new("saving", Unit::Bytes, None);
    pin_mut!(chunks);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        out.write_all(&chunk).map_err(named)?;
        progress.add(chunk.len() as u64);
    }
    out.flush().map_err(named)?;
    out.get_ref().sync_all().map_err(named)?;
    drop(progress);
    // Only the content of the disk counts; a server that broke off leaves the file without its end.
    let (header, content) = check(&temporary.path).map_err(|error| format!("nothing was saved: {error}"))?;
    fs::rename(&temporary.path, file).map_err(|error| format!("{}: {error}", file.display()))?;
    temporary.keep();
    drop(out);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(format!("saved {}: {}", file.display(), describe(header.revision, &content)))
}

/// A file in the making, beside the one that it is to be; it is removed unless it is kept.
struct Temporary {
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// It is ours as long as the file is open: another save to the same name fails.
    fn create(of: &Path) -> Result<(Self, File), BoxError> {
        let mut name = of.file_name().ok_or("a snapshot needs a file name")?.to_owned();
        name.push(".partial");
        let path = of.with_file_name(name);
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        // It holds all that clients may keep to themselves, and so may one that an earlier save has left.
        let mode = Permissions::from_mode(0o600);
        let options = File::options().write(true).create(true).truncate(false).mode(mode.mode()).clone();
        let file = options.open(&path).map_err(named)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{}: somebody else saves to it", path.display()).into());
            }
            Err(TryLockError::Error(error)) => return Err(named(error).into()),
        }
        file.set_permissions(mode).and_then(|()| file.set_len(0)).map_err(named)?;
        Ok((Self { path, kept: false }, file))
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // The next save starts with an empty file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reads a whole file.
///
/// # Errors
/// Everything that is wrong with it, a line each.
fn check(file: &Path) -> Result<(Header, Content), BoxError> {
    let input = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut progress = Progress::new("checking", Unit::Bytes, input.metadata().ok().map(|data| data.len()));
    let Verdict { header, content, damages, more } = verify(input, |read| progress.set(read));
    drop(progress);
    match header {
        Some(header) if damages.is_empty() => Ok((header, content)),
        _ => {
            let mut report = format!("{} is damaged", file.display());
            for damage in &damages {
                report.push_str(&format!("\n  {damage}"));
            }
            if more > 0 {
                report.push_str(&format!("\n  and {more} more"));
            }
            Err(report.into())
        }
    }
}

async fn restore(file: &Path, place: &Place) -> Result<String, BoxError> {
    let is_file = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.is_file();
    if !is_file {
        return Err(format!("{} is read twice, so it has to be a file, not a pipe", file.display()).into());
    }
    let (_, content) = check(file)?;
    let mut target = Target::begin(place).await?;
    let input = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut progress = Progress::new("restoring", Unit::Bytes, input.metadata().ok().map(|data| data.len()));
    let mut reader = Reader::open(input)?;
    let revision = reader.header().revision;
    let (mut page, mut begins) = (Vec::new(), reader.offset());
    loop {
        let next = reader.next_key()?;
        let ends = next.is_none();
        page.extend(next);
        if ends || page.len() == place::PAGE || reader.offset() - begins >= place::PAGE_BYTES {
            target.add(std::mem::take(&mut page)).await?;
            begins = reader.offset();
            progress.set(begins);
        }
        if ends {
            break;
        }
    }
    drop(progress);
    let reached = target.finish(revision, &content).await?;
    Ok(format!("restored {place} from {}: {}", file.display(), describe(reached, &content)))
}

async fn copy(from: &Place, to: &Place) -> Result<String, BoxError> {
    if from == to {
        return Err("--from and --to are the same store".into());
    }
    let source = from.open_whole().await?;
    // Only now: a target that was begun has to be finished.
    let mut target = Target::begin(to).await?;
    let mut cut = Cut::begin(Arc::clone(&source), prefixes(), None).await?;
    let revision = cut.header().revision;
    let mut progress = Progress::new("copying", Unit::Keys, Some(cut.count().await?));
    let mut content = Content::default();
    while let Some(page) = cut.next_page().await? {
        page.iter().try_for_each(|kv| content.add(kv))?;
        progress.add(page.len() as u64);
        target.add(page).await?;
    }
    drop((progress, cut));
    let reached = target.finish(revision, &content).await?;
    let now = Cut::begin(Arc::clone(&source), prefixes(), None).await?.header().revision;
    source.close().await?;
    let mut report =
        format!("copied {from} to {to}; both were read and are equal: {}", describe(reached, &content));
    if now != revision {
        report.push_str(&format!(
            "\nwhat was copied is revision {revision} of {from}, which is at revision {now} by now: if a server still \
             writes there, that is not in the copy"
        ));
    }
    Ok(report)
}

/// The digest of a store's present content, and its revision.
async fn content_of(store: &Arc<dyn Storage>) -> Result<(Revision, Content), BoxError> {
    let mut cut = Cut::begin(Arc::clone(store), prefixes(), None).await?;
    let mut progress = Progress::new("comparing", Unit::Keys, Some(cut.count().await?));
    let mut content = Content::default();
    while let Some(page) = cut.next_page().await? {
        page.iter().try_for_each(|kv: &KeyValue| content.add(kv))?;
        progress.add(page.len() as u64);
    }
    Ok((cut.header().revision, content))
}
