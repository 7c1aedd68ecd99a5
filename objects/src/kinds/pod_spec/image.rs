//! The tags of images (`pkg/util/parsers/parsers.go`, `ParseImageName`; distribution `reference`, 1.37).

/// `true` if a reference to an image is of its latest version: valid, and without another tag or a digest.
pub(super) fn is_latest(image: &str) -> bool {
    let is_hash = image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if image.is_empty() || is_hash {
        return false;
    }
    let (named, digest) =
        image.split_once('@').map_or((image, None), |(named, digest)| (named, Some(digest)));
    let (domain, rest) = match named.split_once('/') {
        Some((first, rest)) if is_domain_part(first) => (Some(first), rest),
        _ => (None, named),
    };
    let (path, tag) = rest.split_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
    let is_valid = domain.is_none_or(is_domain)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    is_valid && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

/// `true` if the part before the first `/` names a server.
fn is_domain_part(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_address = address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            return is_address
                && !address.is_empty()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number));
        }
        None => domain.split_once(':').map_or((domain, None), |(host, port)| (host, Some(port))),
    };
    let is_label = |label: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Words of lower-case letters and digits, each followed by `.`, `_`, `__` or hyphens.
fn is_component(component: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edge = |b: Option<u8>| b.is_some_and(is_word);
    let separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(component.bytes().next())
        && edge(component.bytes().last())
        && separators
            .into_iter()
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        for image in ["a", "a:latest", "x/y", "example.com:5000/a/b", "localhost/a__b", "[::1]:5/a", "a---b"]
        {
            assert!(is_latest(image), "{image}");
        }
        let digest = format!("a@sha256:{}", "0".repeat(64));
        let hash = "0".repeat(64);
        for image in [
            "",
            "A",
            "a:1",
            "a b",
            "x//y",
            "a___b",
            "a:",
            "a@sha256:0",
            "é",
            "example.com/A",
            "-a",
            &digest,
            &hash,
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
