//! The place that a project takes kindom's crates from.

use std::path::Path;

use crate::error::Error;

/// Where cargo finds kindom's crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A checkout, as it was given.
    Folder(String),
    Git {
        url: String,
        revision: Option<String>,
    },
    /// Of the registry.
    Version(String),
}

impl Source {
    /// Reads the flag `--kindom`. Without it, the source is the checkout in whose target folder the executable is.
    pub(crate) fn of(flag: Option<&str>) -> Result<Self, Error> {
        let Some(given) = flag else { return Ok(Self::of_executable()) };
        let wrong = |why: &str| Error::refused(format!("--kindom {given:?}: {why}"));
        let unquotable = |c: char| c == '"' || c == '\\' || c.is_control();
        if given.contains(unquotable) {
            return Err(wrong("a quote, backslash or control character cannot stand in Cargo.toml"));
        }
        if is_version(given) {
            return Ok(Self::Version(given.to_owned()));
        }
        if given.contains("://") || given.starts_with("git@") {
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

    fn of_executable() -> Self {
        let executable = std::env::current_exe().ok();
        let checkout = executable.iter().flat_map(|path| path.ancestors()).find(|folder| is_checkout(folder));
        match checkout.and_then(Path::to_str) {
            Some(folder) => Self::Folder(folder.to_owned()),
            None => Self::Version(env!("CARGO_PKG_VERSION").to_owned()),
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
        for wrong in ["", "nowhere", "1.2.3.4", "1.x", "https://a\"b", "a\nb"] {
            let error = Source::of(Some(wrong)).unwrap_err().to_string();
            assert!(error.starts_with("--kindom \""), "{error}");
        }
    }
}
