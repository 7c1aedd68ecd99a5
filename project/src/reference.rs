//! The name of an image (github.com/distribution/reference, `regexp.go`).

use std::fmt;

/// The longest name without its tag, bytes (`reference.NameTotalLengthMax`).
const NAME_MAX: usize = 255;
/// The longest tag, bytes.
const TAG_MAX: usize = 128;

/// A name with its tag, and perhaps a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// With the registry, if it has one.
    name: String,
    tag: String,
    digest: Option<String>,
}

impl Reference {
    /// Reads `[registry/]name[:tag][@sha256:…]`; the tag is `latest` if there is none.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (text, digest) = match text.split_once('@') {
            Some((text, digest)) => (text, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err("a digest is sha256: and 64 digits and letters a to f");
        }
        // The last colon, unless it is that of the registry's port.
        let (name, tag) = match text.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (text, "latest"),
        };
        if name.len() > NAME_MAX || !is_name(name) {
            return Err(
                "the name of an image has lower-case letters, digits and dots, dashes and underscores \
                between them, such as registry.example.com/shipyard:v1",
            );
        }
        if tag.len() > TAG_MAX || !is_tag(tag) {
            return Err(
                "a tag has at most 128 letters, digits, underscores, dots and dashes, and begins with none of \
                the last two",
            );
        }
        Ok(Self { name: name.to_owned(), tag: tag.to_owned(), digest: digest.map(str::to_owned) })
    }

    pub(crate) fn has_digest(&self) -> bool {
        self.digest.is_some()
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// With the registry that a name without one has (`docker.io/library`).
    pub(crate) fn whole(&self) -> String {
        match self.name.split_once('/') {
            None => format!("docker.io/library/{self}"),
            Some((first, _)) if is_registry_of(first) => self.to_string(),
            Some(_) => format!("docker.io/{self}"),
        }
    }

    /// The last word of the name.
    pub(crate) fn title(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)?;
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

fn is_name(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((first, rest)) if is_registry_of(first) => {
            if !is_registry(first) {
                return false;
            }
            rest
        }
        _ => name,
    };
    path.split('/').all(is_component)
}

/// Tells a registry from the first part of a path, as docker does.
fn is_registry_of(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit())
}

/// Words of letters and digits, and between them a dot, one or two underscores, or dashes.
fn is_component(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_between = |text: &str| matches!(text, "." | "_" | "__") || text.chars().all(|c| c == '-');
    text.starts_with(is_word) && text.ends_with(is_word) && text.split(is_word).all(is_between)
}

fn is_digest(text: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.chars().all(is_hex))
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_those_of_registries() {
        for (text, whole, title) in [
            ("shipyard", "shipyard:latest", "shipyard"),
            ("a/b.c__d--e:v1.2-x", "a/b.c__d--e:v1.2-x", "b.c__d--e"),
            ("localhost:5000/a", "localhost:5000/a:latest", "a"),
            ("Registry.example.com:443/a/b:_1", "Registry.example.com:443/a/b:_1", "b"),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.to_string(), whole);
            assert_eq!(reference.title(), title);
        }
        let digest = format!("a:b@sha256:{}", "0f".repeat(32));
        assert_eq!(Reference::parse(&digest).unwrap().to_string(), digest);
        let whole = |text| Reference::parse(text).unwrap().whole();
        let names = ["a", "a/b:v1", "localhost/a"].map(whole);
        assert_eq!(names, ["docker.io/library/a:latest", "docker.io/a/b:v1", "localhost/a:latest"]);
        let long = "a".repeat(256);
        for text in [
            "",
            "A",
            "a/",
            "/a",
            "a//b",
            "a:",
            "a:-x",
            "a..b",
            "a___b",
            "a_",
            "-a",
            "a b",
            "a.b:/c",
            "-.b/c",
            "ä",
            "a@sha256:00",
            "a:b:c",
            "a\n",
            &long,
            &format!("a:{long}"),
        ] {
            assert!(Reference::parse(text).is_err(), "{text:?}");
        }
    }
}
