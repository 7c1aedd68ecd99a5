//! Service accounts: whose token a request carries, and whether what the token is bound to is still there.
//!
//! Sources: `pkg/serviceaccount/{claims,legacy}.go` (`validator.Validate`), `pkg/kubeapiserver/authenticator/config.go` (1.37).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kindom_accounts::{Claims, Reference, Rejected, Tokens};
use kindom_actor_kit::Deadline;
use kindom_api::user::User;
use kindom_api::{Value, json, meta};
use kindom_objects::review::Identified;
use kindom_objects::{StoredObject, TypeSpec};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ResourceHandle};

/// The longest that a look at an account, or at what a token is bound to, may take.
const LOOK: Duration = Duration::from_secs(10);
const ACCOUNTS: &str = "serviceaccounts";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Of as many tokens it is remembered that their signatures hold.
const REMEMBERED_MAX: usize = 4096;
/// A longer token is checked anew every time: its owner chooses its length, and so the memory.
const REMEMBERED_BYTES_MAX: usize = 4096;
/// The time for which something that is marked as deleted still counts, in seconds.
const LEEWAY: i64 = 60;

/// The service accounts' tokens.
pub struct ServiceAccounts {
    tokens: Arc<Tokens>,
    registry: RegistryHandle,
    requests: Arc<TypeSpec>,
    /// Tokens whose signatures hold: checking one takes longer than most requests. Begun anew when it is full.
    remembered: Mutex<HashMap<String, Arc<Known>>>,
}

/// A token whose signature holds.
struct Known {
    claims: Claims,
    user: Arc<User>,
}

impl ServiceAccounts {
    /// Tokens as these keys and flags have them.
    #[must_use]
    pub fn new(tokens: Arc<Tokens>, registry: RegistryHandle) -> Self {
        let requests = Arc::new(kindom_objects::kinds::token_request::token_requests());
        Self { tokens, registry, requests, remembered: Mutex::default() }
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The type of requests for tokens.
    pub(crate) fn requests(&self) -> &Arc<TypeSpec> {
        &self.requests
    }

    /// The user of a token, and the audiences that the token has in common with those that are wanted; by default, the
    /// server's own. `None` if no account has such a token.
    ///
    /// # Errors
    /// It is an account's by its own account, and does not hold.
    pub(crate) async fn identify(
        &self,
        token: &str,
        wanted: Option<&[String]>,
    ) -> Result<Option<Identified>, Rejected> {
        let Some(known) = self.known(token)? else { return Ok(None) };
        let now = self.registry.deps().clock.unix_seconds();
        let audiences = self.tokens.check(&known.claims, wanted, now)?;
        Living { registry: &self.registry, now, claims: &known.claims }.check(token).await?;
        Ok(Some(Identified { user: Arc::clone(&known.user), audiences }))
    }

    fn known(&self, token: &str) -> Result<Option<Arc<Known>>, Rejected> {
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered().get(token) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(claims) = self.tokens.verify(token)? else { return Ok(None) };
        let known = Arc::new(Known { user: Arc::new(user_of(&claims)), claims });
        if token.len() > REMEMBERED_BYTES_MAX {
            return Ok(Some(known));
        }
        let mut remembered = remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(token.to_owned(), Arc::clone(&known));
        Ok(Some(known))
    }
}

/// `ServiceAccountInfo.UserInfo`
fn user_of(claims: &Claims) -> User {
    let mut extra = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()]);
        }
    };
    for (kind, bound) in [("pod", &claims.pod), ("node", &claims.node)] {
        if let Some(Reference { name, uid }) = bound {
            add(&format!("{kind}-name"), name);
            add(&format!("{kind}-uid"), uid);
        }
    }
    if !claims.id.is_empty() {
        extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.id)]);
    }
    let (uid, account) = (claims.account.uid.clone(), &claims.account.name);
    let user = User { uid, extra, ..User::service_account(&claims.namespace, account) };
    user.authenticated()
}

/// Looks whether all that a token is bound to is there, at a time.
struct Living<'a> {
    registry: &'a RegistryHandle,
    now: i64,
    claims: &'a Claims,
}

fn rejected(why: impl Into<String>) -> Rejected {
    Rejected(why.into())
}

impl Living<'_> {
    async fn check(&self, token: &str) -> Result<(), Rejected> {
        let Claims { namespace, account, secret, pod, node, is_of_secret, .. } = self.claims;
        let gone = || rejected("service account token has been invalidated");
        if *is_of_secret {
            let name = secret.as_ref().map(|secret| secret.name.as_str()).unwrap_or_default();
            let found = self.object("secrets", Some(namespace), name, "").await?;
            let found = found.filter(|secret| !secret.deleting());
            let found = found.ok_or_else(|| rejected("Token has been invalidated"))?;
            if !holds(&found, token) {
                return Err(rejected("Token does not match server's copy"));
            }
        }
        let found = self.object(ACCOUNTS, Some(namespace), &account.name, &account.uid).await?;
        let found =
            found.ok_or_else(|| rejected(format!("serviceaccounts \"{}\" not found", account.name)))?;
        if found.uid() != account.uid {
            let (is, says) = (found.uid(), &account.uid);
            return Err(rejected(format!("service account UID ({is}) does not match claim ({says})")));
        }
        if self.is_over(&found) || *is_of_secret && found.deleting() {
            return Err(rejected(format!("service account {namespace}/{} has been deleted", account.name)));
        }
        // The node of a pod is only told of.
        let node = node.as_ref().filter(|_| pod.is_none());
        let secret = secret.as_ref().filter(|_| !is_of_secret);
        let bound = [("secrets", "secret", secret), ("pods", "pod", pod.as_ref()), ("nodes", "node", node)];
        for (plural, what, bound) in bound {
            let Some(Reference { name, uid }) = bound else { continue };
            let namespace = (plural != "nodes").then_some(namespace.as_str());
            let found = self.object(plural, namespace, name, uid).await?.ok_or_else(gone)?;
            if found.uid() != uid {
                let mut of = what.to_owned();
                if let Some(first) = of.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                let is = found.uid();
                let why = format!("{of} UID ({is}) does not match service account {what} ref claim ({uid})");
                return Err(rejected(why));
            }
            if self.is_over(&found) {
                return Err(gone());
            }
        }
        Ok(())
    }

    /// True for an object whose deletion began a while ago.
    fn is_over(&self, object: &StoredObject) -> bool {
        if !object.deleting() {
            return false;
        }
        let tree = json::parse(object.json()).ok();
        let time = tree.as_ref().and_then(|tree| tree.at(&["metadata", "deletionTimestamp"])?.as_str());
        time.and_then(|time| meta::time::parse(time).ok()).is_none_or(|time| time < self.now - LEEWAY)
    }

    /// The object of a name, as this process knows it, its own writes included; as the store has it, if it is not known with
    /// this uid.
    async fn object(
        &self,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
        uid: &str,
    ) -> Result<Option<Arc<StoredObject>>, Rejected> {
        let Some(handle) = self.registry.routes().get("", plural) else { return Ok(None) };
        let key = TypeSpec::object_key(namespace, name);
        let found =
            read(&handle, &key, handle.own_writes().map_err(|error| rejected(error.to_string()))?).await?;
        if found.as_ref().is_some_and(|found| found.uid() == uid) {
            return Ok(found);
        }
        read(&handle, &key, Freshness::Latest).await
    }
}

async fn read(
    handle: &ResourceHandle,
    key: &str,
    freshness: Freshness,
) -> Result<Option<Arc<StoredObject>>, Rejected> {
    let found = handle.read(key, freshness, Deadline::after(LOOK)).await;
    found.map_err(|error| rejected(error.to_string()))
}

/// Returns true if a secret holds this very token.
fn holds(secret: &StoredObject, token: &str) -> bool {
    let tree = json::parse(secret.json()).ok();
    let held = tree.as_ref().and_then(|tree| tree.at(&["data", "token"])).and_then(Value::as_str);
    held.and_then(|held| BASE64.decode(held).ok()).is_some_and(|held| held == token.as_bytes())
}
