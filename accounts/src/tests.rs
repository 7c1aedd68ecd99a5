//! Tokens of each kind of key, what is done to them, and what is published.

use kindom_api::{Value, json};
use proptest::prelude::*;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData as _};

use crate::{Claims, LEGACY_ISSUER, Reference, Rejected, Settings, SigningKey, Tokens, VerifyingKey};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn settings() -> Settings {
    Settings { issuers: vec![ISSUER.to_owned(), "https://old".to_owned()], ..Settings::default() }
}

fn signer() -> SigningKey {
    SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
}

fn claims() -> Claims {
    let of = |name: &str| Some(Reference { name: name.to_owned(), uid: format!("uid of {name}") });
    Claims {
        namespace: "ns".to_owned(),
        account: of("builder").unwrap(),
        audiences: vec![ISSUER.to_owned(), "vault".to_owned()],
        secret: of("s"),
        id: "an id".to_owned(),
        not_before: Some(1000),
        issued_at: Some(1000),
        expires: Some(4600),
        ..Claims::default()
    }
}

#[test]
fn a_token_is_read_as_it_was_signed_by_every_kind_of_key() {
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    for key in [signer(), SigningKey::from_pkcs8(&p384.serialize_der()).unwrap()] {
        let tokens = Tokens::new(settings(), key, Vec::new());
        let token = tokens.sign(&claims()).unwrap();
        assert_eq!(tokens.verify(&token), Ok(Some(claims())));
        let pod = Claims { pod: claims().secret, node: claims().secret, secret: None, ..claims() };
        assert_eq!(tokens.verify(&tokens.sign(&pod).unwrap()), Ok(Some(pod)));
    }
}

#[test]
fn a_token_of_a_secret_has_no_end_and_no_audience() {
    let tokens = Tokens::new(settings(), signer(), Vec::new());
    let of_secret = Claims {
        audiences: Vec::new(),
        secret: Some(Reference { name: "s".to_owned(), uid: String::new() }),
        id: String::new(),
        not_before: None,
        issued_at: None,
        expires: None,
        is_of_secret: true,
        ..claims()
    };
    let token = tokens.sign(&of_secret).unwrap();
    let read = tokens.verify(&token).unwrap().unwrap();
    assert_eq!(read, of_secret);
    assert_eq!(tokens.check(&read, None, i64::MAX), Ok(settings().issuers));
    assert_ne!(LEGACY_ISSUER, ISSUER);
}

#[test]
fn a_token_of_others_is_none_and_a_forged_one_is_refused() {
    let tokens = Tokens::new(settings(), signer(), Vec::new());
    let elsewhere = Settings { issuers: vec!["https://elsewhere".to_owned()], ..settings() };
    let foreign = Tokens::new(elsewhere, signer(), Vec::new()).sign(&claims()).unwrap();
    for nobodys in ["", "a", "a.b", "a.b.c", "..", foreign.as_str()] {
        assert_eq!(tokens.verify(nobodys), Ok(None), "{nobodys}");
    }
    let forged = Tokens::new(settings(), signer(), Vec::new()).sign(&claims()).unwrap();
    assert_eq!(tokens.verify(&forged), Err(Rejected("invalid signature, no keys found".to_owned())));
    // The header's words change nothing: the key has one algorithm.
    let token = tokens.sign(&claims()).unwrap();
    let (_, rest) = token.split_once('.').unwrap();
    for alg in ["none", "HS256", "RS256", "ES384", ""] {
        let header = format!(r#"{{"alg":"{alg}"}}"#);
        let header = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, header);
        assert!(tokens.verify(&format!("{header}.{rest}")).is_err(), "{alg}");
    }
}

#[test]
fn an_older_key_still_verifies() {
    let old = signer();
    let public = old.public().clone();
    let token = Tokens::new(settings(), old, Vec::new()).sign(&claims()).unwrap();
    let now = Tokens::new(settings(), signer(), vec![public.clone(), public]);
    assert_eq!(now.verify(&token), Ok(Some(claims())));
    let keys = json::parse(&now.documents().unwrap().keys).unwrap();
    assert_eq!(keys.get("keys").and_then(Value::as_array).unwrap().len(), 2);
}

#[test]
fn a_token_holds_for_its_audiences_and_its_time() {
    let tokens = Tokens::new(settings(), signer(), Vec::new());
    let wanted = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let check = |audiences: &[&str], now| tokens.check(&claims(), Some(&wanted(audiences)), now);
    assert_eq!(tokens.check(&claims(), None, 1000), Ok(wanted(&[ISSUER])));
    assert_eq!(check(&["vault", "x"], 1000), Ok(wanted(&["vault"])));
    assert_eq!(
        check(&["x"], 1000).unwrap_err().to_string(),
        format!(r#"token audiences ["{ISSUER}" "vault"] is invalid for the target audiences ["x"]"#)
    );
    // A minute's leeway, both ways.
    for (now, why) in [(939, "not valid yet"), (4661, "has expired")] {
        assert!(check(&[], now).unwrap_err().to_string().ends_with(why), "{now}");
    }
    for now in [940, 4660] {
        check(&[], now).unwrap();
    }
}

#[test]
fn keys_are_published_as_upstream_does() {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let key = SigningKey::from_pkcs8(&pair.serialize_der()).unwrap();
    let info = pair.subject_public_key_info();
    assert_eq!(&VerifyingKey::from_public_key_info(&info).unwrap(), key.public());
    let id = key.public().id().to_owned();
    let tokens = Tokens::new(settings(), key, Vec::new());
    let documents = tokens.documents().unwrap();
    let keys = String::from_utf8(documents.keys.clone()).unwrap();
    let begins =
        format!(r#"{{"keys":[{{"use":"sig","kty":"EC","kid":"{id}","crv":"P-256","alg":"ES256","x":""#);
    assert!(keys.starts_with(&begins), "{keys}");
    assert_eq!(
        String::from_utf8(documents.configuration("https://127.0.0.1:6443/openid/v1/jwks")).unwrap(),
        format!(
            r#"{{"issuer":"{ISSUER}","jwks_uri":"https://127.0.0.1:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}}"#
        )
    );
    let plain = Settings { issuers: vec!["me".to_owned()], ..settings() };
    assert!(Tokens::new(plain, signer(), Vec::new()).documents().is_none());
}

proptest! {
    /// Whatever is changed in a token, it holds no more.
    #[test]
    fn a_changed_token_does_not_hold(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]") {
        let tokens = Tokens::new(settings(), signer(), Vec::new());
        let token = tokens.sign(&claims()).unwrap();
        let at = at.index(token.len());
        let changed = format!("{}{with}{}", &token[..at], &token[at + 1..]);
        prop_assume!(changed != token);
        let read = tokens.verify(&changed);
        prop_assert!(!matches!(read, Ok(Some(_))), "{changed}");
    }

    #[test]
    fn any_text_is_read(text in "[a-zA-Z0-9.=_-]{0,200}", key in proptest::collection::vec(any::<u8>(), 0..200)) {
        let tokens = Tokens::new(settings(), signer(), Vec::new());
        prop_assert_eq!(tokens.verify(&text), Ok(None));
        prop_assert!(SigningKey::from_pkcs8(&key).is_err() && SigningKey::from_pkcs1(&key).is_err());
        prop_assert!(VerifyingKey::from_public_key_info(&key).is_err());
    }
}
