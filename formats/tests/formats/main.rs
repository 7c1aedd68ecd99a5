//! Every parser of the crate, given any text: it ends, and what it reads it reads again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod patterns;

use kindom_formats::net::{Address, Network};
use kindom_formats::pattern::Budget;
use kindom_formats::{Format, Pattern, pattern, url};

use proptest::prelude::*;

const FORMATS: [&str; 31] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "date-time",
    "datetime",
    "k8s-short-name",
    "k8s-long-name",
    "int32",
    "int64",
    "float",
    "double",
];

fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("KINDOM_TEST_FULL").is_some() { 20_000 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Texts that look like addresses, dates, numbers, URLs and mail addresses, and any others.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,20}",
        "[0-9a-fA-F:.%/]{0,44}",
        "[0-9]{1,4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\\.[0-9]{0,10})?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?",
        "[+-]?([0-9]{0,20}(\\.[0-9]{0,3})?(ns|us|µs|ms|s|m|h|d|w| days?|y)?){0,3}",
        "([a-z]{0,4}:)?(//)?([a-z:@%0-9é]{0,6}@)?(\\[[0-9a-f:%]{0,8}\\]|[a-zé0-9.%-]{0,12})(:[0-9a-z]{0,6})?[/a-z%0-9é ;]{0,8}(\\?[a-z=&%+;]{0,8})?(#[a-z%]{0,4})?",
        "[a-zA-Z0-9.\"<>()@ é+-]{0,20}@[a-zA-Z0-9.\\[\\]-]{0,20}",
        "(rgb\\(|#)?[0-9a-f, %)]{0,16}",
        "[A-Za-z0-9+/=\\r\\n]{0,16}",
        "[0-9X -]{8,20}",
    ]
}

/// Texts of the characters that regular expressions are made of.
fn expressions() -> impl Strategy<Value = String> {
    prop_oneof![
        r"[a-cA\[\]()|*+?{}0-9,\\dwsbpPQExCzA^$.:<>=!&~#é -]{0,24}",
        r"(\(\?[imsU-]{0,3}:?|\[\^?|\[:[a-z]{0,5}:\]|\\[pP]\{?\^?[A-Z][a-z]{0,5}\}?|[a-c]\{[0-9]{0,4},?[0-9]{0,4}\}|\\[0-9x]{1,4}|[])|*+?a$^]){0,8}",
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_format_takes_any_text(text in texts()) {
        for name in FORMATS {
            let format = Format::named(name).unwrap();
            prop_assert_eq!(format.accepts(&text), format.accepts(&text), "{}", name);
        }
        prop_assert!(Format::named(&text).is_none_or(|format| Format::named(format.text()) == Some(format)));
    }

    #[test]
    fn an_expression_that_is_accepted_matches_or_not(text in expressions(), value in ".{0,12}") {
        let shared = Pattern::shared(&text);
        let mut budget = Budget::new(1 << 40);
        prop_assert!(shared.effort() > 0 || text.is_empty() || pattern::check(&text).is_ok());
        let matches = shared.matches(&value).map_err(str::to_owned);
        match pattern::check(&text) {
            Ok(()) => {
                prop_assert!(matches.is_ok() || matches == Err(format!("error parsing regexp: expression too large: `{text}`")), "{:?}", matches);
                if let Ok(matches) = matches {
                    prop_assert_eq!(shared.find_within(&value, &mut budget).unwrap().is_some(), matches);
                    prop_assert!(shared.find_all_within(&value, 5, &mut budget).unwrap().len() <= 5);
                    let recent = Pattern::recent(&text);
                    prop_assert_eq!(recent.matches(&value), Ok(matches));
                }
            }
            Err(why) => prop_assert_eq!(matches, Err(why)),
        }
    }

    #[test]
    fn addresses_and_networks_read_what_they_print(text in texts()) {
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(Address::parse(&address.to_string()), Ok(address), "{}", text);
        }
        if let Ok(network) = Network::parse(&text) {
            let masked = network.masked();
            prop_assert_eq!(Network::parse(&network.to_string()), Ok(network.clone()), "{}", text);
            prop_assert!(network.overlaps(&masked) && masked.masked() == masked);
        }
    }

    #[test]
    fn urls_read_what_they_print(text in texts()) {
        let _ = url::is_absolute(&text);
        for read in [url::parse(&text), url::parse_request(&text)].into_iter().flatten() {
            let _ = (read.hostname(), read.port(), read.escaped_path(), read.parameters(), read.to_string());
        }
        // Go prints some that it does not read.
        let printed = url::parse(&text).map(|read| read.to_string()).unwrap_or_default();
        if let Ok(again) = url::parse(&printed) {
            prop_assert_eq!(again.to_string(), printed);
        }
    }

    #[test]
    fn what_is_told_by_sight_is_read_too(text in "https?:(//)?[a-z0-9./_-]{0,12}[:@%? ]?[a-z0-9/]{0,3}") {
        prop_assert_eq!(url::is_request(&text), url::parse_request(&text).is_ok(), "{}", text);
    }
}
