//! The access to a server, read from a kubeconfig as kubectl reads it.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::BoxError;

/// Reads `--kubeconfig`, else the files of `$KUBECONFIG`, else `~/.kube/config`: the server, and the user's credentials.
///
/// # Errors
/// A file that cannot be read, a name without an entry, or a way to log in that is not implemented.
pub(crate) fn load(
    file: Option<&Path>,
    context: Option<&str>,
    server: Option<&str>,
) -> Result<Config, BoxError> {
    of_files(&files(file), file.is_some(), context, server)
}

/// With `all_count` a missing file is an error; otherwise it is skipped, as kubectl skips missing files of a list.
fn of_files(
    files: &[PathBuf],
    all_count: bool,
    context: Option<&str>,
    server: Option<&str>,
) -> Result<Config, BoxError> {
    let there: Vec<_> = files.iter().filter(|path| all_count || path.exists()).collect();
    if there.is_empty() && !files.is_empty() && server.is_none() {
        let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        return Err(format!(
            "no kubeconfig: {} does not exist; set KUBECONFIG, or give --kubeconfig or --server",
            names.join(", ")
        )
        .into());
    }
    let configs = there.into_iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    select(configs, context, server)
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

fn read(path: &Path) -> Result<Kubeconfig, BoxError> {
    Ok(Kubeconfig::read_from(path).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// The first file that says something wins. `kube` takes a user that is not there for nobody, and logs in by any means.
fn select(configs: Vec<Kubeconfig>, context: Option<&str>, server: Option<&str>) -> Result<Config, BoxError> {
    const NO_SERVER: &str = "no server: set KUBECONFIG, or give --kubeconfig or --server";
    let mut all = Kubeconfig::default();
    for mut config in configs {
        config.current_context.take_if(|name| name.is_empty());
        all = all.merge(config)?;
    }
    let Some(name) = context.map(str::to_owned).or(all.current_context.take()) else {
        return reachable(Config::new(server.ok_or(NO_SERVER)?.parse()?));
    };
    let context = all.contexts.iter_mut().find(|named| named.name == name);
    let context = context.and_then(|named| named.context.as_mut());
    let context = context.ok_or_else(|| format!("the kubeconfig has no context {name:?}"))?;
    // kubectl writes empty texts for what is not set.
    context.user.take_if(|user| user.is_empty());
    context.namespace.take_if(|namespace| namespace.is_empty());
    let cluster = all.clusters.iter_mut().find(|named| named.name == context.cluster);
    let cluster = cluster.and_then(|named| named.cluster.as_mut());
    let cluster = cluster.ok_or_else(|| format!("the kubeconfig has no cluster {:?}", context.cluster))?;
    refuse(&[("proxy-url", cluster.proxy_url.is_some())])?;
    if let Some(server) = server {
        cluster.server = Some(server.to_owned());
    }
    if cluster.server.as_ref().is_none_or(String::is_empty) {
        return Err(NO_SERVER.into());
    }
    if let Some(name) = &context.user {
        let user = all.auth_infos.iter().find(|named| named.name == *name);
        let user = user.ok_or_else(|| format!("the kubeconfig has no user {name:?}"))?;
        let user = user.auth_info.clone().unwrap_or_default();
        refuse(&[
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("username", user.username.is_some()),
            ("as", user.impersonate.is_some()),
            ("as-uid", user.impersonate_uid.is_some()),
            ("as-groups", user.impersonate_groups.is_some()),
        ])?;
        let certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
        if certificate != (user.client_key.is_some() || user.client_key_data.is_some()) {
            return Err("the kubeconfig has one of client-certificate and client-key only".into());
        }
    }
    let options = KubeConfigOptions { context: Some(name), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(all, &options).now_or_never();
    reachable(config.ok_or("the kubeconfig cannot be read at once")??)
}

fn reachable(config: Config) -> Result<Config, BoxError> {
    let url = &config.cluster_url;
    match (url.scheme(), url.host()) {
        (Some(_), Some(_)) => Ok(config),
        _ => Err(format!("the server {url} is no URL such as https://127.0.0.1:6443").into()),
    }
}

/// Fails with a clear error if following the kubeconfig needs a feature that is not implemented.
pub(crate) fn refuse(fields: &[(&str, bool)]) -> Result<(), BoxError> {
    match fields.iter().find(|(_, set)| *set) {
        Some((field, _)) => Err(format!("the kubeconfig's {field} is not supported here").into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use secrecy::ExposeSecret as _;

    use super::*;

    const CONFIG: &str = "
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u}}
- {name: there, context: {cluster: d, user: t, namespace: farm}}
- {name: nowhere, context: {cluster: gone}}
- {name: elsewhere, context: {cluster: c, user: cloud}}
- {name: nobody, context: {cluster: c, user: gone}}
- {name: bare, context: {cluster: d, user: '', namespace: ''}}
- {name: empty, context: {cluster: d, user: e}}
- {name: half, context: {cluster: c, user: h}}
clusters:
- {name: c, cluster: {server: 'https://127.0.0.1:6443/', certificate-authority-data: Q0E=, tls-server-name: localhost}}
- {name: d, cluster: {server: 'https://d/k8s/c1', insecure-skip-tls-verify: true}}
users:
- {name: u, user: {client-certificate: u.crt, client-key-data: S0VZ}}
- {name: t, user: {token: secret}}
- {name: e, user: }
- {name: h, user: {client-certificate: u.crt}}
- {name: cloud, user: {exec: {command: log-in}}}
";

    #[test]
    fn a_context_names_a_server_and_a_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert;
        std::fs::write(&path, CONFIG.replace("Q0E=", &STANDARD.encode(authority.pem()))).unwrap();
        std::fs::write(folder.path().join("u.crt"), "CERT").unwrap();
        let load = |context| load(Some(&path), context, None);
        let here = load(None).unwrap();
        assert_eq!(here.cluster_url, "https://127.0.0.1:6443/");
        assert_eq!(here.root_cert, Some(vec![authority.der().to_vec()]));
        assert_eq!(here.tls_server_name.as_deref(), Some("localhost"));
        let certificate = folder.path().join("u.crt").display().to_string();
        assert_eq!(here.auth_info.client_certificate, Some(certificate));
        assert_eq!(here.auth_info.client_key_data.as_ref().map(|key| key.expose_secret()), Some("S0VZ"));
        assert_eq!((here.default_namespace.as_str(), here.accept_invalid_certs), ("default", false));
        let there = load(Some("there")).unwrap();
        assert_eq!(there.cluster_url, "https://d/k8s/c1");
        assert_eq!((there.default_namespace.as_str(), there.accept_invalid_certs), ("farm", true));
        assert_eq!(there.auth_info.token.as_ref().map(|token| token.expose_secret()), Some("secret"));
        assert_eq!(there.root_cert, None);
        assert_eq!(load(Some("bare")).unwrap().default_namespace, "default");
        assert!(load(Some("empty")).is_ok());
        let wrong = |context| load(Some(context)).unwrap_err().to_string();
        assert_eq!(wrong("nowhere"), r#"the kubeconfig has no cluster "gone""#);
        assert_eq!(wrong("none"), r#"the kubeconfig has no context "none""#);
        assert_eq!(wrong("nobody"), r#"the kubeconfig has no user "gone""#);
        assert_eq!(wrong("elsewhere"), "the kubeconfig's exec is not supported here");
        assert_eq!(wrong("half"), "the kubeconfig has one of client-certificate and client-key only");
        let other = super::load(Some(&path), None, Some("https://e/")).unwrap();
        assert_eq!(other.cluster_url, "https://e/");
        let no_url = super::load(Some(&path), None, Some("/e")).unwrap_err().to_string();
        assert_eq!(no_url, "the server /e is no URL such as https://127.0.0.1:6443");
        let missing = super::load(Some(&folder.path().join("none")), None, None).unwrap_err();
        assert!(missing.to_string().contains("none: "), "{missing}");
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (here, gone) = (folder.path().join("here"), folder.path().join("gone away"));
        std::fs::write(&here, CONFIG).unwrap();
        let load = |files: &[&PathBuf], server| {
            let files: Vec<_> = files.iter().map(|&file| file.clone()).collect();
            of_files(&files, false, Some("there"), server)
        };
        assert_eq!(load(&[&gone, &here], None).unwrap().cluster_url, "https://d/k8s/c1");
        let error = load(&[&gone], None).unwrap_err().to_string();
        assert!(
            error.starts_with("no kubeconfig: ") && error.contains("gone away does not exist"),
            "{error}"
        );
        assert!(load(&[], None).unwrap_err().to_string().contains("no context"));
        assert_eq!(of_files(&[gone], false, None, Some("https://e")).unwrap().cluster_url, "https://e/");
    }

    #[test]
    fn of_several_files_the_first_wins() {
        let config = |yaml: &str| Kubeconfig::from_yaml(yaml).unwrap();
        let first = "{contexts: [{name: here, context: {cluster: d}}], current-context: ''}";
        let access = select(vec![config(first), config(CONFIG)], None, None).unwrap();
        assert_eq!(access.cluster_url, "https://d/k8s/c1");
        assert!(access.auth_info.token.is_none());
        assert!(select(vec![], None, None).unwrap_err().to_string().starts_with("no server"));
    }
}
