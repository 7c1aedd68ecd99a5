//! A store made of keys instead of transactions: the target of restoring a snapshot.
//!
//! A pack holds what remains after compaction: each live key's newest record, with its revisions. So the folder of a
//! restored store looks like that of one that was compacted at the snapshot's revision; the packs share out its batches and
//! revisions, of which nothing is left but their number.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::FrameBuilder;
use super::mark::{Mark, MarkFile};
use super::segment::{Extent, FIRST_FRAME, Segment, SegmentHeader, SegmentId, new_salt, unusable};
use super::{EmbeddedOptions, hint};
use crate::vfs::{Disk, Vfs, VfsFile};
use crate::{Applied, KeyValue, Revision, StorageError};

/// A pack is written in frames of about this size.
const FRAME_BYTES: usize = 1 << 20;

/// Makes the folder of an [`Embedded`](super::Embedded) store out of keys and values, with the revisions that they had. All calls block.
///
/// # Guarantees
/// The folder appears under its name when it is whole and durable, by a rename. Until then everything lies beside it, in
/// a folder with `.restoring` behind its name, which the next attempt empties.
///
/// # Caveats
/// There is no history: watches start after the restored revision.
pub struct EmbeddedRestore {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    temporary: PathBuf,
    segment_bytes: u64,
    /// Held as long as the temporary folder is worked in.
    lock: Box<dyn Send + Sync>,
    packs: u32,
    open: Option<Pack>,
}

impl EmbeddedRestore {
    /// Begins to make the store of this folder, which must be empty, or not be there.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if it is not empty, somebody else restores it, or the system refuses.
    pub fn begin(dir: impl AsRef<Path>, options: &EmbeddedOptions) -> Result<Self, StorageError> {
        Self::begin_on(Arc::new(Disk), dir, options)
    }

    /// The temporary folder that an unfinished restore of this folder has left.
    pub fn unfinished(dir: impl AsRef<Path>) -> Option<PathBuf> {
        Some(beside(dir.as_ref())).filter(|temporary| temporary.exists())
    }

    fn begin_on(
        vfs: Arc<dyn Vfs>,
        dir: impl AsRef<Path>,
        options: &EmbeddedOptions,
    ) -> Result<Self, StorageError> {
        let dir = dir.as_ref().to_owned();
        let temporary = beside(&dir);
        check_empty(&*vfs, &dir)?;
        vfs.create_dir(&temporary).map_err(|error| unusable(&temporary, "make", &error))?;
        let lock = super::lock(&*vfs, &temporary)?;
        let left = vfs.list(&temporary).map_err(|error| unusable(&temporary, "list", &error))?;
        for name in left.iter().filter(|name| *name != "lock") {
            let path = temporary.join(name);
            vfs.remove(&path).map_err(|error| unusable(&path, "remove", &error))?;
        }
        let segment_bytes = options.segment_bytes.min(1 << 30);
        Ok(Self { vfs, dir, temporary, segment_bytes, lock, packs: 0, open: None })
    }

    /// Adds a key. They may come in any order, each once.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if the system refuses; [`StorageError::Corrupt`] if the value is damaged.
    pub fn add(&mut self, kv: &KeyValue) -> Result<(), StorageError> {
        if let Some(pack) = self.open.take_if(|pack| pack.end() >= self.segment_bytes) {
            self.seal(pack, None)?;
        }
        let pack = match &mut self.open {
            Some(pack) => pack,
            none => none.insert(Pack::create(&*self.vfs, &self.temporary, &mut self.packs)?),
        };
        pack.add(kv)
    }

    /// Makes it the folder's store, as of this revision, at or after that of every key.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if the system refuses, or somebody has made the folder meanwhile;
    /// [`StorageError::Corrupt`] if so many keys cannot be of so few revisions.
    pub fn finish(mut self, revision: Revision) -> Result<(), StorageError> {
        let pack = match self.open.take() {
            Some(pack) => Some(pack),
            // Revisions went by, and left nothing.
            None if revision > Revision::ZERO => {
                Some(Pack::create(&*self.vfs, &self.temporary, &mut self.packs)?)
            }
            None => None,
        };
        if u64::from(self.packs) > revision.0 {
            return Err(StorageError::Corrupt(format!(
                "what was to be restored is too much to be of revision {revision}"
            )));
        }
        if let Some(pack) = pack {
            self.seal(pack, Some(revision))?;
        }
        let mark = self.temporary.join("mark");
        let reached = Mark { batch: u64::from(self.packs), revision, compacted: revision };
        let mut file = MarkFile::create(&*self.vfs, mark)?;
        file.write(reached).map_err(|error| unusable(file.path(), "write", &error))?;
        let Self { vfs, dir, temporary, lock, .. } = self;
        vfs.sync_dir(&temporary).map_err(|error| unusable(&temporary, "sync", &error))?;
        check_empty(&*vfs, &dir)?;
        vfs.rename(&temporary, &dir).map_err(|error| unusable(&dir, "make", &error))?;
        // Not earlier: another restore would empty the folder that is about to get its name.
        drop(lock);
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        vfs.sync_dir(parent).map_err(|error| unusable(parent, "sync", &error))
    }

    /// Completes a pack, the last one with a revision.
    fn seal(&self, pack: Pack, last: Option<Revision>) -> Result<(), StorageError> {
        let number = u64::from(self.packs);
        let path = pack.path.clone();
        let last_revision = last.unwrap_or(Revision(number));
        pack.seal(&*self.vfs, &self.temporary, number, last_revision)
            .map_err(|error| unusable(&path, "write", &error))
    }
}

fn beside(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    dir.with_file_name(name)
}

fn check_empty(vfs: &dyn Vfs, dir: &Path) -> Result<(), StorageError> {
    match vfs.list(dir) {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => Err(StorageError::Unavailable {
            reason: format!(
                "{} is not empty: only an empty store can be restored; move it away, or name another folder",
                dir.display()
            ),
            applied: Applied::No,
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unusable(dir, "list", &error)),
    }
}

/// A pack in the making.
struct Pack {
    id: SegmentId,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    salt: u64,
    position: u64,
    frame: FrameBuilder,
    frames: u64,
}

impl Pack {
    fn create(vfs: &dyn Vfs, dir: &Path, packs: &mut u32) -> Result<Self, StorageError> {
        let id = SegmentId(NonZeroU32::MIN.saturating_add(*packs));
        *packs += 1;
        let path = dir.join(format!("{id}.pack"));
        let file = vfs.create(&path).map_err(|error| unusable(&path, "create", &error))?;
        let (salt, position) = (new_salt(), FIRST_FRAME);
        let mut pack = Self { id, path, file, salt, position, frame: FrameBuilder::default(), frames: 0 };
        pack.start();
        Ok(pack)
    }

    fn start(&mut self) {
        self.frames += 1;
        self.frame.start(self.salt, self.position, self.frames, Revision::ZERO);
    }

    fn end(&self) -> u64 {
        self.position + self.frame.bytes() as u64
    }

    fn add(&mut self, kv: &KeyValue) -> Result<(), StorageError> {
        let value = kv.whole()?;
        self.frame.op(kv.mod_revision, kv.create_revision, kv.key.as_bytes(), Some(value));
        self.frame.end_txn();
        if self.frame.bytes() >= FRAME_BYTES {
            self.flush().map_err(|error| unusable(&self.path, "write", &error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.frame.is_empty() {
            let bytes = self.frame.finish();
            self.file.write_at(self.position, bytes)?;
            self.position += bytes.len() as u64;
            self.start();
        }
        Ok(())
    }

    fn seal(
        mut self,
        vfs: &dyn Vfs,
        dir: &Path,
        number: u64,
        last_revision: Revision,
    ) -> std::io::Result<()> {
        self.flush()?;
        let extent = Extent { last_batch: number, last_revision, end: self.position };
        let header = SegmentHeader {
            id: self.id,
            first_batch: number,
            first_revision: Revision(number),
            extent: Some(extent),
            // The revision of the whole store: a pack holds only compacted history.
            compacted: last_revision,
            salt: self.salt,
            clean: Revision::ZERO,
        };
        self.file.write_at(0, &header.encode())?;
        self.file.sync()?;
        let pack = Segment::new(header, self.path, self.file);
        hint::write_for(vfs, dir, &pack, extent)
    }
}
