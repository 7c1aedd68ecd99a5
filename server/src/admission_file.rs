//! `--admission-control-config-file`: the configurations of admission plugins, as kube-apiserver reads them (apiserver
//! `pkg/admission/config.go`, `pkg/apis/apiserver/v1`; `plugin/pkg/admission/eventratelimit`, 1.37).

use std::path::{Path, PathBuf};

use kindom_api::field::{Error, ErrorList, Path as Field, aggregate};
use kindom_api::json;
use kindom_codec::manifests;
use kindom_resource_actor::{EventLimit, EventLimitType, EventLimits};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::webhook_users::WebhookUsers;
use crate::{BoxError, pki};

/// The buckets that a limit remembers if its configuration does not say.
const BUCKETS: i32 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdmissionConfiguration {
    #[serde(default)]
    plugins: Vec<PluginConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginConfiguration {
    name: String,
    #[serde(default)]
    path: PathBuf,
    configuration: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookAdmission {
    #[serde(default)]
    kube_config_file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventRateLimit {
    #[serde(default)]
    limits: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limit {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    qps: i32,
    #[serde(default)]
    burst: i32,
    #[serde(default)]
    cache_size: i32,
}

/// The configurations of plugins, by name.
#[derive(Default)]
pub(crate) struct AdmissionFile {
    plugins: Vec<PluginConfiguration>,
    folder: PathBuf,
}

impl AdmissionFile {
    /// Reads the file; without one there are no configurations.
    ///
    /// # Errors
    /// It cannot be read, or is no AdmissionConfiguration.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, BoxError> {
        let Some(file) = file else { return Ok(Self::default()) };
        let name = file.display().to_string();
        let bytes = pki::read(file).map_err(|error| {
            format!("unable to read admission control configuration from {name:?} [{error}]")
        })?;
        let kinds = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"]
            .map(|version| (version, "AdmissionConfiguration"));
        let read: AdmissionConfiguration = decode(&name, &bytes, &kinds)?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { plugins: read.plugins, folder })
    }

    /// The names of the plugins that it configures.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.name.as_str())
    }

    /// The name of a plugin's configuration, and its text.
    fn of(&self, plugin: &str) -> Result<Option<(String, Vec<u8>)>, BoxError> {
        let Some(found) = self.plugins.iter().find(|of| of.name == plugin) else { return Ok(None) };
        if let Some(inline) = &found.configuration {
            return Ok(Some((format!("the configuration of {plugin}"), inline.to_string().into_bytes())));
        }
        if found.path.as_os_str().is_empty() {
            return Ok(None);
        }
        let path = self.folder.join(&found.path);
        let name = path.display().to_string();
        let bytes = pki::read(&path)
            .map_err(|error| format!("couldn't open admission plugin configuration {name}: {error}"))?;
        Ok(Some((name, bytes)))
    }

    /// The users that this server is for the webhooks of a plugin.
    ///
    /// # Errors
    /// A file that cannot be read, or is no such configuration.
    pub(crate) fn webhook_users(&self, plugin: &str) -> Result<WebhookUsers, BoxError> {
        let Some((name, bytes)) = self.of(plugin)? else { return Ok(WebhookUsers::default()) };
        let kinds = [
            ("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"),
            ("apiserver.config.k8s.io/v1alpha1", "WebhookAdmission"),
        ];
        let read: WebhookAdmission = decode(&name, &bytes, &kinds)?;
        let file = read.kube_config_file;
        match file.as_os_str().is_empty() {
            true => Ok(WebhookUsers::default()),
            false if !file.is_absolute() => {
                let shown = file.display().to_string();
                let error =
                    Error::invalid(&Field::new("kubeConfigFile"), shown, "must be an absolute file path");
                Err(format!("{name}: {error}").into())
            }
            false => WebhookUsers::read(&file),
        }
    }

    /// The limits of `EventRateLimit`.
    ///
    /// # Errors
    /// There are none, or some are wrong; upstream's texts.
    pub(crate) fn event_limits(&self, seed: &str) -> Result<EventLimits, BoxError> {
        const PLUGIN: &str = "EventRateLimit";
        let limits = match self.of(PLUGIN)? {
            None => Vec::new(),
            Some((name, bytes)) => {
                let kinds = [("eventratelimit.admission.k8s.io/v1alpha1", "Configuration")];
                let read: EventRateLimit = decode(&name, &bytes, &kinds)?;
                read.limits
            }
        };
        let (all, errors) = checked(&limits);
        if errors.is_empty() {
            return Ok(EventLimits::new(&all, seed));
        }
        Err(format!("couldn't init admission plugin {PLUGIN:?}: {}", aggregate(&errors)).into())
    }
}

/// `ValidateConfiguration`
fn checked(limits: &[Limit]) -> (Vec<EventLimit>, ErrorList) {
    let (mut all, mut errors) = (Vec::new(), ErrorList::new());
    let at = Field::new("limits");
    if limits.is_empty() {
        errors.push(Error::invalid(&at, json::Value::Null, "must not be empty"));
    }
    for (index, limit) in limits.iter().enumerate() {
        let at = at.index(index);
        let of = EventLimitType::ALL.into_iter().find(|of| of.name() == limit.r#type);
        if of.is_none() {
            let known = EventLimitType::ALL.map(EventLimitType::name);
            errors.push(Error::not_supported(&at.child("type"), &*limit.r#type, &known));
        }
        for (field, value) in [("burst", limit.burst), ("qps", limit.qps)] {
            if value <= 0 {
                errors.push(Error::invalid(&at.child(field), i64::from(value), "must be positive"));
            }
        }
        if limit.cache_size < 0 && of != Some(EventLimitType::Server) {
            let size = i64::from(limit.cache_size);
            errors.push(Error::invalid(&at.child("cacheSize"), size, "must not be negative"));
        }
        let cache_size = if limit.cache_size == 0 { BUCKETS } else { limit.cache_size };
        let positive = |value: i32| u32::try_from(value).unwrap_or_default();
        if let Some(of) = of {
            let cache_size = usize::try_from(cache_size).unwrap_or_default();
            all.push(EventLimit { of, qps: positive(limit.qps), burst: positive(limit.burst), cache_size });
        }
    }
    (all, errors)
}

/// An object of one of these versions and kinds, from JSON or YAML.
fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8], kinds: &[(&str, &str)]) -> Result<T, BoxError> {
    let mut documents = manifests::parse(name, bytes)?;
    let [(_, document)] = documents.as_mut_slice() else {
        return Err(format!("{name}: it has {} documents; one is read", documents.len()).into());
    };
    let [version, of] = ["apiVersion", "kind"].map(|field| {
        let found = document.as_object_mut().and_then(|object| object.remove(field));
        found.as_ref().and_then(json::Value::as_str).unwrap_or_default().to_owned()
    });
    if !kinds.contains(&(version.as_str(), of.as_str())) {
        return Err(format!("{name}: no kind {of:?} is registered for version {version:?}").into());
    }
    serde_json::from_slice(&document.to_vec()).map_err(|error| format!("{name}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<AdmissionFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admission.yaml");
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("events.yaml"), EVENTS).unwrap();
        let read = AdmissionFile::read(Some(&path)).map_err(|error| error.to_string());
        read.and_then(|read| match read.event_limits("") {
            Ok(_) => Ok(read),
            Err(error) => Err(error.to_string().replace(&folder.path().display().to_string(), "")),
        })
    }

    const EVENTS: &str = "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: User, qps: 1, burst: 2}]}";

    fn with(plugins: &str) -> Result<Vec<String>, String> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:";
        file(&format!("{head} {plugins}\n")).map(|read| read.names().map(str::to_owned).collect())
    }

    #[test]
    fn configurations_are_in_the_file_or_beside_it() {
        assert_eq!(with("[{name: EventRateLimit, path: events.yaml}]").unwrap(), ["EventRateLimit"]);
        let inline = format!("[{{name: Other}}, {{name: EventRateLimit, configuration: {EVENTS}}}]");
        assert_eq!(with(&inline).unwrap(), ["Other", "EventRateLimit"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let of = |limits: &str| {
            let inline = format!(
                "{{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: {limits}}}"
            );
            with(&format!("[{{name: EventRateLimit, configuration: {inline}}}]")).unwrap_err()
        };
        let prefix = "couldn't init admission plugin \"EventRateLimit\": ";
        assert_eq!(of("[]"), format!("{prefix}limits: Invalid value: null: must not be empty"));
        let wrong = of("[{type: Odd, burst: 0, qps: -1, cacheSize: -1}]");
        assert_eq!(
            wrong,
            format!(
                "{prefix}[limits[0].type: Unsupported value: \"Odd\": supported values: \"Namespace\", \"Server\", \
                 \"SourceAndObject\", \"User\", limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid \
                 value: -1: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]"
            )
        );
        assert!(of("[{typ: User}]").contains("unknown field `typ`"), "{}", of("[{typ: User}]"));
        let missing = with("[{name: EventRateLimit, path: none.yaml}]").unwrap_err();
        assert!(
            missing.starts_with("couldn't open admission plugin configuration /none.yaml: "),
            "{missing}"
        );
        let other = file("{apiVersion: v1, kind: Pod}").err().unwrap();
        assert!(other.ends_with("no kind \"Pod\" is registered for version \"v1\""), "{other}");
    }
}
