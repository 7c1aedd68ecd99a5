//! The file of the log: it is renamed when it is full, and old ones go, as lumberjack 2.2 does it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;
use kindom_actor_kit::Clock;
use kindom_api::meta;

/// The ends of names of compressed files.
const ZIPPED: &str = ".gz";
const DAY_SECONDS: i64 = 24 * 60 * 60;
const MEGABYTE: u64 = 1 << 20;

/// The settings of the file.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Its path.
    pub path: PathBuf,
    /// The megabytes at which it is renamed; 0 for never.
    pub size_max: u64,
    /// The days after which an old file goes; 0 for never.
    pub age_max: u32,
    /// The old files that stay; 0 for all.
    pub backups_max: usize,
    /// Old files are compressed.
    pub zips: bool,
}

/// The place that lines go to.
#[derive(Debug, Clone)]
pub enum Sink {
    /// The server's standard output.
    Output,
    /// A file.
    File(FileOptions),
}

/// A sink that is open.
pub(crate) enum Open {
    Output,
    File(LogFile),
}

impl Open {
    /// # Errors
    /// The file cannot be opened, or made.
    pub(crate) fn new(sink: &Sink, clock: Clock) -> io::Result<Self> {
        match sink {
            Sink::Output => Ok(Self::Output),
            Sink::File(options) => LogFile::open(options.clone(), clock).map(Self::File),
        }
    }

    /// Writes whole lines. Returns the number of those that are written, and the error of the next one.
    pub(crate) fn write(&mut self, lines: &[Vec<u8>]) -> (usize, io::Result<()>) {
        match self {
            Self::Output => {
                let mut out = io::stdout().lock();
                let written =
                    lines.iter().try_for_each(|line| out.write_all(line)).and_then(|()| out.flush());
                (if written.is_ok() { lines.len() } else { 0 }, written)
            }
            Self::File(file) => file.write(lines),
        }
    }
}

/// The file that lines go to.
struct Writing {
    file: File,
    length: u64,
    is_regular: bool,
    mode: u32,
    /// Half a line is at its end, which could not be taken back.
    is_torn: bool,
}

/// The log's files.
pub(crate) struct LogFile {
    options: FileOptions,
    clock: Clock,
    /// None if it has to be opened, or opened again.
    writing: Option<Writing>,
    /// The file could not be renamed, and is written on.
    stays: bool,
    /// Compresses and removes old files meanwhile.
    tidying: Option<JoinHandle<()>>,
}

impl LogFile {
    fn open(options: FileOptions, clock: Clock) -> io::Result<Self> {
        if let Some(folder) = options.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let writing = Some(Writing::open(&options.path)?);
        let mut log = Self { options, clock, writing, stays: false, tidying: None };
        log.tidy();
        Ok(log)
    }

    /// Writes lines, as many at once as fit. A line that is larger than a file may be has one of its own.
    fn write(&mut self, lines: &[Vec<u8>]) -> (usize, io::Result<()>) {
        let most = self.options.size_max.saturating_mul(MEGABYTE);
        let (mut together, mut written) = (Vec::new(), 0);
        for (place, line) in lines.iter().enumerate() {
            let length = self.writing.as_ref().map_or(0, |file| file.length) + together.len() as u64;
            let turns = self.writing.as_ref().is_none_or(|file| file.is_regular);
            if most > 0 && turns && length > 0 && length + line.len() as u64 > most {
                if let Err(error) = self.append(&together) {
                    return (written, Err(error));
                }
                (written, together) = (place, Vec::new());
                self.turn_over();
            }
            together.extend_from_slice(line);
        }
        match self.append(&together) {
            Ok(()) => (lines.len(), Ok(())),
            Err(error) => (written, Err(error)),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let writing = match &mut self.writing {
            Some(writing) => writing,
            none => none.insert(Writing::open(&self.options.path)?),
        };
        writing.append(bytes)
    }

    /// Renames the file, and begins another. One that somebody has moved away is not missed, and one that cannot be renamed is written
    /// on.
    fn turn_over(&mut self) {
        let now = now(&self.clock);
        let is_free = |name: &PathBuf| !name.exists() && !zipped(name).exists();
        let old = (now..).map(|at| backup(&self.options.path, at)).find(is_free);
        match fs::rename(&self.options.path, old.unwrap_or_else(|| backup(&self.options.path, now))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                if !std::mem::replace(&mut self.stays, true) {
                    tracing::warn!(%error, "the audit log cannot be renamed, and is written on");
                }
                return;
            }
            Ok(()) | Err(_) => self.stays = false,
        }
        let mode = self.writing.as_ref().map(|file| file.mode);
        // If it cannot be opened now, the next line tries again.
        self.writing = Writing::open(&self.options.path).ok();
        if let (Some(file), Some(mode)) = (&mut self.writing, mode)
            && file.file.set_permissions(fs::Permissions::from_mode(mode)).is_ok()
        {
            file.mode = mode;
        }
        self.tidy();
    }

    /// Compresses and removes old files, in a thread of its own, unless one is at it.
    fn tidy(&mut self) {
        if self.tidying.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let (options, now) = (self.options.clone(), now(&self.clock));
        let thread = std::thread::Builder::new().name("audit-tidy".to_owned());
        match thread.spawn(move || tidy(&options, now)) {
            Ok(thread) => self.tidying = Some(thread),
            Err(error) => tracing::warn!(%error, "old audit logs stay as they are"),
        }
    }
}

impl Writing {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let metadata = file.metadata()?;
        let length = if metadata.is_file() { metadata.len() } else { 0 };
        // A server that was killed may have left half a line.
        let is_torn = length > 0 && !ends_with_line(path, length).unwrap_or(true);
        let mode = metadata.permissions().mode() & 0o777;
        Ok(Self { file, length, is_regular: metadata.is_file(), mode, is_torn })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            (self.is_torn, self.length) = (false, self.length + 1);
        }
        if let Err(error) = self.file.write_all(bytes) {
            // Of a part that was written, nothing may stay. Where somebody else has cut or written the file, it is left as it is.
            let now = self.file.metadata().map_or(0, |metadata| metadata.len());
            let is_ours = (self.length..=self.length + bytes.len() as u64).contains(&now);
            self.is_torn = self.is_regular && !(is_ours && self.file.set_len(self.length).is_ok());
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

fn ends_with_line(path: &Path, length: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(length.saturating_sub(1)))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn now(clock: &Clock) -> i64 {
    i64::try_from(clock.wall_ms()).unwrap_or(i64::MAX)
}

/// Compresses and removes old files, as far as they can be.
fn tidy(options: &FileOptions, now: i64) {
    let warn = |path: &Path, error: io::Error| {
        tracing::warn!(%error, file = %path.display(), "an old audit log could not be compressed or removed");
    };
    let mut old = match backups(&options.path) {
        Ok(old) => old,
        Err(error) => return warn(&options.path, error),
    };
    // The youngest first; a file and its compressed form are one.
    old.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut moments: Vec<i64> = old.iter().map(|(at, _)| *at).collect();
    moments.dedup();
    let (age_max, backups_max) = (i64::from(options.age_max), options.backups_max);
    for (at, path) in old {
        // A server that was killed may have left it.
        drop(fs::remove_file(partial(&path)));
        let is_too_old = age_max > 0 && now.saturating_sub(at) / 1000 > age_max * DAY_SECONDS;
        let place = moments.iter().position(|moment| *moment == at).unwrap_or_default();
        let is_zipped = path.as_os_str().as_encoded_bytes().ends_with(ZIPPED.as_bytes());
        let done = match is_too_old || backups_max > 0 && place >= backups_max {
            true => fs::remove_file(&path),
            false if options.zips && !is_zipped => zip(&path),
            false => Ok(()),
        };
        if let Err(error) = done {
            warn(&path, error);
        }
    }
}

/// The name of a log without its ending, and the ending.
fn parts(path: &Path) -> (String, String) {
    let part = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    (part(path.file_stem()), end)
}

/// The name of an old file: `audit-2006-01-02T15-04-05.000.log` in UTC, as lumberjack writes it.
fn backup(path: &Path, ms: i64) -> PathBuf {
    let (stem, end) = parts(path);
    let at = meta::time::format(ms.div_euclid(1000));
    let at = at.trim_end_matches('Z').replace(':', "-");
    path.with_file_name(format!("{stem}-{at}.{:03}{end}", ms.rem_euclid(1000)))
}

fn zipped(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ZIPPED);
    PathBuf::from(name)
}

/// The old files of a log, each with its time in milliseconds.
fn backups(path: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let (stem, end) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = name.strip_suffix(ZIPPED).unwrap_or(&name);
        let rest = plain.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('-'));
        let at = rest.and_then(|rest| rest.strip_suffix(&end));
        if let Some(ms) = at.and_then(moment) {
            found.push((ms, entry.path()));
        }
    }
    Ok(found)
}

/// The milliseconds of a time as [`backup`] writes it.
fn moment(text: &str) -> Option<i64> {
    let (whole, ms) = text.split_once('.')?;
    let (day, time) = whole.split_once('T')?;
    let seconds = meta::time::parse(&format!("{day}T{}Z", time.replace('-', ":"))).ok()?;
    let ms = ms.parse().ok().filter(|_| ms.len() == 3);
    ms.map(|ms: i64| seconds * 1000 + ms)
}

/// The file that is compressed until it is whole.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn zip(path: &Path) -> io::Result<()> {
    let partial = partial(path);
    let zipped = zip_to(path, &partial);
    if zipped.is_err() {
        drop(fs::remove_file(&partial));
    }
    zipped
}

fn zip_to(path: &Path, partial: &Path) -> io::Result<()> {
    let mut plain = File::open(path)?;
    let made = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(partial)?;
    let mut encoder = GzEncoder::new(made, Compression::default());
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(partial, zipped(path))?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;

    fn options(folder: &Path) -> FileOptions {
        let path = folder.join("deep").join("audit.log");
        FileOptions { path, size_max: 1, age_max: 0, backups_max: 0, zips: false }
    }

    fn names(options: &FileOptions) -> Vec<String> {
        let entries = fs::read_dir(options.path.parent().unwrap()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn line(byte: u8) -> Vec<u8> {
        let mut line = vec![byte; 600 << 10];
        line.push(b'\n');
        line
    }

    fn write(file: &mut LogFile, lines: &[Vec<u8>]) {
        let (written, outcome) = file.write(lines);
        outcome.unwrap();
        assert_eq!(written, lines.len());
        file.tidying.take().into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// 2023-11-14T22:13:20Z.
    const MS: u64 = 1_700_000_000_123;

    #[tokio::test]
    async fn a_full_file_is_renamed_and_none_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let mut file = LogFile::open(options.clone(), Clock::starting_at(MS)).unwrap();
        write(&mut file, &[line(b'a'), line(b'b'), line(b'c')]);
        let all = names(&options);
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(all[2], "audit.log");
        assert!(all[0].starts_with("audit-2023-11-14T22-13-20.1"), "{all:?}");
        assert_eq!(fs::read(&options.path).unwrap(), line(b'c'));
        drop(file);
        // Begun again, it goes on where it was.
        let mut file = LogFile::open(options.clone(), Clock::starting_at(MS)).unwrap();
        write(&mut file, &[b"d\n".to_vec()]);
        assert_eq!(fs::read(&options.path).unwrap(), [line(b'c'), b"d\n".to_vec()].concat());
        write(&mut file, &[vec![b'e'; 3 << 20]]);
        assert_eq!(fs::metadata(&options.path).unwrap().len(), 3 << 20, "larger than a file may be");
        assert_eq!(names(&options).len(), 4);
    }

    #[tokio::test]
    async fn old_files_are_compressed_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let options = FileOptions { backups_max: 2, zips: true, age_max: 1, ..options(folder.path()) };
        let mut file = LogFile::open(options.clone(), Clock::starting_at(MS)).unwrap();
        let parent = options.path.parent().unwrap();
        let (ancient, other) = ("audit-2023-11-12T22-13-20.000.log", "audit-yesterday.log");
        fs::write(parent.join(ancient), "old").unwrap();
        fs::write(parent.join(other), "not ours").unwrap();
        for byte in *b"abcd" {
            write(&mut file, &[line(byte)]);
        }
        let all = names(&options);
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[..2].iter().all(|name| name.ends_with(".log.gz")), "{all:?}");
        assert_eq!(all[2..], [other, "audit.log"]);
        let mut text = Vec::new();
        GzDecoder::new(File::open(parent.join(&all[1])).unwrap()).read_to_end(&mut text).unwrap();
        assert_eq!(text, line(b'c'));
    }

    #[tokio::test]
    async fn a_file_that_somebody_moved_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let mut file = LogFile::open(options.clone(), Clock::starting_at(MS)).unwrap();
        write(&mut file, &[line(b'a')]);
        fs::remove_file(&options.path).unwrap();
        write(&mut file, &[line(b'b'), line(b'c')]);
        assert_eq!(fs::read(&options.path).unwrap(), line(b'c'));
        // And where there can be none, until there can.
        let parent = options.path.parent().unwrap();
        fs::remove_dir_all(parent).unwrap();
        fs::write(parent, "no folder").unwrap();
        // The file that is open is written on.
        write(&mut file, &[line(b'd'), line(b'e'), line(b'f')]);
        fs::remove_file(parent).unwrap();
        fs::create_dir(parent).unwrap();
        write(&mut file, &[line(b'g')]);
        assert_eq!(fs::read(&options.path).unwrap(), line(b'g'));
    }

    #[tokio::test]
    async fn half_a_line_is_never_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        fs::create_dir(options.path.parent().unwrap()).unwrap();
        fs::write(&options.path, "a\nhalf").unwrap();
        let mut file = LogFile::open(options.clone(), Clock::starting_at(MS)).unwrap();
        write(&mut file, &[b"b\n".to_vec()]);
        assert_eq!(fs::read_to_string(&options.path).unwrap(), "a\nhalf\nb\n");
        let full = FileOptions { path: PathBuf::from("/dev/full"), ..options };
        let mut file = LogFile::open(full, Clock::starting_at(MS)).unwrap();
        let (written, outcome) = file.write(&[b"c\n".to_vec()]);
        assert_eq!((written, outcome.is_err()), (0, true));
    }
}
