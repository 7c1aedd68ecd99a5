//! Names of time zones (`validateTimeZone`, and Go's `time.LoadLocation`, 1.37). `time_zones.txt` has the names of the database
//! that Go brings along.

use kindom_api::field::{Error, ErrorList, Path};

static NAMES: &str = include_str!("time_zones.txt");
const COMPONENT_BYTES_MAX: usize = 14;

/// The reason why there is no such time zone (`time.LoadLocation`).
pub(super) fn load(name: &str) -> Result<(), String> {
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let is_known = matches!(name, "" | "UTC" | "Local") || NAMES.lines().any(|known| known == name);
    if is_known { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

/// The errors in the time zone of a schedule.
pub(super) fn validate(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let error = |detail: String| Error::invalid(at, name, detail);
    if name.is_empty() {
        return errors.push(error("timeZone must be nil or non-empty string".to_owned()));
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    let is_component = |part: &str| {
        (1..=COMPONENT_BYTES_MAX).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(fits)
    };
    if !name.split('/').all(is_component) {
        return errors.push(error(format!("unknown time zone {name}")));
    }
    if name.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(error(detail.to_owned()));
    }
    errors.extend(load(name).err().map(error));
}
