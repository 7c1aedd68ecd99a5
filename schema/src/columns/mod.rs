//! Printer columns (`registry/customresource/tableconvertor`, 1.37).

mod age;
mod evaluate;
mod path;

use kindom_api::Value;
use kindom_api::crd::ColumnDefinition;
use kindom_api::meta::time;

use path::Path;

const NAME_DESCRIPTION: &str = concat!(
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a ",
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation ",
    "idempotence and configuration definition. Cannot be updated. More info: ",
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
);

const AGE_DESCRIPTION: &str = concat!(
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed ",
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented in ",
    "RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
);

/// A column of a Table's `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// An OpenAPI format, or empty.
    pub format: String,
    /// For readers.
    pub description: String,
    /// Columns above 0 are shown by `-o wide` only.
    pub priority: i32,
}

/// The columns of one version, ready to fill.
#[derive(Debug)]
pub struct Columns {
    definitions: Vec<TableColumn>,
    rest: Rest,
}

/// The source of all cells; the first is the name, but for [`Rest::Rows`].
#[derive(Debug)]
enum Rest {
    /// One path for each column.
    Paths(Vec<Path>),
    /// One path for each column of a built-in type, all of which are text.
    Printed(Vec<(Path, Printed)>),
    /// A built-in type's own rule for the whole row.
    Rows(Cells),
}

/// The cells of an object, one for each column, with the time that ages are counted to, in seconds since the epoch.
pub type Cells = fn(&Value, i64) -> Vec<Value>;

/// The content of a built-in type's cell.
#[derive(Debug, Clone, Copy)]
pub enum Printed {
    /// The text itself; without a value, an empty one.
    Text,
    /// The age of a time; `<unknown>` without one.
    Age,
    /// The time itself, in a column of type `date`.
    Date,
    /// A whole number, 0 without one, in a column of type `integer`.
    Number,
    /// A rule's result for the whole object, whatever the path.
    Computed(fn(&Value) -> Value),
    /// The same, for wide tables alone.
    Wide(fn(&Value) -> Value),
}

impl Columns {
    /// The name and these columns of a built-in type, each a heading, a description (that of creationTimestamp if an
    /// age or a date has none), a JSON path and what it shows. kube-apiserver's printers give text alone
    /// (`pkg/printers/internalversion`, 1.37).
    #[must_use]
    pub fn printed(columns: &[(&str, &str, &str, Printed)]) -> Self {
        let mut paths = Vec::new();
        let mut definitions = vec![name_column()];
        for (name, description, json_path, printed) in columns {
            // The paths are part of the program; a cell without one would be missing in every table.
            let Ok(path) = path::parse(json_path) else { continue };
            paths.push((path, *printed));
            definitions.push(TableColumn {
                name: (*name).to_owned(),
                kind: match printed {
                    Printed::Date => "date",
                    Printed::Number => "integer",
                    _ => "string",
                }
                .to_owned(),
                format: String::new(),
                description: match (printed, description.is_empty()) {
                    (Printed::Age | Printed::Date, true) => AGE_DESCRIPTION.to_owned(),
                    _ => (*description).to_owned(),
                },
                priority: i32::from(matches!(printed, Printed::Wide(_))),
            });
        }
        Self { definitions, rest: Rest::Printed(paths) }
    }

    /// The name and the columns that a registration defines, or Age where it defines none. Columns from the first on
    /// whose path is malformed are left out; validation keeps such registrations out (see [`validate_path`]).
    #[must_use]
    pub fn compile(defs: &[ColumnDefinition]) -> Self {
        let age = [ColumnDefinition {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            description: AGE_DESCRIPTION.to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..ColumnDefinition::default()
        }];
        let (mut definitions, mut paths) = (vec![name_column()], Vec::new());
        for def in if defs.is_empty() { &age } else { defs } {
            let Ok(path) = path::parse(&def.json_path) else { break };
            let description = if def.description.is_empty() {
                format!("Custom resource definition column (in JSONPath format): {}", def.json_path)
            } else {
                def.description.clone()
            };
            paths.push(path);
            definitions.push(TableColumn {
                name: def.name.clone(),
                kind: def.kind.clone(),
                format: def.format.clone(),
                description,
                priority: def.priority,
            });
        }
        Self { definitions, rest: Rest::Paths(paths) }
    }

    /// The columns of a Scale; `available` where the type says how many there are (`helpers.go`,
    /// `getScaleColumnsForVersion`).
    #[must_use]
    pub fn of_scale(available: bool) -> Self {
        let column = |name: &str, kind: &str, description: &str, json_path: &str| ColumnDefinition {
            name: name.to_owned(),
            kind: kind.to_owned(),
            description: description.to_owned(),
            json_path: json_path.to_owned(),
            ..ColumnDefinition::default()
        };
        let mut columns = vec![column("Desired", "integer", "Number of desired replicas", ".spec.replicas")];
        if available {
            columns.push(column("Available", "integer", "Number of actual replicas", ".status.replicas"));
        }
        columns.push(column("Age", "date", AGE_DESCRIPTION, ".metadata.creationTimestamp"));
        Self::compile(&columns)
    }

    /// The columns of a built-in type's Scale (`pkg/printers/internalversion`, `scaleColumnDefinitions`).
    #[must_use]
    pub fn of_built_in_scale() -> Self {
        let desired = "replicas is the desired number of instances for the scaled object.";
        let available = "replicas is the actual number of observed instances of the scaled object.";
        let mut columns = Self::printed(&[
            ("Desired", desired, ".spec.replicas", Printed::Number),
            ("Available", available, ".status.replicas", Printed::Number),
            ("Age", "", ".metadata.creationTimestamp", Printed::Age),
        ]);
        columns.definitions.iter_mut().for_each(|column| column.format.clear());
        columns
    }

    /// The columns of a built-in type that has its own rule for all of a row. A column without a description is given that of
    /// creationTimestamp.
    #[must_use]
    pub fn rows(mut definitions: Vec<TableColumn>, cells: Cells) -> Self {
        for column in definitions.iter_mut().filter(|column| column.description.is_empty()) {
            AGE_DESCRIPTION.clone_into(&mut column.description);
        }
        Self { definitions, rest: Rest::Rows(cells) }
    }

    /// The columns, the name first but for those of [`Columns::rows`].
    #[must_use]
    pub fn definitions(&self) -> &[TableColumn] {
        &self.definitions
    }

    /// The cells of an object, one for each column. A value that is missing, that the path cannot reach or that does
    /// not have the column's type gives null, and so do all after those that fill a row: thousands of columns may show the same large value.
    /// `now_unix_seconds` is what ages are counted to.
    #[must_use]
    pub fn cells(&self, object: &Value, now_unix_seconds: i64) -> Vec<Value> {
        let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
        let mut cells = Vec::with_capacity(self.definitions.len());
        cells.push(name.into());
        let paths = match &self.rest {
            Rest::Paths(paths) => paths,
            Rest::Rows(compute) => return compute(object, now_unix_seconds),
            Rest::Printed(paths) => {
                cells.extend(paths.iter().map(|(path, printed)| {
                    let value = evaluate::first(path, object, &mut ROW_VISITS_MAX.clone());
                    match (printed, value.and_then(Value::as_str)) {
                        (Printed::Computed(compute) | Printed::Wide(compute), _) => compute(object),
                        (Printed::Number, _) => value.and_then(Value::as_i64).unwrap_or_default().into(),
                        (Printed::Text | Printed::Date, text) => text.unwrap_or_default().into(),
                        (Printed::Age, None) => "<unknown>".into(),
                        (Printed::Age, Some(time)) => age(time, now_unix_seconds).into(),
                    }
                }));
                return cells;
            }
        };
        let (mut visits, mut bytes) = (ROW_VISITS_MAX, ROW_BYTES_MAX);
        for (path, definition) in paths.iter().zip(self.definitions.iter().skip(1)) {
            let value = evaluate::first(path, object, &mut visits).filter(|_| bytes > 0);
            let cell = value.map_or(Value::Null, |value| cell(&definition.kind, value, now_unix_seconds));
            bytes = bytes.saturating_sub(cell.as_str().map_or(0, str::len));
            cells.push(cell);
        }
        cells
    }
}

/// The column of an object's name.
#[must_use]
pub fn name_column() -> TableColumn {
    TableColumn {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: NAME_DESCRIPTION.to_owned(),
        priority: 0,
    }
}

/// Bytes of text in the cells of one object: thousands of columns may show the same large value.
const ROW_BYTES_MAX: usize = 3 << 20;

/// The most values that the paths of one object may pass through together.
const ROW_VISITS_MAX: usize = 2_000_000;

/// Checks that a column's path is well formed.
///
/// # Errors
/// Upstream's text (`client-go/util/jsonpath`): `unclosed action`, `invalid array index x`.
pub fn validate_path(json_path: &str) -> Result<(), String> {
    path::parse(json_path).map(drop)
}

fn cell(kind: &str, value: &Value, now: i64) -> Value {
    match (kind, value) {
        ("string", value) => text(value).into(),
        #[allow(clippy::cast_possible_truncation, reason = "Go cuts the fraction off")]
        ("integer", Value::Float(x)) => Value::Int(*x as i64),
        ("integer", Value::Int(_)) | ("number", Value::Float(_)) | ("boolean", Value::Bool(_)) => {
            value.clone()
        }
        #[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
        ("number", Value::Int(n)) => Value::Float(*n as f64),
        ("date", Value::String(text)) => age(text, now).into(),
        _ => Value::Null,
    }
}

/// As Go prints a value into text: strings bare, lists and maps as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Float(x) => kindom_formats::go::float(*x),
        other => other.to_string(),
    }
}

/// The age of a time as tables show it: `5m`.
#[must_use]
pub fn age(text: &str, now: i64) -> String {
    match text {
        "" | "null" => "<unknown>".to_owned(),
        text => match time::parse(text) {
            Ok(time::ZERO) => "<unknown>".to_owned(),
            Ok(then) => age::human(now.saturating_sub(then)),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::crd::ColumnDefinition;
    use kindom_api::json::parse;

    use super::{Columns, validate_path};

    const NOW: i64 = 1_700_000_000;

    fn column(kind: &str, json_path: &str) -> ColumnDefinition {
        ColumnDefinition {
            name: "C".to_owned(),
            kind: kind.to_owned(),
            json_path: json_path.to_owned(),
            ..ColumnDefinition::default()
        }
    }

    const OBJECT: &str = r#"{"metadata":{"name":"n","creationTimestamp":"2023-11-14T22:08:20Z","labels":{"a.b/c":"l"}},
        "spec":{"s":"text","n":3,"f":1.5,"b":true,"nil":null,"m":{"k":"v"},"l":["x","y","z"],
                "conds":[{"type":"Ready","status":"True","n":1},{"type":"Other","status":"False","n":2}],
                "when":"2023-11-14T22:13:21Z","old":"2013-11-14T00:00:00Z","bad":"soon","empty":""}}"#;

    fn check(kind: &str, json_path: &str, want: &str) {
        let columns = Columns::compile(&[column(kind, json_path)]);
        let cells = columns.cells(&parse(OBJECT.as_bytes()).unwrap(), NOW);
        assert_eq!(cells.get(1).map(ToString::to_string).as_deref(), Some(want), "{kind} {json_path}");
    }

    #[test]
    fn cells_have_their_columns_type() {
        check("string", ".spec.s", r#""text""#);
        check("string", ".spec.n", r#""3""#);
        check("string", ".spec.f", r#""1.5""#);
        check("string", ".spec.b", r#""true""#);
        check("string", ".spec.m", r#""{\"k\":\"v\"}""#);
        check("string", ".spec.l", r#""[\"x\",\"y\",\"z\"]""#);
        check("string", ".spec.nil", r#""\u003cno value\u003e""#);
        check("string", ".spec.missing", "null");
        check("integer", ".spec.n", "3");
        check("integer", ".spec.f", "1");
        check("integer", ".spec.s", "null");
        check("number", ".spec.f", "1.5");
        check("number", ".spec.n", "3");
        check("boolean", ".spec.b", "true");
        check("boolean", ".spec.s", "null");
        check("date", ".metadata.creationTimestamp", r#""5m""#);
        check("date", ".spec.when", r#""0s""#);
        check("date", ".spec.old", r#""10y""#);
        check("date", ".spec.bad", r#""\u003cinvalid\u003e""#);
        check("date", ".spec.empty", r#""\u003cunknown\u003e""#);
        check("date", ".spec.n", "null");
        check("date", ".spec.missing", "null");
        check("object", ".spec.m", "null");
    }

    #[test]
    fn paths_reach_what_they_do_upstream() {
        check("string", "$.spec.s", r#""text""#);
        check("string", "@.spec.s", r#""text""#);
        check("string", "['spec']['s']", r#""text""#);
        check("string", r".metadata.labels.a\.b/c", r#""l""#);
        check("string", r".metadata.labels['a\.b/c']", r#""l""#);
        check("string", ".metadata.labels['a.b/c']", "null");
        check("string", ".spec.l[0]", r#""x""#);
        check("string", ".spec.l[-1]", r#""z""#);
        check("string", ".spec.l[1:]", r#""y""#);
        check("string", ".spec.l[-2:3]", r#""y""#);
        check("string", ".spec.l[::2]", r#""x""#);
        check("string", ".spec.l[*]", r#""x""#);
        check("string", ".spec.l[9]", "null");
        check("string", ".spec.s[0]", "null");
        check("string", ".spec.l[2,0]", r#""z""#);
        check("string", ".spec.m.*", r#""v""#);
        check("string", "..status", r#""True""#);
        check("string", r#".spec.conds[?(@.type=="Other")].status"#, r#""False""#);
        check("string", r#".spec.conds[?(@.type=='Other')].status"#, r#""False""#);
        check("string", ".spec.conds[?(@.n>1)].type", r#""Other""#);
        check("string", ".spec.conds[?(@.n<=1)].type", r#""Ready""#);
        check("string", r#".spec.conds[?(@.type!="Ready")].type"#, r#""Other""#);
        check("string", ".spec.conds[?(@.status)].type", r#""Ready""#);
        check("string", ".spec.conds[?(@.absent)].type", "null");
        check("string", r#".spec.conds[?(@.n=="1")].type"#, "null");
        check("string", ".spec.m[?(@.a==1)]", "null");
        check("string", "spec.s", "null");
        check("string", ".spec.nil.deeper", "null");
    }

    #[test]
    fn malformed_paths_are_named() {
        for (path, want) in [
            (".a", Ok(())),
            ("", Ok(())),
            (".a[", Err("unterminated array")),
            (".a[x]", Err("invalid array index x")),
            (".a[?(@.b", Err("unterminated filter")),
            (".a[?(@.b)", Err("unclosed array expect ]")),
            (".a!", Ok(())),
            ("!", Err("unrecognized character in action: U+0021 '!'")),
            ("{", Err("unrecognized character in action: U+007B '{'")),
            ("..a..b", Ok(())),
            ("....", Err("invalid multiple recursive descent")),
            ("'a", Err("unterminated quoted string")),
            ("1.2.3", Err("cannot parse number 1.2.3")),
            (".a\n", Err("unclosed action")),
        ] {
            assert_eq!(validate_path(path), want.map_err(str::to_owned), "{path}");
        }
    }

    #[test]
    fn a_path_that_multiplies_gives_up() {
        let items = format!("[{}]", vec!["[[1,1,1],[1,1,1]]"; 200].join(","));
        let object = parse(format!(r#"{{"a":{items}}}"#).as_bytes()).unwrap();
        let columns = Columns::compile(&[column("string", &"...*".repeat(40))]);
        assert_eq!(columns.cells(&object, NOW).get(1).map(ToString::to_string).as_deref(), Some("null"));
    }

    #[test]
    fn headings_have_the_name_and_age_by_default() {
        let columns = Columns::compile(&[]);
        let names: Vec<&str> = columns.definitions().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["Name", "Age"]);
        let columns = Columns::compile(&[column("string", ".spec.s")]);
        let last = columns.definitions().last().unwrap();
        assert_eq!(last.description, "Custom resource definition column (in JSONPath format): .spec.s");
        assert_eq!(columns.definitions().len(), 2);
    }

    #[test]
    fn a_row_has_bounds() {
        let text = "x".repeat(1 << 20);
        let object = parse(format!(r#"{{"s":"{text}"}}"#).as_bytes()).unwrap();
        let columns = Columns::compile(&vec![column("string", ".s"); 1_000]);
        let cells = columns.cells(&object, NOW);
        assert_eq!(cells.len(), 1_001);
        assert_eq!(cells.iter().filter(|cell| !cell.is_null()).count(), 1 + 3);
        let object = parse(format!("{{\"l\":[{}1]}}", "1,".repeat(50_000)).as_bytes()).unwrap();
        let columns = Columns::compile(&vec![column("integer", ".l[*]"); 1_000]);
        let shown = columns.cells(&object, NOW).iter().filter(|cell| !cell.is_null()).count();
        assert!((20..100).contains(&shown), "{shown}");
    }
}
