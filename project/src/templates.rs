//! The texts of a project's files.

use std::collections::BTreeMap;
use std::path::Path;

use kindom_naming::plural;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::manifest::{FILE, Kind, Manifest, Served};
use crate::plan::{Part, Plan};
use crate::source::Source;

macro_rules! template {
    ($path:literal) => {
        ($path, include_str!(concat!("../templates/", $path)))
    };
}

/// The texts with blanks, by the paths that most of them have in a project.
const TEMPLATES: [(&str, &str); 33] = [
    template!("Cargo.toml"),
    template!("README.md"),
    template!("apis/Cargo.toml"),
    template!("apis/imported.rs"),
    template!("apis/imported_test.rs"),
    template!("apis/kind.rs"),
    template!("apis/kind_test.rs"),
    template!("apis/lib.rs"),
    template!("apis/samples_test.rs"),
    template!("apis/subresource.rs"),
    template!("apis/subresource_test.rs"),
    template!("apis/version.rs"),
    template!("apis/version_test.rs"),
    template!("apiserver/Cargo.toml"),
    template!("apiserver/main.rs"),
    template!("ci"),
    template!("config/apiserver.yaml"),
    template!("config/apiservices.yaml"),
    template!("config/controller-manager.yaml"),
    template!("config/etcd.yaml"),
    template!("config/kustomization.yaml"),
    template!("config/namespace.yaml"),
    template!("config/rbac.yaml"),
    template!("controller-manager/Cargo.toml"),
    template!("controller-manager/main.rs"),
    template!("controllers/Cargo.toml"),
    template!("controllers/kind.rs"),
    template!("controllers/kind_test.rs"),
    template!("controllers/lib.rs"),
    template!("docs/index.html"),
    template!("docs/kind.html"),
    template!("gitignore"),
    template!("sample.yaml"),
];

/// The versions with which kindom's own tests have passed, so that a project compiles without asking a registry. Cargo takes the
/// entries away that the project does not need.
const LOCK: &str = include_str!("../../Cargo.lock");

/// Fills in the blanks.
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|error| broken(&error))?);
        environment.set_auto_escape_callback(|name| match name.ends_with(".html") {
            true => AutoEscape::Html,
            false => AutoEscape::None,
        });
        environment.add_filter("yaml", |text: String| yaml(&text));
        environment.add_global("style", include_str!("../templates/docs/style.css"));
        environment.add_filter("rust", |text: String| format!("{text:?}"));
        environment.add_filter("docs", |text: String| docs(&text));
        environment.add_filter("paragraphs", |text: String| paragraphs(&text));
        for (name, text) in TEMPLATES {
            environment.add_template(name, text).map_err(|error| broken(&error))?;
        }
        Ok(Self { environment })
    }

    /// The text of one of them.
    pub(crate) fn fill(&self, name: &str, blanks: &Value) -> Result<String, Error> {
        let template = self.environment.get_template(name).map_err(|error| broken(&error))?;
        template.render(Serde(blanks)).map_err(|error| broken(&error))
    }

    /// The files that a project has whatever its kinds.
    pub(crate) fn project(&self, manifest: &Manifest, source: &Source, plan: &mut Plan) -> Result<(), Error> {
        let crates = ["controller", "server", "testing"];
        let source: BTreeMap<&str, String> = crates.map(|name| (name, source.dependency(name))).into();
        let blanks =
            json!({ "domain": manifest.domain, "source": source, "one_process": manifest.one_process });
        let shared = ["Cargo.toml", "apis/Cargo.toml", "controllers/Cargo.toml"].map(str::to_owned);
        let of_program = |name: &str| [format!("{name}/Cargo.toml"), format!("{name}/main.rs")];
        let of_programs = manifest.programs().iter().flat_map(|program| of_program(program.name()));
        for name in &shared.into_iter().chain(of_programs).collect::<Vec<_>>() {
            plan.add(name, self.fill(name, &blanks)?, Part::Needed);
        }
        plan.add("Cargo.lock", LOCK.to_owned(), Part::Kept);
        for (name, path) in [("README.md", "README.md"), ("gitignore", ".gitignore")] {
            plan.add(path, self.fill(name, &blanks)?, Part::Kept);
        }
        plan.add_executable("ci", self.fill("ci", &blanks)?);
        self.roots(manifest, plan)
    }

    /// The files that follow from the kinds of a project, and the manifest.
    pub(crate) fn roots(&self, manifest: &Manifest, plan: &mut Plan) -> Result<(), Error> {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for kind in &manifest.kinds {
            let group = groups.entry(kind.group_module()).or_default();
            group.module = kind.group_module();
            group.name = manifest.group_name(kind);
            group.add(kind);
        }
        let mut controllers: Vec<Named> =
            manifest.kinds.iter().filter(|kind| kind.controller).map(Named::of).collect();
        controllers.sort();
        let blanks = json!({
            "domain": manifest.domain,
            "groups": groups.into_values().collect::<Vec<_>>(),
            "controllers": controllers,
        });
        for name in ["apis/lib.rs", "controllers/lib.rs"] {
            plan.add(name, self.fill(name, &blanks)?, Part::Generated);
        }
        // The first list names it.
        let samples_test = "apis/samples_test.rs";
        plan.add(samples_test, self.fill(samples_test, &blanks)?, Part::Kept);
        plan.add(FILE, manifest.text(), Part::Manifest);
        Ok(())
    }

    /// The files of a version of a kind.
    pub(crate) fn version(
        &self,
        manifest: &Manifest,
        kind: &Kind,
        version: &str,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        let (code, test) = match version == kind.hub() {
            true => ("apis/kind.rs", "apis/kind_test.rs"),
            false => ("apis/version.rs", "apis/version_test.rs"),
        };
        let blanks = blanks(manifest, kind, version);
        let source = kind.source(version);
        plan.add(&source, self.fill(code, &blanks)?, Part::Needed);
        plan.add(test_of(&source), self.fill(test, &blanks)?, Part::Needed);
        let sample = Path::new("samples").join(kind.sample(version));
        plan.add(sample, self.fill("sample.yaml", &blanks)?, Part::Needed);
        Ok(())
    }

    /// The files of a kind whose types were made of a registration; `more` is what its file says beside its names.
    pub(crate) fn imported(
        &self,
        manifest: &Manifest,
        kind: &Kind,
        more: &Value,
        sample: &str,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        let blanks = with(blanks(manifest, kind, kind.hub()), more);
        let source = kind.source(kind.hub());
        plan.add(&source, self.fill("apis/imported.rs", &blanks)?, Part::Needed);
        plan.add(test_of(&source), self.fill("apis/imported_test.rs", &blanks)?, Part::Needed);
        plan.add(Path::new("samples").join(kind.sample(kind.hub())), sample.to_owned(), Part::Needed);
        Ok(())
    }

    /// The files of a subresource of a kind.
    pub(crate) fn subresource(
        &self,
        manifest: &Manifest,
        kind: &Kind,
        served: &Served,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        let blanks = blanks(manifest, kind, kind.hub());
        let verb = served.verbs.iter().find(|verb| *verb == "get").or(served.verbs.first());
        let more = json!({
            "resource": kind.resource,
            "subresource": served.name,
            "file": kind.subresource_module(served),
            "function": served.function(),
            "verb": verb,
        });
        let blanks = with(blanks, &more);
        let source =
            kind.source(kind.hub()).with_file_name(format!("{}.rs", kind.subresource_module(served)));
        plan.add(&source, self.fill("apis/subresource.rs", &blanks)?, Part::Needed);
        plan.add(test_of(&source), self.fill("apis/subresource_test.rs", &blanks)?, Part::Needed);
        Ok(())
    }

    /// The files of a kind's controller.
    pub(crate) fn controller(&self, manifest: &Manifest, kind: &Kind, plan: &mut Plan) -> Result<(), Error> {
        let mut blanks = blanks(manifest, kind, kind.hub());
        if kind.imported.is_some() {
            // Only a status of the templates' own says which generation was seen.
            blanks = with(blanks, &json!({ "status": false }));
        }
        let source = Path::new("controllers").join(format!("{}.rs", kind.module()));
        plan.add(&source, self.fill("controllers/kind.rs", &blanks)?, Part::Needed);
        plan.add(test_of(&source), self.fill("controllers/kind_test.rs", &blanks)?, Part::Needed);
        Ok(())
    }
}

/// A name as a scalar of YAML: quoted if it would be a number, a truth or nothing (YAML 1.1, which kubectl reads).
fn yaml(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let is_word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    match is_word || !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

/// The paragraphs of a doc comment, each on one line.
fn paragraphs(text: &str) -> Vec<String> {
    let one_line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(one_line).filter(|paragraph| !paragraph.is_empty()).collect()
}

/// A text as the doc comment of an item.
fn docs(text: &str) -> String {
    let lines = text.lines().map(|line| format!("/// {}", line.trim_end().replace('\r', " ")));
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Blanks with more of them.
fn with(mut blanks: Value, more: &Value) -> Value {
    if let (Some(blanks), Some(more)) = (blanks.as_object_mut(), more.as_object()) {
        blanks.extend(more.clone());
    }
    blanks
}

fn test_of(source: &Path) -> std::path::PathBuf {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    source.with_file_name(format!("{stem}_test.rs"))
}

fn blanks(manifest: &Manifest, kind: &Kind, version: &str) -> Value {
    let by_default = plural(&kind.kind.to_ascii_lowercase());
    json!({
        "group": manifest.group_name(kind),
        "group_module": kind.group_module(),
        "kind": kind.kind,
        "module": kind.module(),
        "plural": (kind.resource != by_default).then_some(&kind.resource),
        "short_names": kind.short_names,
        "namespaced": kind.namespaced,
        "status": kind.status,
        "scale": kind.scale,
        // Of an imported kind the templates know no other fields.
        "imported": kind.imported.is_some(),
        "types_of": kind.imported.as_ref().map_or(&kind.kind, |of| &of.types),
        "has_status": kind.imported.as_ref().map_or(kind.status, |of| of.status),
        "scale_paths": kind.imported.as_ref().and_then(|of| of.scale.as_ref()).map(|scale| {
            json!({ "spec": scale.spec, "status": scale.status, "selector": scale.selector })
        }),
        "needs_spec": kind.imported.as_ref().is_some_and(|of| !of.optional_spec),
        "version": version,
        "hub": kind.hub(),
        "sample": kind.sample(version),
        "object": kind.object(version),
    })
}

/// A mistake in the texts of this crate, which the tests of each of them would find.
fn broken(error: &minijinja::Error) -> Error {
    Error::refused(format!("a template of kindom's own is wrong: {error:#}"))
}

#[derive(Default, Serialize)]
struct Group {
    module: String,
    name: String,
    versions: BTreeMap<String, Vec<Named>>,
    kinds: Vec<Stored>,
}

/// A kind, by the order of its module.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Named {
    module: String,
    kind: String,
    /// The modules of its subresources.
    files: Vec<String>,
}

#[derive(Serialize)]
struct Stored {
    module: String,
    kind: String,
    hub: String,
    others: Vec<String>,
    subresources: Vec<Handled>,
}

/// A subresource, and the function that answers it.
#[derive(Serialize)]
struct Handled {
    name: String,
    verbs: Vec<String>,
    file: String,
    function: String,
}

impl Named {
    fn of(kind: &Kind) -> Self {
        Self { module: kind.module(), kind: kind.kind.clone(), files: Vec::new() }
    }
}

impl Group {
    fn add(&mut self, kind: &Kind) {
        for version in &kind.versions {
            let kinds = self.versions.entry(version.clone()).or_default();
            let is_hub = version == kind.hub();
            let served = kind.subresources.iter().filter(|_| is_hub);
            let files = served.map(|served| kind.subresource_module(served)).collect();
            kinds.push(Named { files, ..Named::of(kind) });
            kinds.sort();
        }
        let others = kind.versions.iter().skip(1).cloned().collect();
        let handled = |served: &Served| Handled {
            name: served.name.clone(),
            verbs: served.verbs.clone(),
            file: kind.subresource_module(served),
            function: served.function(),
        };
        let subresources = kind.subresources.iter().map(handled).collect();
        let (module, name, hub) = (kind.module(), kind.kind.clone(), kind.hub().to_owned());
        self.kinds.push(Stored { module, kind: name, hub, others, subresources });
        self.kinds.sort_by(|a, b| a.module.cmp(&b.module));
    }
}
