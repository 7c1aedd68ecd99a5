//! Reviews by others: by a host, another API server behind which this one is an extension; or by roles and bindings.
//!
//! Here the questions are only asked; the binary owns the connection to the host. What this server knows by itself
//! (certificates, tokens of its own, a front proxy's headers, `system:masters`, paths that everybody may read) is never asked,
//! and a review whose answer is in memory costs no wait (apiserver `pkg/authentication/authenticatorfactory`,
//! `pkg/authorization/{authorizerfactory,path,union}`, 1.37; requirement B-02).

use std::sync::Arc;

use futures::future::BoxFuture;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::{MASTERS, User};
use kindom_objects::review::ListedRules;

use super::{Attributes, Denial, deny};

/// A verdict that is in memory, or one that the host still has to give.
pub enum Review<T> {
    /// Known by now.
    Known(T),
    /// The host is asked. Dropping the future gives up the wait, not the question.
    Asked(BoxFuture<'static, T>),
}

impl<T> Review<T> {
    /// The verdict, at once if it is known.
    pub(crate) async fn verdict(self) -> T {
        match self {
            Self::Known(verdict) => verdict,
            Self::Asked(asked) => asked.await,
        }
    }
}

/// The reason why there is no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreviewed {
    /// Too many reviews wait already: the host was not asked.
    #[error("too many reviews wait for the host")]
    Busy,
    /// The host gave none; the text is the host's, or names the failure.
    #[error("{0}")]
    Failed(Arc<str>),
}

/// Identifies users by their bearer tokens (TokenReview).
pub trait TokenReviewer: Send + Sync {
    /// The user whose token it is, without the implied groups; `None` if it is nobody's.
    fn review(&self, token: &str) -> Review<Result<Option<Arc<User>>, Unreviewed>>;
}

/// The question if a user may do something, as SubjectAccessReview puts it.
pub struct AccessQuestion<'a> {
    /// The user.
    pub user: &'a User,
    /// The action.
    pub attributes: Attributes<'a>,
    /// The version of the resource; empty for a path.
    pub version: &'a str,
    /// The fields by which a list, a watch or a deletecollection selects; empty if the selector does not parse.
    pub fields: FieldSelector,
    /// The labels, likewise.
    pub labels: LabelSelector,
    /// Somebody reads the reason of a permission.
    pub wants_reason: bool,
}

/// A reviewer's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The user may; with a reason, if the question asks for it and there is one.
    Allowed(Option<Arc<str>>),
    /// The user may not, for this reason; the reason may be empty.
    Denied(Arc<str>),
    /// Nothing allows it; likewise.
    NoOpinion(Arc<str>),
}

/// Decides what users may do (SubjectAccessReview).
pub trait AccessReviewer: Send + Sync {
    /// The decision. If a host says both that it allows and that it denies, that is a failure.
    fn review(&self, question: &AccessQuestion<'_>) -> Review<Result<Decision, Unreviewed>>;

    /// Everything that a user may do in a namespace, by roles; `None` if the reviewer cannot tell.
    fn rules(
        &self,
        user: &User,
        namespace: &str,
    ) -> Option<BoxFuture<'static, Result<ListedRules, Unreviewed>>>;
}

/// Authorization that somebody decides.
pub struct Authorization {
    /// The name under which upstream's union of authorizers quotes the reviewer's reasons.
    pub name: &'static str,
    /// Asked for what is not decided here.
    pub reviewer: Arc<dyn AccessReviewer>,
    /// The paths that everybody may use.
    pub always_allow: AlwaysAllowPaths,
}

/// The reviews that others make; by default none.
#[derive(Default)]
pub struct Delegation {
    /// Identifies users by tokens that are not this server's own.
    pub tokens: Option<Arc<dyn TokenReviewer>>,
    /// Decides what users may do, instead of the mode AlwaysAllow.
    pub authorization: Option<Authorization>,
    /// Names the flows of users. Seeded: nobody can choose a name that shares another's flow.
    pub flows: foldhash::quality::RandomState,
}

/// A request is not let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The user may not.
    Denied(Denial),
    /// Nobody knows.
    Unreviewed(Unreviewed),
}

impl Authorization {
    /// Decides if the user may do it: `system:masters` always, others by the paths that are open, else by the reviewer. Waits
    /// only if the answer is not in memory. Returns the reason of a permission, if the question asks for it and there is one.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) async fn authorize(&self, question: AccessQuestion<'_>) -> Result<Option<Arc<str>>, Refused> {
        let (user, attributes) = (question.user, question.attributes);
        let review = self.review(&question);
        // Its selectors need not wait.
        drop(question);
        let reason = match review.verdict().await.map_err(Refused::Unreviewed)? {
            Decision::Allowed(reason) => return Ok(reason),
            decision => self.reason(decision),
        };
        let mut denial = deny(user, &attributes);
        if !reason.is_empty() {
            denial.message = format!("{}: {reason}", denial.message);
        }
        denial.reason = reason;
        Err(Refused::Denied(denial))
    }

    /// The decision, as for [`authorize`](Self::authorize).
    pub(crate) fn review(&self, question: &AccessQuestion<'_>) -> Review<Result<Decision, Unreviewed>> {
        match question.user.is_in(MASTERS) || self.always_allow.has(&question.attributes) {
            true => Review::Known(Ok(Decision::Allowed(None))),
            false => self.reviewer.review(question),
        }
    }

    /// The reason of a decision, as upstream's union of authorizers quotes it; empty if there is none.
    pub(crate) fn reason(&self, decision: Decision) -> String {
        match decision {
            Decision::Allowed(reason) => reason.map(|reason| reason.to_string()).unwrap_or_default(),
            Decision::Denied(reason) => reason.to_string(),
            Decision::NoOpinion(reason) if reason.is_empty() => String::new(),
            Decision::NoOpinion(reason) => format!("{}: {reason}", self.name),
        }
    }
}

/// Paths of no resource that everybody may use, such as those of health checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlwaysAllowPaths {
    paths: Vec<String>,
    prefixes: Vec<String>,
}

impl AlwaysAllowPaths {
    /// Each path as it is, or with a `*` at its end for everything that begins so; a leading `/` may be absent.
    ///
    /// # Errors
    /// A `*` elsewhere, in upstream's words.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut all = Self::default();
        for path in paths {
            let path = path.strip_prefix('/').unwrap_or(path);
            match path.split_once('*') {
                None => all.paths.push(path.to_owned()),
                Some((prefix, "")) => all.prefixes.push(prefix.to_owned()),
                Some(_) => {
                    return Err(format!("only trailing * allowed in {}", kindom_api::field::go_quote(path)));
                }
            }
        }
        Ok(all)
    }

    fn has(&self, attributes: &Attributes<'_>) -> bool {
        let Attributes::Path { path, .. } = attributes else { return false };
        let path = path.strip_prefix('/').unwrap_or(path);
        self.paths.iter().any(|allowed| allowed == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Answers everything alike.
    struct Always(Result<Decision, Unreviewed>);

    impl AccessReviewer for Always {
        fn review(&self, _: &AccessQuestion<'_>) -> Review<Result<Decision, Unreviewed>> {
            Review::Known(self.0.clone())
        }

        fn rules(&self, _: &User, _: &str) -> Option<BoxFuture<'static, Result<ListedRules, Unreviewed>>> {
            None
        }
    }

    fn user(groups: &[&str]) -> User {
        User {
            name: "jane".to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..User::default()
        }
    }

    fn authorize(
        answer: Result<Decision, Unreviewed>,
        groups: &[&str],
        attributes: Attributes<'_>,
    ) -> Result<Option<Arc<str>>, Refused> {
        let paths = ["/healthz", "/readyz", "/livez", "open/*"];
        let authorization = Authorization {
            name: "kubernetes.io/webhook",
            reviewer: Arc::new(Always(answer)),
            always_allow: AlwaysAllowPaths::new(paths).unwrap(),
        };
        let user = user(groups);
        let question = AccessQuestion {
            user: &user,
            attributes,
            version: "",
            fields: FieldSelector::default(),
            labels: LabelSelector::default(),
            wants_reason: false,
        };
        authorization.authorize(question).now_or_never().expect("no wait for what is known")
    }

    fn path(path: &str) -> Attributes<'_> {
        Attributes::Path { verb: "get", path }
    }

    #[test]
    fn some_are_never_asked_about() {
        let failed = || Err(Unreviewed::Failed("away".into()));
        assert_eq!(authorize(failed(), &["dev", MASTERS], path("/apis")), Ok(None));
        for open in ["/healthz", "/readyz", "/livez", "/open/", "/open/a/b"] {
            assert_eq!(authorize(failed(), &[], path(open)), Ok(None), "{open}");
        }
        for asked in ["/healthz/", "/livez/ping", "/", "/open", "/metrics", "/healthz*"] {
            let refused = Refused::Unreviewed(Unreviewed::Failed("away".into()));
            assert_eq!(authorize(failed(), &[], path(asked)), Err(refused), "{asked}");
        }
        // A resource is no path.
        let resource = Attributes::Resource {
            verb: "get",
            group: "",
            resource: "healthz",
            subresource: "",
            namespace: "",
            name: "",
        };
        assert!(authorize(failed(), &[], resource).is_err());
    }

    #[test]
    fn refusals_have_the_hosts_reason() {
        let message = |decision| match authorize(Ok(decision), &[], path("/apis")) {
            Err(Refused::Denied(denial)) => denial.message,
            other => panic!("{other:?}"),
        };
        let plain = "User \"jane\" cannot get path \"/apis\"";
        assert_eq!(message(Decision::NoOpinion("".into())), plain);
        assert_eq!(message(Decision::Denied("".into())), plain);
        assert_eq!(message(Decision::Denied("no".into())), format!("{plain}: no"));
        assert_eq!(
            message(Decision::NoOpinion("why".into())),
            format!("{plain}: kubernetes.io/webhook: why")
        );
        assert_eq!(authorize(Ok(Decision::Allowed(None)), &[], path("/apis")), Ok(None));
    }

    #[test]
    fn only_the_end_of_a_path_is_open() {
        assert_eq!(AlwaysAllowPaths::new(["/a/*/b"]).unwrap_err(), "only trailing * allowed in \"a/*/b\"");
        assert_eq!(AlwaysAllowPaths::new(["a**"]).unwrap_err(), "only trailing * allowed in \"a**\"");
        let all = AlwaysAllowPaths::new(["*"]).unwrap();
        assert!(all.has(&path("/anything")) && !AlwaysAllowPaths::new([""]).unwrap().has(&path("/a")));
        assert!(AlwaysAllowPaths::new(["/"]).unwrap().has(&path("/")));
    }
}
