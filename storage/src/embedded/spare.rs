//! The spare: the space and the descriptor of the next pack.
//!
//! On a full disk only packs make room, and a pack needs space before it frees any. So the log takes space only once the spare
//! has as much as the segments that may have to be packed, up to that of the largest: then each segment can be packed, however
//! little of it is dead.
//!
//! A pack is written into the spare, and takes its space with it. The files that it replaces free at least as much, and
//! whoever holds the lock on the spare gets it: the packer, from before it removes them until there is the next spare. The
//! writer holds the lock while it takes space for the log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::segment::{FIRST_FRAME, SegmentHeader, is_full};
use crate::vfs::{Vfs, VfsFile};

pub(super) struct Spare {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// The most bytes of a segment.
    most: u64,
    file: Option<Arc<dyn VfsFile>>,
    /// So many bytes of the file are reserved.
    reserved: u64,
    wanted: u64,
    /// The packer writes to it.
    lent: bool,
}

impl Spare {
    pub(super) fn new(vfs: Arc<dyn Vfs>, path: PathBuf, most: u64) -> Self {
        Self { vfs, path, most, file: None, reserved: 0, wanted: 0, lent: false }
    }

    /// Reserves as much as packing one of these segments can need: `stored` is the sum of their bytes. It never shrinks.
    ///
    /// # Errors
    /// The system's; then it is as it was.
    pub(super) fn cover(&mut self, stored: u64) -> io::Result<()> {
        let bytes = stored.min(self.most);
        // A pack has a header, and other frames.
        let wanted = self.wanted.max(FIRST_FRAME + bytes + bytes / 64);
        self.allocate(wanted)?;
        self.wanted = wanted;
        Ok(())
    }

    /// Reserves what was wanted last, unless the packer has the spare.
    ///
    /// # Errors
    /// The system's. Without space for all of it, there is as much as half of it, a quarter, or less.
    pub(super) fn reserve(&mut self) -> io::Result<()> {
        let first = self.allocate(self.wanted);
        let mut bytes = self.wanted;
        while bytes > self.reserved && first.as_ref().is_err_and(is_full) {
            bytes /= 2;
            if self.allocate(bytes).is_ok() {
                break;
            }
        }
        first
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        if self.lent || (self.file.is_some() && self.reserved >= bytes) {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => self.open()?,
        };
        if self.reserved < bytes {
            file.allocate(bytes)?;
            self.reserved = bytes;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<Arc<dyn VfsFile>> {
        let file = match self.vfs.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.vfs.create(&self.path)?,
            Ok(file) if self.is_a_pack(&*file)? => {
                self.vfs.remove(&self.path)?;
                self.vfs.create(&self.path)?
            }
            file => file?,
        };
        // The space of the process before; a copy of a folder may have holes there.
        let there = file.len()?;
        self.reserved = file.allocate(there).map_or(0, |()| there);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Returns true if this is the file of a pack: a power cut while it got its name may leave both names.
    fn is_a_pack(&self, file: &dyn VfsFile) -> io::Result<bool> {
        let mut bytes = [0; 128];
        if file.len()? < FIRST_FRAME {
            return Ok(false);
        }
        file.read_at(0, &mut bytes)?;
        let Some(header) = SegmentHeader::decode(&bytes) else { return Ok(false) };
        match self.vfs.open(&self.path.with_file_name(format!("{}.pack", header.id))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            pack => pack.map(|_| true),
        }
    }

    /// The bytes that a pack may have.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Lends the file to the packer.
    pub(super) fn lend(&mut self) -> Option<Arc<dyn VfsFile>> {
        let file = self.file.clone()?;
        self.lent = true;
        Some(file)
    }

    /// Takes the file back from a pack that failed, and frees the space beyond the reserve.
    pub(super) fn give_back(&mut self) {
        self.lent = false;
        if let Some(file) = &self.file
            && (file.set_len(self.reserved).is_err() || file.allocate(self.reserved).is_err())
        {
            self.reserved = 0;
        }
    }

    /// The file is a pack now, or is lost.
    pub(super) fn spent(&mut self) {
        (self.file, self.reserved, self.lent) = (None, 0, false);
    }
}
