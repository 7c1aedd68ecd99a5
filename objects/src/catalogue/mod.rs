//! The built-in kinds of Kubernetes as data: `kubernetes.tsv`, which `integration/oracle/catalogue` writes.
//!
//! A line is a kind, a struct, or a field of the struct before it; columns are separated by tabs, in which `\n`, `\t` and `\\`
//! are escaped.
//!
//! ```text
//! kind    apiVersion  kind        package of its Go type  its struct
//! struct  its name    atomic or nothing                   documentation
//!         JSON name   Go name     number in protobuf      flags  type  patch  list  default  documentation
//! ```
//!
//! Flags: `o` omitempty, `z` omitzero, `p` +optional, `r` +required, `n` +nullable. A type is a name, `*` a pointer to one, `[]`
//! a list, `map:` a map, `@core/v1.Secret` a struct, `=v1.SecretType=string` a type with a name of its own. A field without a
//! JSON name is a struct whose fields stand in its place, but not in protobuf.
//!
//! **Guarantees.** A kind that nobody declares costs nothing but its lines in the program. What is made of a line stays for the
//! life of the program, and is made once.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Embedded, Field, Items, Patched, RAW_EXTENSION, Shape, Struct};
use kindom_api::meta::OBJECT_META;

const TABLE: &str = include_str!("kubernetes.tsv");
const OBJECT_META_NAME: &str = "meta/v1.ObjectMeta";

/// The declaration of a kind of the table.
pub(crate) fn declaration(api_version: &str, kind: &str) -> Option<Declaration> {
    let table = Table::get();
    let [api_version, kind, go_package, of] =
        *table.kinds.iter().find(|[a, k, ..]| (*a, *k) == (api_version, kind))?;
    Some(Declaration { api_version, kind, go_package, shape: table.structure(of)? })
}

/// The kinds of the table, as apiVersion and kind.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    Table::get().kinds.iter().map(|[api_version, kind, ..]| (*api_version, *kind))
}

struct Table {
    kinds: Vec<[&'static str; 4]>,
    /// The lines of each struct, its own first.
    structs: HashMap<&'static str, &'static str>,
    made: Mutex<HashMap<&'static str, &'static Struct>>,
}

impl Table {
    fn get() -> &'static Self {
        static READ: OnceLock<Table> = OnceLock::new();
        READ.get_or_init(|| {
            let mut table = Table { kinds: Vec::new(), structs: HashMap::new(), made: Mutex::default() };
            let mut rest = TABLE;
            while let Some((line, after)) = rest.split_once('\n') {
                let mut columns = line.split('\t');
                match columns.next() {
                    Some("kind") => {
                        let mut next = || columns.next().unwrap_or_default();
                        table.kinds.push([next(), next(), next(), next()]);
                    }
                    Some("struct") => {
                        // A struct may have no fields: the next one begins behind its first line.
                        let fields = rest.get(line.len()..).unwrap_or_default();
                        let end = fields.find("\nstruct\t").map_or(rest.len(), |at| line.len() + at + 1);
                        table
                            .structs
                            .insert(columns.next().unwrap_or_default(), rest.get(..end).unwrap_or_default());
                    }
                    _ => {}
                }
                rest = after;
            }
            table
        })
    }

    /// Makes a struct; `None` if a field of it has a type that is not known here.
    fn structure(&self, name: &str) -> Option<&'static Struct> {
        if name == OBJECT_META_NAME {
            return Some(&OBJECT_META);
        }
        let made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made().get(name) {
            return Some(known);
        }
        let (&name, lines) = self.structs.get_key_value(name)?;
        let mut lines = lines.lines();
        let mut head = lines.next()?.split('\t').skip(2);
        let is_atomic = head.next()? == "atomic";
        let text = text(head.next()?);
        let fields =
            [Field::new("kind", Shape::String("string")), Field::new("apiVersion", Shape::String("string"))];
        // An Eviction has options within it that are an object of their own elsewhere.
        let is_object = name == "meta/v1.DeleteOptions" || self.kinds.iter().any(|[.., of]| *of == name);
        let mut fields: Vec<Field> = if is_object { fields.into() } else { Vec::new() };
        for line in lines {
            self.add(line, &mut fields)?;
        }
        let (package, of) = name.rsplit_once('.')?;
        let go_type = format!("{}.{of}", package.rsplit('/').next()?).leak();
        let go_package = self.go_package(package);
        let made_now = Struct { text, go_package, is_atomic, ..Struct::new(go_type, fields.leak()) };
        Some(made().entry(name).or_insert_with(|| Box::leak(Box::new(made_now))))
    }

    /// The whole name of a package that the table names by its end.
    fn go_package(&self, end: &str) -> &'static str {
        let of_kind = self
            .kinds
            .iter()
            .find(|[_, _, package, _]| package.strip_suffix(end).is_some_and(|host| host.ends_with('/')));
        match of_kind {
            Some([_, _, package, _]) => package,
            None if end == "meta/v1" => "k8s.io/apimachinery/pkg/apis/meta/v1",
            None => format!("k8s.io/api/{end}").leak(),
        }
    }

    /// Adds the field of a line, or those of the struct that it embeds.
    fn add(&self, line: &'static str, fields: &mut Vec<Field>) -> Option<()> {
        if !line.starts_with("\t\t") {
            fields.push(self.field(line)?);
            return Some(());
        }
        let mut columns = line.split('\t').skip(3);
        let number = columns.next()?.parse().ok()?;
        let of = self.structure(columns.nth(1)?.strip_prefix('@')?)?;
        let outer = Embedded { number, name: of.name() };
        for field in of.fields {
            let embedded = [&[outer], field.embedded].concat().leak();
            fields.push(Field { embedded, ..*field });
        }
        Some(())
    }

    fn field(&self, line: &'static str) -> Option<Field> {
        let mut columns = line.split('\t').skip(1);
        let [name, in_go, number, flags, shape, patch, items, preset, documentation] =
            std::array::from_fn(|_| columns.next().unwrap_or_default());
        let has = |flag| flags.contains(flag);
        let shape = self.shape(shape)?;
        // Go leaves no struct out, whatever its tag says.
        let omit_empty = has('o') && !shape.is_go_struct() || has('z');
        let list =
            |keys: &'static str| -> &'static [&'static str] { keys.split(',').collect::<Vec<_>>().leak() };
        let mut field = Field {
            omit_empty,
            number: number.parse().ok()?,
            text: text(documentation),
            preset,
            ..Field::always(name, shape)
        };
        field.required = Some(has('r') || !has('p') && !has('o') && !has('z'));
        if !in_go.is_empty() && field.go_name() != in_go {
            field.in_go = in_go;
        }
        let strategy = patch.split(':').next().unwrap_or_default();
        field.retains_keys = strategy.split(',').any(|one| one == "retainKeys");
        field.patched = match patch.split_once(':') {
            Some((_, key)) => Patched::MergesBy(key),
            None if patch.split(',').any(|one| one == "merge") => Patched::Adds,
            None if strategy == "replace" => Patched::ReplacesAny,
            None => Patched::Replaces,
        };
        field.items = match items.split_once(':') {
            Some(("map", keys)) => Some(Items::Keys(list(keys))),
            None if items == "atomic" => Some(Items::Atomic),
            None if items == "set" => Some(Items::Set),
            None if matches!(items, "map-atomic" | "struct-atomic") => Some(Items::AtomicMap),
            None if matches!(items, "map-granular" | "struct-granular") => Some(Items::GranularMap),
            _ => None,
        };
        Some(field)
    }

    fn shape(&self, of: &'static str) -> Option<Shape> {
        let inner = |of| Some(&*Box::leak(Box::new(self.shape(of)?)));
        if let Some(of) = of.strip_prefix('*') {
            return Some(Shape::Pointer(inner(of)?));
        }
        if let Some(of) = of.strip_prefix("[]") {
            return Some(Shape::List(inner(of)?));
        }
        if let Some(of) = of.strip_prefix("map:") {
            return Some(Shape::Map(inner(of)?));
        }
        if let Some(of) = of.strip_prefix('@') {
            return Some(Shape::Struct(self.structure(of)?));
        }
        if let Some((name, of)) = of.strip_prefix('=').and_then(|of| of.split_once('=')) {
            return Some(if of == "string" { Shape::String(name) } else { Shape::Named(name, inner(of)?) });
        }
        Some(match of {
            "string" => Shape::String("string"),
            "bool" => Shape::Bool,
            "int32" => Shape::Int32,
            "int64" => Shape::Int64,
            "float64" => Shape::Float,
            "bytes" => Shape::Bytes,
            "time" => Shape::Time,
            "microtime" => Shape::MicroTime,
            "quantity" => Shape::Quantity,
            "intorstring" => Shape::IntOrString,
            "json" => Shape::Json,
            "raw" => RAW_EXTENSION,
            _ => return None,
        })
    }
}

/// A column's text.
fn text(escaped: &'static str) -> &'static str {
    if !escaped.contains('\\') {
        return escaped;
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('\\', Some(next)) => {
                rest.next();
                out.push(match next {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            (c, _) => out.push(c),
        }
    }
    out.leak()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::service::ServiceNetwork;
    use crate::kinds::{Profile, built_in, namespace};

    fn described(of: &Struct, depth: usize, out: &mut Vec<String>) {
        for field in of.fields {
            let Field { name, omit_empty, patched, number, items, .. } = field;
            out.push(format!("{depth} {name} {omit_empty} {patched:?} {number} {items:?}"));
            let mut shape = &field.shape;
            while let Shape::Pointer(of) | Shape::List(of) | Shape::Map(of) | Shape::Named(_, of) = shape {
                shape = of;
            }
            match shape {
                Shape::Struct(of) if !std::ptr::eq(*of, &raw const OBJECT_META) => {
                    described(of, depth + 1, out)
                }
                shape => out.push(shape.go_kind().to_owned()),
            }
        }
    }

    /// The kinds that are declared by hand are held against upstream's recorded answers, so they hold the table.
    #[test]
    fn a_kind_that_is_declared_by_hand_is_as_in_the_table() {
        let mut compared = 0;
        for spec in built_in(Profile::Kubernetes, &ServiceNetwork::default())
            .into_iter()
            .chain([namespace::namespaces()])
        {
            let declared = spec.versions[0].declared.unwrap().declaration();
            let table = declaration(declared.api_version, declared.kind).unwrap();
            if std::ptr::eq(table.shape, declared.shape) {
                continue;
            }
            assert_eq!(
                (table.go_package, table.shape.go_type),
                (declared.go_package, declared.shape.go_type)
            );
            let (mut by_hand, mut of_table) = (Vec::new(), Vec::new());
            described(declared.shape, 0, &mut by_hand);
            described(table.shape, 0, &mut of_table);
            assert_eq!(by_hand, of_table, "{}", declared.kind);
            compared += 1;
        }
        assert_eq!(compared, 2, "Lease and Namespace");
    }

    #[test]
    fn what_is_not_in_the_table_is_not_found() {
        assert!(declaration("v1", "Nothing").is_none() && declaration("v2", "Secret").is_none());
        let unknown: Vec<_> =
            kinds().filter(|(api_version, kind)| declaration(api_version, kind).is_none()).collect();
        assert_eq!(unknown, []);
    }

    #[test]
    fn a_column_is_read_as_it_was_written() {
        assert_eq!(text(r"a\n\tb\\n"), "a\n\tb\\n");
        assert_eq!(kinds().count(), TABLE.lines().filter(|line| line.starts_with("kind\t")).count());
    }
}
