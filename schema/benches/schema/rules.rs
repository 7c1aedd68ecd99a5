//! Rules in CEL: the commonest of real registrations, and one that looks at each pair of eight items. The floor of each is
//! validating the same object without its rule.

use std::hint::black_box;

use criterion::Criterion;
use kindom_schema::Schema;

use crate::{CpuTime, tree};

const TEXT: &str = r#"{"type": "string", "maxLength": 64}"#;
const NUMBER: &str = r#"{"type": "integer"}"#;
const DURATION: &str = r#"{"type": "string", "format": "duration"}"#;
const TEXTS: &str = r#"{"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 64}}"#;
const FILTER: &str = r#"{"type": "object", "properties": {"type": {"type": "string", "maxLength": 64},
    "requestMirror": {"type": "string", "maxLength": 64}, "numerator": {"type": "integer"}, "denominator": {"type": "integer"}}}"#;
const LISTENERS: &str = r#"{"type": "array", "maxItems": 16, "items": {"type": "object", "required": ["port", "protocol"],
    "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "maxLength": 64},
    "hostname": {"type": "string", "maxLength": 64}}}}"#;

/// A rule, the schema of `self`, and `self`.
const RULES: [(&str, &str, &str); 10] = [
    ("duration(self) >= duration('1ms')", TEXT, r#""10s""#),
    ("self >= duration('1ms')", DURATION, r#""10s""#),
    ("isIP(self)", TEXT, r#""10.1.2.3""#),
    ("isCIDR(self)", TEXT, r#""10.1.0.0/16""#),
    ("!format.dns1123Subdomain().validate(self).hasValue()", TEXT, r#""www.example.com""#),
    ("self.matches('^[a-zA-Z0-9._-]+$')", TEXT, r#""some-value_1.2""#),
    ("0 < self && self <= 65535", NUMBER, "8080"),
    (
        "!(has(self.requestMirror) && self.type != 'RequestMirror')",
        FILTER,
        r#"{"type": "RequestMirror", "requestMirror": "a", "numerator": 1, "denominator": 2}"#,
    ),
    ("self.all(x, self.exists_one(y, x == y))", TEXTS, r#"["a", "b", "c", "d", "e", "f", "g", "h"]"#),
    (
        "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && \
         has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
        LISTENERS,
        r#"[{"port": 80, "protocol": "HTTP", "hostname": "a.example.com"}, {"port": 81, "protocol": "HTTP"},
            {"port": 82, "protocol": "HTTP", "hostname": "b.example.com"}, {"port": 83, "protocol": "HTTP"},
            {"port": 84, "protocol": "HTTP", "hostname": "c.example.com"}, {"port": 85, "protocol": "HTTP"},
            {"port": 86, "protocol": "HTTP", "hostname": "d.example.com"}, {"port": 87, "protocol": "HTTP"}]"#,
    ),
];

pub(crate) fn bench(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("rules");
    for (rule, of, value) in RULES {
        let object = tree(format!(r#"{{"value": {value}}}"#).as_bytes());
        let mut property = tree(of.as_bytes());
        let without = property.clone();
        let mut validation = kindom_api::Map::new();
        validation.insert("rule", rule);
        let validations = kindom_api::Value::from(vec![validation]);
        property.as_object_mut().unwrap().insert("x-kubernetes-validations", validations);
        let named: String = rule.chars().take(56).collect();
        for (name, of) in [(named.clone(), property), (format!("floor: without {named}"), without)] {
            let schema = tree(format!(r#"{{"type": "object", "properties": {{"value": {of}}}}}"#).as_bytes());
            let schema = Schema::compile(Some(&schema), false).unwrap();
            assert_eq!(schema.validate(&object).to_vec(), [], "{rule}");
            group.bench_function(name, |b| b.iter(|| schema.validate(black_box(&object))));
        }
    }
    group.finish();
}
