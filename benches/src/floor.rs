//! The floor that a request is held against: an actix-web handler that has its answer ready, behind the same TLS and the
//! same settings as kindom. It is also the webhook of cases that need one.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::{Method, header};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};

use crate::error::LoadError;

type Files = HashMap<String, Bytes>;

/// A conversion webhook that only sets the version: `right`, `slow` or, with another uid, `wrong`.
async fn converted(mode: &str, body: &Bytes) -> HttpResponse {
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return HttpResponse::BadRequest().finish();
    };
    let [uid, wanted, mut objects] = ["uid", "desiredAPIVersion", "objects"]
        .map(|field| review.pointer_mut(&format!("/request/{field}")).map(Value::take).unwrap_or_default());
    for object in objects.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        object.insert("apiVersion".to_owned(), wanted.clone());
    }
    if mode == "slow" {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let uid = if mode == "wrong" { Value::from("another") } else { uid };
    HttpResponse::Ok().json(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": uid, "result": {"status": "Success"}, "convertedObjects": objects},
    }))
}

async fn answer(request: HttpRequest, body: Bytes, files: web::Data<Files>) -> HttpResponse {
    if let Some(mode) = request.path().strip_prefix("/convert/") {
        return converted(mode, &body).await;
    }
    if *request.method() == Method::POST {
        return HttpResponse::Created().insert_header((header::CONTENT_TYPE, "application/json")).body(body);
    }
    match files.get(request.path()) {
        Some(bytes) => {
            HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "application/json")).body(bytes.clone())
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// As `kindom_http::authn::server_config`, except that a bad client certificate ends the handshake. It is not that
/// function: with it, this program would build all of kindom a second time.
fn tls(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    authority: CertificateDer<'static>,
) -> Result<ServerConfig, LoadError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(LoadError::transport("the authority"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let asking = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(LoadError::transport("the authority"))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(LoadError::transport("TLS"))?
        .with_client_cert_verifier(asking)
        .with_single_cert(vec![certificate], key)
        .map_err(LoadError::transport("TLS"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves the files of a folder, each under its name, and returns posted bodies, until it is ended.
pub(crate) fn serve(folder: &Path, pki: &Path) -> Result<(), LoadError> {
    let read = |file: &Path| std::fs::read(file).map_err(LoadError::io(file.display().to_string()));
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).map_err(LoadError::io(folder.display().to_string()))? {
        let path = entry.map_err(LoadError::io(folder.display().to_string()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.insert(format!("/{name}"), read(&path)?.into());
    }
    let certificate = |name: &str| {
        CertificateDer::from_pem_file(pki.join(name)).map_err(LoadError::transport(name.to_owned()))
    };
    let key =
        PrivateKeyDer::from_pem_file(pki.join("apiserver.key")).map_err(LoadError::transport("the key"))?;
    let tls = tls(certificate("apiserver.crt")?, key, certificate("ca.crt")?)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let files = web::Data::new(files);
    actix_web::rt::System::new()
        .block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            let server =
                HttpServer::new(move || App::new().app_data(files.clone()).default_service(web::to(answer)))
                    .workers(cores)
                    .keep_alive(Duration::from_secs(90))
                    .tcp_nodelay(true)
                    .listen_rustls_0_23(listener, tls)?
                    .run();
            let mut out = std::io::stdout();
            writeln!(out, "https://{address}")?;
            out.flush()?;
            server.await
        })
        .map_err(LoadError::io("the floor"))
}
