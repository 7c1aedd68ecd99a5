//! Service accounts: the loops that look after them, and the keys of their tokens. Those are in files, or the server's own: the
//! store holds that one, so that all replicas sign with it and a token outlives the process.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kindom_accounts::{Settings, SigningKey, Tokens, VerifyingKey};
use kindom_actor_kit::StartError;
use kindom_finalizer_actor::provision::Types;
use kindom_finalizer_actor::{account_secrets, provision};
use kindom_registry_actor::RegistryHandle;
use kindom_storage::{Compare, Key, Op, RangeRequest, Storage, Txn};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::BoxError;
use crate::flags::{AccountFlags, ROOT_CA_PUBLISHER, SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN, Serve, runs};
use crate::pki::{may_be_read, pkcs8_of_sec1};

/// The server's own key, in PKCS #8.
const KEY: &str = "/kindom/registry/accounts/signing-key";

/// The tokens as the flags have them.
///
/// # Errors
/// A file cannot be used, or the store does not answer.
pub(crate) async fn tokens(flags: &AccountFlags, storage: &dyn Storage) -> Result<Tokens, BoxError> {
    let settings = Settings {
        issuers: flags.service_account_issuer.clone(),
        audiences: flags.api_audiences.clone(),
        life_max: i64::try_from(flags.service_account_max_token_expiration.as_secs())?,
        keys_at: flags.service_account_jwks_uri.clone().unwrap_or_default(),
    };
    let signer = match &flags.service_account_signing_key_file {
        Some(file) => signing_key(file).map_err(in_file("--service-account-signing-key-file", file))?,
        None => own_key(storage).await?,
    };
    let mut others = Vec::new();
    for file in &flags.service_account_key_file {
        others.extend(verifying_keys(file).map_err(in_file("--service-account-key-file", file))?);
    }
    Ok(Tokens::new(settings, signer, others))
}

/// Starts the controllers of service accounts that the flags let run.
///
/// # Errors
/// [`StartError`]
pub(crate) fn start(
    options: &Serve,
    registry: &RegistryHandle,
    types: &Types,
    tokens: Arc<Tokens>,
    authorities_pem: Option<String>,
) -> Result<(), StartError> {
    let runs = |name| runs(&options.controllers, name);
    if runs(SERVICE_ACCOUNT) {
        provision::accounts(registry, types)?;
    }
    // Authorities of the client's own system vouch for a certificate that has none with it.
    if let Some(pem) = authorities_pem.as_deref().filter(|_| runs(ROOT_CA_PUBLISHER)) {
        provision::authorities(registry, types, pem)?;
    }
    if runs(SERVICE_ACCOUNT_TOKEN) {
        account_secrets::start(registry, types, tokens, authorities_pem)?;
    }
    Ok(())
}

fn in_file(flag: &'static str, file: &Path) -> impl FnOnce(BoxError) -> BoxError {
    let file = file.display().to_string();
    move |error| format!("{flag}: {file}: {error}").into()
}

/// The key that the store holds; it makes one if there is none.
async fn own_key(storage: &dyn Storage) -> Result<SigningKey, BoxError> {
    let key = Key::from(KEY);
    loop {
        let found = storage.range(RangeRequest::single(&key)).await?.kvs.into_iter().next();
        if let Some(found) = found {
            let value = found.value.map_err(|damage| format!("the key of service accounts: {damage:?}"))?;
            return Ok(SigningKey::from_pkcs8(&value)?);
        }
        // Another replica may be faster: then its key counts.
        let made = Bytes::from(SigningKey::generate()?);
        storage
            .txn(Txn { compares: vec![Compare::absent(&key)], ops: vec![Op::Put(key.clone(), made)] })
            .await?;
    }
}

fn read(file: &Path) -> Result<Vec<u8>, BoxError> {
    may_be_read(file)?;
    Ok(std::fs::read(file)?)
}

fn of_der(key: PrivateKeyDer<'_>) -> Result<SigningKey, BoxError> {
    Ok(match key {
        PrivateKeyDer::Pkcs8(der) => SigningKey::from_pkcs8(der.secret_pkcs8_der())?,
        PrivateKeyDer::Pkcs1(der) => SigningKey::from_pkcs1(der.secret_pkcs1_der())?,
        PrivateKeyDer::Sec1(der) => {
            let der = pkcs8_of_sec1(der.secret_sec1_der());
            SigningKey::from_pkcs8(&der.ok_or("it is an EC PRIVATE KEY that does not name its curve")?)?
        }
        _ => return Err("it holds no private key of a kind that is known".into()),
    })
}

fn signing_key(file: &Path) -> Result<SigningKey, BoxError> {
    of_der(PrivateKeyDer::from_pem_slice(&read(file)?)?)
}

/// The public keys of a file, and those of its private keys.
fn verifying_keys(file: &Path) -> Result<Vec<VerifyingKey>, BoxError> {
    let text = read(file)?;
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(&text) {
        keys.push(VerifyingKey::from_public_key_info(&key?)?);
    }
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate?;
        let (_, parsed) = X509Certificate::from_der(&certificate)?;
        keys.push(VerifyingKey::from_public_key_info(parsed.public_key().raw)?);
    }
    for key in PrivateKeyDer::pem_slice_iter(&text) {
        keys.push(of_der(key?)?.public().clone());
    }
    if keys.is_empty() {
        return Err("it holds no PUBLIC KEY, no CERTIFICATE and no private key".into());
    }
    Ok(keys)
}
