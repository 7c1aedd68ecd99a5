//! The files that a tool writes: all of them, or none.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// The part a file plays, which says what happens to one that is there with another text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The user's own, like a README: what is there stays.
    Kept,
    /// A piece of the project: what is there is somebody else's, so nothing is written.
    Needed,
    /// Follows from `kindom.json` or from the arguments, and carries a digest: it is written again unless somebody has edited it.
    Generated,
    /// `kindom.json` itself.
    Manifest,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    text: String,
    part: Part,
    executable: bool,
}

/// The files to write, relative to the folder of the project.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    files: Vec<File>,
}

/// The outcome of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The files that are new or changed.
    pub(crate) written: Vec<PathBuf>,
    /// The generated files that were edited, each with the text that it would have.
    pub(crate) edited: Vec<(PathBuf, String)>,
}

impl Plan {
    pub(crate) fn add(&mut self, path: impl Into<PathBuf>, text: String, part: Part) {
        self.files.push(File { path: path.into(), text, part, executable: false });
    }

    pub(crate) fn add_executable(&mut self, path: impl Into<PathBuf>, text: String) {
        self.files.push(File { path: path.into(), text, part: Part::Kept, executable: true });
    }

    /// Writes the files. Each one is written beside its place first, and comes there by a rename.
    ///
    /// # Errors
    /// [`Error`]; everything is as it was then.
    pub(crate) fn write(mut self, folder: &Path) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let mut due = Vec::new();
        for mut file in std::mem::take(&mut self.files) {
            let there = read(folder, &file.path)?;
            if file.path.extension().is_some_and(|extension| extension == "rs") {
                file.text = formatted(folder, file.text);
            }
            let language = Language::of(&file.path);
            if file.part == Part::Generated {
                file.text = language.sealed(&file.text);
            }
            match (there, file.part) {
                (Some(there), _) if there == file.text => {}
                (Some(_), Part::Kept) => {}
                (Some(_), Part::Needed) => {
                    return Err(Error::refused(format!(
                        "{} is there already, with another content: nothing was written",
                        file.path.display()
                    )));
                }
                (Some(there), Part::Generated) if !language.is_sealed(&there) => {
                    outcome.edited.push((file.path, file.text));
                }
                (_, _) => due.push(file),
            }
        }
        outcome.written = due.iter().map(|file| file.path.clone()).collect();
        Staged::default().put(folder, &due)?;
        Ok(outcome)
    }
}

fn read(folder: &Path, path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(folder.join(path)) {
        // Bytes that are no text differ from every text, and that is all that counts.
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// The files and folders that a plan has made so far. Dropped before it is done, it takes everything away again.
#[derive(Default)]
struct Staged {
    folders: Vec<PathBuf>,
    /// The file beside its place, its place, and the text that was there.
    files: Vec<(PathBuf, PathBuf, Option<Vec<u8>>)>,
    /// The number of files that are in their places.
    placed: usize,
    done: bool,
}

impl Staged {
    fn put(mut self, folder: &Path, due: &[File]) -> Result<(), Error> {
        for file in due {
            self.stage(folder, file).map_err(Error::file("write", &file.path))?;
        }
        for (file, (staged, place, _)) in due.iter().zip(&self.files) {
            std::fs::rename(staged, place).map_err(Error::file("write", &file.path))?;
            self.placed += 1;
        }
        self.done = true;
        Ok(())
    }

    fn stage(&mut self, folder: &Path, file: &File) -> std::io::Result<()> {
        let place = folder.join(&file.path);
        let parent = place.parent().unwrap_or(folder);
        self.make(parent)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let staged = place.with_file_name(format!(".{name}.new"));
        let old = std::fs::read(&place).ok();
        self.files.push((staged.clone(), place, old));
        let mut made = std::fs::File::create(&staged)?;
        made.write_all(file.text.as_bytes())?;
        if file.executable {
            make_executable(&made)?;
        }
        Ok(())
    }

    fn make(&mut self, folder: &Path) -> std::io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.make(parent)?;
        }
        std::fs::create_dir(folder)?;
        self.folders.push(folder.to_owned());
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // The error that led here is the one to report.
        for (at, (staged, place, old)) in self.files.iter().enumerate() {
            match old {
                _ if at >= self.placed => drop(std::fs::remove_file(staged)),
                Some(old) => drop(std::fs::write(place, old)),
                None => drop(std::fs::remove_file(place)),
            }
        }
        for folder in self.folders.iter().rev() {
            drop(std::fs::remove_dir(folder));
        }
    }
}

fn make_executable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))
}

/// A Rust text as rustfmt has it in this folder; as it is where there is no rustfmt.
fn formatted(folder: &Path, text: String) -> String {
    let run = || {
        let mut rustfmt = Command::new("rustfmt")
            .args(["--edition", "2024", "--quiet"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let given = match rustfmt.stdin.take() {
            // A file of the project is smaller than a pipe, and rustfmt reads all before it writes.
            Some(mut stdin) => stdin.write_all(text.as_bytes()),
            None => Ok(()),
        };
        let out = rustfmt.wait_with_output()?;
        given.map(|()| out.status.success().then_some(out.stdout))
    };
    let formatted = run().ok().flatten().and_then(|text| String::from_utf8(text).ok());
    formatted.filter(|formatted| !formatted.is_empty()).unwrap_or(text)
}

const SEAL: &str = " Written by kindom. Once edited, it is yours to keep up to date. ";

/// The language of a generated file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Yaml,
    Html,
    /// An object that is written over several lines.
    Json,
}

impl Language {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Self::Rust,
            Some("html") => Self::Html,
            Some("json") => Self::Json,
            _ => Self::Yaml,
        }
    }

    /// The texts before and behind the seal, and the beginning of the file, which they replace.
    fn around(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Rust => ("//", "\n", ""),
            Self::Yaml => ("#", "\n", ""),
            Self::Html => ("<!--", " -->\n", ""),
            Self::Json => ("{\n  \"$comment\": \"", "\",\n", "{\n"),
        }
    }

    /// A generated text with its digest in front.
    fn sealed(self, text: &str) -> String {
        let (before, behind, start) = self.around();
        let text = text.strip_prefix(start).unwrap_or(text);
        format!("{before}{SEAL}{}{behind}{text}", self.digest(text))
    }

    /// True if a generated text is as it was written; of Rust, the layout does not count.
    fn is_sealed(self, text: &str) -> bool {
        let (before, behind, _) = self.around();
        text.strip_prefix(before)
            .and_then(|rest| rest.strip_prefix(SEAL)?.split_once(behind))
            .is_some_and(|(given, text)| given.trim_end() == self.digest(text))
    }

    /// The first half of the SHA-256 of a text, hexadecimal; of Rust, without spaces, line breaks and commas, which rustfmt may
    /// change.
    fn digest(self, text: &str) -> String {
        let counts = |c: &char| self != Self::Rust || !c.is_whitespace() && *c != ',';
        let counted: String = text.chars().filter(counts).collect();
        Sha256::digest(counted.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: &[(&str, &str, Part)]) -> Plan {
        let mut plan = Plan::default();
        for (path, text, part) in files {
            plan.add(*path, (*text).to_owned(), *part);
        }
        plan
    }

    fn every_file(folder: &Path) -> Vec<String> {
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .flat_map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                match path.is_dir() {
                    true => every_file(&path)
                        .into_iter()
                        .map(|inner| format!("{name}/{inner}"))
                        .chain([format!("{name}/")])
                        .collect(),
                    false => vec![name],
                }
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("a/b.txt", "b", Part::Needed),
            ("c", "c", Part::Kept),
            ("d.rs", "fn d() {}\n", Part::Generated),
        ];
        let first = plan(&files).write(folder.path()).unwrap();
        assert_eq!(first.written, ["a/b.txt", "c", "d.rs"].map(PathBuf::from));
        assert_eq!(every_file(folder.path()), ["a/", "a/b.txt", "c", "d.rs"]);
        assert_eq!(plan(&files).write(folder.path()).unwrap(), Outcome::default());
    }

    #[test]
    fn what_is_there_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("README.md"), "mine").unwrap();
        std::fs::write(folder.path().join("Cargo.toml"), "mine").unwrap();
        let files = [("x/y/z", "new", Part::Needed), ("README.md", "yours", Part::Kept)];
        plan(&files).write(folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("README.md")).unwrap(), "mine");
        let files = [("u/v/w", "new", Part::Needed), ("Cargo.toml", "yours", Part::Needed)];
        let error = plan(&files).write(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("Cargo.toml is there already"), "{error}");
        assert_eq!(every_file(folder.path()), ["Cargo.toml", "README.md", "x/", "x/y/", "x/y/z"]);
    }

    #[test]
    fn an_edited_file_keeps_its_edits_and_the_text_is_shown_that_it_would_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.rs");
        let write = |text: &str| plan(&[("lib.rs", text, Part::Generated)]).write(folder.path()).unwrap();
        write("pub mod a;\n");
        // Another layout is no edit.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("pub mod a;", "\n  pub mod a;\n")).unwrap();
        assert_eq!(write("pub mod a;\npub mod b;\n").written, [PathBuf::from("lib.rs")]);
        let text = std::fs::read_to_string(&path).unwrap() + "pub mod mine;\n";
        std::fs::write(&path, &text).unwrap();
        let outcome = write("pub mod a;\npub mod b;\npub mod c;\n");
        let [(edited, wanted)] = outcome.edited.try_into().unwrap();
        assert_eq!(edited, Path::new("lib.rs"));
        assert!(wanted.ends_with("\npub mod a;\npub mod b;\npub mod c;\n"), "{wanted}");
        assert_eq!(outcome.written, Vec::<PathBuf>::new());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        // In YAML, layout means something.
        let write = |text: &str| plan(&[("a.yaml", text, Part::Generated)]).write(folder.path()).unwrap();
        write("a: [b]\n");
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\n").unwrap();
        assert_eq!(write("a: [c]\n").edited.len(), 1);
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let write = |files: &[_]| plan(files).write(folder.path());
        write(&[("lib.rs", "pub mod a;\n", Part::Generated), ("file", "", Part::Kept)]).unwrap();
        let before = std::fs::read_to_string(folder.path().join("lib.rs")).unwrap();
        // A folder cannot be made where a file is.
        let files = [
            ("lib.rs", "pub mod b;\n", Part::Generated),
            ("p/q", "", Part::Kept),
            ("file/r", "", Part::Kept),
        ];
        let error = write(&files).unwrap_err().to_string();
        assert!(error.contains("file/r"), "{error}");
        assert_eq!(every_file(folder.path()), ["file", "lib.rs"]);
        // Nor can a file take a folder's place.
        std::fs::create_dir(folder.path().join("s")).unwrap();
        let mut staged = Staged::default();
        let file = |path: &str| File {
            path: path.into(),
            text: "new".to_owned(),
            part: Part::Manifest,
            executable: false,
        };
        staged.make(&folder.path().join("t/u")).unwrap();
        let error = staged.put(folder.path(), &[file("lib.rs"), file("t/u/v"), file("s")]).unwrap_err();
        assert!(error.to_string().starts_with("cannot write s: "), "{error}");
        assert_eq!(every_file(folder.path()), ["file", "lib.rs", "s/"]);
        assert_eq!(std::fs::read_to_string(folder.path().join("lib.rs")).unwrap(), before);
    }
}
