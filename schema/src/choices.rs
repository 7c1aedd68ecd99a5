//! `enum`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kindom_api::Value;

/// Up to how many choices are compared one by one.
const FEW: usize = 16;

/// The values that an `enum` allows, in its order.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    list: Box<[Value]>,
    /// Hash and index of each, sorted; empty if there are few.
    index: Box<[(u64, u32)]>,
}

impl Choices {
    pub(crate) fn new(list: &[Value]) -> Self {
        let mut index = Vec::new();
        if list.len() > FEW {
            index.extend((0..).zip(list).map(|(i, choice)| (hash(choice), i)));
            index.sort_unstable();
            // Equal ones would be compared with one by one.
            index.dedup_by_key(|(hash, _)| *hash);
        }
        Self { list: list.into(), index: index.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if a value equals one of the choices, after Go's conversion to the choice's type: a fraction is cut off,
    /// a whole number equals a float. Null is no choice, even where it is listed.
    pub(crate) fn allow(&self, value: &Value) -> bool {
        if self.index.is_empty() {
            return self.list.iter().any(|choice| chosen(value, choice));
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "the conversions that are meant"
        )]
        let converted = match value {
            Value::Float(x) => Value::Int(*x as i64),
            Value::Int(n) => Value::Float(*n as f64),
            _ => Value::Null,
        };
        [value, &converted].iter().any(|like| {
            let hash = hash(like);
            let found = self.index.binary_search_by_key(&hash, |(hash, _)| *hash).ok();
            let found = found.and_then(|at| self.index.get(at)).and_then(|(_, i)| usize::try_from(*i).ok());
            found.and_then(|i| self.list.get(i)).is_some_and(|choice| {
                // Two choices of one hash, of which one was kept, are next to impossible.
                chosen(value, choice) || self.list.iter().any(|choice| chosen(value, choice))
            })
        })
    }

    /// As messages list them.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |choice: &Value| match choice {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.list.iter().map(text).collect()
    }
}

fn chosen(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) | (_, Value::Null) => false,
        #[allow(clippy::cast_possible_truncation, reason = "the conversion meant")]
        (Value::Float(x), Value::Int(n)) => *x as i64 == *n,
        #[allow(clippy::cast_precision_loss, reason = "the conversion meant")]
        (Value::Int(n), Value::Float(x)) => *n as f64 == *x,
        (value, choice) => value == choice,
    }
}

/// Of equal values the same.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::String(text) => text.hash(&mut hasher),
        // A float without fraction prints as the integer that it is not equal to.
        Value::Float(x) => (1_u8, (x + 0.0).to_bits()).hash(&mut hasher),
        other => (2_u8, other.to_vec()).hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use kindom_api::Value;
    use kindom_api::json::parse;

    use super::Choices;

    #[test]
    fn many_choices_allow_what_few_do() {
        let few = parse(br#"["a","b",1,2.5,4.0,null,true,{"x":[1]},[],"1"]"#).unwrap();
        let few = few.as_array().unwrap();
        let many: Vec<Value> =
            (0..100).map(|i| Value::from(format!("other {i}"))).chain(few.iter().cloned()).collect();
        let asked = parse(
            br#"["a","c",1,1.9,2,2.5,4,4.0,3.999,null,true,false,{"x":[1]},{"x":[1.0]},{"x":[2]},[],[null],"1","",0,0.5]"#,
        )
        .unwrap();
        let (few, many) = (Choices::new(few), Choices::new(&many));
        for value in asked.as_array().unwrap() {
            assert_eq!(few.allow(value), many.allow(value), "{value}");
        }
        assert!(many.allow(&"other 7".into()) && !many.allow(&"other 100".into()));
        assert!(many.allow(&Value::Float(1.9)) && !many.allow(&Value::Null));
    }
}
