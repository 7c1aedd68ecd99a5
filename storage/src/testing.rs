//! A disk in memory that fills up, fails, and on a power cut forgets, tears and reorders writes that were not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::vfs::{Vfs, VfsFile, VfsFolder};

/// The bytes that a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// A simulated disk. Cloning gives another handle to the same disk; a store gets one from [`SimDisk::process`].
///
/// It is worse than real ones: each sector and each change of a folder that was not synced survives a power cut or not on
/// its own, and a file that was created durably may still be empty. The seed and the operations before decide what survives.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// The boot of its process: the handle is dead after that.
    boot: Option<u64>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Content>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    /// Changes of folders since they were last synced.
    folder_changes: Vec<FolderChange>,
    locks: BTreeSet<PathBuf>,
    last_file: u64,
    /// Counts power cuts: handles from before one are dead.
    boot: u64,
    off: bool,
    operations: u64,
    /// All calls, those that change nothing too.
    calls: u64,
    read_bytes: u64,
    syncs: u64,
    /// Open files, folders and locks of the present boot.
    descriptors: u64,
    faults: Faults,
    /// Stretches of files that cannot be read.
    spoilt: Vec<(u64, std::ops::Range<u64>)>,
    /// The copies that are kept, and of which changes.
    copied: Option<(&'static str, Vec<SimDisk>)>,
    /// The state of the generator that decides what a power cut leaves.
    random: [u8; 8],
}

#[derive(Default)]
struct Faults {
    cut_at: Option<u64>,
    sync_fails_at: Option<u64>,
    /// The next write of at least so many bytes fails.
    write_fails: Option<usize>,
    capacity: Option<u64>,
    descriptors_max: Option<u64>,
    reserves_nothing: bool,
    call: Option<(&'static str, u64, CallFault)>,
    /// The call that failed by it.
    failed: Option<String>,
}

/// One call that fails; see [`SimDisk::fail_call`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFault {
    /// The system's error: EMFILE, ENOSPC, EIO.
    pub error: rustix::io::Errno,
    /// The part of the call that happens before it fails.
    pub done: Done,
}

/// The part of a failing call that happens all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Nothing. A sync that fails in this way has lost its writes, as on Linux.
    Nothing,
    /// Half of the bytes of a write; of other calls, nothing.
    Half,
    /// Everything.
    All,
}

#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    current: Vec<u8>,
    /// Sectors that may differ between the two, and would be written by a sync.
    dirty: BTreeSet<usize>,
    length_dirty: bool,
}

enum FolderChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
}

impl FolderChange {
    fn path(&self) -> &Path {
        match self {
            Self::Link(path, _) | Self::Unlink(path) => path,
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, file) => names.insert(path, file),
            Self::Unlink(path) => names.remove(&path),
        };
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State { random: seed.to_le_bytes(), ..State::default() })),
            boot: None,
        }
    }

    /// The disk as a process sees it that is started now: a power cut ends it, so after the next all calls through this
    /// handle fail.
    #[must_use]
    pub fn process(&self) -> Self {
        Self { state: Arc::clone(&self.state), boot: Some(self.state.lock().boot) }
    }

    /// Cuts the power at the `operations`-th change from now: it fails half done, and so does all after it.
    pub fn cut_after(&self, operations: u64) {
        let mut state = self.state.lock();
        state.faults.cut_at = Some(state.operations + operations);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state.lock().off = true;
    }

    /// `true` if the power is cut.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// Decides what survived, and starts again. Open files and locks from before are dead; faults are gone.
    pub fn power_on(&self) {
        let mut state = self.state.lock();
        state.settle();
        state.boot += 1;
        state.descriptors = 0;
        (state.off, state.faults) = (false, Faults::default());
        state.locks.clear();
    }

    /// Makes the `syncs`-th sync of a file from now fail; as on Linux, its writes then count as written, although they are
    /// not.
    pub fn fail_sync(&self, syncs: u64) {
        let mut state = self.state.lock();
        state.faults.sync_fails_at = Some(state.syncs + syncs);
    }

    /// Lets the next write of at least `bytes` bytes fail, after half of them. Smaller ones, such as a mark that the store
    /// writes by its own clock, do not count.
    pub fn fail_write(&self, bytes: usize) {
        self.state.lock().faults.write_fails = Some(bytes);
    }

    /// Bounds the sum of all file lengths; `None`: no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().faults.capacity = bytes;
    }

    /// Lets the `nth` call from now fail, of those whose name contains `what` ("rename", ".hint"; "" is all, those of
    /// opening, reading and listing too). `nth` counts from 1.
    pub fn fail_call(&self, what: &'static str, nth: u64, fault: CallFault) {
        let mut state = self.state.lock();
        state.faults.call = Some((what, nth, fault));
        state.faults.failed = None;
    }

    /// From now on, keeps a copy of the disk from before each change whose name contains `what`: what a process that is killed
    /// there leaves.
    pub fn keep_copies(&self, what: &'static str) {
        self.state.lock().copied = Some((what, Vec::new()));
    }

    /// Ends [`SimDisk::keep_copies`]; returns the copies.
    #[must_use]
    pub fn copies(&self) -> Vec<Self> {
        self.state.lock().copied.take().map_or_else(Vec::new, |(_, copies)| copies)
    }

    /// Takes [`SimDisk::fail_call`] back: a call that has not failed by now does not.
    pub fn spare_calls(&self) {
        self.state.lock().faults.call = None;
    }

    /// The call that [`SimDisk::fail_call`] let fail.
    #[must_use]
    pub fn failed_call(&self) -> Option<String> {
        self.state.lock().faults.failed.clone()
    }

    /// Bounds the number of open files, folders and locks; `None`: no bound.
    pub fn set_descriptors(&self, most: Option<u64>) {
        self.state.lock().faults.descriptors_max = most;
    }

    /// Makes the disk a file system that cannot reserve space: only a write shows that it is full.
    pub fn set_reserving(&self, reserving: bool) {
        self.state.lock().faults.reserves_nothing = !reserving;
    }

    /// The number of files, folders and locks that are open.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        self.state.lock().descriptors
    }

    /// The sum of all files' lengths.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// The number of bytes read so far, without those that the packer read: it starts when a store is opened.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.state.lock().read_bytes
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// The number of changes so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The names of all files, as they are now.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// The bytes of a file, as they are now.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        Some(state.files.get(state.names.get(path)?)?.current.clone())
    }

    /// Replaces a file, durably: what damage leaves.
    pub fn replace(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let file = state.new_file();
        let content = Content { durable: bytes.to_vec(), current: bytes.to_vec(), ..Content::default() };
        state.files.insert(file, content);
        state.names.insert(path.to_owned(), file);
        state.durable_names.insert(path.to_owned(), file);
    }

    /// From now on, reads of this part of a file fail (EIO).
    pub fn spoil(&self, path: &Path, part: std::ops::Range<u64>) {
        let mut state = self.state.lock();
        let file = state.names.get(path).copied();
        state.spoilt.extend(file.map(|file| (file, part)));
    }

    /// Gives a file a second name, durably: what a power cut in a rename may leave.
    pub fn link(&self, path: &Path, other: &Path) {
        let mut state = self.state.lock();
        if let Some(file) = state.names.get(path).copied() {
            state.names.insert(other.to_owned(), file);
            state.durable_names.insert(other.to_owned(), file);
        }
    }

    /// Removes a file, durably.
    pub fn lose(&self, path: &Path) {
        let mut state = self.state.lock();
        state.names.remove(path);
        state.durable_names.remove(path);
    }

    /// A copy of the disk that shares nothing with it.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        self.state.lock().duplicate()
    }

    /// Starts a change of the disk; the answer says how it fails, if it does.
    fn change(&self, boot: Option<u64>, what: &str) -> io::Result<(MutexGuard<'_, State>, Fate)> {
        let mut state = self.state.lock();
        state.check(boot)?;
        let fault = state.call(what);
        state.operations += 1;
        if state.copied.as_ref().is_some_and(|(part, _)| what.contains(part)) {
            let copy = state.duplicate();
            state.copied.iter_mut().for_each(|(_, copies)| copies.push(copy.clone()));
        }
        let cut = state.faults.cut_at.is_some_and(|at| state.operations >= at);
        state.off = cut;
        Ok((state, Fate { cut, fault }))
    }

    /// Starts a call that changes nothing.
    fn look(&self, boot: Option<u64>, what: &str) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        state.check(boot)?;
        match state.call(what) {
            Some(fault) => Err(fault.error.into()),
            None => Ok(state),
        }
    }

    fn descriptor(&self, state: &mut State) -> io::Result<Descriptor> {
        if state.faults.descriptors_max.is_some_and(|most| state.descriptors >= most) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        state.descriptors += 1;
        Ok(Descriptor { disk: self.clone(), boot: state.boot })
    }
}

/// The way in which a change of the disk fails.
#[derive(Clone, Copy)]
struct Fate {
    cut: bool,
    fault: Option<CallFault>,
}

impl Fate {
    /// Fails before anything happened.
    fn before(self) -> io::Result<()> {
        match self.fault {
            Some(CallFault { error, done: Done::Nothing | Done::Half }) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Fails after it happened.
    fn after(self) -> io::Result<()> {
        match (self.cut, self.fault) {
            (true, _) => Err(no_power()),
            (_, Some(fault)) => Err(fault.error.into()),
            _ => Ok(()),
        }
    }
}

/// Counts as open until it is dropped.
#[derive(Debug)]
struct Descriptor {
    disk: SimDisk,
    boot: u64,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.boot == self.boot {
            state.descriptors -= 1;
        }
    }
}

fn no_power() -> io::Error {
    io::Error::other("the simulated disk has no power")
}

impl State {
    fn check(&self, boot: Option<u64>) -> io::Result<()> {
        if self.off || boot.is_some_and(|boot| boot != self.boot) { Err(no_power()) } else { Ok(()) }
    }

    /// Counts a call, and says whether it is the one that fails.
    fn call(&mut self, what: &str) -> Option<CallFault> {
        self.calls += 1;
        let (part, left, fault) = self.faults.call.as_mut()?;
        if !what.contains(*part) {
            return None;
        }
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let fault = *fault;
        self.faults.call = None;
        self.faults.failed = Some(what.to_owned());
        Some(fault)
    }

    fn duplicate(&self) -> SimDisk {
        let copy = SimDisk::new(0);
        for (path, file) in &self.names {
            if let Some(content) = self.files.get(file) {
                copy.replace(path, &content.current);
            }
        }
        copy
    }

    fn new_file(&mut self) -> u64 {
        self.last_file += 1;
        self.last_file
    }

    fn named(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn content(&mut self, file: u64) -> io::Result<&mut Content> {
        self.files.get_mut(&file).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn link(&mut self, change: FolderChange, again: FolderChange) {
        change.apply(&mut self.names);
        self.folder_changes.push(again);
    }

    fn used(&self) -> u64 {
        let files: BTreeSet<_> = self.names.values().collect();
        let bytes = |file: &&u64| self.files.get(file).map_or(0, |content| content.current.len() as u64);
        files.iter().map(bytes).sum()
    }

    fn check_space(&self, more: usize) -> io::Result<()> {
        let full = self.faults.capacity.is_some_and(|capacity| self.used() + more as u64 > capacity);
        if full { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Drops the changes that a power cut loses.
    fn settle(&mut self) {
        let mut random = SplitMix64::from_seed(self.random);
        for change in std::mem::take(&mut self.folder_changes) {
            if random.next_u64() & 1 == 0 {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let files: Vec<u64> = self.files.keys().copied().collect();
        for file in files {
            // Now and then all or nothing survives, else each sector by itself.
            let mode = random.next_u64() % 4;
            let mut survives = || match mode {
                0 => false,
                1 => true,
                _ => random.next_u64() & 1 == 0,
            };
            let mut content = self.files.remove(&file).unwrap_or_default();
            if content.length_dirty && survives() {
                content.durable.resize(content.current.len(), 0);
            }
            for sector in std::mem::take(&mut content.dirty) {
                if survives() {
                    content.persist(sector);
                }
            }
            content.current = content.durable.clone();
            content.length_dirty = false;
            self.files.insert(file, content);
        }
    }
}

impl Content {
    fn touch(&mut self, from: usize, to: usize) {
        self.dirty.extend(from / SECTOR..to.div_ceil(SECTOR));
    }

    /// Copies a sector, as far as the durable length reaches.
    fn persist(&mut self, sector: usize) {
        let from = sector * SECTOR;
        let to = (from + SECTOR).min(self.durable.len());
        let shared = to.min(self.current.len()).max(from);
        if let (Some(place), Some(bytes)) =
            (self.durable.get_mut(from..shared), self.current.get(from..shared))
        {
            place.copy_from_slice(bytes);
        }
        if let Some(beyond) = self.durable.get_mut(shared..to) {
            beyond.fill(0);
        }
    }

    fn set_len(&mut self, len: usize) {
        let before = self.current.len();
        self.current.resize(len, 0);
        self.length_dirty = true;
        self.touch(before.min(len), before.max(len));
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.current.len() {
            self.set_len(end);
        }
        if let Some(place) = self.current.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
        self.touch(offset, end);
    }

    fn sync(&mut self) {
        if self.length_dirty {
            self.durable.resize(self.current.len(), 0);
            self.length_dirty = false;
        }
        for sector in std::mem::take(&mut self.dirty) {
            self.persist(sector);
        }
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    boot: u64,
    _descriptor: Descriptor,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.boot == self.boot {
            state.locks.remove(&self.path);
        }
    }
}

struct SimFile {
    disk: SimDisk,
    file: u64,
    boot: u64,
    _descriptor: Descriptor,
}

#[derive(Debug)]
struct SimFolder {
    disk: SimDisk,
    dir: PathBuf,
    boot: u64,
    _descriptor: Descriptor,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Vfs for SimDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.look(self.boot, "create_dir").map(drop)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut state = self.look(self.boot, "lock")?;
        if state.locks.contains(path) {
            return Ok(None);
        }
        let descriptor = self.descriptor(&mut state)?;
        state.locks.insert(path.to_owned());
        let (disk, path, boot) = (self.clone(), path.to_owned(), state.boot);
        Ok(Some(Box::new(SimLock { disk, path, boot, _descriptor: descriptor })))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let (mut state, fate) = self.change(self.boot, &format!("create {}", path.display()))?;
        fate.before()?;
        let descriptor = self.descriptor(&mut state)?;
        let file = state.new_file();
        state.files.insert(file, Content::default());
        let link = || FolderChange::Link(path.to_owned(), file);
        state.link(link(), link());
        let boot = state.boot;
        // The lock goes first: a descriptor takes it when it is dropped.
        drop(state);
        fate.after()?;
        Ok(Arc::new(SimFile { disk: self.clone(), file, boot, _descriptor: descriptor }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = self.look(self.boot, &format!("open {}", path.display()))?;
        let file = state.named(path)?;
        let descriptor = self.descriptor(&mut state)?;
        let boot = state.boot;
        Ok(Arc::new(SimFile { disk: self.clone(), file, boot, _descriptor: descriptor }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, fate) = self.change(self.boot, &format!("rename to {}", to.display()))?;
        fate.before()?;
        let file = state.named(from)?;
        // Atomic: the change that survives or not is the link; the old name without it is a leftover.
        let (link, unlink) =
            (|| FolderChange::Link(to.to_owned(), file), || FolderChange::Unlink(from.to_owned()));
        state.link(link(), link());
        state.link(unlink(), unlink());
        fate.after()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, fate) = self.change(self.boot, &format!("remove {}", path.display()))?;
        fate.before()?;
        state.named(path)?;
        let unlink = || FolderChange::Unlink(path.to_owned());
        state.link(unlink(), unlink());
        fate.after()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.look(self.boot, "list")?;
        let descriptor = self.descriptor(&mut state)?;
        let name = |path: &PathBuf| {
            let here = path.parent() == Some(dir);
            here.then(|| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        };
        let names = state.names.keys().filter_map(name).collect();
        drop(state);
        drop(descriptor);
        Ok(names)
    }

    fn folder(&self, dir: &Path) -> io::Result<Arc<dyn VfsFolder>> {
        let mut state = self.look(self.boot, "open the folder")?;
        let descriptor = self.descriptor(&mut state)?;
        let (disk, dir, boot) = (self.clone(), dir.to_owned(), state.boot);
        Ok(Arc::new(SimFolder { disk, dir, boot, _descriptor: descriptor }))
    }
}

impl VfsFolder for SimFolder {
    fn sync(&self) -> io::Result<()> {
        let (mut state, fate) = self.disk.change(Some(self.boot), "sync the folder")?;
        if fate.cut {
            return Err(no_power());
        }
        fate.before()?;
        let changes = std::mem::take(&mut state.folder_changes);
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.path().parent() == Some(&self.dir));
        state.folder_changes = elsewhere;
        here.into_iter().for_each(|change| change.apply(&mut state.durable_names));
        fate.after()
    }
}

impl VfsFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.look(Some(self.boot), "len")?;
        Ok(state.content(self.file)?.current.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.look(Some(self.boot), "read")?;
        let from = position(offset)?;
        let end = offset + buffer.len() as u64;
        if state.spoilt.iter().any(|(file, part)| *file == self.file && part.start < end && offset < part.end)
        {
            return Err(rustix::io::Errno::IO.into());
        }
        if std::thread::current().name() != Some(crate::embedded::PACKER) {
            state.read_bytes += buffer.len() as u64;
        }
        let bytes = state.content(self.file)?.current.get(from..from + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fate) = self.disk.change(Some(self.boot), "write")?;
        let half = fate.fault.is_some_and(|fault| fault.done == Done::Half);
        if !half {
            fate.before()?;
        }
        let from = position(offset)?;
        let grown = (from + bytes.len()).saturating_sub(state.content(self.file)?.current.len());
        state.check_space(grown)?;
        let fails = state.faults.write_fails.take_if(|least| bytes.len() >= *least).is_some();
        let bytes = if fails || half { bytes.get(..bytes.len() / 2).unwrap_or_default() } else { bytes };
        state.content(self.file)?.write(from, bytes);
        if fails && !fate.cut {
            return Err(io::Error::other("a simulated write error"));
        }
        fate.after()
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, fate) = self.disk.change(Some(self.boot), "sync")?;
        if fate.cut {
            return Err(no_power());
        }
        state.syncs += 1;
        let error = if state.faults.sync_fails_at == Some(state.syncs) {
            Err(io::Error::other("a simulated sync error"))
        } else {
            fate.before()
        };
        if let Err(error) = error {
            let content = state.content(self.file)?;
            content.dirty.clear();
            content.length_dirty = false;
            return Err(error);
        }
        state.content(self.file)?.sync();
        fate.after()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, fate) = self.disk.change(Some(self.boot), "set_len")?;
        fate.before()?;
        let len = position(len)?;
        let grown = len.saturating_sub(state.content(self.file)?.current.len());
        state.check_space(grown)?;
        state.content(self.file)?.set_len(len);
        fate.after()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let reserves = !self.disk.state.lock().faults.reserves_nothing;
        if reserves && self.len()? < len { self.set_len(len) } else { Ok(()) }
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| ErrorKind::InvalidInput.into())
}
