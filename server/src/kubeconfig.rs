//! How to reach a server: what kubectl reads, as far as files and certificates go.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::Value;

use crate::BoxError;
use crate::manifests::{parse, text};

/// A server, and who one is to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Access {
    /// `https://127.0.0.1:6443`, perhaps with a path, without a slash at its end.
    pub(crate) server: String,
    /// PEM; who vouches for the server.
    pub(crate) authorities: Option<Vec<u8>>,
    /// `true` if anybody may be the server.
    pub(crate) insecure: bool,
    /// The name that its certificate is for, if not the URL's.
    pub(crate) server_name: Option<String>,
    /// PEM: a client certificate and its key.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) token: Option<String>,
    /// The namespace of objects that name none.
    pub(crate) namespace: String,
}

impl Access {
    /// Reads `--kubeconfig`, else the files of `$KUBECONFIG`, else `~/.kube/config`.
    ///
    /// # Errors
    /// A file that cannot be read, a name that stands for nothing, a way to log in that is not served here.
    pub(crate) fn load(
        file: Option<&Path>,
        context: Option<&str>,
        server: Option<&str>,
    ) -> Result<Self, BoxError> {
        Self::of_files(&files(file), file.is_some(), context, server)
    }

    /// `all_count`: a file that is not there is an error, and not skipped as kubectl does with those of a list.
    fn of_files(
        files: &[PathBuf],
        all_count: bool,
        context: Option<&str>,
        server: Option<&str>,
    ) -> Result<Self, BoxError> {
        let there: Vec<_> = files.iter().filter(|path| all_count || path.exists()).collect();
        if there.is_empty() && !files.is_empty() && server.is_none() {
            let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            return Err(format!(
                "no kubeconfig: {} does not exist; set KUBECONFIG, or give --kubeconfig or --server",
                names.join(", ")
            )
            .into());
        }
        let configs = there.into_iter().map(|path| Config::read(path)).collect::<Result<Vec<_>, _>>()?;
        select(&configs, context, server)
    }
}

fn files(file: Option<&Path>) -> Vec<PathBuf> {
    if let Some(file) = file {
        return vec![file.to_owned()];
    }
    match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// One file.
struct Config {
    /// The folder that relative paths in it start from.
    folder: PathBuf,
    value: Value,
}

impl Config {
    fn read(path: &Path) -> Result<Self, BoxError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| format!("{name}: {e}"))?;
        let value = parse(&name, &bytes)?.into_iter().next().map(|(_, value)| value).unwrap_or_default();
        Ok(Self { folder: path.parent().unwrap_or(Path::new("")).to_owned(), value })
    }

    /// The entry `name` of the list `clusters`, `contexts` or `users`.
    fn named(&self, list: &str, name: &str) -> Option<&Value> {
        let all = self.value.get(list)?.as_array()?;
        all.iter().find(|entry| text(entry, &["name"]) == name)?.get(list.trim_end_matches('s'))
    }
}

/// An entry, and the file that it is in.
struct Entry<'a> {
    config: &'a Config,
    value: &'a Value,
}

impl Entry<'_> {
    fn text(&self, field: &str) -> Option<String> {
        Some(text(self.value, &[field]).to_owned()).filter(|text| !text.is_empty())
    }

    /// The bytes at `<field>-data` in base64, or of the file that `field` names.
    fn data(&self, field: &str) -> Result<Option<Vec<u8>>, BoxError> {
        let inline = format!("{field}-data");
        if let Some(encoded) = self.text(&inline) {
            return Ok(Some(
                STANDARD.decode(encoded).map_err(|e| format!("the kubeconfig's {inline}: {e}"))?,
            ));
        }
        self.text(field).map(|path| self.file(&path)).transpose()
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, BoxError> {
        let path = self.config.folder.join(path);
        std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    /// Fails with a clear error if following the kubeconfig needs a feature that is not implemented.
    fn refuse(&self, fields: &[&str]) -> Result<(), BoxError> {
        match fields.iter().find(|field| self.value.get(field).is_some_and(|value| !value.is_null())) {
            Some(field) => Err(format!("the kubeconfig's {field} is not supported here").into()),
            None => Ok(()),
        }
    }
}

/// The first file that says something wins.
fn select(configs: &[Config], context: Option<&str>, server: Option<&str>) -> Result<Access, BoxError> {
    let find = |list: &str, name: &str| {
        configs.iter().find_map(|config| Some(Entry { config, value: config.named(list, name)? }))
    };
    let mut access = Access::default();
    let current =
        || configs.iter().map(|c| text(&c.value, &["current-context"])).find(|name| !name.is_empty());
    let context = match context.or_else(current) {
        Some(name) => {
            Some(find("contexts", name).ok_or_else(|| format!("the kubeconfig has no context {name:?}"))?)
        }
        None => None,
    };
    let of_context = |field: &str| context.as_ref().and_then(|context| context.text(field));
    if let Some(name) = of_context("cluster") {
        let cluster =
            find("clusters", &name).ok_or_else(|| format!("the kubeconfig has no cluster {name:?}"))?;
        cluster.refuse(&["proxy-url"])?;
        access.server = cluster.text("server").unwrap_or_default();
        access.authorities = cluster.data("certificate-authority")?;
        access.insecure = cluster.value.get("insecure-skip-tls-verify") == Some(&Value::Bool(true));
        access.server_name = cluster.text("tls-server-name");
    }
    if let Some(name) = of_context("user") {
        let user = find("users", &name).ok_or_else(|| format!("the kubeconfig has no user {name:?}"))?;
        user.refuse(&["exec", "auth-provider", "username", "as", "as-uid", "as-groups"])?;
        access.certificate = match (user.data("client-certificate")?, user.data("client-key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("the kubeconfig has one of client-certificate and client-key only".into()),
        };
        access.token = match (user.text("tokenFile"), user.text("token")) {
            (Some(file), _) => Some(String::from_utf8(user.file(&file)?)?.trim().to_owned()),
            (None, token) => token,
        };
    }
    access.namespace = of_context("namespace").unwrap_or_else(|| "default".to_owned());
    if let Some(server) = server {
        access.server = server.to_owned();
    }
    access.server.truncate(access.server.trim_end_matches('/').len());
    if access.server.is_empty() {
        return Err("no server: set KUBECONFIG, or give --kubeconfig or --server".into());
    }
    Ok(access)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u}}
- {name: there, context: {cluster: d, user: t, namespace: farm}}
- {name: nowhere, context: {cluster: gone}}
- {name: elsewhere, context: {cluster: c, user: cloud}}
clusters:
- {name: c, cluster: {server: 'https://127.0.0.1:6443/', certificate-authority-data: Q0E=, tls-server-name: localhost}}
- {name: d, cluster: {server: 'https://d/k8s/c1', insecure-skip-tls-verify: true}}
users:
- {name: u, user: {client-certificate: u.crt, client-key-data: S0VZ}}
- {name: t, user: {token: secret}}
- {name: cloud, user: {exec: {command: log-in}}}
";

    #[test]
    fn a_context_names_a_server_and_a_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, CONFIG).unwrap();
        std::fs::write(folder.path().join("u.crt"), "CERT").unwrap();
        let load = |context| Access::load(Some(&path), context, None);
        let here = Access {
            server: "https://127.0.0.1:6443".to_owned(),
            authorities: Some(b"CA".to_vec()),
            server_name: Some("localhost".to_owned()),
            certificate: Some((b"CERT".to_vec(), b"KEY".to_vec())),
            namespace: "default".to_owned(),
            ..Access::default()
        };
        assert_eq!(load(None).unwrap(), here);
        let there = Access {
            server: "https://d/k8s/c1".to_owned(),
            insecure: true,
            token: Some("secret".to_owned()),
            namespace: "farm".to_owned(),
            ..Access::default()
        };
        assert_eq!(load(Some("there")).unwrap(), there);
        let wrong = |context| load(Some(context)).unwrap_err().to_string();
        assert_eq!(wrong("nowhere"), r#"the kubeconfig has no cluster "gone""#);
        assert_eq!(wrong("none"), r#"the kubeconfig has no context "none""#);
        assert_eq!(wrong("elsewhere"), "the kubeconfig's exec is not supported here");
        let other = Access::load(Some(&path), None, Some("https://e/")).unwrap();
        assert_eq!(other.server, "https://e");
        let missing = Access::load(Some(&folder.path().join("none")), None, None).unwrap_err();
        assert!(missing.to_string().contains("none: "), "{missing}");
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (here, gone) = (folder.path().join("here"), folder.path().join("gone away"));
        std::fs::write(&here, CONFIG).unwrap();
        let load = |files: &[&PathBuf], server| {
            let files: Vec<_> = files.iter().map(|&file| file.clone()).collect();
            Access::of_files(&files, false, Some("there"), server)
        };
        assert_eq!(load(&[&gone, &here], None).unwrap().server, "https://d/k8s/c1");
        let error = load(&[&gone], None).unwrap_err().to_string();
        assert!(
            error.starts_with("no kubeconfig: ") && error.contains("gone away does not exist"),
            "{error}"
        );
        assert!(load(&[], None).unwrap_err().to_string().contains("no context"));
        assert_eq!(Access::of_files(&[gone], false, None, Some("https://e")).unwrap().server, "https://e");
    }

    #[test]
    fn of_several_files_the_first_wins() {
        let config = |yaml: &str| Config {
            folder: PathBuf::new(),
            value: parse("", yaml.as_bytes()).unwrap().remove(0).1,
        };
        let first = "{contexts: [{name: here, context: {cluster: d}}], current-context: ''}";
        let access = select(&[config(first), config(CONFIG)], None, None).unwrap();
        assert_eq!((access.server.as_str(), access.token), ("https://d/k8s/c1", None));
        assert!(select(&[], None, None).unwrap_err().to_string().starts_with("no server"));
    }
}
