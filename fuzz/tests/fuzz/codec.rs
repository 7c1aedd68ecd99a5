//! The inputs of `kindom-codec`: bodies, apply patches and manifests in JSON and YAML.

use kindom_api::json::{self, MAX_DEPTH, Value};
use kindom_api::names::GroupVersionKind;
use kindom_codec::yaml::to_yaml;
use kindom_codec::{self as codec, FieldValidation, Format};
use kindom_fuzz::{Mutants, Target};

use crate::seeds;

pub(crate) const VALIDATIONS: [FieldValidation; 3] =
    [FieldValidation::Ignore, FieldValidation::Warn, FieldValidation::Strict];

pub(crate) fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// A tree as its text is read back: `-0`, the text of a negative zero, is the integer 0 to every reader, as in Go.
pub(crate) fn read_back(mut value: Value) -> Value {
    match &mut value {
        Value::Float(x) if *x == 0.0 => return Value::Int(0),
        Value::Array(items) => items.iter_mut().for_each(|item| *item = read_back(std::mem::take(item))),
        Value::Object(map) => {
            map.iter_mut().for_each(|(_, member)| *member = read_back(std::mem::take(member)));
        }
        _ => {}
    }
    value
}

fn yaml() -> Mutants {
    let widget = to_yaml(&json::parse(seeds::WIDGET.as_bytes()).unwrap());
    let crd = to_yaml(&json::parse(seeds::CRD.as_bytes()).unwrap());
    let texts = [
        widget.as_str(),
        &crd,
        "a: &x [1, 2]\nb: *x\n<<: {c: d}\n",
        "---\n- 'it''s'\n- \"\\u00e9\\n\"\n- |+\n  text\n\n- >-\n  folded\n  more\n---\n? complex\n: value\n...\n",
        "{a: 0x1F, b: 0o17, c: .inf, d: 1_000, e: 2026-01-01, f: ~, g: yes, h: !!str 1, i: !!binary aGk=}\n",
    ];
    let tokens = [
        "- ",
        ": ",
        "? ",
        "\n",
        "  ",
        "\t",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "!!int ",
        "|\n",
        ">\n",
        "---\n",
        "...\n",
        "#",
        "'",
        "\"",
        "[",
        "]",
        "{",
        "}",
        ",",
        "%YAML 1.2\n",
        "@",
        "`",
        "\u{85}",
        "\u{2028}",
    ];
    Mutants::of(texts).tokens(&tokens).nests(&[
        ("[", "]"),
        ("{a: ", "}"),
        ("- ", ""),
        ("? ", ""),
        ("[&a ", ",*a]"),
    ])
}

#[test]
fn yaml_bodies() {
    Target::new("yaml", 2000).rounds(400).run(yaml(), |bytes| {
        let Ok(value) = codec::any(bytes, Format::Yaml) else { return };
        assert!(depth(&value) <= MAX_DEPTH, "{} levels", depth(&value));
        let printed = to_yaml(&value);
        let again = codec::any(printed.as_bytes(), Format::Yaml);
        assert_eq!(again.as_ref().map(Value::to_vec), Ok(read_back(value).to_vec()), "printed as\n{printed}");
    });
}

#[test]
fn objects_and_documents() {
    let widget = GroupVersionKind::new("example.com", "v1", "Widget");
    for (name, inputs) in [("json-bodies", seeds::json()), ("yaml-bodies", yaml())] {
        let widget = widget.clone();
        Target::new(name, 4000).rounds(300).run(inputs, move |bytes| {
            for format in [Format::Json, Format::Yaml] {
                for validation in VALIDATIONS {
                    let _ = codec::object(bytes, format, &widget, None, false, validation);
                }
                if let Ok(decoded) =
                    codec::object(bytes, format, &widget, None, true, FieldValidation::Strict)
                {
                    assert!(depth(&decoded.value) <= MAX_DEPTH);
                }
            }
            if let Ok(documents) = codec::documents(bytes) {
                assert!(documents.iter().all(|value| depth(value) <= MAX_DEPTH));
            }
        });
    }
}

const APPLIES: [&str; 5] = [
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  x: &x [1, 2.5]\n  y: *x\n  <<: {z: 1}\n",
    r#"{"apiVersion":"example.com/v1","kind":"Widget","spec":{"x":1.0,"y":"\u00e9","a":1,"a":2}}"#,
    "---\na: 1\n---\nb: 2\n",
    "null",
    "[1]",
];

#[test]
fn apply_patches() {
    let tokens = [
        "- ", ": ", "\n", "  ", "<<: ", "&a ", "*a", "!!str ", "'", "\"", "\\u", "{", "}", "[", "]", ",",
        "---\n",
    ];
    let nests = [("[", "]"), ("{\"a\":", "}"), ("- ", "")];
    let inputs = Mutants::of(APPLIES).tokens(&tokens).nests(&nests);
    Target::new("apply-patch", 4000).run(inputs, |bytes| {
        let Ok(configuration) = codec::configuration(bytes) else { return };
        let _ = configuration.strict_text();
        if let Ok(value) = configuration.value {
            assert!(value.as_object().is_some());
            assert!(json::parse(&value.to_vec()).is_ok(), "deeper than {MAX_DEPTH}");
        }
    });
}

#[test]
fn mistakes_in_json() {
    let texts =
        [r#"{"a":[1,-2.5e3,"\u00e9",true,null]}"#, r#"{"a":1e999}"#, "[1,]", r#"{"a" 1}"#, "tru", "\"\\x\""];
    let tokens = ["{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "e", "-", ".", "1e400", "nul", "\u{1}"];
    let nests = [("[", "]"), ("{\"a\":", "}")];
    let inputs = Mutants::of(texts).tokens(&tokens).nests(&nests);
    Target::new("json-mistakes", 200).rounds(1500).run(inputs, |bytes| {
        let error = codec::go_json::go_syntax_error(bytes);
        if json::parse(bytes).is_ok() {
            assert_eq!(error, None, "a mistake in what can be read");
        }
        let _ = codec::duplicate_fields(bytes);
    });
}
