//! The attribute `#[resource(…)]`, parsed and checked.

use syn::meta::ParseNestedMeta;
use syn::{Data, DeriveInput, Error, Fields, LitInt, LitStr, Result, Token};

use kindom_naming::{plural, refuse_group, refuse_kind, refuse_label, refuse_version};

/// The definition of a kind.
pub(crate) struct Attribute {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScaleFields>,
    /// The warning for clients of the version, empty for Kubernetes' own words.
    pub(crate) deprecated: Option<String>,
    pub(crate) columns: Vec<ColumnFields>,
    pub(crate) json_schema: bool,
}

/// Paths of a Scale.
pub(crate) struct ScaleFields {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// A column of the kind's table.
pub(crate) struct ColumnFields {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) description: String,
    pub(crate) format: String,
    pub(crate) priority: i32,
}

/// The parts that were given so far.
#[derive(Default)]
struct Given {
    group: Option<LitStr>,
    version: Option<LitStr>,
    kind: Option<LitStr>,
    plural: Option<LitStr>,
    singular: Option<LitStr>,
    short_names: Vec<LitStr>,
    categories: Vec<LitStr>,
    namespaced: Option<bool>,
    status: bool,
    scale: Option<ScaleFields>,
    deprecated: Option<String>,
    columns: Vec<ColumnFields>,
    json_schema: bool,
}

impl Attribute {
    /// # Errors
    /// A part is missing or wrong; the error names its place in the source.
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let fields = fields(input)?;
        let mut given = Given::default();
        let mut any = false;
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")) {
            any = true;
            attribute.parse_nested_meta(|meta| given.take(&meta))?;
        }
        let absent = |what: &str| {
            Error::new_spanned(&input.ident, format!("#[resource({what})] is missing on this struct"))
        };
        if !any {
            return Err(absent("group = \"…\", version = \"…\", namespaced"));
        }
        if !fields.iter().any(|field| field == "metadata") {
            return Err(Error::new_spanned(
                &input.ident,
                "the struct of a kind has a field `metadata: ObjectMeta`",
            ));
        }
        if given.status && !fields.iter().any(|field| field == "status") {
            return Err(Error::new_spanned(&input.ident, "#[resource(status)] needs a field `status`"));
        }
        let kind = given.kind.as_ref().map_or_else(|| input.ident.to_string(), LitStr::value);
        if let Some(why) = refuse_kind(&kind) {
            return Err(match &given.kind {
                Some(kind) => Error::new_spanned(kind, why),
                None => Error::new_spanned(&input.ident, why),
            });
        }
        let singular = checked_or(given.singular.as_ref(), refuse_label, || kind.to_lowercase())?;
        let plural = checked_or(given.plural.as_ref(), refuse_label, || plural(&singular))?;
        let group = given.group.as_ref().ok_or_else(|| absent("group = \"…\""))?;
        let version = given.version.as_ref().ok_or_else(|| absent("version = \"…\""))?;
        let all =
            |names: &[LitStr]| names.iter().map(|name| checked(name, refuse_label)).collect::<Result<_>>();
        Ok(Self {
            group: checked(group, refuse_group)?,
            version: checked(version, refuse_version)?,
            short_names: all(&given.short_names)?,
            categories: all(&given.categories)?,
            namespaced: given.namespaced.ok_or_else(|| absent("namespaced)] or #[resource(cluster"))?,
            status: given.status,
            scale: given.scale,
            deprecated: given.deprecated,
            columns: given.columns,
            json_schema: given.json_schema,
            kind,
            plural,
            singular,
        })
    }
}

impl Given {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.require_ident()?.to_string();
        match name.as_str() {
            "group" => once(&mut self.group, meta),
            "version" => once(&mut self.version, meta),
            "kind" => once(&mut self.kind, meta),
            "plural" => once(&mut self.plural, meta),
            "singular" => once(&mut self.singular, meta),
            "short" => {
                self.short_names.push(text(meta)?);
                Ok(())
            }
            "category" => {
                self.categories.push(text(meta)?);
                Ok(())
            }
            "namespaced" | "cluster" => match self.namespaced.replace(name == "namespaced") {
                None => Ok(()),
                Some(_) => Err(meta.error("the scope is given twice")),
            },
            "status" => {
                self.status = true;
                Ok(())
            }
            "json_schema" => {
                self.json_schema = true;
                Ok(())
            }
            "deprecated" => {
                let has_text = meta.input.peek(Token![=]);
                self.deprecated = Some(if has_text { text(meta)?.value() } else { String::new() });
                Ok(())
            }
            "scale" if self.scale.is_some() => Err(meta.error("`scale` is given twice")),
            "scale" => {
                self.scale = Some(scale(meta)?);
                Ok(())
            }
            "column" => {
                self.columns.push(column(meta)?);
                Ok(())
            }
            _ => Err(meta.error(format!(
                "`{name}` is none of group, version, kind, plural, singular, short, category, namespaced, cluster, status, scale, deprecated, column, json_schema"
            ))),
        }
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

fn once(place: &mut Option<LitStr>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let given = text(meta)?;
    match place.replace(given) {
        None => Ok(()),
        Some(_) => Err(meta.error("given twice")),
    }
}

fn checked(text: &LitStr, refuse: impl Fn(&str) -> Option<&'static str>) -> Result<String> {
    match refuse(&text.value()) {
        None => Ok(text.value()),
        Some(why) => Err(Error::new_spanned(text, why)),
    }
}

fn checked_or(
    text: Option<&LitStr>,
    refuse: impl Fn(&str) -> Option<&'static str>,
    otherwise: impl FnOnce() -> String,
) -> Result<String> {
    text.map_or_else(|| Ok(otherwise()), |text| checked(text, refuse))
}

/// The names of a struct's fields.
fn fields(input: &DeriveInput) -> Result<Vec<String>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => {
                let names = named.named.iter().filter_map(|field| field.ident.as_ref());
                Ok(names.map(ToString::to_string).collect())
            }
            _ => Err(Error::new_spanned(&input.ident, "the struct of a kind has named fields")),
        },
        _ => Err(Error::new_spanned(&input.ident, "a kind is a struct")),
    }
}

/// A path into an object, as registrations have it.
fn path(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let path = text(meta)?;
    checked(&path, |path| (!path.starts_with('.')).then_some("a path begins with a dot, such as .spec.crew"))
}

fn scale(meta: &ParseNestedMeta<'_>) -> Result<ScaleFields> {
    let (mut spec, mut status, mut selector) = (None, None, None);
    meta.parse_nested_meta(|meta| {
        let place = match meta.path.require_ident()?.to_string().as_str() {
            "spec" => &mut spec,
            "status" => &mut status,
            "selector" => &mut selector,
            other => return Err(meta.error(format!("`{other}` is none of spec, status, selector"))),
        };
        *place = Some(path(&meta)?);
        Ok(())
    })?;
    match (spec, status) {
        (Some(spec), Some(status)) => Ok(ScaleFields { spec, status, selector }),
        _ => Err(meta.error("a scale has paths in `spec` and in `status`")),
    }
}

fn column(meta: &ParseNestedMeta<'_>) -> Result<ColumnFields> {
    let mut column = ColumnFields {
        name: String::new(),
        kind: String::new(),
        path: String::new(),
        description: String::new(),
        format: String::new(),
        priority: 0,
    };
    meta.parse_nested_meta(|meta| {
        match meta.path.require_ident()?.to_string().as_str() {
            "name" => column.name = text(&meta)?.value(),
            "type" => column.kind = text(&meta)?.value(),
            "path" => column.path = path(&meta)?,
            "description" => column.description = text(&meta)?.value(),
            "format" => column.format = text(&meta)?.value(),
            "priority" => column.priority = meta.value()?.parse::<LitInt>()?.base10_parse()?,
            other => {
                return Err(meta
                    .error(format!("`{other}` is none of name, type, path, description, format, priority")));
            }
        }
        Ok(())
    })?;
    let is_missing = column.name.is_empty() || column.kind.is_empty() || column.path.is_empty();
    match is_missing {
        true => Err(meta.error("a column has a name, a type and a path")),
        false => Ok(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "struct Sloop { metadata: ObjectMeta, spec: Spec, status: Option<Status> }";

    fn of(attributes: &str, body: &str) -> Result<Attribute> {
        Attribute::of(&syn::parse_str(&format!("{attributes} {body}"))?)
    }

    #[test]
    fn names_follow_from_the_struct() {
        let all = r#"#[resource(group = "sails.example.com", version = "v1", namespaced, status, short = "sl", short = "s")]
            #[resource(scale(spec = ".spec.crew", status = ".status.crew"), category = "all")]
            #[resource(column(name = "Crew", type = "integer", path = ".spec.crew", priority = 1))]"#;
        let sloop = of(all, BODY).unwrap();
        assert_eq!([&*sloop.kind, &*sloop.singular, &*sloop.plural], ["Sloop", "sloop", "sloops"]);
        assert!(sloop.namespaced && sloop.status);
        assert_eq!(sloop.short_names, ["sl", "s"]);
        assert_eq!(sloop.scale.unwrap().status, ".status.crew");
        assert_eq!((&*sloop.columns[0].kind, sloop.columns[0].priority), ("integer", 1));
        let other =
            r#"#[resource(group = "a.b", version = "v1beta1", cluster, kind = "Harness", plural = "sets")]"#;
        let other = of(other, BODY).unwrap();
        assert_eq!([&*other.kind, &*other.singular, &*other.plural], ["Harness", "harness", "sets"]);
        assert!(!other.namespaced && !other.status);
        assert_eq!((other.deprecated, sloop.deprecated), (None, None));
        let deprecated = |how: &str| {
            of(&format!(r#"#[resource(group = "a.b", version = "v1", cluster, {how})]"#), BODY)
                .unwrap()
                .deprecated
        };
        let words = r#"deprecated = "it sinks""#;
        assert_eq!(["deprecated", words].map(deprecated), [Some(String::new()), Some("it sinks".to_owned())]);
    }

    #[test]
    fn b12_b13_b15_what_is_wrong_is_said() {
        let with = |more: &str| format!(r#"#[resource(group = "a.b", version = "v1", namespaced {more})]"#);
        for (attributes, expected) in [
            (String::new(), "is missing on this struct"),
            (
                r#"#[resource(version = "v1", namespaced)]"#.to_owned(),
                r#"#[resource(group = "…")] is missing"#,
            ),
            (
                r#"#[resource(group = "a.b", namespaced)]"#.to_owned(),
                r#"#[resource(version = "…")] is missing"#,
            ),
            (
                r#"#[resource(group = "a.b", version = "v1")]"#.to_owned(),
                "#[resource(namespaced)] or #[resource(cluster)] is missing",
            ),
            (
                r#"#[resource(group = "A.b", version = "v1", cluster)]"#.to_owned(),
                "a group has no capital letters",
            ),
            (r#"#[resource(group = "a.b", version = "1", cluster)]"#.to_owned(), "v1alpha1, v1beta1 or v1"),
            (with(r#", kind = "sloop""#), "UpperCamelCase"),
            (with(r#", plural = "Sloops""#), "lower-case letters"),
            (with(", cluster"), "the scope is given twice"),
            (with(r#", group = "c.d""#), "given twice"),
            (with(r#", colour = "red""#), "`colour` is none of group, version"),
            (with(r#", scale(spec = ".spec.crew")"#), "a scale has paths in `spec` and in `status`"),
            (with(r#", scale(spec = "spec.crew", status = ".a")"#), "a path begins with a dot"),
            (with(r#", column(name = "Crew", type = "integer")"#), "a column has a name, a type and a path"),
            (with(", short = 1"), "expected string literal"),
        ] {
            let error = of(&attributes, BODY).map(drop).unwrap_err().to_string();
            assert!(error.contains(expected), "{attributes}: {error}");
        }
        let status = of(&with(", status"), "struct Sloop { metadata: ObjectMeta }").map(drop).unwrap_err();
        assert_eq!(status.to_string(), "#[resource(status)] needs a field `status`");
        for body in ["struct Sloop;", "struct Sloop(u8);", "enum Sloop {}", "struct Sloop { spec: u8 }"] {
            assert!(of(&with(""), body).is_err(), "{body}");
        }
    }
}
