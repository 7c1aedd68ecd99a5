//! The types whose objects are written.

use serde_json::{Value, json};

use super::shape::Shape::{
    self, Any, AtomicDict, AtomicMap, Default, Dict, IntOrText, Keyed, List, Map, Nullable, Number, Open,
    Set, Text, Truth, Whole,
};
use super::shape::put;
use crate::random::Random;

/// The group of all types.
pub(super) const GROUP: &str = "differential.example.com";

/// The difference between the schemas of v2 and v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    Same,
    /// A part that is granular in one version is atomic in the other.
    Flipped,
    /// The last field of the spec is missing.
    Narrow,
}

/// A type: two versions of a registration that is never changed.
#[derive(Debug, Clone)]
pub struct Type {
    number: usize,
    pub(super) spec: Vec<(String, Shape)>,
    pub(super) status: Vec<(String, Shape)>,
    second: Second,
    /// `true` if `/scale` scales `.spec.replicas`.
    pub(super) scale: bool,
}

impl Type {
    pub(super) fn plural(&self) -> String {
        format!("type{:02}s", self.number)
    }

    pub(super) fn kind(&self) -> String {
        format!("Type{:02}", self.number)
    }

    /// The registration, as it is posted.
    #[must_use]
    pub fn registration(&self) -> Value {
        let mut subresources = json!({"status": {}});
        if self.scale {
            put(
                &mut subresources,
                &["scale"],
                json!({"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}),
            );
        }
        let version = |name: &str, spec: Shape| {
            let schema = json!({"type": "object", "properties": {
                "spec": spec.schema(), "status": Map(self.status.clone()).schema()}});
            json!({"name": name, "served": true, "storage": name == "v1", "subresources": subresources,
                "schema": {"openAPIV3Schema": schema}})
        };
        let second = match self.second {
            Second::Same => self.spec.clone(),
            Second::Flipped => {
                self.spec.iter().map(|(name, shape)| (name.clone(), shape.flipped())).collect()
            }
            Second::Narrow => self.spec.iter().take(self.spec.len().saturating_sub(1)).cloned().collect(),
        };
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{GROUP}", self.plural())},
            "spec": {"group": GROUP, "scope": "Namespaced",
                "names": {"plural": self.plural(), "kind": self.kind()},
                "versions": [version("v1", Map(self.spec.clone())), version("v2", Map(second))]}})
    }

    /// The path of its objects in a version.
    #[must_use]
    pub fn path(&self, version: &str) -> String {
        format!("/apis/{GROUP}/{version}/namespaces/default/{}", self.plural())
    }
}

fn fields(of: &[(&str, Shape)]) -> Vec<(String, Shape)> {
    of.iter().map(|(name, shape)| ((*name).to_owned(), shape.clone())).collect()
}

fn map(of: &[(&str, Shape)]) -> Shape {
    Map(fields(of))
}

fn dict(of: Shape) -> Shape {
    Dict(Box::new(of))
}

fn keyed(keys: &[(&str, Shape)], of: &[(&str, Shape)]) -> Shape {
    Keyed(fields(keys), fields(of))
}

/// Twelve types by hand, which have every kind of list and map, and thirteen by chance.
pub(super) fn all(random: &mut Random) -> Vec<Type> {
    let text = || Box::new(Text);
    let tcp = Default(text(), json!("TCP"));
    let by_hand: Vec<Vec<(String, Shape)>> = vec![
        fields(&[
            ("a", Text),
            ("b", Whole),
            ("m", map(&[("x", Text), ("y", Text), ("z", map(&[("w", Whole)]))])),
        ]),
        fields(&[
            ("m", AtomicMap(fields(&[("x", Text), ("y", map(&[("z", Text)]))]))),
            ("d", AtomicDict(text())),
            ("a", Text),
        ]),
        fields(&[
            ("d", dict(Text)),
            ("e", dict(map(&[("v", Whole), ("w", Text)]))),
            ("f", dict(dict(Whole))),
        ]),
        fields(&[
            ("l", List(text())),
            ("o", List(Box::new(map(&[("a", Text), ("b", Whole)])))),
            ("x", List(Box::new(List(Box::new(Whole))))),
        ]),
        fields(&[("s", Set(text())), ("n", Set(Box::new(Whole))), ("d", dict(Set(text())))]),
        fields(&[("c", keyed(&[("type", Text)], &[("status", Text), ("n", Whole)])), ("a", Text)]),
        fields(&[
            ("p", keyed(&[("port", Whole), ("protocol", tcp)], &[("name", Text), ("target", IntOrText)])),
            ("a", Text),
        ]),
        fields(&[(
            "c",
            keyed(
                &[("name", Text)],
                &[
                    ("image", Text),
                    ("tags", Set(text())),
                    ("env", keyed(&[("key", Text)], &[("value", Text)])),
                    ("opts", dict(Text)),
                ],
            ),
        )]),
        fields(&[
            ("u", Open(Vec::new())),
            ("k", Open(fields(&[("known", Text), ("set", Set(text()))]))),
            ("y", Any),
        ]),
        fields(&[
            ("a", Nullable(text())),
            ("d", Nullable(Box::new(dict(Text)))),
            ("s", Nullable(Box::new(Set(text())))),
            ("m", Nullable(Box::new(map(&[("x", Text), ("y", Text)])))),
            ("c", Nullable(Box::new(keyed(&[("k", Text)], &[("v", Text)])))),
        ]),
        fields(&[
            ("a", Default(text(), json!("auto"))),
            ("m", map(&[("x", Default(Box::new(Whole), json!(3))), ("y", Text)])),
            ("n", Default(Box::new(map(&[("x", Default(text(), json!("d"))), ("y", Text)])), json!({}))),
        ]),
        fields(&[
            ("t", Truth),
            ("r", Number),
            ("i", IntOrText),
            ("f", keyed(&[("on", Truth), ("n", Whole)], &[("v", Text)])),
        ]),
    ];
    (0..25)
        .map(|number| {
            let scale = number % 3 == 0;
            let mut spec = match by_hand.get(number) {
                Some(spec) => spec.clone(),
                None => Shape::fields(random, 3),
            };
            if scale {
                spec.insert(0, ("replicas".to_owned(), Whole));
            }
            let second = match number % 4 {
                1 => Second::Flipped,
                3 if number > 12 => Second::Narrow,
                _ => Second::Same,
            };
            let status = fields(&[
                ("phase", Text),
                ("replicas", Whole),
                ("selector", Text),
                ("conditions", keyed(&[("type", Text)], &[("status", Text)])),
                ("seen", dict(Whole)),
            ]);
            Type { number, spec, status, second, scale }
        })
        .collect()
}
