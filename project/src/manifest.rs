//! `kindom.json`: the kinds of a project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kindom_api::crd::Scale;
use kindom_naming::{refuse_group, refuse_kind, refuse_label, refuse_version};
use serde::{Deserialize, Serialize};

use crate::arguments::Program;
use crate::error::Error;

/// The name of the file.
pub(crate) const FILE: &str = "kindom.json";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Manifest {
    /// The end of every group's name.
    pub(crate) domain: String,
    /// The controllers run in the API server's process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) one_process: bool,
    #[serde(default)]
    pub(crate) kinds: Vec<Kind>,
}

/// A kind with all of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Kind {
    /// The group without the domain.
    pub(crate) group: String,
    pub(crate) kind: String,
    /// The plural.
    pub(crate) resource: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    #[serde(default)]
    pub(crate) scale: bool,
    /// True if a controller was written for it.
    pub(crate) controller: bool,
    /// The first one is stored, and is the form on which the rules work.
    pub(crate) versions: Vec<String>,
    /// The subresources that the program answers itself, beside status and scale.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) subresources: Vec<Served>,
    /// Its types were made of a registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) imported: Option<Imported>,
}

/// The form of a kind whose types were made of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Imported {
    /// The beginning of its types' names, which is the kind in UpperCamelCase.
    pub(crate) types: String,
    /// An object may have no spec.
    pub(crate) optional_spec: bool,
    /// An object may have a status, whether or not it is written through `/status` alone.
    pub(crate) status: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<ScalePaths>,
}

/// The places of replicas in an object, as paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
}

impl ScalePaths {
    pub(crate) fn of(scale: &Scale) -> Self {
        Self {
            spec: scale.spec_replicas_path.clone(),
            status: scale.status_replicas_path.clone(),
            selector: scale.label_selector_path.clone(),
        }
    }
}

/// A subresource that the program answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Served {
    pub(crate) name: String,
    /// Of `create`, `delete`, `get`, `patch` and `update`, in this order.
    pub(crate) verbs: Vec<String>,
}

/// The verbs of a subresource.
pub(crate) const VERBS: [&str; 5] = ["create", "delete", "get", "patch", "update"];

/// The most letters of a subresource's name, and subresources of a kind, as the server has them
/// (`objects/src/declared_subresources.rs`).
const SUBRESOURCE_LETTERS: usize = 32;
const SUBRESOURCES_MAX: usize = 16;

/// Names that the code of a kind, or its tests, use for something else.
const TAKEN: [&str; 17] = [
    "Api",
    "Box",
    "Default",
    "Deserialize",
    "Error",
    "From",
    "JsonSchema",
    "ObjectMeta",
    "Option",
    "PostParams",
    "Result",
    "Serialize",
    "String",
    "SubresourceAnswer",
    "SubresourceError",
    "SubresourceRequest",
    "TestServer",
];

/// Names of groups whose modules would stand beside the crate of that name.
const TAKEN_GROUPS: [&str; 1] = ["kindom-server"];

/// Rust's keywords, those that are reserved, and `mod`, whose file means something else.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

impl Served {
    /// The function that answers it.
    pub(crate) fn function(&self) -> String {
        module(&self.name)
    }
}

/// The name of the module of a group or a kind.
fn module(name: &str) -> String {
    let mut module = name.to_ascii_lowercase().replace('-', "_");
    // A module that has its parent's name is taken for a mistake, by clippy.
    let is_parent = refuse_version(&module).is_none() || module == "tests";
    let is_root = ["lib", "main"].contains(&module.as_str());
    if KEYWORDS.contains(&module.as_str()) || is_root || is_parent {
        module.push('_');
    }
    module
}

impl Manifest {
    /// A project without kinds.
    pub(crate) fn new(domain: &str, one_process: bool) -> Result<Self, Error> {
        let manifest = Self { domain: domain.to_owned(), one_process, kinds: Vec::new() };
        manifest.check_domain().map_err(|why| Error::refused(format!("--domain {domain:?}: {why}")))?;
        Ok(manifest)
    }

    /// Reads the file of a folder; none if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", Path::new(FILE))(error)),
        };
        let wrong = |why: String| Error::refused(format!("{FILE}: {why}"));
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        manifest.check().map_err(wrong)?;
        Ok(Some(manifest))
    }

    /// As [`read`](Self::read), in a folder that has to be a project's.
    pub(crate) fn need(folder: &Path) -> Result<Self, Error> {
        Self::read(folder)?.ok_or_else(|| {
            Error::refused(format!(
                "this folder has no {FILE}: it is not that of a project; kindom init repo --domain DOMAIN makes one"
            ))
        })
    }

    /// The programs of the project.
    pub(crate) fn programs(&self) -> &'static [Program] {
        if self.one_process { &[Program::Apiserver] } else { &Program::ALL }
    }

    /// The programs that a flag names, in their order; all of the project if it names none.
    pub(crate) fn chosen(&self, flag: &str, named: &[Program]) -> Result<Vec<Program>, Error> {
        let mut chosen = if named.is_empty() { self.programs() } else { named }.to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        match chosen.iter().find(|program| !self.programs().contains(program)) {
            Some(program) => Err(Error::refused(format!(
                "--{flag} {}: the controllers of this project run in the API server's process ({FILE})",
                program.name()
            ))),
            None => Ok(chosen),
        }
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    pub(crate) fn find(&self, group: &str, kind: &str) -> Option<usize> {
        self.kinds.iter().position(|known| known.group == group && known.kind == kind)
    }

    fn check_domain(&self) -> Result<(), String> {
        // A group is a label in front of it.
        if refuse_group(&format!("a.{}", self.domain)).is_some() {
            return Err(
                "a domain has lower-case letters, digits, dashes and dots, such as example.com".to_owned()
            );
        }
        let is_under = |parent: &str| self.domain == parent || self.domain.ends_with(&format!(".{parent}"));
        match ["k8s.io", "kubernetes.io"].into_iter().find(|parent| is_under(parent)) {
            Some(parent) => Err(format!("{parent} is Kubernetes' own, whose groups need an approval")),
            None => Ok(()),
        }
    }

    /// Checks everything, as people edit the file.
    fn check(&self) -> Result<(), String> {
        self.check_domain().map_err(|why| format!("domain: {why}"))?;
        let mut before =
            Self { domain: self.domain.clone(), one_process: self.one_process, kinds: Vec::new() };
        for (at, kind) in self.kinds.iter().enumerate() {
            before.check_next(kind).map_err(|(field, why)| format!("kinds[{at}].{field}: {why}"))?;
            before.kinds.push(kind.clone());
        }
        Ok(())
    }

    /// Checks a kind that is to stand beside those before it; the first text is the field.
    pub(crate) fn check_next(&self, kind: &Kind) -> Result<(), (&'static str, String)> {
        let owned = |field: &'static str| move |why: &'static str| (field, why.to_owned());
        let none = |refused: Option<&'static str>| refused.map_or(Ok(()), Err);
        // More than a group has to be: a module has its name.
        if refuse_label(&kind.group).is_some() || kind.group.contains("--") {
            let why = "the group without the domain {} is a word of lower-case letters, digits and single dashes, such as sails";
            return Err(("group", why.replace("{}", &self.domain)));
        }
        if TAKEN_GROUPS.contains(&kind.group.as_str()) {
            return Err((
                "group",
                format!("{} is a name that the code of a kind uses for something else", kind.group),
            ));
        }
        none(refuse_group(&self.group_name(kind))).map_err(owned("group"))?;
        none(refuse_kind(&kind.kind)).map_err(owned("kind"))?;
        none(refuse_label(&kind.resource)).map_err(owned("resource"))?;
        if TAKEN.contains(&kind.kind.as_str()) || kind.kind == "Self" {
            return Err((
                "kind",
                format!("{} is a name that the code of a kind uses for something else", kind.kind),
            ));
        }
        for short in &kind.short_names {
            none(refuse_label(short)).map_err(owned("shortNames"))?;
        }
        if kind.scale && !kind.status {
            return Err((
                "scale",
                "a kind that scales has a status, which holds the replicas that there are".to_owned(),
            ));
        }
        if kind.versions.is_empty() {
            return Err(("versions", "a kind has a version".to_owned()));
        }
        let mut versions = BTreeSet::new();
        for version in &kind.versions {
            none(refuse_version(version)).map_err(owned("versions"))?;
            if !versions.insert(version) {
                return Err(("versions", format!("{version} stands there twice")));
            }
        }
        self.check_unique(kind)?;
        kind.check_subresources().map_err(|why| ("subresources", why))
    }

    /// Checks that no other kind has taken the names of this one.
    fn check_unique(&self, kind: &Kind) -> Result<(), (&'static str, String)> {
        for other in &self.kinds {
            let owner = format!("{} of {}", other.kind, self.group_name(other));
            if other.module() == kind.module() {
                let why = format!(
                    "{} would be in the files of {owner}: a project has a name for one kind only",
                    kind.kind
                );
                return Err(("kind", why));
            }
            if other.group != kind.group {
                continue;
            }
            let taken: BTreeSet<String> = other.names().map(|(_, name)| name).collect();
            if let Some((field, name)) = kind.names().find(|(_, name)| taken.contains(name)) {
                return Err((field, format!("{name} is a name of {owner}")));
            }
            if let Some(list) = [&kind.kind, &other.kind]
                .into_iter()
                .find(|name| [kind, other].iter().any(|kind| format!("{}List", kind.kind) == **name))
            {
                return Err(("kind", format!("{list} would be the kind of the lists of another kind")));
            }
        }
        let mut names = BTreeSet::new();
        // A plural may be the singular.
        let repeated =
            kind.names().find(|(field, name)| !names.insert(name.clone()) && *field == "shortNames");
        match repeated {
            Some((field, name)) => Err((field, format!("{name} is a name of the kind twice"))),
            None => Ok(()),
        }
    }

    /// The whole name of a kind's group.
    pub(crate) fn group_name(&self, kind: &Kind) -> String {
        format!("{}.{}", kind.group, self.domain)
    }
}

impl Kind {
    /// The names by which clients call it, each with the field that it follows from (`registry-actor/src/claims.rs`).
    fn names(&self) -> impl Iterator<Item = (&'static str, String)> {
        let own = [("resource", self.resource.clone()), ("kind", self.kind.to_ascii_lowercase())];
        own.into_iter().chain(self.short_names.iter().map(|name| ("shortNames", name.clone())))
    }

    fn check_subresources(&self) -> Result<(), String> {
        if self.subresources.len() > SUBRESOURCES_MAX {
            return Err(format!("a kind has at most {SUBRESOURCES_MAX} of them"));
        }
        let mut names = BTreeSet::new();
        for Served { name, verbs } in &self.subresources {
            // A function has its name.
            if refuse_label(name).is_some() || name.contains("--") || name.len() > SUBRESOURCE_LETTERS {
                return Err(format!(
                    "{name:?}: a name has at most {SUBRESOURCE_LETTERS} lower-case letters, digits and single dashes, and begins with a letter"
                ));
            }
            if ["status", "scale"].contains(&name.as_str()) {
                return Err(format!(
                    "{name} is the server's own: kindom create group version resource --with-{name}"
                ));
            }
            if !names.insert(name) {
                return Err(format!("{name} stands there twice"));
            }
            if verbs.is_empty() {
                return Err(format!("{name} has no verb"));
            }
            if let Some(wrong) = verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
                return Err(format!("{wrong:?} is none of the verbs {}", VERBS.join(", ")));
            }
            if !verbs.is_sorted_by(|a, b| a < b) {
                return Err(format!("the verbs of {name} are not in the order of {}", VERBS.join(", ")));
            }
        }
        Ok(())
    }

    pub(crate) fn module(&self) -> String {
        module(&self.kind)
    }

    /// The module of a subresource's handler, beside the kind's.
    pub(crate) fn subresource_module(&self, served: &Served) -> String {
        let module = format!("{}_{}", self.kind.to_ascii_lowercase(), served.name.replace('-', "_"));
        // The tests of another file would have the same name.
        if module.ends_with("_test") { module + "_" } else { module }
    }

    pub(crate) fn group_module(&self) -> String {
        module(&self.group)
    }

    /// The stored version.
    pub(crate) fn hub(&self) -> &str {
        self.versions.first().map_or("", String::as_str)
    }

    /// The file of a version's type, as the crate `apis` looks for it.
    pub(crate) fn source(&self, version: &str) -> PathBuf {
        Path::new("apis").join(self.group_module()).join(version).join(format!("{}.rs", self.module()))
    }

    /// The name of the file of a version's sample, in `samples`.
    pub(crate) fn sample(&self, version: &str) -> String {
        format!("{}_{version}_{}.yaml", self.group, self.kind.to_ascii_lowercase())
    }

    /// The name of the object in a version's sample.
    pub(crate) fn object(&self, version: &str) -> String {
        let kind = self.kind.to_ascii_lowercase();
        match version == self.hub() {
            true => format!("{kind}-sample"),
            false => format!("{kind}-sample-{version}"),
        }
    }
}
