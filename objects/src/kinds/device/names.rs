//! The names of drivers, pools, devices, attributes and counters, and the texts about them, which are those of declarative
//! validation where it checks them, too (`pkg/api/validate/strfmt.go` of apimachinery, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::decode::Struct;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_dns1123_label, is_dns1123_subdomain, is_long_name, is_long_name_caseless, is_qualified_name,
};

use crate::declared::print_versioned;
use crate::kinds::fields::{items, texts};

const DRIVER_MAX: usize = 63;
const POOL_MAX: usize = 253;
const DOMAIN_MAX: usize = 63;
const ID_MAX: usize = 32;
const KEY_MAX: usize = DOMAIN_MAX + 1 + ID_MAX;
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                          characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
                          '[A-Za-z_][A-Za-z0-9_]*')";

/// The name of a driver, as declarative validation checks it.
pub(super) fn driver(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    texts(is_long_name_caseless(name), name, at, errors);
    if name.chars().count() > DRIVER_MAX {
        errors.push(Error::too_long_text(at, DRIVER_MAX));
    }
}

/// `ValidateDNS1123Label`
pub(super) fn label(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    texts(is_dns1123_label(name), name, at, errors);
}

/// The same of a field that has to be there.
pub(super) fn required_label(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match name {
        "" => errors.push(Error::required(at, "")),
        name => label(name, at, errors),
    }
}

/// `validatePoolName`
pub(super) fn pool(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    if name.len() > POOL_MAX {
        errors.push(Error::too_long(at, POOL_MAX));
    }
    // A valid name has no more parts.
    for part in name.split('/').take(POOL_MAX) {
        texts(is_dns1123_subdomain(part), part, at, errors);
    }
}

/// `ResourcePoolName`
pub(super) fn pool_of_result(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    if name.len() > POOL_MAX {
        errors.push(Error::too_long(at, POOL_MAX));
    }
    // Errors about empty parts show the whole name, so there are no more of them than a valid name has parts.
    for (index, part) in name.split('/').enumerate().take(POOL_MAX) {
        if part.is_empty() {
            errors.push(Error::invalid(at, name, format!("segment {index}: must not be empty")));
            continue;
        }
        let wrong = is_long_name(part).into_iter().map(|why| format!("segment {index}: {why}"));
        texts(wrong.collect(), part, at, errors);
    }
}

/// `UUID`
pub(super) fn uuid(id: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let fits = |(index, b): (usize, u8)| match index {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
    };
    if id.len() != 36 || !id.bytes().enumerate().all(fits) {
        errors.push(Error::invalid(at, id, "must be a lowercase UUID in 8-4-4-4-12 format"));
    }
}

fn identifier(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.len() > ID_MAX {
        errors.push(Error::too_long(at, ID_MAX));
    }
    let is_first = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
    let bytes = name.as_bytes();
    if !bytes.first().is_some_and(is_first) || !bytes.iter().all(|b| is_first(b) || b.is_ascii_digit()) {
        errors.push(Error::invalid(at, name, IDENTIFIER));
    }
}

/// `validateQualifiedName`, which takes a name of more parts than two.
pub(super) fn qualified(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => identifier(name, at, errors),
        [domain, name] => {
            match *domain {
                "" => errors.push(Error::invalid(at, "", "the domain must not be empty")),
                domain => crate::kinds::pod_spec::sources::validate_driver(domain, at, errors),
            }
            match *name {
                "" => errors.push(Error::invalid(at, "", "the name must not be empty")),
                name => identifier(name, at, errors),
            }
        }
        _ => {}
    }
}

/// `ResourceFullyQualifiedName`
pub(super) fn fully_qualified(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [only] => {
            identifier(only, at, errors);
            let detail = "a fully qualified name must be a domain and a name separated by a slash";
            errors.push(Error::invalid(at, *only, detail));
        }
        [domain, name] => {
            if domain.is_empty() {
                errors.push(Error::invalid(at, "", "prefix must not be empty"));
            } else {
                if domain.len() > DOMAIN_MAX {
                    errors.push(Error::too_long(at, DOMAIN_MAX));
                }
                let wrong = is_long_name(domain).into_iter().map(|why| format!("prefix: {why}"));
                texts(wrong.collect(), domain, at, errors);
            }
            match *name {
                "" => errors.push(Error::invalid(at, "", "name must not be empty")),
                name => identifier(name, at, errors),
            }
        }
        _ => {}
    }
}

/// `ValidateLabelName`
pub(super) fn label_key(key: &str, at: &Path<'_>, errors: &mut ErrorList) {
    texts(is_qualified_name(key), key, at, errors);
}

/// A key as paths show it (`truncateIfTooLong`).
pub(super) fn truncated(key: &str) -> String {
    if key.len() <= KEY_MAX {
        return key.to_owned();
    }
    let remaining = KEY_MAX - "...".len();
    let bytes = |of: &[u8]| String::from_utf8_lossy(of).into_owned();
    let (start, _) = key.as_bytes().split_at(remaining.div_ceil(2));
    let (_, end) = key.as_bytes().split_at(key.len().saturating_sub(remaining / 2));
    format!("{}...{}", bytes(start), bytes(end))
}

/// Checks the items of a list, which has a greatest length: beyond it nothing else is said (`validateSlice`).
pub(super) fn list(
    of: &Value,
    field: &str,
    max: usize,
    at: &Path<'_>,
    errors: &mut ErrorList,
    mut check: impl FnMut(&Value, &Path<'_>, &mut ErrorList),
) {
    let (all, at) = (items(of, field), at.child(field));
    if all.len() > max {
        return errors.push(Error::too_many(&at, all.len(), max));
    }
    for (index, item) in all.iter().enumerate() {
        check(item, &at.index(index), errors);
    }
}

/// The repeated items of a list that is not too long, each shown whole, as the version has it (`ValSliceUnique`).
pub(super) fn unique<K: Ord>(
    of: &Value,
    field: &str,
    max: usize,
    shape: Option<&'static Struct>,
    at: &Path<'_>,
    errors: &mut ErrorList,
    key: impl Fn(&Value) -> K,
) {
    let (all, at) = (items(of, field), at.child(field));
    let mut seen = BTreeSet::new();
    for (index, item) in all.iter().enumerate().filter(|_| all.len() <= max) {
        if !seen.insert(key(item)) {
            let shown = shape.map_or_else(|| item.to_string(), |shape| print_versioned(shape, item));
            errors.push(Error::duplicate_raw(&at.index(index), shown));
        }
    }
}
