//! Documents, written piece by piece: the v3 document of a group-version, and the v2 document of all types as JSON or as
//! gnostic's protobuf.
//!
//! With thousands of types a document has hundreds of megabytes, so it is never there as a whole: it is written type by
//! type, first all paths, then all schemas, and who sends it holds one type's piece at a time.
//!
//! ```
//! use kindom_schema::openapi::{Document, Format};
//!
//! let (mut document, mut bytes) = Document::start(Format::V3, "kindom", "1.0");
//! // document.paths(…), then document.schemas(…), for each type
//! bytes.extend(document.end());
//! assert!(bytes.starts_with(br#"{"openapi":"3.0.0","info":{"title":"kindom","version":"1.0"},"paths":{"#));
//! ```

use std::collections::{BTreeSet, VecDeque};

use kindom_api::{Map, Value, object};

use super::remote::{Placed, Taken, refer};
use super::{
    Form, GroupVersionDoc, Names, RARE, RemoteDoc, SCALE, TypeDoc, built_in, declared, operations, protobuf,
    published, shared,
};

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAPI 3.0 as JSON.
    V3,
    /// OpenAPI 2.0 as JSON.
    V2Json,
    /// OpenAPI 2.0 as gnostic's `openapi_v2.Document`.
    V2Protobuf,
}

impl Format {
    fn form(self) -> Form {
        if self == Self::V3 { Form::V3 } else { Form::V2 }
    }
}

/// A document that is being written. Each call gives the bytes that come next.
#[derive(Debug)]
pub struct Document {
    format: Format,
    shared: Value,
    /// The schemas that the program itself describes, which no registered type may define again.
    own: BTreeSet<String>,
    /// The member of the document that is open.
    section: Section,
    /// `true` if the open section has an entry.
    has_entries: bool,
    has_scale: bool,
    /// Set if parts of other servers are merged.
    merging: Option<Merging>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Paths,
    Schemas,
    Parameters,
}

/// The names in a document, which parts of other servers must not take.
#[derive(Debug, Default)]
struct Merging {
    schemas: Taken,
    parameters: Taken,
    /// The names of the parts so far.
    parts: VecDeque<(Placed, Placed)>,
    /// The parameters that the parts add.
    added: Map,
}

impl Document {
    /// A document of nothing yet, and its first bytes.
    #[must_use]
    pub fn start(format: Format, title: &str, version: &str) -> (Self, Vec<u8>) {
        let info = object! { "title": title, "version": version };
        let mut out = Vec::new();
        match format {
            Format::V3 => out.extend_from_slice(br#"{"openapi":"3.0.0","info":"#),
            Format::V2Json => out.extend_from_slice(br#"{"swagger":"2.0","info":"#),
            Format::V2Protobuf => protobuf::head(&info, &mut out),
        }
        if format != Format::V2Protobuf {
            info.write_to(&mut out);
            out.extend_from_slice(br#","paths":{"#);
        }
        let document = Self {
            format,
            shared: shared(),
            own: BTreeSet::new(),
            section: Section::Paths,
            has_entries: false,
            has_scale: false,
            merging: None,
        };
        (document, out)
    }

    /// A v2 document that parts of other servers are merged into. Call it before the first path.
    #[must_use]
    pub fn merging(self) -> Self {
        Self { merging: Some(Merging::default()), ..self }
    }

    /// The paths of a type.
    #[must_use]
    pub fn paths(&mut self, gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Vec<u8> {
        let mut paths = Map::new();
        let names = Names::of(gv, doc);
        operations::add(gv, doc, &names, &self.shared, self.format.form(), &mut paths);
        self.has_scale |= doc.scale;
        if let Some(Merging { schemas, .. }) = &mut self.merging {
            for (name, schema) in own_schemas(gv, doc, &names).iter() {
                schemas.keep_value(name, &built_in::to_v2(schema));
            }
            schemas.keep(&names.schema);
            schemas.keep(&names.list_schema);
        }
        let mut out = Vec::new();
        for (path, item) in paths.iter() {
            self.entry(Section::Paths, path, item, &mut out);
        }
        out
    }

    /// The schemas of a type. After the first call there are no more paths. Built-in types come first: a schema of the same
    /// name as one of theirs is not written again. Of the types of a group-version one may be built in.
    #[must_use]
    pub fn schemas(&mut self, gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        self.shared_schemas(&mut out);
        let (names, form) = (Names::of(gv, doc), self.format.form());
        let list = published::list(gv, doc, &names, form);
        if doc.built_in {
            for (name, schema) in own_schemas(gv, doc, &names).iter() {
                for rare in RARE.into_iter().filter(|rare| refers_to(schema, rare)) {
                    self.shared_schema(rare, &mut out);
                }
                self.own_schema(name, self.in_form(schema.clone()), &mut out);
            }
            if !doc.only_created {
                self.own_schema(&names.list_schema, list, &mut out);
            }
            return out;
        }
        let object = published::object(gv, doc, form);
        for (name, schema) in [(&names.schema, object), (&names.list_schema, list)] {
            if !self.own.contains(name) {
                self.entry(Section::Schemas, name, &schema, &mut out);
            }
        }
        out
    }

    /// The paths of another server, after those of all types. The document has to be [`merging`](Self::merging).
    #[must_use]
    pub fn remote_paths(&mut self, doc: &RemoteDoc) -> Vec<u8> {
        let mut out = Vec::new();
        let mut part = doc.part();
        let Some(merging) = &mut self.merging else { return out };
        if merging.parts.is_empty() {
            for (name, schema) in
                self.shared.get("schemas").and_then(Value::as_object).into_iter().flat_map(Map::iter)
            {
                merging.schemas.keep_value(name, &built_in::to_v2(schema));
            }
            for (name, parameter) in operations::shared_parameters(&self.shared).iter() {
                merging.parameters.keep_value(name, parameter);
            }
        }
        let placed = (merging.schemas.place(&part.schemas), merging.parameters.place(&part.parameters));
        for (_, item) in part.paths.iter_mut() {
            refer(item, &placed.0, &placed.1);
        }
        merging.parts.push_back(placed);
        for (path, item) in part.paths.iter() {
            self.entry(Section::Paths, path, item, &mut out);
        }
        out
    }

    /// The schemas of another server, after those of all types, in the order of the calls of [`remote_paths`](Self::remote_paths).
    #[must_use]
    pub fn remote_schemas(&mut self, doc: &RemoteDoc) -> Vec<u8> {
        let mut out = Vec::new();
        self.shared_schemas(&mut out);
        let placed = self.merging.as_mut().and_then(|merging| merging.parts.pop_front());
        let Some((schemas, parameters)) = placed else { return out };
        let part = doc.part();
        for (own, mut schema) in part.schemas {
            if let Some(name) = schemas.name(&own) {
                refer(&mut schema, &schemas, &parameters);
                self.entry(Section::Schemas, name, &schema, &mut out);
            }
        }
        let added = part.parameters.into_iter().filter_map(|(own, mut parameter)| {
            let name = parameters.name(&own)?.to_owned();
            refer(&mut parameter, &schemas, &parameters);
            Some((name, parameter))
        });
        if let Some(merging) = &mut self.merging {
            added.for_each(|(name, parameter)| drop(merging.added.insert(name, parameter)));
        }
        out
    }

    /// The last bytes.
    #[must_use]
    pub fn end(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.shared_schemas(&mut out);
        if self.format != Format::V3 {
            let added = self.merging.take().unwrap_or_default().added;
            for (name, parameter) in operations::shared_parameters(&self.shared).iter().chain(added.iter()) {
                self.entry(Section::Parameters, name, parameter, &mut out);
            }
        }
        out.extend_from_slice(match self.format {
            Format::V3 => b"}}}",
            Format::V2Json => b"}}",
            Format::V2Protobuf => b"",
        });
        out
    }

    /// Writes the schemas that all types refer to, before the first type.
    fn shared_schemas(&mut self, out: &mut Vec<u8>) {
        if self.section != Section::Paths {
            return;
        }
        let schemas = self.shared.get("schemas").and_then(Value::as_object).cloned().unwrap_or_default();
        // Another server's part may refer to any of them.
        let (all, has_scale) = (self.merging.is_some(), self.has_scale);
        let needed = |name: &str| all || !RARE.contains(&name) && (has_scale || !name.starts_with(SCALE));
        for (name, schema) in schemas.iter().filter(|(name, _)| needed(name)) {
            self.own_schema(name, self.in_form(schema.clone()), out);
        }
    }

    /// Writes a schema that only some types refer to.
    fn shared_schema(&mut self, name: &str, out: &mut Vec<u8>) {
        if let Some(schema) = self.shared.at(&["schemas", name]).cloned() {
            self.own_schema(name, self.in_form(schema), out);
        }
    }

    /// A schema made for v3, in the document's form.
    fn in_form(&self, schema: Value) -> Value {
        if self.format == Format::V3 { schema } else { built_in::to_v2(&schema) }
    }

    fn own_schema(&mut self, name: &str, schema: Value, out: &mut Vec<u8>) {
        if self.own.insert(name.to_owned()) {
            self.entry(Section::Schemas, name, &schema, out);
        }
    }

    fn entry(&mut self, section: Section, name: &str, value: &Value, out: &mut Vec<u8>) {
        let starts = std::mem::replace(&mut self.section, section) != section;
        if self.format == Format::V2Protobuf {
            return match section {
                Section::Paths => protobuf::path(name, value, out),
                Section::Schemas => protobuf::schema(name, value, out),
                Section::Parameters => protobuf::parameter(name, value, out),
            };
        }
        if starts {
            self.has_entries = false;
            out.extend_from_slice(match (section, self.format) {
                (Section::Paths, _) => b"",
                (Section::Schemas, Format::V3) => br#"},"components":{"schemas":{"#,
                (Section::Schemas, _) => br#"},"definitions":{"#,
                (Section::Parameters, _) => br#"},"parameters":{"#,
            });
        }
        if std::mem::replace(&mut self.has_entries, true) {
            out.push(b',');
        }
        Value::from(name).write_to(out);
        out.push(b':');
        value.write_to(out);
    }
}

/// The schemas of a built-in type, as v3 has them; none for a registered one.
pub(super) fn own_schemas(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>, names: &Names) -> Map {
    match doc.declaration {
        _ if !doc.built_in => Map::new(),
        Some(declaration) => declared::schemas(declaration),
        None => built_in::schemas(gv, doc.kind, &names.prefix),
    }
}

fn refers_to(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(map) => map.values().any(|value| refers_to(value, name)),
        Value::Array(items) => items.iter().any(|item| refers_to(item, name)),
        Value::String(text) => text.strip_prefix(Form::V3.schemas()) == Some(name),
        _ => false,
    }
}
