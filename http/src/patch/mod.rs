//! Patches (apiserver `pkg/endpoints/handlers/patch.go`, 1.37).
//!
//! A patch is decoded once and may then be applied again and again, as a write that lost a race does.

mod json_patch;
mod merge;
mod strategic;

use kindom_api::field;
use kindom_api::json::{self, Value};

use crate::RequestError;
use kindom_codec::go_json::{go_syntax_error, go_type};
use kindom_codec::json_patch::{self as operations, Operation};
use kindom_codec::{FieldValidation, duplicate_fields, strict_text};

pub use strategic::StrategicPatch;

/// A decoded JSON patch or merge patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    kind: Kind,
    strict_errors: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Json(Vec<Operation>),
    Merge(Value),
}

impl Patch {
    /// About as many bytes as it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Json(operations) => operations.iter().map(Operation::bytes).sum(),
            Kind::Merge(value) => field::bytes(value),
        }
    }

    /// Decodes a JSON patch (RFC 6902).
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a body that is no list of operations, [`RequestError::TooLarge`] for more than
    /// 10,000 of them. An operation that is malformed only fails to apply.
    pub fn json(bytes: &[u8], validation: FieldValidation) -> Result<Self, RequestError> {
        let strict = validation != FieldValidation::Ignore;
        let (value, _) = parse(bytes, strict)?;
        let strict_errors = if strict { json_patch::strict_errors(&value, bytes)? } else { Vec::new() };
        let operations = operations::operations(value)?;
        Ok(Self { kind: Kind::Json(operations), strict_errors })
    }

    /// Decodes a merge patch (RFC 7386).
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a body that is no JSON object (Ignore accepts a list as well, which then makes the
    /// object invalid).
    pub fn merge(bytes: &[u8], validation: FieldValidation) -> Result<Self, RequestError> {
        let strict = validation != FieldValidation::Ignore;
        let invalid = || RequestError::BadRequest("Invalid JSON Patch".to_owned());
        let (value, has_duplicates) = parse(bytes, strict)?;
        match &value {
            Value::Object(_) => {}
            Value::Array(_) if !strict => {}
            Value::Null => return Err(invalid()),
            other if strict => {
                let found = go_type(other);
                return Err(decoding(format!(
                    "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
            _ => return Err(invalid()),
        }
        let strict_errors = if strict && has_duplicates { duplicate_fields(bytes) } else { Vec::new() };
        Ok(Self { kind: Kind::Merge(value), strict_errors })
    }

    /// Fields of the patch itself that are unknown or stand twice; empty under [`FieldValidation::Ignore`].
    #[must_use]
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// Applies it to an object. The result is an object that nests no deeper than [`json::MAX_DEPTH`], or than the object
    /// did before; the caller checks that it has a kind, and the right one.
    ///
    /// # Errors
    /// [`RequestError::PatchDoesNotApply`] for an operation or test that fails; [`RequestError::Invalid`] if the result is
    /// no object.
    pub fn apply(&self, object: Value) -> Result<Value, RequestError> {
        let patched = match &self.kind {
            Kind::Json(operations) => operations::apply(operations, object)
                .map_err(|why| RequestError::PatchDoesNotApply(why.to_string()))?,
            Kind::Merge(patch) => merge::apply(object, patch.clone()),
        };
        if patched.as_object().is_none() {
            let detail = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into an object",
                go_type(&patched)
            );
            return Err(RequestError::invalid_patch(patched.to_string(), detail));
        }
        Ok(patched)
    }
}

/// `true` if it is not even JSON.
#[must_use]
pub fn is_malformed_json(bytes: &[u8]) -> bool {
    go_syntax_error(bytes).is_some()
}

/// The 422 for a patch with strict errors: its own, and those of the patched object.
#[must_use]
pub fn strict_error(patched: &Value, errors: &[String]) -> RequestError {
    RequestError::invalid_patch(patched.to_string(), strict_text(errors))
}

/// The 422 for a patch that made an object that cannot be decoded, such as one without a kind.
#[must_use]
pub fn undecodable(patched: &Value, why: &str) -> RequestError {
    RequestError::invalid_patch(patched.to_string(), why)
}

/// The value, and whether a field stands twice in it.
fn parse(bytes: &[u8], strict: bool) -> Result<(Value, bool), RequestError> {
    json::parse_telling(bytes).map_err(|e| match go_syntax_error(bytes) {
        Some(_) => RequestError::BadRequest("invalid JSON patch".to_owned()),
        None if strict => decoding(e.to_string()),
        None => RequestError::BadRequest(e.to_string()),
    })
}

fn decoding(why: String) -> RequestError {
    RequestError::BadRequest(format!("error decoding patch: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Patch, strict_error};
    use crate::RequestError;
    use kindom_api::json::{MAX_DEPTH, parse};
    use kindom_codec::FieldValidation::{self, Ignore, Warn};

    fn run(patch: Result<Patch, RequestError>, object: &str) -> String {
        match patch.and_then(|p| p.apply(parse(object.as_bytes()).unwrap())) {
            Ok(value) => value.to_string(),
            Err(e) => format!("error: {e}"),
        }
    }

    fn json(patch: &str, object: &str, want: &str) {
        assert_eq!(run(Patch::json(patch.as_bytes(), Warn), object), want, "{patch}");
    }

    fn merge(validation: FieldValidation, patch: &str, object: &str, want: &str) {
        assert_eq!(run(Patch::merge(patch.as_bytes(), validation), object), want, "{patch}");
    }

    #[test]
    fn operations() {
        json(r#"[{"op":"add","path":"/b","value":2}]"#, r#"{"a":1}"#, r#"{"a":1,"b":2}"#);
        json(r#"[{"op":"add","path":"/b","value":null}]"#, r#"{"a":1}"#, r#"{"a":1,"b":null}"#);
        json(r#"[{"op":"add","path":"/b"}]"#, r#"{"a":1}"#, r#"{"a":1,"b":null}"#);
        json(r#"[{"op":"add","path":"/l/1","value":9}]"#, r#"{"l":[1,2]}"#, r#"{"l":[1,9,2]}"#);
        json(r#"[{"op":"add","path":"/l/-","value":9}]"#, r#"{"l":[1,2]}"#, r#"{"l":[1,2,9]}"#);
        json(r#"[{"op":"add","path":"/l/-1","value":9}]"#, r#"{"l":[1,2]}"#, r#"{"l":[1,2,9]}"#);
        json(r#"[{"op":"remove","path":"/l/0"}]"#, r#"{"l":[1,2]}"#, r#"{"l":[2]}"#);
        json(r#"[{"op":"remove","path":"/l/-1"}]"#, r#"{"l":[1,2]}"#, r#"{"l":[1]}"#);
        json(r#"[{"op":"replace","path":"/l/1","value":{}}]"#, r#"{"l":[1,2]}"#, r#"{"l":[1,{}]}"#);
        json(r#"[{"op":"replace","path":"","value":{"z":1}}]"#, r#"{"a":1}"#, r#"{"z":1}"#);
        json(r#"[{"op":"move","from":"/a","path":"/b"}]"#, r#"{"a":1}"#, r#"{"b":1}"#);
        json(r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"a":[1]}"#, r#"{"a":[1],"b":[1]}"#);
        json(r#"[{"op":"add","path":"/a~1b/~0","value":1}]"#, r#"{"a/b":{}}"#, r#"{"a/b":{"~":1}}"#);
        json(r#"[{"op":"add","path":"/","value":1}]"#, "{}", r#"{"":1}"#);
        json("[]", r#"{"a":1}"#, r#"{"a":1}"#);
        json("null", r#"{"a":1}"#, r#"{"a":1}"#);
        // As upstream: a field that is not there can be replaced.
        json(r#"[{"op":"replace","path":"/b","value":1}]"#, "{}", r#"{"b":1}"#);
    }

    #[test]
    fn tests_of_operations() {
        json(
            r#"[{"op":"test","path":"/a","value":{"x":[1,"y"]}}]"#,
            r#"{"a":{"x":[1,"y"]}}"#,
            r#"{"a":{"x":[1,"y"]}}"#,
        );
        json(r#"[{"op":"test","path":"/b","value":null}]"#, "{}", "{}");
        json(r#"[{"op":"test","path":"/b"}]"#, "{}", "{}");
        json(r#"[{"op":"test","path":"/b","value":null}]"#, r#"{"b":null}"#, r#"{"b":null}"#);
        json(r#"[{"op":"test","path":"","value":{"a":1}}]"#, r#"{"a":1}"#, r#"{"a":1}"#);
        let error = "error: testing value /a failed: test failed";
        json(r#"[{"op":"test","path":"/a","value":2}]"#, r#"{"a":1}"#, error);
        json(r#"[{"op":"test","path":"/a","value":1.5}]"#, r#"{"a":1}"#, error);
        json(r#"[{"op":"test","path":"/a","value":null}]"#, r#"{"a":1}"#, error);
        json(r#"[{"op":"test","path":"/a"}]"#, r#"{"a":1}"#, error);
        json(r#"[{"op":"test","path":"/a","value":1}]"#, "{}", error);
    }

    #[test]
    fn what_does_not_apply() {
        for patch in [
            r#"{"op":"add","path":"/x/y","value":1}"#,
            r#"{"op":"add","path":"","value":1}"#,
            r#"{"op":"add","path":"x","value":1}"#,
            r#"{"op":"add","path":"/a/b","value":1}"#,
            r#"{"op":"add","path":"/l/3","value":1}"#,
            r#"{"op":"add","path":"/l/-4","value":1}"#,
            r#"{"op":"add","path":"/l/x","value":1}"#,
            r#"{"op":"add","value":1}"#,
            r#"{"op":"remove","path":"/x"}"#,
            r#"{"op":"remove","path":"/l/2"}"#,
            r#"{"op":"remove","path":"/l/-"}"#,
            r#"{"op":"replace","path":"/l/2","value":1}"#,
            r#"{"op":"replace","path":"/x/y","value":1}"#,
            r#"{"op":"replace","path":"","value":1}"#,
            r#"{"op":"replace","path":""}"#,
            r#"{"op":"move","from":"/x","path":"/y"}"#,
            r#"{"op":"move","path":"/y"}"#,
            r#"{"op":"copy","from":"/l/9","path":"/y"}"#,
            r#"{"op":"test","path":"/x/y","value":1}"#,
            r#"{"op":"jump","path":"/x"}"#,
            r#"{"path":"/x"}"#,
        ] {
            let result = Patch::json(format!("[{patch}]").as_bytes(), Warn)
                .unwrap()
                .apply(parse(br#"{"a":1,"l":[1,2]}"#).unwrap());
            assert!(matches!(result, Err(RequestError::PatchDoesNotApply(_))), "{patch}: {result:?}");
        }
    }

    #[test]
    fn malformed_patches_are_400() {
        let check = |validation, patch: &str, want: &str| {
            let error = Patch::json(patch.as_bytes(), validation).unwrap_err();
            assert_eq!(error, RequestError::BadRequest(want.to_owned()), "{patch}");
        };
        check(Warn, "{", "invalid JSON patch");
        check(Ignore, "", "invalid JSON patch");
        check(
            Warn,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        );
        check(Ignore, "{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
        check(
            Warn,
            r#"[{"op":5}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        );
        check(Ignore, "[5]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation");
        let many = format!("[{}]", vec![r#"{"op":"test","path":"/x"}"#; 10_001].join(","));
        assert_eq!(
            Patch::json(many.as_bytes(), Warn).unwrap_err().to_string(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }

    #[test]
    fn strict_errors_of_operations() {
        let patch = br#"[{"op":"test","path":"/x","op":"test","extra":{"a":1}},{"Op":"x"}]"#;
        assert_eq!(
            Patch::json(patch, Warn).unwrap().strict_errors(),
            [
                "json patch duplicate field \"[0].op\"",
                "json patch unknown field \"[0].extra\"",
                "json patch unknown field \"[1].Op\"",
            ]
        );
        assert!(Patch::json(patch, Ignore).unwrap().strict_errors().is_empty());
        let patch = Patch::merge(br#"{"a":{"b":1,"b":2}}"#, Warn).unwrap();
        assert_eq!(patch.strict_errors(), ["duplicate field \"a.b\""]);
        assert_eq!(
            strict_error(&parse(b"{}").unwrap(), patch.strict_errors()).to_string(),
            " is invalid: patch: Invalid value: \"{}\": strict decoding error: duplicate field \"a.b\""
        );
    }

    #[test]
    fn merges() {
        merge(Warn, r#"{"a":2,"b":{"c":1}}"#, r#"{"a":1}"#, r#"{"a":2,"b":{"c":1}}"#);
        merge(Warn, r#"{"a":null,"b":null}"#, r#"{"a":1}"#, "{}");
        merge(Warn, r#"{"a":{"b":null,"c":1}}"#, r#"{"a":{"b":1,"d":2}}"#, r#"{"a":{"c":1,"d":2}}"#);
        merge(Warn, r#"{"a":{"b":null,"c":{"d":null}}}"#, "{}", r#"{"a":{"c":{}}}"#);
        merge(Warn, r#"{"a":[1]}"#, r#"{"a":[2,3]}"#, r#"{"a":[1]}"#);
        merge(Warn, r#"{"a":{"b":1}}"#, r#"{"a":5}"#, r#"{"a":{"b":1}}"#);
        merge(Warn, r#"{"a":5}"#, r#"{"a":{"b":1}}"#, r#"{"a":5}"#);
        // Upstream's library drops nulls from maps within new lists, unlike the RFC; not from one that takes the
        // place of a map.
        merge(Warn, r#"{"a":[{"b":null},null]}"#, r#"{"a":[1]}"#, r#"{"a":[{},null]}"#);
        merge(Warn, r#"{"a":[{"b":null}]}"#, r#"{"a":{}}"#, r#"{"a":[{"b":null}]}"#);
        merge(Warn, "{}", r#"{"a":null}"#, r#"{"a":null}"#);
    }

    #[test]
    fn malformed_merges() {
        merge(Warn, "null", "{}", "error: Invalid JSON Patch");
        merge(Ignore, "{", "{}", "error: invalid JSON patch");
        merge(Ignore, "5", "{}", "error: Invalid JSON Patch");
        merge(Warn, "{", "{}", "error: invalid JSON patch");
        merge(
            Warn,
            "[]",
            "{}",
            "error: error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        );
        let error = Patch::merge(b"[1]", Ignore).unwrap().apply(parse(b"{}").unwrap()).unwrap_err();
        assert!(matches!(error, RequestError::Invalid { .. }), "{error}");
    }

    #[test]
    fn copies_and_depth_have_a_bound() {
        let doubling: Vec<String> =
            (0..40).map(|i| format!(r#"{{"op":"copy","from":"/a","path":"/a/x{i}"}}"#)).collect();
        let patch = Patch::json(format!("[{}]", doubling.join(",")).as_bytes(), Warn).unwrap();
        assert!(patch.apply(parse(br#"{"a":{"b":1}}"#).unwrap()).is_err());

        let deeper = r#"{"op":"add","path":"/y","value":{}},{"op":"move","from":"/x","path":"/y/x"},
                        {"op":"move","from":"/y","path":"/x"}"#;
        let patch = format!("[{}]", vec![deeper; 3_000].join(","));
        let patch = Patch::json(patch.as_bytes(), Warn).unwrap();
        let error = patch.apply(parse(br#"{"x":{}}"#).unwrap()).unwrap_err();
        assert_eq!(error, RequestError::PatchDoesNotApply("exceeded max depth".into()));
    }

    /// Runs something on a stack half as large as a worker's.
    fn on_half_a_stack(run: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn no_operation_makes_a_document_deeper_than_any_may_be() {
        // Each round puts 200 levels around what there is.
        let nested = "[".repeat(200) + &"]".repeat(200);
        let innermost = "/0".repeat(199);
        let around = format!(
            r#"{{"op":"add","path":"/y","value":{nested}}},{{"op":"WORD","from":"/x","path":"/y{innermost}/-"}},
               {{"op":"move","from":"/y","path":"/x"}}"#
        );
        for (word, rounds) in [("move", 3_000), ("copy", 3_000), ("move", 2), ("copy", 2)] {
            let patch = format!("[{}]", vec![around.replace("WORD", word); rounds].join(","));
            on_half_a_stack(move || {
                let patch = Patch::json(patch.as_bytes(), Warn).unwrap();
                let error = patch.apply(parse(br#"{"x":[]}"#).unwrap()).unwrap_err();
                assert_eq!(error, RequestError::PatchDoesNotApply("exceeded max depth".into()));
            });
        }
        // To the last level, and one further.
        let at = |levels: usize| {
            let (nested, path) = ("[".repeat(levels) + &"]".repeat(levels), "/a/0/0/0/-");
            let [add, replace, test] = ["add", "replace", "test"].map(|op| {
                let path = if op == "add" { path } else { "/a/0/0/0/0" };
                format!(r#"{{"op":"{op}","path":"{path}","value":{nested}}}"#)
            });
            let patch = Patch::json(format!("[{add},{replace},{test}]").as_bytes(), Warn).unwrap();
            patch.apply(parse(br#"{"a":[[[[]]]]}"#).unwrap())
        };
        assert!(at(MAX_DEPTH - 5).unwrap().nests_within(MAX_DEPTH));
        assert_eq!(at(MAX_DEPTH - 4), Err(RequestError::PatchDoesNotApply("exceeded max depth".into())));
    }

    #[test]
    fn to_measure_is_work_too() {
        let wide = format!(r#"{{"x":[{}1],"y":[]}}"#, "1,".repeat(100_000));
        let round = r#"{"op":"move","from":"/x","path":"/y/-"},{"op":"move","from":"/y/0","path":"/x"}"#;
        let patch = format!("[{}]", vec![round; 5_000].join(","));
        let patch = Patch::json(patch.as_bytes(), Ignore).unwrap();
        let error = patch.apply(parse(wide.as_bytes()).unwrap()).unwrap_err();
        assert_eq!(error, RequestError::PatchDoesNotApply("the patch takes too much work".into()));
    }

    /// As many entries as fit into a patch go at once.
    #[test]
    fn nulls_remove_entries_and_nothing_else() {
        let entries = |value: &str| {
            let each: Vec<String> = (0..50_000).map(|n| format!(r#""k{n}":{value}"#)).collect();
            each.join(",")
        };
        let object = format!(r#"{{{},"kept":{{"a":null,"b":1}},"z":null}}"#, entries("1"));
        let patch = format!(r#"{{{},"absent":null,"kept":{{"b":null}},"new":2}}"#, entries("null"));
        let patch = Patch::merge(patch.as_bytes(), Ignore).unwrap();
        let patched = patch.apply(parse(object.as_bytes()).unwrap()).unwrap();
        assert_eq!(patched, parse(br#"{"kept":{"a":null},"new":2,"z":null}"#).unwrap());
    }

    #[test]
    fn work_has_a_bound() {
        let object = format!("{{\"l\":[{}1]}}", "1,".repeat(100_000));
        let run = |path: &str| {
            let add = format!(r#"{{"op":"add","path":"{path}","value":1}}"#);
            let patch = format!("[{}]", vec![add; 2_000].join(","));
            let patch = Patch::json(patch.as_bytes(), Ignore).unwrap();
            patch.apply(parse(object.as_bytes()).unwrap()).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(run("/l/-"), Ok(()));
        assert_eq!(
            run("/l/100000"),
            Err("error in add for path: '/l/100000': the patch takes too much work".into())
        );
        let entries: Vec<String> = (0..100_000).map(|n| format!(r#""k{n}":1"#)).collect();
        let object = format!("{{{}}}", entries.join(","));
        let replaced = |key: &str| {
            let each = |n| format!(r#"{{"op":"replace","path":"/{key}{n}","value":1}}"#);
            let patch = format!("[{}]", (0..2_000).map(each).collect::<Vec<_>>().join(","));
            let patch = Patch::json(patch.as_bytes(), Ignore).unwrap();
            patch.apply(parse(object.as_bytes()).unwrap()).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(replaced("k"), Ok(()));
        let refused = replaced("a").unwrap_err();
        assert!(refused.ends_with("the patch takes too much work"), "{refused}");
    }

    proptest! {
        #[test]
        fn no_patch_panics(
            op in "add|remove|replace|move|copy|test|x",
            path in "(/[ab\\-0-2~]{0,3}){0,3}",
            from in "(/[ab01]{0,2}){0,3}",
            value in "null|1|\\{\\}|\\[1,2\\]",
        ) {
            let patch = format!(r#"[{{"op":"{op}","path":"{path}","from":"{from}","value":{value}}}]"#);
            let object = parse(br#"{"a":{"b":[1,{"a":null}]},"b":[[1],2]}"#).unwrap();
            let _ = Patch::json(patch.as_bytes(), Warn).unwrap().apply(object);
        }

        /// Whatever is moved and copied where: no document is deeper than may be, and what moves on one level may.
        #[test]
        fn no_patch_makes_a_document_too_deep(
            steps in prop::collection::vec(("move|copy|add", "(/[ab]){1,3}", "(/[ab]){1,4}", 0usize..120), 1..40),
        ) {
            let nested = |levels| r#"{"a":"#.repeat(levels) + "{}" + &"}".repeat(levels);
            let mut object = parse(br#"{"a":{"a":{},"b":{}},"b":{}}"#).unwrap();
            for (op, from, path, levels) in steps {
                let value = nested(levels);
                let patch = format!(r#"[{{"op":"{op}","from":"{from}","path":"{path}","value":{value}}}]"#);
                let patch = Patch::json(patch.as_bytes(), Warn).unwrap();
                match patch.apply(object.clone()) {
                    Ok(patched) => object = patched,
                    Err(RequestError::PatchDoesNotApply(why)) if why == "exceeded max depth" => {
                        prop_assert!(!object.nests_within(MAX_DEPTH / 2 - 5) || levels > 100);
                    }
                    Err(_) => {}
                }
                prop_assert!(object.nests_within(MAX_DEPTH));
            }
        }

        /// The result of a merge nests no deeper than the deeper of its two inputs.
        #[test]
        fn a_merge_deepens_nothing(
            patch in prop::collection::vec("[ab]", 0..60),
            object in prop::collection::vec("[ab]", 0..60),
            lists in any::<[bool; 2]>(),
        ) {
            let nested = |keys: &[String], list: bool| {
                let innermost = if list { "[[{\"a\":[]}]]" } else { "{\"a\":null}" };
                keys.iter().rev().fold(innermost.to_owned(), |inner, key| format!(r#"{{"{key}":{inner},"c":1}}"#))
            };
            let (patch, object) = (nested(&patch, lists[0]), nested(&object, lists[1]));
            let decoded = Patch::merge(format!("{{\"x\":{patch}}}").as_bytes(), Ignore).unwrap();
            let patched = decoded.apply(parse(format!("{{\"x\":{object}}}").as_bytes()).unwrap()).unwrap();
            let levels = (0..).find(|n| [&patch, &object].iter().all(|t| parse(t.as_bytes()).unwrap().nests_within(*n)));
            prop_assert!(patched.nests_within(levels.unwrap() + 1));
        }

        #[test]
        fn a_merge_is_idempotent(
            patch in "\\{(\"[ab]\":(null|1|\\{\\}|\\{\"a\":null\\}),){0,3}\"c\":1\\}",
        ) {
            let patch = Patch::merge(patch.as_bytes(), Ignore).unwrap();
            let once = patch.apply(parse(br#"{"a":{"a":1},"b":2}"#).unwrap()).unwrap();
            prop_assert_eq!(patch.apply(once.clone()).unwrap(), once);
        }
    }
}
