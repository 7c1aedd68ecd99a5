//! Documents around stored objects: lists, tables, metadata alone (apimachinery `meta/v1`, 1.37).

use kindom_api::json::{Map, Value};

use crate::RequestError;
use crate::negotiate::MetaVersion;
use crate::query::Query;

/// The metadata of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListMeta {
    /// The revision that the list shows; empty in a watch's tables without one.
    pub resource_version: String,
    /// The token of the next page; empty on the last page.
    pub continue_token: String,
    /// The number of items that follow, if it is known.
    pub remaining_item_count: Option<u64>,
}

impl ListMeta {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        if !self.resource_version.is_empty() {
            map.insert("resourceVersion", self.resource_version.as_str());
        }
        if !self.continue_token.is_empty() {
            map.insert("continue", self.continue_token.as_str());
        }
        if let Some(count) = self.remaining_item_count.and_then(|n| i64::try_from(n).ok()) {
            map.insert("remainingItemCount", count);
        }
        Value::Object(map)
    }

    /// As an untyped list writes it: with `continue` also where there is nothing to go on with.
    fn to_untyped(&self) -> Value {
        let mut value = self.to_value();
        if let Some(map) = value.as_object_mut() {
            map.insert("continue", self.continue_token.as_str());
        }
        value
    }
}

/// The parts of a list before and after its items, which stand between commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFrame {
    /// All before the first item.
    pub start: Vec<u8>,
    /// All after the last item.
    pub end: Vec<u8>,
}

/// The fields of a list, in the order of their names; the items are at `items`.
fn frame(fields: Vec<(&str, Value)>, items: &str) -> ListFrame {
    let (mut start, mut end) = (Vec::with_capacity(512), Vec::with_capacity(256));
    start.push(b'{');
    let is_before = |(name, _): &(&str, Value)| *name < items;
    for (name, value) in fields.iter().filter(|field| is_before(field)) {
        Value::from(*name).write_to(&mut start);
        start.push(b':');
        value.write_to(&mut start);
        start.push(b',');
    }
    Value::from(items).write_to(&mut start);
    start.extend_from_slice(b":[");
    end.push(b']');
    for (name, value) in fields.iter().filter(|field| !is_before(field)) {
        end.push(b',');
        Value::from(*name).write_to(&mut end);
        end.push(b':');
        value.write_to(&mut end);
    }
    end.extend_from_slice(b"}\n");
    ListFrame { start, end }
}

/// A list of objects. `typed` is for built-in types, whose lists leave an empty `continue` out.
///
/// ```
/// use kindom_http::table::{ListMeta, list};
/// let meta = ListMeta { resource_version: "7".into(), ..ListMeta::default() };
/// let frame = list("example.com/v1", "WidgetList", &meta, true);
/// assert_eq!(frame.start, br#"{"apiVersion":"example.com/v1","items":["#);
/// assert_eq!(frame.end, b"],\"kind\":\"WidgetList\",\"metadata\":{\"resourceVersion\":\"7\"}}\n");
/// ```
#[must_use]
pub fn list(api_version: &str, kind: &str, meta: &ListMeta, typed: bool) -> ListFrame {
    let meta = if typed { meta.to_value() } else { meta.to_untyped() };
    frame(vec![("apiVersion", api_version.into()), ("kind", kind.into()), ("metadata", meta)], "items")
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// An OpenAPI type: `string`, `integer`, `date`.
    pub kind: String,
    /// An OpenAPI format; `name` marks the column of names.
    pub format: String,
    /// For people.
    pub description: String,
    /// 0 for a column that is always shown; higher ones are shown by `-o wide`.
    pub priority: i32,
}

impl From<&kindom_schema::columns::TableColumn> for Column {
    fn from(column: &kindom_schema::columns::TableColumn) -> Self {
        Self {
            name: column.name.clone(),
            kind: column.kind.clone(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
        }
    }
}

impl Column {
    fn to_value(&self) -> Value {
        kindom_api::object! {
            "name": self.name.as_str(),
            "type": self.kind.as_str(),
            "format": self.format.as_str(),
            "description": self.description.as_str(),
            "priority": self.priority,
        }
    }
}

/// The object that a row of a table carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The object.
    Object,
}

impl IncludeObject {
    /// Reads the query's `includeObject`.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`]
    pub fn parse(query: &Query) -> Result<Self, RequestError> {
        match query.get("includeObject").unwrap_or("") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let path = kindom_api::field::Path::new("includeObject");
                let error = kindom_api::field::Error::invalid(&path, other, detail);
                Err(RequestError::BadRequest(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}

/// A row of a table.
#[must_use]
pub fn row(cells: Vec<Value>, object: &Value, include: IncludeObject, version: MetaVersion) -> Value {
    let mut map = Map::new();
    map.insert("cells", Value::Array(cells.into()));
    match include {
        IncludeObject::None => {
            // Upstream's field is a raw object that is not left out when it is empty.
            map.insert("object", Value::Null);
        }
        IncludeObject::Metadata => {
            map.insert("object", metadata_only(object, version));
        }
        IncludeObject::Object => {
            map.insert("object", object.clone());
        }
    }
    Value::Object(map)
}

/// A table of rows to come.
#[must_use]
pub fn rows(version: MetaVersion, meta: &ListMeta, columns: &[Column]) -> ListFrame {
    let fields = vec![
        ("apiVersion", version.api_version().into()),
        ("columnDefinitions", Value::Array(columns.iter().map(Column::to_value).collect())),
        ("kind", "Table".into()),
        ("metadata", meta.to_value()),
    ];
    frame(fields, "rows")
}

/// A table. A watch's tables have no columns but the first: upstream's list is then `null`.
#[must_use]
pub fn table(version: MetaVersion, meta: &ListMeta, columns: &[Column], rows: Vec<Value>) -> Value {
    kindom_api::object! {
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": meta.to_value(),
        "columnDefinitions": match columns {
            [] => Value::Null,
            columns => Value::Array(columns.iter().map(Column::to_value).collect()),
        },
        "rows": Value::Array(rows.into()),
    }
}

/// An object's metadata as a PartialObjectMetadata.
#[must_use]
pub fn metadata_only(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").filter(|m| m.as_object().is_some());
    kindom_api::object! {
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata.cloned().unwrap_or_else(|| Value::Object(Map::new())),
    }
}

/// A PartialObjectMetadataList of what [`metadata_only`] gives.
#[must_use]
pub fn metadata_list(version: MetaVersion, meta: &ListMeta) -> ListFrame {
    let fields = vec![
        ("apiVersion", version.api_version().into()),
        ("kind", "PartialObjectMetadataList".into()),
        ("metadata", meta.to_value()),
    ];
    frame(fields, "items")
}

#[cfg(test)]
mod tests {
    use kindom_api::json::{Value, parse};

    use super::{
        Column, IncludeObject, ListFrame, ListMeta, list, metadata_list, metadata_only, row, rows, table,
    };
    use crate::negotiate::MetaVersion::{V1, V1Beta1};
    use crate::query::Query;

    fn widget() -> Value {
        parse(br#"{"apiVersion":"g/v1","kind":"Widget","metadata":{"name":"a"},"spec":{}}"#).unwrap()
    }

    /// A list of items between its frame's parts.
    fn whole(frame: &ListFrame, items: &[Value]) -> String {
        let items: Vec<String> = items.iter().map(Value::to_string).collect();
        let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
        format!("{}{}{}", text(&frame.start), items.join(","), text(&frame.end))
    }

    #[test]
    fn lists() {
        let meta = ListMeta {
            resource_version: "7".into(),
            continue_token: "t".into(),
            remaining_item_count: Some(3),
        };
        assert_eq!(
            whole(&list("v1", "NamespaceList", &meta, true), &[]),
            "{\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"NamespaceList\",\"metadata\":{\"continue\":\"t\",\
             \"remainingItemCount\":3,\"resourceVersion\":\"7\"}}\n"
        );
        let frame = list("g/v1", "WidgetList", &ListMeta::default(), false);
        let text = whole(&frame, &[widget(), widget()]);
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(value.get("items").unwrap().as_array().unwrap(), [widget(), widget()]);
        assert_eq!(format!("{value}\n"), text, "the keys are in order");
        assert_eq!(value.at(&["metadata", "continue"]).unwrap().as_str(), Some(""), "an untyped list has it");
    }

    fn name_column() -> Column {
        Column { name: "Name".into(), kind: "string".into(), format: "name".into(), ..Column::default() }
    }

    #[test]
    fn tables() {
        let written = vec![row(vec!["a".into()], &widget(), IncludeObject::Metadata, V1)];
        assert_eq!(
            table(V1, &ListMeta::default(), &[name_column()], written).to_string(),
            r#"{"apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"description":"","format":"name","name":"Name","priority":0,"type":"string"}],"kind":"Table","metadata":{},"rows":[{"cells":["a"],"object":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a"}}}]}"#
        );
        let frame = rows(V1, &ListMeta::default(), &[name_column()]);
        let written = [row(vec!["a".into()], &widget(), IncludeObject::Metadata, V1)];
        let tree = table(V1, &ListMeta::default(), &[name_column()], written.to_vec());
        assert_eq!(whole(&frame, &written), format!("{tree}\n"), "in pieces it is the same");
        assert_eq!(
            row(Vec::new(), &widget(), IncludeObject::None, V1).to_string(),
            r#"{"cells":[],"object":null}"#
        );
        assert_eq!(row(Vec::new(), &widget(), IncludeObject::Object, V1).get("object"), Some(&widget()));
    }

    #[test]
    fn metadata() {
        let item = metadata_only(&widget(), V1Beta1);
        assert_eq!(
            item.to_string(),
            r#"{"apiVersion":"meta.k8s.io/v1beta1","kind":"PartialObjectMetadata","metadata":{"name":"a"}}"#
        );
        let text = whole(&metadata_list(V1, &ListMeta::default()), &[item]);
        let list = parse(text.as_bytes()).unwrap();
        assert_eq!(format!("{list}\n"), text, "the keys are in order");
        assert_eq!(list.get("kind").unwrap().as_str(), Some("PartialObjectMetadataList"));
        assert_eq!(metadata_only(&Value::Null, V1).get("metadata").unwrap().to_string(), "{}");
    }

    #[test]
    fn include_object() {
        let parse = |q: &str| IncludeObject::parse(&Query::parse(q)).map_err(|e| e.to_string());
        assert_eq!(parse(""), Ok(IncludeObject::Metadata));
        assert_eq!(parse("includeObject=None"), Ok(IncludeObject::None));
        assert_eq!(
            parse("includeObject=x"),
            Err("Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be \
                 'Metadata', 'Object', 'None', or empty"
                .into())
        );
    }
}
