//! The functions and operators of the language itself (cel-go `common/stdlib/standard.go`), with comparisons across the
//! types of numbers, and those of optional values (cel-go `cel/library.go`, `OptionalTypes`, the newest version).

use crate::ast::operators;
use crate::library::{Function, Functions, Overload};
use crate::types::Type as T;

/// All of them, in cel-go's order.
pub(super) fn declare(functions: &mut Functions) {
    for function in logic().into_iter().chain(arithmetic()).chain(relations()) {
        functions.add(function);
    }
    for function in aggregates().into_iter().chain(conversions()).chain(strings()).chain(times()) {
        functions.add(function);
    }
    for function in optionals() {
        functions.add(function);
    }
}

/// The type parameters of the standard library.
const A: T = T::Param("A");
const B: T = T::Param("B");

fn logic() -> [Function; 7] {
    [
        Function::new(operators::CONDITIONAL).overload(Overload::global("conditional", [T::Bool, A, A], A)),
        Function::new(operators::AND).overload(Overload::global("logical_and", [T::Bool, T::Bool], T::Bool)),
        Function::new(operators::OR).overload(Overload::global("logical_or", [T::Bool, T::Bool], T::Bool)),
        Function::new(operators::NOT).overload(Overload::global("logical_not", [T::Bool], T::Bool)),
        Function::new(operators::NOT_STRICTLY_FALSE).overload(Overload::global(
            "not_strictly_false",
            [T::Bool],
            T::Bool,
        )),
        Function::new(operators::EQUALS).overload(Overload::global("equals", [A, A], T::Bool)),
        Function::new(operators::NOT_EQUALS).overload(Overload::global("not_equals", [A, A], T::Bool)),
    ]
}

fn arithmetic() -> [Function; 6] {
    let binary = |id, of: T| Overload::global(id, [of.clone(), of.clone()], of);
    [
        Function::new(operators::ADD)
            .overload(binary("add_bytes", T::Bytes))
            .overload(binary("add_double", T::Double))
            .overload(binary("add_duration_duration", T::Duration))
            .overload(Overload::global("add_duration_timestamp", [T::Duration, T::Timestamp], T::Timestamp))
            .overload(Overload::global("add_timestamp_duration", [T::Timestamp, T::Duration], T::Timestamp))
            .overload(binary("add_int64", T::Int))
            .overload(binary("add_list", T::list(A)))
            .overload(binary("add_string", T::String))
            .overload(binary("add_uint64", T::Uint)),
        Function::new(operators::DIVIDE)
            .overload(binary("divide_double", T::Double))
            .overload(binary("divide_int64", T::Int))
            .overload(binary("divide_uint64", T::Uint)),
        Function::new(operators::MODULO)
            .overload(binary("modulo_int64", T::Int))
            .overload(binary("modulo_uint64", T::Uint)),
        Function::new(operators::MULTIPLY)
            .overload(binary("multiply_double", T::Double))
            .overload(binary("multiply_int64", T::Int))
            .overload(binary("multiply_uint64", T::Uint)),
        Function::new(operators::NEGATE)
            .overload(Overload::global("negate_double", [T::Double], T::Double))
            .overload(Overload::global("negate_int64", [T::Int], T::Int)),
        Function::new(operators::SUBTRACT)
            .overload(binary("subtract_double", T::Double))
            .overload(binary("subtract_duration_duration", T::Duration))
            .overload(binary("subtract_int64", T::Int))
            .overload(Overload::global(
                "subtract_timestamp_duration",
                [T::Timestamp, T::Duration],
                T::Timestamp,
            ))
            .overload(Overload::global(
                "subtract_timestamp_timestamp",
                [T::Timestamp, T::Timestamp],
                T::Duration,
            ))
            .overload(binary("subtract_uint64", T::Uint)),
    ]
}

/// An operator that orders, with its fourteen overloads.
macro_rules! relation {
    ($operator:expr, $name:literal) => {
        Function::new($operator)
            .overload(Overload::global(concat!($name, "_bool"), [T::Bool, T::Bool], T::Bool))
            .overload(Overload::global(concat!($name, "_int64"), [T::Int, T::Int], T::Bool))
            .overload(Overload::global(concat!($name, "_int64_double"), [T::Int, T::Double], T::Bool))
            .overload(Overload::global(concat!($name, "_int64_uint64"), [T::Int, T::Uint], T::Bool))
            .overload(Overload::global(concat!($name, "_uint64"), [T::Uint, T::Uint], T::Bool))
            .overload(Overload::global(concat!($name, "_uint64_double"), [T::Uint, T::Double], T::Bool))
            .overload(Overload::global(concat!($name, "_uint64_int64"), [T::Uint, T::Int], T::Bool))
            .overload(Overload::global(concat!($name, "_double"), [T::Double, T::Double], T::Bool))
            .overload(Overload::global(concat!($name, "_double_int64"), [T::Double, T::Int], T::Bool))
            .overload(Overload::global(concat!($name, "_double_uint64"), [T::Double, T::Uint], T::Bool))
            .overload(Overload::global(concat!($name, "_string"), [T::String, T::String], T::Bool))
            .overload(Overload::global(concat!($name, "_bytes"), [T::Bytes, T::Bytes], T::Bool))
            .overload(Overload::global(concat!($name, "_timestamp"), [T::Timestamp, T::Timestamp], T::Bool))
            .overload(Overload::global(concat!($name, "_duration"), [T::Duration, T::Duration], T::Bool))
    };
}

fn relations() -> [Function; 4] {
    [
        relation!(operators::LESS, "less"),
        relation!(operators::LESS_EQUALS, "less_equals"),
        relation!(operators::GREATER, "greater"),
        relation!(operators::GREATER_EQUALS, "greater_equals"),
    ]
}

fn aggregates() -> [Function; 3] {
    let (list, map) = (T::list(A), T::map(A, B));
    [
        Function::new(operators::INDEX)
            .overload(Overload::global("index_list", [list.clone(), T::Int], A))
            .overload(Overload::global("index_map", [map.clone(), A], B)),
        Function::new(operators::IN)
            .overload(Overload::global("in_list", [A, list.clone()], T::Bool))
            .overload(Overload::global("in_map", [A, map.clone()], T::Bool)),
        Function::new("size")
            .overload(Overload::global("size_bytes", [T::Bytes], T::Int))
            .overload(Overload::member("bytes_size", [T::Bytes], T::Int))
            .overload(Overload::global("size_list", [list.clone()], T::Int))
            .overload(Overload::member("list_size", [list], T::Int))
            .overload(Overload::global("size_map", [map.clone()], T::Int))
            .overload(Overload::member("map_size", [map], T::Int))
            .overload(Overload::global("size_string", [T::String], T::Int))
            .overload(Overload::member("string_size", [T::String], T::Int)),
    ]
}

fn conversions() -> [Function; 10] {
    let from = Overload::global;
    [
        Function::new("type").overload(from("type", vec![A], T::type_of(A))),
        Function::new("bool").overload(from("bool_to_bool", vec![T::Bool], T::Bool)).overload(from(
            "string_to_bool",
            vec![T::String],
            T::Bool,
        )),
        Function::new("bytes").overload(from("bytes_to_bytes", vec![T::Bytes], T::Bytes)).overload(from(
            "string_to_bytes",
            vec![T::String],
            T::Bytes,
        )),
        Function::new("double")
            .overload(from("double_to_double", vec![T::Double], T::Double))
            .overload(from("int64_to_double", vec![T::Int], T::Double))
            .overload(from("string_to_double", vec![T::String], T::Double))
            .overload(from("uint64_to_double", vec![T::Uint], T::Double)),
        Function::new("duration")
            .overload(from("duration_to_duration", vec![T::Duration], T::Duration))
            .overload(from("string_to_duration", vec![T::String], T::Duration)),
        Function::new("dyn").overload(from("to_dyn", vec![A], T::Dyn)),
        Function::new("int")
            .overload(from("int64_to_int64", vec![T::Int], T::Int))
            .overload(from("double_to_int64", vec![T::Double], T::Int))
            .overload(from("duration_to_int64", vec![T::Duration], T::Int))
            .overload(from("string_to_int64", vec![T::String], T::Int))
            .overload(from("timestamp_to_int64", vec![T::Timestamp], T::Int))
            .overload(from("uint64_to_int64", vec![T::Uint], T::Int)),
        Function::new("string")
            .overload(from("string_to_string", vec![T::String], T::String))
            .overload(from("bool_to_string", vec![T::Bool], T::String))
            .overload(from("bytes_to_string", vec![T::Bytes], T::String))
            .overload(from("double_to_string", vec![T::Double], T::String))
            .overload(from("duration_to_string", vec![T::Duration], T::String))
            .overload(from("int64_to_string", vec![T::Int], T::String))
            .overload(from("timestamp_to_string", vec![T::Timestamp], T::String))
            .overload(from("uint64_to_string", vec![T::Uint], T::String)),
        Function::new("timestamp")
            .overload(from("timestamp_to_timestamp", vec![T::Timestamp], T::Timestamp))
            .overload(from("int64_to_timestamp", vec![T::Int], T::Timestamp))
            .overload(from("string_to_timestamp", vec![T::String], T::Timestamp)),
        Function::new("uint")
            .overload(from("uint64_to_uint64", vec![T::Uint], T::Uint))
            .overload(from("double_to_uint64", vec![T::Double], T::Uint))
            .overload(from("int64_to_uint64", vec![T::Int], T::Uint))
            .overload(from("string_to_uint64", vec![T::String], T::Uint)),
    ]
}

fn strings() -> [Function; 4] {
    let two = || [T::String, T::String];
    [
        Function::new("contains").unguarded().overload(Overload::member("contains_string", two(), T::Bool)),
        Function::new("endsWith").unguarded().overload(Overload::member("ends_with_string", two(), T::Bool)),
        Function::new("startsWith").unguarded().overload(Overload::member(
            "starts_with_string",
            two(),
            T::Bool,
        )),
        Function::new("matches")
            .overload(Overload::global("matches", two(), T::Bool))
            .overload(Overload::member("matches_string", two(), T::Bool)),
    ]
}

/// A part of a timestamp, in UTC or in a time zone.
fn part(name: &'static str, id: &'static str, id_with_zone: &'static str) -> Function {
    Function::new(name).overload(Overload::member(id, [T::Timestamp], T::Int)).overload(Overload::member(
        id_with_zone,
        [T::Timestamp, T::String],
        T::Int,
    ))
}

/// A duration, counted in a unit.
fn count(id: &'static str) -> Overload {
    Overload::member(id, [T::Duration], T::Int)
}

fn times() -> [Function; 10] {
    [
        part("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz"),
        part("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz"),
        part("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz"),
        part("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz"),
        part("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz"),
        part("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz"),
        part("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz")
            .overload(count("duration_to_hours")),
        part("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz")
            .overload(count("duration_to_minutes")),
        part("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz")
            .overload(count("duration_to_seconds")),
        part("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz")
            .overload(count("duration_to_milliseconds")),
    ]
}

fn optionals() -> Vec<Function> {
    const K: T = T::Param("K");
    const V: T = T::Param("V");
    let optional = || T::optional(V);
    let (list, map) = (|| T::list(V), || T::map(K, V));
    let optionals = || T::list(optional());
    vec![
        Function::new("optional.of").overload(Overload::global("optional_of", [V], optional())),
        Function::new("optional.ofNonZeroValue").overload(Overload::global(
            "optional_ofNonZeroValue",
            [V],
            optional(),
        )),
        Function::new("optional.none").overload(Overload::global("optional_none", [], optional())),
        Function::new("value").overload(Overload::member("optional_value", [optional()], V)),
        Function::new("hasValue").overload(Overload::member("optional_hasValue", [optional()], T::Bool)),
        Function::new("or").overload(Overload::member(
            "optional_or_optional",
            [optional(), optional()],
            optional(),
        )),
        Function::new("orValue").overload(Overload::member("optional_orValue_value", [optional(), V], V)),
        Function::new(operators::OPT_SELECT).overload(Overload::global(
            "select_optional_field",
            [T::Dyn, T::String],
            optional(),
        )),
        Function::new(operators::OPT_INDEX)
            .overload(Overload::global("list_optindex_optional_int", [list(), T::Int], optional()))
            .overload(Overload::global(
                "optional_list_optindex_optional_int",
                [T::optional(list()), T::Int],
                optional(),
            ))
            .overload(Overload::global("map_optindex_optional_value", [map(), K], optional()))
            .overload(Overload::global(
                "optional_map_optindex_optional_value",
                [T::optional(map()), K],
                optional(),
            )),
        Function::new(operators::INDEX)
            .overload(Overload::global("optional_list_index_int", [T::optional(list()), T::Int], optional()))
            .overload(Overload::global("optional_map_index_value", [T::optional(map()), K], optional())),
        Function::new("last").overload(Overload::member("list_last", [list()], optional())),
        Function::new("first").overload(Overload::member("list_first", [list()], optional())),
        Function::new("optional.unwrap").overload(Overload::global("optional_unwrap", [optionals()], list())),
        Function::new("unwrapOpt").overload(Overload::member("optional_unwrapOpt", [optionals()], list())),
    ]
}
