//! Secrets of type `kubernetes.io/service-account-token`: each gets a token of the account that it names, and goes with it.
//!
//! Source: `pkg/controller/serviceaccount/tokens_controller.go` (1.37).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_accounts::{Claims, Reference, Tokens};
use kindom_actor_kit::{Reconciler, StartError};
use kindom_api::{Map, Value, json, object};
use kindom_objects::{PlanError, Removal, RuleContext};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Pages, ResourceHandle, Target, WriteError};
use kindom_storage::StoredValue;

use crate::error::{DrainError, ReconcileError};
use crate::follower::{self, Settle};
use crate::provision::{Types, options, stored, unless_it_is_settled};

/// Their type.
const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";
/// Marks a key as that of an account that has gone. No namespace begins so.
const GONE: &str = "!";

/// Starts the loop, as the actor `service-account-secrets`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    types: &Types,
    tokens: Arc<Tokens>,
    authorities_pem: Option<String>,
) -> Result<Reconciler, StartError> {
    follower::start(
        "service-account-secrets",
        registry,
        Secrets { types: types.clone(), tokens, authorities_pem },
    )
}

#[derive(Clone)]
struct Secrets {
    types: Types,
    tokens: Arc<Tokens>,
    authorities_pem: Option<String>,
}

impl Settle for Secrets {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.types.secrets.clone(), self.types.accounts.clone()]
    }

    /// Every secret is looked at, and so is its account.
    fn reads(&self, place: usize) -> bool {
        place == 0
    }

    fn due(&self, place: usize, of: &str, value: Option<&StoredValue>) -> Option<String> {
        match (place, value) {
            (0, Some(Ok(bytes))) => is_token(bytes).then(|| of.to_owned()),
            (1, None) => Some(format!("{GONE}{of}")),
            _ => None,
        }
    }

    fn settle<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        async move {
            match key.strip_prefix(GONE).and_then(|key| key.split_once('/')) {
                Some((namespace, account)) => self.of_account(namespace, account).await,
                None => match key.split_once('/') {
                    Some((namespace, name)) => self.fill(namespace, name).await,
                    None => Ok(()),
                },
            }
        }
        .boxed_local()
    }
}

fn is_token(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, TYPE.as_bytes()).is_some()
}

fn annotation<'a>(secret: &'a Value, name: &str) -> &'a str {
    secret.at(&["metadata", "annotations", name]).and_then(Value::as_str).unwrap_or_default()
}

/// The secret as it has to be; `None` if it is so. `token` is what it gets if it has none.
fn filled(secret: &Value, account_uid: &str, authorities_pem: Option<&str>, token: &str) -> Option<Value> {
    let namespace = secret.text_at(&["metadata", "namespace"]);
    let has = |field: &str| secret.at(&["data", field]).and_then(Value::as_str);
    let mut wanted = vec![("namespace", BASE64.encode(namespace))];
    wanted.extend(authorities_pem.map(|pem| ("ca.crt", BASE64.encode(pem))));
    wanted.retain(|(field, value)| has(field) != Some(value));
    if has("token").is_none_or(str::is_empty) {
        wanted.push(("token", BASE64.encode(token)));
    }
    if wanted.is_empty() && annotation(secret, UID) == account_uid {
        return None;
    }
    let mut secret = secret.clone();
    if let Some(data) = secret.as_object_mut()?.entry_or_insert_with("data", || object! {}).as_object_mut() {
        for (field, value) in wanted {
            data.insert(field, value);
        }
    }
    let metadata = secret.get_mut("metadata").and_then(Value::as_object_mut)?;
    let annotations = metadata.entry_or_insert_with("annotations", || Value::Object(Map::new()));
    annotations.as_object_mut()?.insert(UID, account_uid);
    Some(secret)
}

impl Secrets {
    /// Fills a secret in; deletes it if its account is not there.
    async fn fill(&self, namespace: &str, name: &str) -> Result<(), ReconcileError> {
        let Some(secret) = stored(&self.types.secrets, Some(namespace), name).await? else { return Ok(()) };
        let is_ours = secret.text_at(&["type"]) == TYPE && !annotation(&secret, NAME).is_empty();
        if !is_ours || secret.at(&["metadata", "deletionTimestamp"]).is_some() {
            return Ok(());
        }
        let account = annotation(&secret, NAME);
        let found = stored(&self.types.accounts, Some(namespace), account).await?;
        let account_uid = found.as_ref().map(|found| found.text_at(&["metadata", "uid"])).unwrap_or_default();
        let meant = annotation(&secret, UID);
        if account_uid.is_empty() || !meant.is_empty() && meant != account_uid {
            return self.delete(&secret).await;
        }
        let authorities = self.authorities_pem.as_deref();
        // A signature takes longer than the rest: most secrets that are looked at have theirs.
        if filled(&secret, account_uid, authorities, "").is_none() {
            return Ok(());
        }
        let claims = Claims {
            namespace: namespace.to_owned(),
            account: Reference { name: account.to_owned(), uid: account_uid.to_owned() },
            secret: Some(Reference { name: name.to_owned(), uid: String::new() }),
            is_of_secret: true,
            ..Claims::default()
        };
        let token = match self.tokens.sign(&claims) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, namespace, name, "a token could not be signed");
                return Ok(());
            }
        };
        let uid = secret.text_at(&["metadata", "uid"]);
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            // Another secret of this name is settled by itself.
            let is_this = stored.text_at(&["metadata", "uid"]) == uid;
            let filled = filled(stored, account_uid, authorities, &token).filter(|_| is_this);
            let mut object = filled.unwrap_or_else(|| stored.clone());
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let place = Target { version: "v1", subresource: None, namespace: Some(namespace), name };
        let written = self.types.secrets.update(place, true, &mut wanted, &options(&self.types)).await;
        written.map(drop).or_else(unless_it_is_settled)
    }

    /// Looks again at the secrets of an account that has gone.
    async fn of_account(&self, namespace: &str, account: &str) -> Result<(), ReconcileError> {
        let handle = &self.types.secrets;
        let prefix = format!("{}{namespace}/", handle.prefix());
        let mut pages = Pages::as_of_first(&prefix);
        while let Some(page) = pages.next(&*handle.deps().storage).await.map_err(DrainError::List)? {
            for kv in page.kvs.iter().filter(|kv| kv.value.as_ref().is_ok_and(|bytes| is_token(bytes))) {
                let name =
                    std::str::from_utf8(kv.key.as_bytes()).ok().and_then(|key| key.strip_prefix(&prefix));
                let Some(name) = name else { continue };
                let object =
                    handle.stored_object(&format!("{namespace}/{name}"), kv.value.clone(), kv.mod_revision);
                let secret = json::parse_own(object.json()).unwrap_or_default();
                if annotation(&secret, NAME) == account {
                    self.fill(namespace, name).await?;
                }
            }
        }
        Ok(())
    }

    /// Deletes a secret of nobody, unless it has changed since.
    async fn delete(&self, secret: &Value) -> Result<(), ReconcileError> {
        let field =
            |name| Some(secret.text_at(&["metadata", name]).to_owned()).filter(|text| !text.is_empty());
        let (namespace, name) = (field("namespace").unwrap_or_default(), field("name").unwrap_or_default());
        let removal = Removal { uid: field("uid"), ..Removal::default() };
        let place = Target { version: "v1", subresource: None, namespace: Some(&namespace), name: &name };
        let deleted = self.types.secrets.delete(place, &removal, &options(&self.types)).await;
        deleted.map(drop).or_else(|error| match error {
            // Another one of that name is settled by itself.
            WriteError::Plan(PlanError::Conflict { .. } | PlanError::Precondition { .. }) => Ok(()),
            error => unless_it_is_settled(error),
        })
    }
}
