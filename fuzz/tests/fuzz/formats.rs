//! The inputs of `kindom-formats`: formats of strings, addresses, URLs, regular expressions.

use kindom_formats::net::{Address, Network};
use kindom_formats::pattern::Budget;
use kindom_formats::{Format, Pattern, pattern, url};
use kindom_fuzz::{Mutants, Target, Texts};

/// All that a schema's `format` may name.
const NAMES: [&str; 31] = [
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

#[test]
fn formats_of_strings() {
    let formats: Vec<Format> = NAMES.iter().map(|name| Format::named(name).unwrap()).collect();
    let texts = [
        "507f1f77bcf86cd799439011",
        "https://user:pw@example.com:8080/a%20b?c=d#e",
        "\"a b\"@[127.0.0.1]",
        "a@example.com",
        "sub.example.com",
        "192.168.0.1",
        "2001:db8::ff00:42:8329",
        "10.0.0.0/8",
        "01:23:45:67:89:ab",
        "6b5e4a9a-6c1d-4b8a-9c77-2f1d2f3c4b5a",
        "978-3-16-148410-0",
        "0-306-40615-2",
        "4111 1111 1111 1111",
        "111-11-1111",
        "#ffaa00",
        "rgb(1, 2, 255)",
        "aGVsbG8=",
        "2026-02-29",
        "1h30m1.5s",
        "3 days",
        "1w2d",
        "2026-01-01T00:00:00.123+01:00",
        "my-name",
        "a.b.c",
    ];
    let tokens = [
        ".", ":", "::", "-", "/", "@", "\"", "\\", "(", ")", "<", ">", "[", "]", "%", "T", "Z", "ms", "h",
        "xn--",
    ];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens).nests(&[("(", ")")]));
    // Expressions of formats are compiled once, here: 40 MB for that of `hostname`.
    for text in texts {
        let _warm = formats.iter().filter(|format| format.accepts(text)).count();
    }
    // The lazy automata of those expressions, for another thread.
    Target::new("formats", 400).flat(16 << 20, 64 << 20).rounds(2000).run(inputs, move |text| {
        for format in &formats {
            assert_eq!(format.accepts(text), format.accepts(text));
        }
        let _ = Format::named(text);
    });
}

#[test]
fn addresses_and_networks() {
    let texts = [
        "127.0.0.1",
        "::ffff:1.2.3.4",
        "fe80::1%eth0",
        "2001:db8::/32",
        "10.0.0.0/8",
        "::",
        "1::2:3:4:5:6:7",
        "0/0",
    ];
    let tokens = ["::", ":", ".", "/", "%", "0", "255", "ffff", "::ffff:"];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens).longest(2000));
    Target::new("addresses", 200).rounds(4000).run(inputs, |text| {
        if let Ok(address) = Address::parse(text) {
            assert_eq!(Address::parse(&address.to_string()).as_ref(), Ok(&address), "{text:?}");
        }
        if let Ok(network) = Network::parse(text) {
            assert_eq!(Network::parse(&network.to_string()).as_ref(), Ok(&network), "{text:?}");
            let masked = network.masked();
            assert_eq!(masked.masked(), masked);
            assert!(network.contains(&network.address) && network.contains(&masked.address), "{text:?}");
            assert!(network.overlaps(&masked) && masked.overlaps(&network));
        }
    });
}

#[test]
fn urls() {
    let texts = [
        "https://user:p%40ss@example.com:8080/a%2Fb/c?x=1&y=%20+z#frag%C3%A9",
        "//[fe80::1%25en0]:80/",
        "mailto:a@b",
        "/a/../b",
        "http://",
        "?a=b&&c;d",
        "a:b:c",
        "*",
    ];
    let tokens = ["/", "?", "#", "%", "%2F", "%zz", "@", ":", "[", "]", "&", "=", ";", "+", "http://"];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens));
    Target::new("urls", 400).rounds(2000).run(inputs, |text| {
        assert_eq!(url::is_request(text), url::parse_request(text).is_ok(), "{text:?}");
        if url::is_absolute(text) {
            assert!(url::is_request(text), "{text:?}");
        }
        for parse in [url::parse, url::parse_request] {
            let Ok(parsed) = parse(text) else { continue };
            let printed = parsed.to_string();
            let _ = parsed.escaped_path();
            let _ = parsed.hostname();
            let _ = parsed.port();
            let _ = parsed.parameters();
            // Go too prints zones, and paths that begin with two slashes, that it does not read back.
            if parsed.hostname().contains('%') || parsed.escaped_path().starts_with("//") {
                continue;
            }
            assert_eq!(parse(&printed).map(|again| again.to_string()), Ok(printed), "{text:?}");
        }
    });
}

#[test]
fn regular_expressions() {
    let texts = [
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        r"(?i)\pL{2,5}|[[:alpha:]]+?(?P<n>x)\b",
        r"\d{1,3}(\.\d{1,3}){3}",
        r"[^\x00-\x{10FFFF}]",
        r"\Q*\E(?s:.)$",
        r"a{1000}",
        r"(a{10}){10}",
        "",
    ];
    let tokens = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{2,}",
        "{1,1000}",
        "|",
        "*",
        "+",
        "?",
        "^",
        "$",
        "\\p{Greek}",
        "\\pL",
        "\\b",
        "\\Q",
        "(?i)",
        "(?P<x>",
        "[[:word:]]",
        "\\x{",
        "(?:",
    ];
    let nests = [("(", ")"), ("(?:", ")*"), ("(", "){2}"), ("[", "]")];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens).nests(&nests).longest(4000));
    // What a compiled expression may take is its compiler's limit, not a matter of its length.
    Target::new("patterns", 4000).flat(32 << 20, 1 << 30).rounds(400).run(inputs, |text| {
        if pattern::check(text).is_err() {
            return;
        }
        let pattern = Pattern::shared(text);
        let mut budget = Budget::new(1_000_000);
        for value in ["", "abc", "a.b-c é 10.0.0.1\n"] {
            let Ok(found) = pattern.find_within(value, &mut budget) else { return };
            let Ok(matches) = pattern.matches_within(value, &mut budget) else { return };
            let Ok(all) = pattern.find_all_within(value, 3, &mut budget) else { return };
            assert_eq!((matches, all.first().copied()), (found.is_some(), found), "{text:?}");
        }
    });
}
