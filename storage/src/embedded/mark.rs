//! The high-water mark: the position up to which the log was certainly durable, kept in a file of its own.
//!
//! Without it, damage to the last durable batch looks like the torn end of one that was never acknowledged. Two slots are
//! written in turn, so that a torn write leaves the other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::Fields;
use super::segment::unusable;
use crate::vfs::{Vfs, VfsFile};
use crate::{Revision, StorageError};

const MAGIC: u64 = u64::from_le_bytes(*b"kindomHW");
/// Far enough apart for any sector size.
const SLOTS: [u64; 2] = [0, 4096];
const SLOT_BYTES: usize = 44;

/// The state that was durable when the mark was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) batch: u64,
    pub(super) revision: Revision,
    /// The compacted revision; opening is quicker if it is known before the log is read.
    pub(super) compacted: Revision,
}

/// The file that holds it.
#[derive(Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    sequence: u64,
    pub(super) mark: Mark,
}

impl MarkFile {
    /// Makes the file of an empty store; durable once its folder is synced.
    pub(super) fn create(vfs: &dyn Vfs, path: PathBuf) -> Result<Self, StorageError> {
        let make = || {
            let file = vfs.create(&path)?;
            file.set_len(8192)?;
            Ok(file)
        };
        let file = make().map_err(|error| unusable(&path, "create", &error))?;
        let mut mark = Self { path, file, sequence: 0, mark: Mark::default() };
        mark.write(Mark::default()).map_err(|error| unusable(&mark.path, "write", &error))?;
        Ok(mark)
    }

    /// `None` if neither slot can be trusted.
    pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Option<Self>, StorageError> {
        let file = vfs.open(path).map_err(|error| unusable(path, "open", &error))?;
        let slots = SLOTS.iter().filter_map(|offset| {
            let mut slot = [0; SLOT_BYTES];
            file.read_at(*offset, &mut slot).ok()?;
            decode(&slot)
        });
        let newest = slots.max_by_key(|(sequence, _)| *sequence);
        let path = path.to_owned();
        Ok(newest.map(|(sequence, mark)| Self { path, file, sequence, mark }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes and syncs a new mark. After a failure the next one goes to the same slot: the other is whole.
    pub(super) fn write(&mut self, mark: Mark) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        for field in [MAGIC, sequence, mark.batch, mark.revision.0, mark.compacted.0] {
            slot.extend_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&slot);
        slot.extend_from_slice(&crc.to_le_bytes());
        let [even, odd] = SLOTS;
        self.file.write_at(if sequence.is_multiple_of(2) { even } else { odd }, &slot)?;
        self.file.sync()?;
        (self.mark, self.sequence) = (mark, sequence);
        Ok(())
    }
}

fn decode(slot: &[u8; SLOT_BYTES]) -> Option<(u64, Mark)> {
    let (covered, _) = slot.split_last_chunk::<4>()?;
    let mut fields = Fields(slot);
    let magic = fields.u64()?;
    let (sequence, mark) = (
        fields.u64()?,
        Mark { batch: fields.u64()?, revision: Revision(fields.u64()?), compacted: Revision(fields.u64()?) },
    );
    (magic == MAGIC && fields.u32()? == crc32c::crc32c(covered)).then_some((sequence, mark))
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::SimDisk;

    #[test]
    fn a_damaged_slot_leaves_the_one_before() {
        let disk = SimDisk::new(0);
        let path = PathBuf::from("store/mark");
        let mut file = MarkFile::create(&disk, path.clone()).unwrap();
        let mark = |n| Mark { batch: n, revision: Revision(n * 2), compacted: Revision(n) };
        for n in 1..=3 {
            file.write(mark(n)).unwrap();
            assert_eq!(MarkFile::open(&disk, &path).unwrap().unwrap().mark, mark(n));
        }
        let bytes = disk.read(&path).unwrap();
        for slot in SLOTS.map(|slot| usize::try_from(slot).unwrap()) {
            for at in slot..slot + SLOT_BYTES {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                disk.replace(&path, &damaged);
                let found = MarkFile::open(&disk, &path).unwrap().unwrap().mark;
                assert_eq!(found, if slot == 0 { mark(2) } else { mark(3) }, "byte {at}");
            }
        }
        disk.replace(&path, &[0; 8192]);
        assert!(MarkFile::open(&disk, &path).unwrap().is_none());
    }
}
