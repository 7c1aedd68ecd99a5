//! The claims of a token: who it is for, how long, and what it is bound to.

use kindom_api::{Map, Value, object};

/// The leeway for clocks that differ, in seconds (go-jose `jwt.DefaultLeeway`).
pub(crate) const LEEWAY: i64 = 60;

/// An object by name and uid; the uid is empty where none is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// The claims of a token. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// The namespace of the account.
    pub namespace: String,
    /// The account.
    pub account: Reference,
    /// Those for whom the token is meant; empty in a token of a secret, which is for this server alone.
    pub audiences: Vec<String>,
    /// The secret that the token ends with.
    pub secret: Option<Reference>,
    /// The pod, likewise.
    pub pod: Option<Reference>,
    /// The node: of the pod, or, without a pod, what the token ends with.
    pub node: Option<Reference>,
    /// The name of the token (`jti`); empty in a token of a secret.
    pub id: String,
    /// The start of its time.
    pub not_before: Option<i64>,
    /// The time at which it was issued.
    pub issued_at: Option<i64>,
    /// The end of its time; `None` for a token of a secret, which has none.
    pub expires: Option<i64>,
    /// True for a token that a secret holds (`legacyPrivateClaims`).
    pub is_of_secret: bool,
}

/// The name of the user that an account is (`MakeUsername`).
#[must_use]
pub fn user_name(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

impl Reference {
    fn to_value(&self) -> Value {
        object! { "name": self.name.as_str(), "uid": self.uid.as_str() }
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        let value = value.filter(|value| !value.is_null())?;
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { name: text("name"), uid: text("uid") })
    }
}

impl Claims {
    /// The payload, with upstream's members in upstream's order, which is that of their names.
    pub(crate) fn payload(&self, issuer: &str) -> Value {
        let mut all = Map::new();
        all.insert("iss", issuer);
        all.insert("sub", user_name(&self.namespace, &self.account.name));
        if self.is_of_secret {
            let secret = self.secret.as_ref().map(|secret| secret.name.as_str()).unwrap_or_default();
            for (name, value) in [
                ("namespace", self.namespace.as_str()),
                ("secret.name", secret),
                ("service-account.name", &self.account.name),
                ("service-account.uid", &self.account.uid),
            ] {
                all.insert(format!("kubernetes.io/serviceaccount/{name}"), value);
            }
            return Value::Object(all);
        }
        let mut kubernetes = Map::new();
        kubernetes.insert("namespace", self.namespace.as_str());
        kubernetes.insert("serviceaccount", self.account.to_value());
        for (name, bound) in [("secret", &self.secret), ("pod", &self.pod), ("node", &self.node)] {
            if let Some(bound) = bound {
                kubernetes.insert(name, bound.to_value());
            }
        }
        all.insert("kubernetes.io", Value::Object(kubernetes));
        let audiences: Vec<Value> = self.audiences.iter().map(|audience| audience.as_str().into()).collect();
        all.insert("aud", Value::Array(audiences.into()));
        all.insert("jti", self.id.as_str());
        for (name, time) in [("nbf", self.not_before), ("iat", self.issued_at), ("exp", self.expires)] {
            if let Some(time) = time {
                all.insert(name, time);
            }
        }
        Value::Object(all)
    }

    /// Reads a payload whose signature holds; `None` if it has not the shape of one.
    pub(crate) fn read(payload: &Value, is_of_secret: bool) -> Option<Self> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let time = |name| match payload.get(name) {
            None => Some(None),
            Some(value) => value.as_i64().map(Some),
        };
        let mut claims = Self {
            id: text(payload.get("jti")),
            not_before: time("nbf")?,
            issued_at: time("iat")?,
            expires: time("exp")?,
            is_of_secret,
            ..Self::default()
        };
        claims.audiences = match payload.get("aud") {
            None => Vec::new(),
            Some(Value::Array(all)) => {
                all.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
            Some(one) => vec![one.as_str()?.to_owned()],
        };
        if is_of_secret {
            let of = |name: &str| text(payload.get(&format!("kubernetes.io/serviceaccount/{name}")));
            claims.namespace = of("namespace");
            claims.account = Reference { name: of("service-account.name"), uid: of("service-account.uid") };
            claims.secret = Some(Reference { name: of("secret.name"), uid: String::new() });
        } else {
            let kubernetes = payload.get("kubernetes.io")?;
            claims.namespace = text(kubernetes.get("namespace"));
            claims.account = Reference::read(kubernetes.get("serviceaccount"))?;
            claims.secret = Reference::read(kubernetes.get("secret"));
            claims.pod = Reference::read(kubernetes.get("pod"));
            claims.node = Reference::read(kubernetes.get("node"));
        }
        let subject = payload.get("sub").and_then(Value::as_str).unwrap_or_default();
        let is_whole = !claims.namespace.is_empty()
            && !claims.account.name.is_empty()
            && !claims.account.uid.is_empty()
            && subject == user_name(&claims.namespace, &claims.account.name);
        is_whole.then_some(claims)
    }

    /// The reason why the token does not hold at a time; `None` if it does.
    pub(crate) fn wrong_at(&self, now: i64) -> Option<&'static str> {
        let before = |time: Option<i64>| time.is_some_and(|time| now.saturating_add(LEEWAY) < time);
        if before(self.not_before) {
            return Some("service account token is not valid yet");
        }
        if self.expires.is_some_and(|end| now.saturating_sub(LEEWAY) > end) {
            return Some("service account token has expired");
        }
        before(self.issued_at).then_some("service account token is issued in the future")
    }
}
