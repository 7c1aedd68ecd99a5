//! The tag of an image (`pkg/util/parsers`, which reads references as docker does).

/// The tag; `latest` if the image names neither a tag nor a digest, and empty if it names a digest alone, or is no reference.
pub(super) fn tag(image: &str) -> &str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    let colon = name.get(start..).and_then(|last| last.find(':')).map(|colon| start + colon);
    let (repository, tag) = match colon {
        Some(colon) => (name.get(..colon), name.get(colon + 1..)),
        None => (Some(name), None),
    };
    let is_reference = repository.is_some_and(is_repository)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(|digest| digest.contains(':'));
    match (tag, digest) {
        _ if !is_reference => "",
        (Some(tag), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

fn is_tag(tag: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&tag.len()) && tag.bytes().all(allowed) && !tag.starts_with(['.', '-'])
}

/// A domain, perhaps, and components in lower case.
fn is_repository(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((domain, rest)) if domain.contains(['.', ':']) || domain == "localhost" => rest,
        Some((domain, rest)) if domain.bytes().any(|byte| byte.is_ascii_uppercase()) => rest,
        _ => name,
    };
    let is_component = |part: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        edge(part.bytes().next()) && edge(part.bytes().last()) && part.bytes().all(allowed)
    };
    name.len() <= 255 && path.split('/').all(is_component)
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn a_tag_is_read_as_docker_reads_it() {
        let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        for (image, expected) in [
            ("nginx", "latest"),
            ("nginx:latest", "latest"),
            ("nginx:1.2", "1.2"),
            ("registry.example.com:5000/team/app", "latest"),
            ("registry.example.com:5000/team/app:v1", "v1"),
            ("Registry/app", "latest"),
            ("", ""),
            (" ", ""),
            ("NGINX", ""),
            ("nginx:", ""),
            ("a//b", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
        assert_eq!(tag(&format!("nginx@{digest}")), "");
        assert_eq!(tag(&format!("nginx:1.2@{digest}")), "1.2");
    }
}
