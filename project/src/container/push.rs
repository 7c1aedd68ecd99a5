//! The push of an image to its registry (opencontainers/distribution-spec 1.1), with the credentials that docker and podman keep.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential_from_reader};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};

use super::image::Packed;
use crate::error::Error;
use crate::reference::Reference;

/// A registry that says nothing for so long is away.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The places of `config.json` and the like, each a variable with a folder or file, and the rest of the path.
const CREDENTIALS: [(&str, &str); 4] = [
    ("REGISTRY_AUTH_FILE", ""),
    ("DOCKER_CONFIG", "config.json"),
    ("HOME", ".docker/config.json"),
    ("XDG_RUNTIME_DIR", "containers/auth.json"),
];

/// Puts an image into its registry; what is there already is not sent again.
///
/// # Errors
/// No credentials can be read, or the registry refuses, is away, or is none.
pub(super) fn push(reference: &Reference, packed: &Packed) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Error::refused(format!("--push: {why}")))?;
    runtime.block_on(push_to(reference, packed, &places()))
}

/// The files that may hold credentials, the first one that does counts.
fn places() -> Vec<PathBuf> {
    let place = |(variable, rest): &(&str, &str)| {
        let base = PathBuf::from(std::env::var_os(variable).filter(|value| !value.is_empty())?);
        Some(if rest.is_empty() { base } else { base.join(rest) })
    };
    CREDENTIALS.iter().filter_map(place).collect()
}

async fn push_to(reference: &Reference, packed: &Packed, places: &[PathBuf]) -> Result<(), Error> {
    let image: oci_client::Reference =
        reference.whole().parse().map_err(|why| Error::refused(format!("--push {reference}: {why}")))?;
    let registry = image.resolve_registry().to_owned();
    let auth = credentials(&registry, places)?;
    let is_anonymous = auth == RegistryAuth::Anonymous;
    // Without one of its own the client's TLS has no algorithms; the process may have chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let local: Vec<String> = is_local(&registry).then(|| registry.clone()).into_iter().collect();
    let client = Client::try_from(ClientConfig {
        protocol: ClientProtocol::HttpsExcept(local),
        // Some registries take no pieces.
        use_monolithic_push: true,
        connect_timeout: Some(SILENCE_MAX),
        read_timeout: Some(SILENCE_MAX),
        user_agent: "kindom",
        ..ClientConfig::default()
    });
    let media_type =
        packed.manifest.media_type().parse().map_err(|why| Error::refused(format!("--push: {why}")))?;
    let pushed = async {
        let client = client?;
        client.auth(&image, &auth, RegistryOperation::Push).await?;
        for blob in [&packed.layer, &packed.config] {
            let digest = blob.digest();
            if !client.blob_exists(&image, &digest).await? {
                let sent = client.push_blob(&image, blob.content.clone(), &digest).await;
                // Some registries do not say where the blob is from then on, which nobody asks.
                let has_no_place = matches!(sent, Err(OciDistributionError::RegistryNoLocationError));
                if !(has_no_place && client.blob_exists(&image, &digest).await?) {
                    sent?;
                }
            }
        }
        let manifest = packed.manifest.content.clone();
        client.push_manifest_raw(&image, manifest, media_type).await
    };
    pushed.await.map(drop).map_err(|why| Error::refused(refusal(&registry, &why, is_anonymous)))
}

/// True for a registry on this machine, which needs no TLS, as for docker.
fn is_local(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_loopback())
}

/// The credentials for a registry; none if no file has any for it.
fn credentials(registry: &str, places: &[PathBuf]) -> Result<RegistryAuth, Error> {
    // Docker's own registry has another name there.
    let name = match registry {
        "index.docker.io" | "docker.io" => "https://index.docker.io/v1/",
        name => name,
    };
    for place in places {
        let file = match std::fs::File::open(place) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => continue,
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
            Err(why) => {
                return Err(Error::refused(format!("credentials for {name} in {}: {why}", place.display())));
            }
        }
    }
    Ok(RegistryAuth::Anonymous)
}

fn refusal(registry: &str, why: &OciDistributionError, is_anonymous: bool) -> String {
    let is_unauthorized = match why {
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
            true
        }
        OciDistributionError::ServerError { code, .. } => *code == 401,
        OciDistributionError::RequestError(error) => error.status().is_some_and(|code| code == 401),
        _ => false,
    };
    if is_unauthorized && is_anonymous {
        return format!(
            "--push: {registry} wants credentials: docker login {registry}, or podman login {registry}"
        );
    }
    // The client's own errors leave the reason to their sources.
    let refuses = if is_unauthorized { " refuses the credentials" } else { "" };
    let mut text = format!("--push: {registry}{refuses}: {why}");
    let mut source = why.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
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
            let digest = path.rsplit_once("/blobs/").map(|(_, digest)| digest.replace(':', "%3A"));
            let is_sent = |digest: String| {
                let sent = self.0.lock().unwrap();
                sent.iter().any(|(method, path, _)| method == "PUT" && path.ends_with(&digest))
            };
            let answer = match (is_known, method.as_str()) {
                (false, _) => "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"yard\"".to_owned(),
                (true, "HEAD") if !digest.is_some_and(is_sent) => "404 Not Found".to_owned(),
                // As go-containerregistry's, which has no Location here.
                (true, "PUT") if path.contains("/uploads/") => "201 Created".to_owned(),
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
            (format!("/v2/a/yard/blobs/uploads/1?digest={digest}"), blob.content.clone())
        };
        let manifest = ("/v2/a/yard/manifests/v1".to_owned(), packed.manifest.content.clone());
        let expected = [of_blob(&packed.layer), of_blob(&packed.config), manifest];
        let put: Vec<_> = put.into_iter().map(|(_, path, body)| (path.clone(), body.clone())).collect();
        assert_eq!(put, expected);
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
