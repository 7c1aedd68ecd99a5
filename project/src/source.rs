//! The place that a project takes kindom's crates from.

use std::path::Path;

use crate::error::Error;

/// The place in which cargo finds kindom's crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A checkout, as it was given.
    Folder(String),
    Git {
        url: String,
        revision: Option<String>,
    },
    /// A version in the registry.
    Version(String),
}

impl Source {
    /// Reads the flag `--kindom`. Without it, the source is the checkout that this program was built in.
    pub(crate) fn of(flag: Option<&str>) -> Result<Self, Error> {
        let Some(given) = flag else { return Self::by_default() };
        let wrong = |why: &str| Error::refused(format!("--kindom {given:?}: {why}"));
        if given.contains(unquotable) {
            return Err(wrong("a quote, backslash or control character cannot stand in Cargo.toml"));
        }
        if is_version(given) {
            return Ok(Self::Version(given.to_owned()));
        }
        if given.starts_with("git@") {
            return Err(wrong("cargo reads ssh://git@HOST/PATH"));
        }
        if given.contains("://") {
            let (url, revision) = match given.split_once('#') {
                Some((url, revision)) => (url, Some(revision.to_owned())),
                None => (given, None),
            };
            return Ok(Self::Git { url: url.to_owned(), revision });
        }
        match is_checkout(Path::new(given)) {
            true => Ok(Self::Folder(given.trim_end_matches('/').to_owned())),
            false => Err(wrong(
                "neither the folder of a checkout of kindom, nor the URL of a git repository, nor a version",
            )),
        }
    }

    /// The checkout that this program was built in: above the executable, in its target folder, or where the compiler found this file.
    fn by_default() -> Result<Self, Error> {
        let executable = std::env::current_exe().ok();
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let mut folders = executable.iter().flat_map(|path| path.ancestors()).chain(built_in);
        let checkout = folders.find(|folder| is_checkout(folder)).and_then(Path::to_str);
        match checkout.filter(|folder| !folder.contains(unquotable)) {
            Some(folder) => Ok(Self::Folder(folder.to_owned())),
            None => Err(Error::refused(
                "--kindom is needed: the checkout that this program was built in is not there",
            )),
        }
    }

    /// The inside of the inline table of a dependency in Cargo.toml; `folder` is the crate's in the checkout.
    pub(crate) fn dependency(&self, folder: &str) -> String {
        match self {
            Self::Folder(checkout) => format!(r#" path = "{checkout}/{folder}" "#),
            Self::Git { url, revision: None } => format!(r#" git = "{url}" "#),
            Self::Git { url, revision: Some(revision) } => format!(r#" git = "{url}", rev = "{revision}" "#),
            Self::Version(version) => format!(r#" version = "{version}" "#),
        }
    }
}

/// True for what a string in Cargo.toml would have to escape.
fn unquotable(c: char) -> bool {
    c == '"' || c == '\\' || c.is_control()
}

fn is_checkout(folder: &Path) -> bool {
    ["server", "controller", "testing"].iter().all(|name| folder.join(name).join("Cargo.toml").is_file())
        && folder.join("project/templates").is_dir()
}

/// True for `1`, `0.1`, `0.1.0` and such with a suffix.
fn is_version(text: &str) -> bool {
    let (numbers, suffix) = text.split_once('-').unwrap_or((text, "a"));
    let number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    numbers.split('.').all(number)
        && numbers.split('.').count() <= 3
        && !suffix.is_empty()
        && suffix.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_folder_a_repository_or_a_version() {
        let of = |flag: &str| Source::of(Some(flag)).map(|source| source.dependency("server"));
        assert_eq!(of("0.1.0").unwrap(), r#" version = "0.1.0" "#);
        assert_eq!(of("1.2-rc.1").unwrap(), r#" version = "1.2-rc.1" "#);
        let url = "https://git.example.com/kindom.git";
        assert_eq!(of(url).unwrap(), r#" git = "https://git.example.com/kindom.git" "#);
        assert_eq!(
            of(&format!("{url}#abc")).unwrap(),
            r#" git = "https://git.example.com/kindom.git", rev = "abc" "#
        );
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_str().unwrap();
        assert_eq!(of(checkout).unwrap(), format!(r#" path = "{checkout}/server" "#));
        assert_eq!(of(&format!("{checkout}/")).unwrap(), format!(r#" path = "{checkout}/server" "#));
        for wrong in ["", "nowhere", "1.2.3.4", "1.x", "https://a\"b", "a\nb", "git@example.com:kindom"] {
            let error = Source::of(Some(wrong)).unwrap_err().to_string();
            assert!(error.starts_with("--kindom \""), "{error}");
        }
    }
}
