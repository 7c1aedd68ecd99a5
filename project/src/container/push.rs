//! The push of an image to its registry (opencontainers/distribution-spec 1.1), with the credentials that docker and podman keep.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential_from_reader};
use futures::stream;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};

use super::image::Packed;
use crate::error::Error;
use crate::reference::Reference;

/// The time limit for a short request.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The slowest upload that is waited for, bytes a second.
const BYTES_A_SECOND: u64 = 16 << 10;
/// The most characters of a registry's reason that are printed.
const TEXT_MAX: usize = 2_000;
/// The names of this machine, in the form of `NO_PROXY`.
const LOCAL: &str = "localhost,127.0.0.0/8";

/// Puts an image into its registry; what is there already is not sent again.
///
/// # Errors
/// No credentials can be read, or the registry refuses, is away, or is none.
pub(super) fn push(reference: &Reference, packed: &Packed) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Error::refused(format!("--push: {why}")))?;
    runtime.block_on(push_to(reference, packed, &places()))
}

/// The files that may hold credentials: those that variables of podman and docker name, else the ones that both use without.
fn places() -> Vec<PathBuf> {
    places_by(&|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn places_by(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let docker = variable("DOCKER_CONFIG").map(|folder| folder.join("config.json"));
    let named: Vec<PathBuf> = variable("REGISTRY_AUTH_FILE").into_iter().chain(docker).collect();
    if !named.is_empty() {
        return named;
    }
    let home = |file: &str| variable("HOME").map(|home| home.join(file));
    let of_user = || format!("/run/containers/{}/auth.json", rustix::process::getuid().as_raw()).into();
    let podman = variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json"));
    let places = [
        home(".docker/config.json"),
        Some(podman.unwrap_or_else(of_user)),
        home(".config/containers/auth.json"),
    ];
    places.into_iter().flatten().collect()
}

/// Keeps requests to this machine from the proxies of the environment: they carry credentials in clear text.
fn avoid_proxies(config: &mut ClientConfig) {
    let variable = |names: [&str; 4]| {
        names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
    };
    config.http_proxy = variable(["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]);
    config.https_proxy = variable(["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]);
    let others = variable(["no_proxy", "NO_PROXY", "", ""]).map(|others| format!(",{others}"));
    config.no_proxy = Some(format!("{LOCAL}{}", others.unwrap_or_default()));
}

async fn push_to(reference: &Reference, packed: &Packed, places: &[PathBuf]) -> Result<(), Error> {
    let image: oci_client::Reference =
        reference.whole().parse().map_err(|why| Error::refused(format!("--push {reference}: {why}")))?;
    let registry = image.resolve_registry().to_owned();
    let auth = credentials(&registry, places)?;
    let is_anonymous = auth == RegistryAuth::Anonymous;
    // Without one of its own the client's TLS has no algorithms; the process may have chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = ClientConfig {
        // Some registries take no pieces.
        use_monolithic_push: true,
        connect_timeout: Some(ANSWER_MAX),
        user_agent: "kindom",
        ..ClientConfig::default()
    };
    if is_local(&registry) {
        config.protocol = ClientProtocol::HttpsExcept(vec![registry.clone()]);
        avoid_proxies(&mut config);
    }
    let client = Client::try_from(config);
    let media_type =
        packed.manifest.media_type().parse().map_err(|why| Error::refused(format!("--push: {why}")))?;
    let pushed = async {
        let client = client?;
        in_time(0, client.auth(&image, &auth, RegistryOperation::Push)).await?;
        for blob in [&packed.layer, &packed.config] {
            let (digest, size) = (blob.digest(), blob.content.len() as u64);
            // A registry that refuses the question refuses the blob, or takes it.
            if in_time(0, client.blob_exists(&image, &digest)).await.unwrap_or(false) {
                continue;
            }
            let content = stream::iter([Ok(blob.content.clone())]);
            let sent = client.push_blob_stream(&image, content, &digest, Some(size));
            match in_time(size, sent).await {
                // Some registries do not say where the blob is. Where this one cannot be asked either, the manifest shows it.
                Err(OciDistributionError::RegistryNoLocationError)
                    if in_time(0, client.blob_exists(&image, &digest)).await.unwrap_or(true) => {}
                sent => drop(sent?),
            }
        }
        let manifest = packed.manifest.content.clone();
        in_time(0, client.push_manifest_raw(&image, manifest, media_type)).await
    };
    pushed.await.map(drop).map_err(|why| Error::refused(refusal(&registry, &why, is_anonymous)))
}

/// Waits for an answer as long as that many bytes may take.
async fn in_time<T>(
    bytes: u64,
    answer: impl Future<Output = Result<T, OciDistributionError>>,
) -> Result<T, OciDistributionError> {
    let within = ANSWER_MAX + Duration::from_secs(bytes / BYTES_A_SECOND);
    let late = || OciDistributionError::IoError(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(within, answer).await.unwrap_or_else(|_| Err(late()))
}

/// True for a registry on this machine, which is asked without TLS.
fn is_local(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_loopback())
}

/// The credentials for a registry; none if no file has any for it.
fn credentials(registry: &str, places: &[PathBuf]) -> Result<RegistryAuth, Error> {
    // Docker's own registry has another name in docker's file and in podman's.
    let names: &[&str] = match registry {
        "index.docker.io" | "docker.io" => &["https://index.docker.io/v1/", "docker.io"],
        _ => &[registry],
    };
    for (place, name) in places.iter().flat_map(|place| names.iter().map(move |name| (place, *name))) {
        let file = match std::fs::File::open(place) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => continue,
            // The folder of root's own containers.
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied && place.starts_with("/run") => {
                continue;
            }
            Err(why) => return Err(Error::file("read", place)(why)),
        };
        match get_credential_from_reader(std::io::BufReader::new(file), name) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                return Ok(RegistryAuth::Basic(user, password));
            }
            Ok(DockerCredential::IdentityToken(_)) => {
                let why =
                    "an identity token, which is not supported: log in with a password or an access token";
                return Err(Error::refused(format!("{} has for {name} {why}", place.display())));
            }
            Err(CredentialRetrievalError::NoCredentialConfigured) => {}
            // docker-credential-helpers, `credentials.NewErrCredentialsNotFound`
            Err(CredentialRetrievalError::HelperFailure { stdout, .. })
                if stdout.contains("credentials not found") => {}
            Err(why) => {
                return Err(Error::refused(format!("credentials for {name} in {}: {why}", place.display())));
            }
        }
    }
    Ok(RegistryAuth::Anonymous)
}

fn refusal(registry: &str, why: &OciDistributionError, is_anonymous: bool) -> String {
    let is_unauthorized = match why {
        OciDistributionError::UnauthorizedError { .. } => true,
        OciDistributionError::ServerError { code, .. } => *code == 401,
        OciDistributionError::RequestError(error) => error.status().is_some_and(|code| code == 401),
        _ => false,
    };
    let name = if registry == "index.docker.io" { "docker.io" } else { registry };
    if is_unauthorized && is_anonymous {
        return format!("--push: {name} wants credentials: docker login {name}, or podman login {name}");
    }
    if is_anonymous && matches!(why, OciDistributionError::AuthenticationFailure(_)) {
        let why = shown(&why.to_string());
        return format!("--push: {name}: {why}; docker login {name}, or podman login {name}, may help");
    }
    let refuses = if is_unauthorized { " refuses the credentials" } else { "" };
    let mut text = format!("--push: {name}{refuses}: {why}");
    // The client's own errors leave the reason to their sources.
    let mut source = why.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    shown(&text)
}

/// The text of a registry for a terminal: not all of a long one, and nothing that the terminal would obey.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(TEXT_MAX).collect();
    short.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::image::{Blob, Image};
    use super::*;

    /// `captain:aye`
    const LOGIN: &str = "Y2FwdGFpbjpheWU=";

    /// The method, the path and the content of a request.
    type Sent = (String, String, Vec<u8>);

    /// A registry that keeps what it was sent.
    #[derive(Clone, Default)]
    struct Registry(Arc<Mutex<Vec<Sent>>>);

    impl Registry {
        /// Serves on a free port, and returns its address.
        async fn serve(&self) -> String {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let registry = self.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let registry = registry.clone();
                    tokio::spawn(async move { registry.answer_all(stream).await });
                }
            });
            address
        }

        async fn answer_all(&self, stream: TcpStream) {
            let mut stream = BufReader::new(stream);
            loop {
                let (mut head, mut length) = (Vec::new(), 0);
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let line = line.trim_end().to_owned();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                    head.push(line);
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                let answer = self.answer(&head, body);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }

        fn answer(&self, head: &[String], body: Vec<u8>) -> String {
            let mut words = head[0].split(' ').map(str::to_owned);
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let is_known =
                head.iter().any(|line| line.eq_ignore_ascii_case(&format!("authorization: basic {LOGIN}")));
            let digest = path.rsplit_once("/blobs/").map(|(name, digest)| (name, digest.replace(':', "%3A")));
            let is_sent = |(name, digest): (&str, String)| {
                let sent = self.0.lock().unwrap();
                sent.iter().any(|(method, path, _)| {
                    method == "PUT" && path.starts_with(name) && path.ends_with(&digest)
                })
            };
            let answer = match (is_known, method.as_str()) {
                (false, _) => "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"yard\"".to_owned(),
                (true, "HEAD") if !digest.is_some_and(is_sent) => "404 Not Found".to_owned(),
                // As go-containerregistry's, which has no Location here.
                (true, "PUT") if path.contains("/uploads/") => "201 Created".to_owned(),
                (true, "POST") if path.contains("/silent/") => "202 Accepted".to_owned(),
                // No path, and no address.
                (true, "POST") if path.contains("/odd/") => "202 Accepted\r\nLocation: uploads/1".to_owned(),
                (true, "POST") => "202 Accepted\r\nLocation: /v2/a/yard/blobs/uploads/1".to_owned(),
                (true, "PUT") => format!("201 Created\r\nLocation: {path}"),
                _ => "200 OK".to_owned(),
            };
            if is_known {
                self.0.lock().unwrap().push((method, path, body));
            }
            format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n")
        }
    }

    fn image(registry: &str) -> (Reference, Packed) {
        let reference = Reference::parse(&format!("{registry}/a/yard:v1")).unwrap();
        let mut image = Image::new(reference.clone(), "amd64", &[]);
        image.add("apiserver", b"program".to_vec());
        (reference, image.pack())
    }

    /// B-47.
    #[tokio::test]
    async fn an_image_is_pushed_with_the_credentials_of_docker() {
        let registry = Registry::default();
        let address = registry.serve().await;
        let (reference, packed) = image(&address);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let places = [folder.path().join("not-there"), file.clone()];

        let refused = push_to(&reference, &packed, &places).await.unwrap_err().to_string();
        assert_eq!(
            refused,
            format!("--push: {address} wants credentials: docker login {address}, or podman login {address}")
        );
        std::fs::write(&file, format!(r#"{{"auths": {{"{address}": {{"auth": "d3Jvbmc6b25l"}}}}}}"#))
            .unwrap();
        let refused = push_to(&reference, &packed, &places).await.unwrap_err().to_string();
        assert!(refused.starts_with(&format!("--push: {address} refuses the credentials: ")), "{refused}");
        assert!(registry.0.lock().unwrap().is_empty());

        std::fs::write(&file, format!(r#"{{"auths": {{"{address}": {{"auth": "{LOGIN}"}}}}}}"#)).unwrap();
        push_to(&reference, &packed, &places).await.unwrap();
        let sent = registry.0.lock().unwrap().clone();
        let put: Vec<_> = sent.iter().filter(|(method, ..)| method == "PUT").collect();
        let of_blob = |blob: &Blob| {
            let digest = blob.digest().replace(':', "%3A");
            (format!("/v2/a/yard/blobs/uploads/1?digest={digest}"), blob.content.to_vec())
        };
        let manifest = ("/v2/a/yard/manifests/v1".to_owned(), packed.manifest.content.to_vec());
        let expected = [of_blob(&packed.layer), of_blob(&packed.config), manifest];
        let put: Vec<_> = put.into_iter().map(|(_, path, body)| (path.clone(), body.clone())).collect();
        assert_eq!(put, expected);

        for place in ["odd", "silent"] {
            let place = Reference::parse(&format!("{address}/{place}/yard:v1")).unwrap();
            let refused = push_to(&place, &packed, &places).await.unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--push: {address}: ")), "{refused}");
        }
    }

    #[test]
    fn credentials_are_where_docker_and_podman_keep_them() {
        let places = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            };
            places_by(&variable).iter().map(|place| place.display().to_string()).collect::<Vec<_>>()
        };
        let home = ("HOME", "/home/a");
        let of_home = [
            "/home/a/.docker/config.json",
            "/x/containers/auth.json",
            "/home/a/.config/containers/auth.json",
        ];
        assert_eq!(places(&[home, ("XDG_RUNTIME_DIR", "/x")]), of_home);
        assert!(places(&[home])[1].starts_with("/run/containers/"));
        let named = [home, ("DOCKER_CONFIG", "/d"), ("REGISTRY_AUTH_FILE", "/r")];
        assert_eq!(places(&named), ["/r", "/d/config.json"]);
    }

    #[test]
    fn a_terminal_obeys_no_registry() {
        assert_eq!(shown("a\nb\u{1b}[2J\u{9b}1m\r"), "a\nb\u{fffd}[2J\u{fffd}1m\u{fffd}");
        assert_eq!(shown(&"x".repeat(1 << 20)).len(), TEXT_MAX);
    }

    #[test]
    fn docker_hub_has_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("auth.json")];
        let found = |text: &str| {
            std::fs::write(&places[0], text).unwrap();
            credentials("index.docker.io", &places).unwrap()
        };
        let login = RegistryAuth::Basic("captain".to_owned(), "aye".to_owned());
        for name in ["docker.io", "https://index.docker.io/v1/"] {
            assert_eq!(
                found(&format!(r#"{{"auths": {{"{name}": {{"auth": "{LOGIN}"}}}}}}"#)),
                login,
                "{name}"
            );
        }
        assert_eq!(found(r#"{"auths": {}}"#), RegistryAuth::Anonymous);
    }

    #[tokio::test]
    async fn what_keeps_an_image_from_being_pushed_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        drop(taken);
        let (reference, packed) = image(&address);
        let away = push_to(&reference, &packed, &[]).await.unwrap_err().to_string();
        assert!(away.starts_with(&format!("--push: {address}: ")) && away.contains("refused"), "{away}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        for (text, why) in [
            ("{".to_owned(), "Unable to read config"),
            (format!(r#"{{"auths": {{"{address}": {{"auth": "%"}}}}}}"#), "Unable to decode credential"),
            (format!(r#"{{"auths": {{"{address}": {{"identitytoken": "x"}}}}}}"#), "an identity token"),
            (r#"{"credsStore": "kindom-has-none"}"#.to_owned(), "Unable to communicate"),
        ] {
            std::fs::write(&file, text).unwrap();
            let refused =
                push_to(&reference, &packed, std::slice::from_ref(&file)).await.unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains("config.json"), "{refused}");
        }
        let unreadable = push_to(&reference, &packed, &[folder.path().join("config.json/x")]).await;
        assert!(unreadable.unwrap_err().to_string().contains("config.json/x"));
    }

    #[test]
    fn a_registry_on_this_machine_needs_no_tls() {
        for (registry, local) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:80", true),
            ("127.9.9.9", true),
            ("10.0.0.1:5000", false),
            ("localhost.example.com", false),
            ("registry.example.com:443", false),
        ] {
            assert_eq!(is_local(registry), local, "{registry}");
        }
    }
}
