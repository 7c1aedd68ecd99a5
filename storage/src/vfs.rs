//! The file work of the embedded engine, behind a trait: a test swaps the disk for one that loses, tears and reorders writes
//! that were not synced (`testing::SimDisk`).

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt};
use std::path::Path;
use std::sync::Arc;

/// Folders and names. All calls block.
pub trait Vfs: Send + Sync + fmt::Debug + 'static {
    /// Makes the folder and the missing ones above it, for its owner only.
    ///
    /// # Errors
    /// The system's.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock file, creating it; it is held until the answer is dropped or the process ends. `None`: somebody
    /// else holds it.
    ///
    /// # Errors
    /// The system's.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;

    /// Creates an empty file, replacing one of the same name.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>>;

    /// Opens a file to read and write.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>>;

    /// Renames a file, replacing one of the new name; atomic, durable after [`Vfs::sync_dir`].
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; a process that has it open can still read it.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, in any order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a folder, to sync it later even if no descriptor is left then.
    ///
    /// # Errors
    /// The system's.
    fn folder(&self, dir: &Path) -> io::Result<Arc<dyn VfsFolder>>;

    /// Opens a folder and [syncs](VfsFolder::sync) it.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.folder(dir)?.sync()
    }
}

/// An open folder.
pub trait VfsFolder: Send + Sync + fmt::Debug {
    /// Makes creations, renames and removals in the folder durable.
    ///
    /// # Errors
    /// The system's. After one, any of them may be durable; a later success covers all of them.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait VfsFile: Send + Sync + fmt::Debug {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the file is empty.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Fills the buffer from an offset.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; the system's.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes at an offset. On an error any of them may have been written.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes contents and length durable.
    ///
    /// # Errors
    /// The system's. After an error, earlier writes may be lost even if a later call succeeds.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file, or fills it up with zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for the first `len` bytes and makes the file at least so long, with zeros.
    ///
    /// # Errors
    /// `StorageFull`; the system's.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Vfs for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        create_dirs(dir, |parent| match self.sync_dir(parent) {
            // A process that may not read a folder may not sync it either; its owner made it long ago.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            result => result,
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(DiskLock(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(DiskFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn folder(&self, dir: &Path) -> io::Result<Arc<dyn VfsFolder>> {
        Ok(Arc::new(DiskFolder(File::open(dir)?)))
    }
}

/// Gives the lock up when it is dropped. That the file is closed is not enough: a child process that has not come to its
/// `exec` yet has the same open file, and would hold the lock on.
#[derive(Debug)]
struct DiskLock(File);

impl Drop for DiskLock {
    fn drop(&mut self) {
        // Closing gives it up as well, only later.
        let _ = self.0.unlock();
    }
}

#[derive(Debug)]
struct DiskFolder(File);

impl VfsFolder for DiskFolder {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Makes a folder and the missing ones above it. Calls `sync` with the parent of each new folder: a folder whose parent is
/// not synced may be gone after a power cut, with its content.
fn create_dirs(dir: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|dir| *dir != Path::new("") && !dir.exists()).collect();
    // As etcd's: other users must not read the stored values.
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    missing.iter().rev().try_for_each(|made| match made.parent() {
        Some(parent) if parent != Path::new("") => sync(parent),
        _ => sync(Path::new(".")),
    })
}

#[derive(Debug)]
struct DiskFile(File);

impl VfsFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            // A file system that cannot reserve space: then a full disk is seen when writing.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                if before < len {
                    self.set_len(len)
                } else {
                    Ok(())
                }
            }
            Err(error) => {
                // File systems keep the part for which there was space.
                let _ = self.set_len(before);
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_each_folder_that_is_made_is_synced() {
        let there = tempfile::tempdir().unwrap();
        let wanted = there.path().join("a/b/c");
        let made = |dir: &Path| {
            let mut synced = Vec::new();
            create_dirs(dir, |parent| {
                synced.push(parent.to_owned());
                Ok(())
            })
            .unwrap();
            synced
        };
        assert_eq!(
            made(&wanted),
            [there.path().to_owned(), there.path().join("a"), there.path().join("a/b")]
        );
        assert!(wanted.is_dir());
        assert!(made(&wanted).is_empty());
        assert_eq!(made(&there.path().join("a/d")), [there.path().join("a")]);
        let refused = create_dirs(&there.path().join("x"), |_| Err(io::Error::other("planned")));
        assert_eq!(refused.unwrap_err().to_string(), "planned");
    }

    #[test]
    fn a_lock_is_given_up_while_a_child_has_the_file_open() {
        let there = tempfile::tempdir().unwrap();
        let path = there.path().join("lock");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        // As `fork` gives it to a child.
        let _of_a_child = file.try_clone().unwrap();
        let lock = DiskLock(file);
        assert!(Disk.lock(&path).unwrap().is_none());
        drop(lock);
        assert!(Disk.lock(&path).unwrap().is_some());
    }
}
