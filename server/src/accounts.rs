//! The keys that sign and verify the tokens of service accounts: those of files, or one of the server's own. The store holds
//! that one, so that all replicas sign with it and a token outlives the process.

use std::path::Path;

use bytes::Bytes;
use kindom_accounts::{Settings, SigningKey, Tokens, VerifyingKey};
use kindom_storage::{Compare, Key, Op, RangeRequest, Storage, Txn};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};

use crate::BoxError;
use crate::flags::AccountFlags;
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
    for key in PrivateKeyDer::pem_slice_iter(&text) {
        keys.push(of_der(key?)?.public().clone());
    }
    if keys.is_empty() {
        return Err("it holds neither a PUBLIC KEY nor a private key".into());
    }
    Ok(keys)
}
