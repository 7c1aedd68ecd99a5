//! Every parser that expressions call, given any text: a printed value parses to itself.

use kindom_api::Value as Json;
use kindom_cel::check::compile;
use kindom_cel::eval::{COST_MAX, Program};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::Value;
use proptest::prelude::*;

/// Each holds for any text, or fails because the text is not one of its kind.
const HOLDS: [&str; 15] = [
    "timestamp(string(timestamp(self))) == timestamp(self)",
    // They are printed as seconds in a double, as upstream does.
    "duration(string(duration(self))) - duration(self) <= duration('2us') && duration(self) - duration(string(duration(self))) <= duration('2us')",
    "int(string(int(self))) == int(self)",
    "uint(string(uint(self))) == uint(self)",
    "string(double(self)) == 'NaN' || double(string(double(self))) == double(self)",
    "bool(string(bool(self))) == bool(self)",
    "string(bytes(self)) == self",
    "!isQuantity(self) || quantity(self).compareTo(quantity(self)) == 0",
    "!isSemver(self) || semver(self).compareTo(semver(self)) == 0",
    "semver(self, true).compareTo(semver(self, true)) == 0",
    "!isIP(self) || ip(string(ip(self))) == ip(self)",
    "!isCIDR(self) || cidr(string(cidr(self))) == cidr(self) && cidr(self).masked() == cidr(self).masked().masked()",
    "!isURL(self) || url(self) == url(self) && url(self).getHost().contains(url(self).getHostname())",
    "self.matches(self) || !self.matches(self)",
    "format.named(self).hasValue() || self.format([1, 'a', 2.5]) != '' || true",
];

fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("KINDOM_TEST_FULL").is_some() { 20_000 } else { 128 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,16}",
        "[0-9]{1,5}-[0-9]{1,2}-[0-9]{1,2}T[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})?",
        "[+-]?([0-9]{0,20}(\\.[0-9]{0,12})?(ns|us|µs|ms|s|m|h)?){0,3}",
        "[+-]?[0-9.]{0,24}([eE][+-]?[0-9]{0,12}|[numkKMGTPEi]{0,3})",
        "v?[0-9]{0,21}(\\.[0-9x]{0,3}){0,4}(-[0-9a-z.-]{0,8})?(\\+[0-9a-z.-]{0,8})?",
        "[0-9a-fA-F:.%]{0,40}(/[0-9]{0,4})?",
        "([a-z]{0,4}:)?(//)?([a-z:@%0-9]{0,6}@)?(\\[[0-9a-f:%]{0,8}\\]|[a-z0-9.%-]{0,12})(:[0-9a-z]{0,6})?/[a-z%0-9é ]{0,8}(\\?[a-z=&%]{0,8})?",
        "(%[-+# 0-9.]{0,4}[sdfexXobcq%]?[a-z]?){0,4}",
        r"[a-c\[\]()|*+?{}0-9,\\dwsbpPQE^$.:-]{0,16}",
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_read_is_read_again(text in texts()) {
        let tree = Json::from(text.as_str());
        for source in HOLDS {
            let program = Program::plan(&compile(source, &[("self", Type::Dyn)]).unwrap()).unwrap();
            let variables = [Value::of(&tree, &Untyped)];
            let result = program.run(&variables, COST_MAX).result.map(|value| value.to_string());
            if let Ok(value) = result {
                prop_assert_eq!(value, "true", "{}", source);
            }
        }
    }
}
