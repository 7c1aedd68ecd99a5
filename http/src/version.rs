//! The answer of `/version` (apimachinery `pkg/version`, 1.37), which clients choose their behaviour by.

use kindom_api::json::Value;

/// The Kubernetes release whose behaviour is served.
const MAJOR: &str = "1";
const MINOR: &str = "37";

/// The document. `commit` and `built` (RFC 3339) may be empty.
#[must_use]
pub(crate) fn version(commit: &str, built: &str) -> Value {
    let minimum = MINOR.parse::<u32>().map(|m| m.saturating_sub(1).to_string()).unwrap_or_default();
    kindom_api::object! {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": minimum,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+kindom-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": commit,
        "gitTreeState": if commit.is_empty() { "" } else { "clean" },
        "buildDate": if built.is_empty() { "1970-01-01T00:00:00Z" } else { built },
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    }
}

/// The architecture as Go names it.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn clients_find_what_they_parse() {
        let document = version("", "");
        assert_eq!(document.get("major").unwrap().as_str(), Some("1"));
        assert_eq!(document.get("minor").unwrap().as_str(), Some("37"));
        let git = document.get("gitVersion").unwrap().as_str().unwrap();
        assert!(git.starts_with("v1.37.0+kindom-"), "{git}");
        assert_eq!(document.get("minCompatibilityMinor").unwrap().as_str(), Some("36"));
        assert!(document.as_object().unwrap().iter().all(|(_, v)| v.as_str().is_some()));
    }
}
