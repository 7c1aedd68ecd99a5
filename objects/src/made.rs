//! The trees of values that expressions make: in the two forms in which upstream has them, as fields of an apply configuration
//! (`dynamic.ObjectVal.Value`) and as values of a JSON patch (`structpb.Value`), and as values of an object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::field::{self, go_quote};
use kindom_api::json::{Key, MAX_DEPTH};
use kindom_api::{Map as Tree, Value as Json};
use kindom_cel::value::{List, Map, Message, Value, time};

/// The bytes that the trees of an expression may have together: as many as the largest object. The same value may be in them many times.
const BYTES_MAX: usize = 3 << 20;
/// The bytes of an entry besides its texts.
const ENTRY_BYTES: usize = 8;
/// The most mismatches that an error shows.
const MISMATCHES_MAX: usize = 20;
/// The largest integers that are numbers in JSON (`isJSONSafe`).
const SAFE_MAX: i64 = (1 << 53) - 1;

/// A budget of bytes; without any left, nothing more is made. The bytes that are left for trees, and for looking at what they are made
/// of; and the levels for the present one.
pub(crate) struct Budget {
    bytes: usize,
    bytes_max: usize,
    levels: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: BYTES_MAX, bytes_max: BYTES_MAX, levels: MAX_DEPTH }
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn with_bytes(bytes: usize) -> Self {
        Self { bytes, bytes_max: bytes, ..Self::default() }
    }

    /// # Errors
    /// There are none left.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes.saturating_add(ENTRY_BYTES));
        self.bytes =
            left.ok_or_else(|| format!("the expression made a value of more than {} bytes", self.bytes_max))?;
        Ok(())
    }

    /// The name of a type, which a value may have a great many times.
    fn name(&mut self, of: &Value<'_>) -> Result<Json, String> {
        let name = of.to_string();
        self.spend(name.len())?;
        Ok(name.into())
    }

    fn down(&mut self) -> Result<(), String> {
        self.levels = self.levels.checked_sub(1).ok_or("exceeded max depth")?;
        Ok(())
    }

    fn up(&mut self) {
        self.levels += 1;
    }
}

/// The names of a value's messages are those of the fields that they are in (`CheckTypeNamesMatchFieldPathNames`).
///
/// # Errors
/// The mismatches.
pub(crate) fn check_names(message: &Message<'_>, budget: &mut Budget) -> Result<(), String> {
    let mut check = TypeNames { path: message.name.to_string(), wrong: Vec::new(), budget };
    check.message(message)?;
    match check.wrong.is_empty() {
        true => Ok(()),
        false => Err(check.wrong.join("\n")),
    }
}

struct TypeNames<'b> {
    path: String,
    wrong: Vec<String>,
    budget: &'b mut Budget,
}

impl TypeNames<'_> {
    fn message(&mut self, message: &Message<'_>) -> Result<(), String> {
        if *message.name != *self.path && self.wrong.len() < MISMATCHES_MAX {
            self.wrong.push(format!(
                "unexpected type name {}, expected {}, which matches field name path from root Object type",
                go_quote(&message.name),
                go_quote(&self.path)
            ));
        }
        for (field, value) in &message.fields {
            let before = self.path.len();
            self.budget.spend(field.len())?;
            self.path.push('.');
            self.path.push_str(field);
            self.value(value)?;
            self.path.truncate(before);
        }
        Ok(())
    }

    fn value(&mut self, value: &Value<'_>) -> Result<(), String> {
        self.budget.spend(0)?;
        match value {
            Value::Message(message) if !message.is_patch() => self.message(message),
            Value::List(List::Owned(items)) => items.iter().try_for_each(|item| self.value(item)),
            Value::Map(Map::Owned(entries)) => entries.iter().try_for_each(|(_, value)| self.value(value)),
            _ => Ok(()),
        }
    }
}

/// The configuration that an expression made.
///
/// # Errors
/// A value in it is none that a configuration has; the error names it. Upstream's texts show the values of its own language.
pub(crate) fn configuration(message: &Message<'_>, budget: &mut Budget) -> Result<Json, String> {
    let made = Configuration { path: String::new(), budget }.message(message)?;
    // What stands in an object may be as deep as that is.
    match made.nests_within(MAX_DEPTH) {
        true => Ok(made),
        false => Err("exceeded max depth".to_owned()),
    }
}

struct Configuration<'b> {
    path: String,
    budget: &'b mut Budget,
}

impl Configuration<'_> {
    fn message(&mut self, message: &Message<'_>) -> Result<Json, String> {
        let mut entries: Vec<(Key, Json)> = Vec::with_capacity(message.fields.len());
        for (name, value) in &message.fields {
            let value = self.at(&format!(".{name}"), name.len(), |made| made.field(value))?;
            entries.push((Key::from(&**name), value));
        }
        Ok(Json::Object(entries.into_iter().collect::<Tree>()))
    }

    fn at<T>(
        &mut self,
        step: &str,
        bytes: usize,
        of: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.budget.spend(bytes)?;
        self.budget.down()?;
        let before = self.path.len();
        self.path.push_str(step);
        let made = of(self)?;
        self.path.truncate(before);
        self.budget.up();
        Ok(made)
    }

    /// A field of a message may be a list or a map of values; those have none within them but what stands in an object.
    fn field(&mut self, value: &Value<'_>) -> Result<Json, String> {
        match value {
            Value::Optional(Some(value)) => self.field(value),
            Value::List(List::Owned(items) | List::Added(items, _)) => {
                let item = |(index, item): (usize, &Value<'_>)| {
                    self.at(&format!("[{index}]"), 0, |made| made.part(item))
                };
                let items = items.iter().enumerate().map(item).collect::<Result<Vec<Json>, String>>()?;
                Ok(items.into())
            }
            Value::Map(Map::Owned(entries)) => {
                let mut tree = Tree::new();
                for (key, value) in entries.iter() {
                    let Some(name) = key.as_str() else {
                        return Err(
                            self.refused(&format!("a map whose keys are of type {}", key.type_name()))
                        );
                    };
                    let value = self.at(&format!(".{name}"), name.len(), |made| made.part(value))?;
                    tree.insert(name, value);
                }
                Ok(Json::Object(tree))
            }
            value => self.part(value),
        }
    }

    fn part(&mut self, value: &Value<'_>) -> Result<Json, String> {
        match value {
            Value::Bool(b) => Ok(Json::Bool(*b)),
            Value::Int(n) => Ok(Json::Int(*n)),
            Value::Double(x) if x.is_finite() => Ok(Json::Float(*x)),
            Value::String(text) => {
                self.budget.spend(text.as_str().len())?;
                Ok(text.as_str().into())
            }
            Value::Type(_) => self.budget.name(value),
            Value::Message(message) if !message.is_patch() => self.message(message),
            Value::List(List::Tree(items, _)) => {
                self.budget.spend(items.iter().map(field::bytes).sum())?;
                Ok(Json::Array((*items).clone().into()))
            }
            Value::Map(Map::Tree(map, _)) => {
                let bytes =
                    |(name, value): (&_, &Json)| AsRef::<str>::as_ref(name).len() + field::bytes(value);
                self.budget.spend(map.iter().map(bytes).sum())?;
                Ok(Json::Object((*map).clone()))
            }
            Value::Optional(Some(value)) => self.part(value),
            Value::List(_) => Err(self.refused("a list within a list or map")),
            Value::Map(_) => Err(self.refused("a map within a list or map")),
            value => Err(self.refused(&format!("a value of type {}", value.type_name()))),
        }
    }

    fn refused(&self, what: &str) -> String {
        format!(
            "failed to convert patch object to typed object: {}: an ApplyConfiguration cannot have {what}",
            self.path
        )
    }
}

/// The value of an operation of a JSON patch.
///
/// # Errors
/// It is none of JSON.
pub(crate) fn patch_value(value: &Value<'_>, budget: &mut Budget) -> Result<Json, String> {
    Patch { budget, is_exact: false }.value(value)
}

/// A value of an object: as one of a JSON patch, but that integers are numbers, however large they are. Durations and timestamps are texts.
///
/// # Errors
/// It is none of JSON, or an unsigned integer that objects cannot hold.
pub(crate) fn object_value(value: &Value<'_>, budget: &mut Budget) -> Result<Json, String> {
    Patch { budget, is_exact: true }.value(value)
}

struct Patch<'b> {
    budget: &'b mut Budget,
    /// Integers are numbers, however large they are.
    is_exact: bool,
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
fn rounded(n: u64) -> Json {
    Json::Float(n as f64)
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
fn rounded_signed(n: i64) -> Json {
    match (-SAFE_MAX..=SAFE_MAX).contains(&n) {
        true => Json::Int(n),
        false => Json::Float(n as f64),
    }
}

impl Patch<'_> {
    fn value(&mut self, value: &Value<'_>) -> Result<Json, String> {
        self.budget.spend(0)?;
        self.budget.down()?;
        let json = match value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(n) if self.is_exact || (-SAFE_MAX..=SAFE_MAX).contains(n) => Json::Int(*n),
            Value::Int(_) => value.to_string().into(),
            Value::Uint(n) => match i64::try_from(*n) {
                Ok(n) if self.is_exact || n <= SAFE_MAX => Json::Int(n),
                Err(_) if self.is_exact => return Err(format!("{n} is larger than integers may be")),
                _ => n.to_string().into(),
            },
            Value::Double(x) => number(*x)?,
            Value::String(text) => {
                self.budget.spend(text.as_str().len())?;
                text.as_str().into()
            }
            Value::Bytes(bytes) => self.base64(bytes)?,
            Value::Duration(span) => time::duration_text(*span).into(),
            Value::Timestamp(at) => time::rfc3339(*at).into(),
            Value::List(list) => {
                let mut items: Vec<Json> = Vec::new();
                for item in list.iter() {
                    items.push(self.value(&item.map_err(|why| why.to_string())?)?);
                }
                items.into()
            }
            Value::Map(map) => {
                let mut tree = Tree::new();
                for (key, value) in map.iter() {
                    let Value::String(name) = &key else {
                        return Err(format!(
                            "unsupported type conversion from '{}' to string",
                            key.type_name()
                        ));
                    };
                    let name = name.as_str();
                    self.budget.spend(name.len())?;
                    tree.insert(name, self.value(&value.map_err(|why| why.to_string())?)?);
                }
                Json::Object(tree)
            }
            Value::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
            Value::Optional(None) => return Err("optional.none() dereference".to_owned()),
            Value::Optional(Some(value)) => self.value(value)?,
            Value::Opaque(opaque) => {
                let name = opaque.go_type().rsplit('.').next().unwrap_or_default();
                return Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
            }
            Value::Message(message) if message.is_patch() => {
                return Err("cannot convert to native type: *structpb.Value".to_owned());
            }
            Value::Message(message) => self.message(message)?,
        };
        self.budget.up();
        Ok(json)
    }

    fn base64(&mut self, bytes: &[u8]) -> Result<Json, String> {
        self.budget.spend(bytes.len().saturating_mul(2))?;
        Ok(STANDARD.encode(bytes).into())
    }

    /// Within a message, values go by another way than outside (`structpb.NewValue`).
    fn message(&mut self, message: &Message<'_>) -> Result<Json, String> {
        let mut tree = Tree::new();
        for (name, value) in &message.fields {
            self.budget.spend(name.len())?;
            tree.insert(&**name, self.field(value)?);
        }
        Ok(Json::Object(tree))
    }

    fn field(&mut self, value: &Value<'_>) -> Result<Json, String> {
        match value {
            Value::List(List::Owned(items) | List::Added(items, _)) => {
                Ok(items.iter().map(|item| self.part(item)).collect::<Result<Vec<Json>, String>>()?.into())
            }
            Value::Map(Map::Owned(entries)) => {
                let mut tree = Tree::new();
                for (key, value) in entries.iter() {
                    let Some(name) = key.as_str() else {
                        return Err(format!("a map has keys of type {}", key.type_name()));
                    };
                    self.budget.spend(name.len())?;
                    tree.insert(name, self.part(value)?);
                }
                Ok(Json::Object(tree))
            }
            value => self.part(value),
        }
    }

    fn part(&mut self, value: &Value<'_>) -> Result<Json, String> {
        let invalid = |of: &str| Err(format!("proto: invalid type: {of}"));
        match value {
            Value::Null => invalid("structpb.NullValue"),
            Value::Int(n) => Ok(rounded_signed(*n)),
            Value::Uint(n) => i64::try_from(*n).map_or(Ok(rounded(*n)), |n| Ok(rounded_signed(n))),
            Value::Type(_) => self.budget.name(value),
            Value::Duration(_) => invalid("time.Duration"),
            Value::Timestamp(_) => invalid("time.Time"),
            Value::List(List::Owned(_) | List::Added(..)) => invalid("[]ref.Val"),
            Value::Map(Map::Owned(_)) => invalid("map[ref.Val]ref.Val"),
            Value::Opaque(opaque) => invalid(opaque.go_type()),
            value => self.value(value),
        }
    }
}

fn number(x: f64) -> Result<Json, String> {
    if x.is_finite() {
        return Ok(Json::Float(x));
    }
    let shown = if x.is_nan() {
        "NaN"
    } else if x > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    };
    Err(format!(
        "json: error calling MarshalJSON for type *structpb.Value: proto: google.protobuf.Value.number_value: invalid {shown} value"
    ))
}
