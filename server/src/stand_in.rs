//! kube-apiserver and etcd as envtest starts them: this program under their names, and the folder in which it has them.
//!
//! Sources: controller-runtime `pkg/internal/testing/{controlplane,process,certs}` (0.25), which starts both, waits for
//! `/healthz` and `/health`, and ends them with SIGTERM.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser as _;
use tokio::time::Instant;

use crate::BoxError;
use crate::flags::{Assets, Command, Flags};

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
const KUBECTL: &str = "kubectl";
const AUTHORIZATION_MODE: &str = "authorization-mode";
/// The longest that a client of etcd's may take over its request: the next one waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// The flags of kube-apiserver that mean the same here. All others are accepted, and said to be without effect.
const SAME: [&str; 29] = [
    "admission-control-config-file",
    "advertise-address",
    "api-audiences",
    "bind-address",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "enable-garbage-collector",
    "enable-priority-and-fairness",
    "event-ttl",
    "http2-max-streams-per-connection",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-username-headers",
    "secure-port",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-max-token-expiration",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "service-node-port-range",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
];

const API_SERVER_HELP: &str = "\
kindom in the place of kube-apiserver, for tests: every built-in kind, in memory.

Flags are kube-apiserver's; those that kindom does not have are accepted and have no effect. `kindom serve --help` lists its own.
";
const ETCD_HELP: &str = "\
kindom in the place of etcd, for tests: answers /health at --listen-client-urls. The API server beside it holds what is stored.
";

/// The name under which the program runs, and the flags that it got.
pub(crate) enum Role {
    /// Itself: the caller's own flags count.
    Own,
    /// kube-apiserver.
    ApiServer(Vec<String>),
    /// etcd.
    Etcd(Vec<String>),
}

impl Role {
    /// By the arguments of the process, of which the first is its name.
    pub(crate) fn of(args: impl IntoIterator<Item = OsString>) -> Self {
        let mut args = args.into_iter().map(|arg| arg.to_string_lossy().into_owned());
        let name = args.next().unwrap_or_default();
        match Path::new(&name).file_name().and_then(|name| name.to_str()) {
            Some(API_SERVER) => Self::ApiServer(args.collect()),
            Some(ETCD) => Self::Etcd(args.collect()),
            _ => Self::Own,
        }
    }
}

/// The flags with their values, as pflag splits them: a value stands behind `=`, or in the next argument.
fn split(args: &[String]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = args.iter().map(String::as_str).peekable();
    while let Some(arg) = rest.next() {
        let Some(flag) = arg.strip_prefix('-') else { continue };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        match flag.split_once('=') {
            Some(pair) => found.push(pair),
            None => found.push((flag, rest.next_if(|next| !next.starts_with('-')).unwrap_or(""))),
        }
    }
    found
}

fn asks_for_help(flags: &[(&str, &str)]) -> bool {
    flags.iter().any(|(name, _)| matches!(*name, "help" | "h"))
}

/// The flags with which kindom serves in the place of kube-apiserver, and the names of those that have no effect; `None` if
/// help was asked for, which it prints.
pub(crate) fn api_server(args: &[String]) -> Result<Option<(Flags, Vec<String>)>, BoxError> {
    let given = split(args);
    if asks_for_help(&given) {
        print(API_SERVER_HELP)?;
        return Ok(None);
    }
    let value = |name: &str| given.iter().rev().find(|(flag, _)| *flag == name).map(|(_, value)| *value);
    let folder = value("cert-dir").map(PathBuf::from);
    let data = match &folder {
        Some(folder) => folder.join("kindom"),
        None => std::env::temp_dir().join(format!("kindom-{}", std::process::id())),
    };
    let mut ours: Vec<String> =
        ["kindom", "serve", "--in-memory", "--profile=kubernetes"].map(String::from).into();
    ours.push(format!("--data-dir={}", data.display()));
    // Where nobody names a certificate, it is the one of this name in the folder of certificates.
    if let Some(folder) =
        folder.filter(|folder| value("tls-cert-file").is_none() && folder.join("apiserver.crt").exists())
    {
        for (flag, file) in [("tls-cert-file", "apiserver.crt"), ("tls-private-key-file", "apiserver.key")] {
            ours.push(format!("--{flag}={}", folder.join(file).display()));
        }
    }
    let mut ignored = Vec::new();
    for (name, value) in &given {
        match *name {
            AUTHORIZATION_MODE => ours.extend(mode(value).map(|mode| format!("--{name}={mode}"))),
            name if SAME.contains(&name) => ours.push(format!("--{name}={value}")),
            name => ignored.push(name.to_owned()),
        }
    }
    Ok(Some((Flags::try_parse_from(ours)?, ignored)))
}

/// The mode that modes together amount to; `None` for our own default. Nodes are not authorized in a way of their own.
fn mode(modes: &str) -> Option<&str> {
    let has = |wanted: &str| modes.split(',').any(|mode| mode == wanted);
    // What is not there ends the start.
    if !modes.split(',').all(|mode| matches!(mode, "AlwaysAllow" | "Node" | "RBAC")) {
        return Some(modes).filter(|modes| !modes.is_empty());
    }
    match (has("AlwaysAllow"), has("RBAC")) {
        (true, _) => Some("AlwaysAllow"),
        (false, true) => Some("RBAC"),
        (false, false) => Some(modes),
    }
}

/// Answers for an etcd that nobody needs, until the process is told to end.
pub(crate) fn etcd(args: &[String]) -> Result<(), BoxError> {
    let given = split(args);
    if asks_for_help(&given) {
        return print(ETCD_HELP);
    }
    let urls = given.iter().rev().find(|(name, _)| *name == "listen-client-urls").map(|(_, value)| *value);
    let url = urls.unwrap_or("http://127.0.0.1:2379").split(',').next().unwrap_or_default();
    let address = url.strip_prefix("http://").ok_or("--listen-client-urls: only http:// is served")?;
    let listener =
        TcpListener::bind(address).map_err(|error| format!("--listen-client-urls {address}: {error}"))?;
    for stream in listener.incoming() {
        // Whoever went away meanwhile needs no answer.
        let _ = stream.and_then(health);
    }
    Ok(())
}

/// Answers one request.
fn health(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut head, mut part, began) = (Vec::new(), [0; 1024], Instant::now());
    while began.elapsed() < PATIENCE
        && head.len() < 16 * 1024
        && !head.windows(4).any(|end| end == b"\r\n\r\n")
    {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            read => head.extend_from_slice(part.get(..read).unwrap_or_default()),
        }
    }
    let body = match head.starts_with(b"GET /health ") {
        true => ("200 OK", r#"{"health":"true","reason":""}"#),
        false => ("404 Not Found", "404 page not found\n"),
    };
    let (status, text) = body;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
}

/// Makes the folder that `KUBEBUILDER_ASSETS` may name.
pub(crate) fn assets(options: &Assets) -> Result<(), BoxError> {
    let folder = &options.dir;
    fs::create_dir_all(folder).map_err(|error| format!("--dir {}: {error}", folder.display()))?;
    let own = std::env::current_exe()?;
    for name in [API_SERVER, ETCD] {
        link(&own, &folder.join(name))?;
    }
    match on_path(KUBECTL) {
        Some(kubectl) => link(&kubectl, &folder.join(KUBECTL))?,
        None => {
            // The warning is all that can be done: most tests need none.
            let _ = writeln!(
                std::io::stderr(),
                "warning: there is no kubectl on PATH; {} has none either",
                folder.display()
            );
        }
    }
    let shown = folder.canonicalize()?;
    print(&format!("export KUBEBUILDER_ASSETS={}\n", crate::serve::shell_quoted(&shown)))
}

/// Makes a link, in the place of one that is there. A file that is no link stays, and is an error.
fn link(to: &Path, at: &Path) -> Result<(), BoxError> {
    let wrong = |error| format!("{}: {error}", at.display());
    match fs::symlink_metadata(at) {
        Ok(found) if found.is_symlink() => fs::remove_file(at).map_err(wrong)?,
        Ok(_) => {
            return Err(
                format!("{}: there is a file of this name, which stays as it is", at.display()).into()
            );
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(wrong(error).into()),
    }
    Ok(symlink(to, at).map_err(wrong)?)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn print(text: &str) -> Result<(), BoxError> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The options to serve with, of flags that this file made.
pub(crate) fn serve_options(flags: Flags) -> Result<Box<crate::flags::Serve>, BoxError> {
    match flags.command {
        Command::Serve(options) => Ok(options),
        _ => Err("these are not flags of a server".into()),
    }
}

#[cfg(test)]
mod tests {
    use kindom_objects::plugins::Plugin;

    use super::*;
    use crate::flags::AuthorizationMode;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn a_program_plays_the_part_of_its_name() {
        let role = |name: &str| Role::of([OsString::from(name), OsString::from("--a=b")]);
        assert!(matches!(role("/x/kube-apiserver"), Role::ApiServer(args) if args == ["--a=b"]));
        assert!(matches!(role("etcd"), Role::Etcd(_)));
        assert!(matches!(role("/usr/bin/kindom"), Role::Own));
        assert!(matches!(Role::of([]), Role::Own));
    }

    #[test]
    fn flags_are_split_as_go_splits_them() {
        let args = strings(&["--a=b=c", "--d", "e", "--f", "-v=1", "--g=", "left"]);
        assert_eq!(split(&args), [("a", "b=c"), ("d", "e"), ("f", ""), ("v", "1"), ("g", "")]);
    }

    #[test]
    fn what_envtest_sends_is_understood() {
        let args = strings(&[
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--cert-dir=/nowhere",
            "--client-ca-file=/nowhere/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=4711",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        let (flags, ignored) = api_server(&args).unwrap().unwrap();
        let options = serve_options(flags).unwrap();
        assert_eq!((options.secure_port, options.in_memory), (4711, true));
        assert_eq!(options.folder(), Some(Path::new("/nowhere/kindom")));
        assert!(!options.plugins.on().has(Plugin::ServiceAccount));
        assert_eq!(options.authorization_mode, AuthorizationMode::Rbac);
        assert_eq!(ignored, ["allow-privileged", "cert-dir", "etcd-servers"]);
        assert_eq!(
            [mode("Node,RBAC"), mode("RBAC,AlwaysAllow"), mode("")],
            [Some("RBAC"), Some("AlwaysAllow"), None]
        );
        for modes in ["ABAC", "Webhook,RBAC", "Node"] {
            assert!(api_server(&strings(&[&format!("--authorization-mode={modes}")])).is_err(), "{modes}");
        }
        assert!(api_server(&strings(&["--secure-port=x"])).is_err());
    }
}
