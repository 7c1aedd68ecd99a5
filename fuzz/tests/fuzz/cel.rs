//! Expressions: both parsers, the checker, the estimated cost, and evaluation within its budget.

use kindom_api::json;
use kindom_cel::eval::{COST_MAX, Program};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::Value;
use kindom_cel::{check, cost, parse};
use kindom_fuzz::{Mutants, Target, Texts};

use crate::seeds;

/// The expressions of the crate's tables of tests: `> source` and what becomes of it.
fn expressions() -> Vec<&'static str> {
    let tables = [
        include_str!("../../../cel/tests/cel/parsed.txt"),
        include_str!("../../../cel/tests/cel/checked.txt"),
        include_str!("../../../cel/tests/cel/refused.txt"),
        include_str!("../../../cel/tests/cel/untyped.txt"),
    ];
    let sources = tables.iter().flat_map(|table| table.lines()).filter_map(|line| line.strip_prefix("> "));
    sources.chain(RULES).collect()
}

/// Rules of registrations, and expressions that call every library.
const RULES: [&str; 24] = [
    "self.spec.size <= 100 && (!has(self.spec.none) || self.spec.when > '2020')",
    "self.spec.ports.all(p, p.port < 65536) && self.spec.set.exists(s, s.matches('^[a-z]+$'))",
    "self.spec.set.map(s, s + 'x').filter(s, size(s) > 1) == ['ax', 'bx']",
    "self.spec.labels.all(k, self.spec.labels[k].startsWith('1')) ? self.metadata.name : string(self.spec.size)",
    "quantity(self.spec.quantity).isGreaterThan(quantity('1Gi')) && quantity('1.5e3k').add(1).asInteger() > 0",
    "url('https://example.com:80/a?b=c').getHost() == 'example.com:80' && isURL(self.spec.colour)",
    "ip('127.0.0.1').isLoopback() && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && ip.isCanonical('::1')",
    "semver('1.2.3-rc.1+b').isLessThan(semver('v1.2', true)) || isSemver(self.metadata.name)",
    "format.dns1123Label().validate('a-b').hasValue() || format.named('uuid').value().validate('x').orValue(['y']).size() > 0",
    "'%s %d %.3f %e %x %b %o %%'.format(['a', 1, 1.5, 2.0, 255, true, 8])",
    "'a,b,c'.split(',', 2).join('-').replace('a', 'b', 1).upperAscii().substring(0, 1).charAt(0).trim()",
    "['c', 'a'].sort().indexOf('a') + [1, 2].sum() + [[1], [2]].flatten().size() + [1, 2, 3].slice(0, 2).reverse()[0]",
    "'abc 123'.find('[0-9]+') == '123' && 'aXbX'.findAll('X', 1).size() == 1",
    "timestamp('2026-01-01T00:00:00Z').getFullYear('Europe/Berlin') + duration('1h30m').getMinutes() > 0",
    "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z') > duration('1s')",
    "sets.contains([1, 2], [1]) && sets.intersects(['a'], ['a', 'b']) && sets.equivalent([1], [1, 1])",
    "math.greatest(1, 2.0, 3u) > math.least([1, 2]) && math.bitAnd(5, 3) == 1 && math.isNaN(0.0 / 0.0)",
    "cel.bind(x, self.spec.list, x.size() > 0 && x[0] == 1) && optional.of(self.spec.?any.?deep).hasValue()",
    "self.spec.list.transformList(i, v, i % 2 == 0, v) == [1] && self.spec.labels.transformMap(k, v, k + v).size() == 1",
    "[1, 2].existsOne(i, v, v == 2) || {'a': 1, 'b': {?'c': optional.none()}}.size() in [1, 2u, 3.0]",
    "9223372036854775807 + 1 == -9223372036854775808 || 1 / 0 == 0 || int('x') == 0 || uint(-1) == 0u || b'\\xff' == bytes('a')",
    "strings.quote(self.spec.colour).lowerAscii().lastIndexOf('r') == 1 || base64.encode(b'a') == base64.encode(base64.decode('YQ=='))",
    "lists.range(10).map(x, lists.range(10).map(y, x * y)).size() == 10 && type(1) == int && dyn(1) == 1.0",
    "'''triple ' quotes''' + r'raw\\' + \"\\u00e9\\x41\\101\" == '' && !false || -1 < 0 && 1.0e10 >= .5 && 0xFFu == 255u",
];

/// 250 levels of macros, each of them a dozen calls of an unoptimised parser, take 1.2 MB.
const DEEP: usize = 3 << 19;

fn inputs() -> Texts {
    let tokens = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        "?.",
        "[?",
        "+",
        "-",
        "!",
        "&&",
        "||",
        "==",
        "in",
        "?",
        ":",
        ",",
        "'",
        "\"",
        "r'",
        "b'",
        "'''",
        "`",
        "self",
        ".all(x, ",
        ".map(x, ",
        ".exists(x, x",
        "has(",
        "size(",
        "matches('",
        "1u",
        "1.5",
        "0x",
        "//",
        "\\",
        "\\u",
        "@",
        "self.spec",
        "duration('",
        "quantity('",
    ];
    let nests = [
        ("(", ")"),
        ("[", "]"),
        ("!", ""),
        ("-", ""),
        ("{1: ", "}"),
        ("[1].map(x, ", ")"),
        ("1 + ", ""),
        ("a ? b : ", ""),
    ];
    Texts(Mutants::of(expressions()).tokens(&tokens).nests(&nests))
}

#[test]
fn parsers() {
    // A source that is refused is parsed again, by the parser that recovers as ANTLR does and tells all of its errors.
    Target::new("cel-parse", 6000).stack(DEEP).flat(16 << 20, 256 << 20).rounds(800).run(
        inputs(),
        |source| {
            if let Err(issues) = parse::parse(source) {
                assert!(!issues.is_empty());
                let text = parse::Issues::new(source, issues).to_string();
                assert!(text.contains("ERROR"), "{text}");
            }
        },
    );
}

#[test]
fn checker_and_evaluation() {
    let object = json::parse(seeds::WIDGET.as_bytes()).unwrap();
    // Evaluation's memory is bounded by its cost, not by its source: a string that doubles costs what it holds.
    Target::new("cel-eval", 20_000).stack(DEEP).flat(64 << 20, 2 << 30).rounds(800).run(
        inputs(),
        move |source| {
            let Ok(checked) = check::compile(source, &[("self", Type::Dyn)]) else { return };
            let range = cost::estimate(&checked, &Nothing);
            assert!(range.min <= range.max, "{range:?}");
            let Ok(program) = Program::plan(&checked) else { return };
            let variables = [Value::of(&object, &Untyped)];
            for limit in [0, 100, COST_MAX] {
                let outcome = program.run(&variables, limit);
                assert_eq!(
                    outcome.cost,
                    program.run(&variables, limit).cost,
                    "evaluating again costs something else"
                );
                if outcome.result.is_ok() {
                    assert!(outcome.cost <= limit, "{} of {limit}", outcome.cost);
                }
            }
        },
    );
}

/// Bounds of nothing.
struct Nothing;

impl cost::Bounds for Nothing {
    fn max_elements(&self, _: &[&str]) -> Option<u64> {
        None
    }
}
