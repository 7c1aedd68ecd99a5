//! The functions and operators of the language itself (cel-go `common/stdlib/standard.go`), with comparisons across the
//! types of numbers, and those of optional values (cel-go `cel/library.go`, `OptionalTypes`, the newest version).

mod arithmetic;
mod collections;
mod conversions;
mod optionals;
mod times;

pub(crate) use arithmetic::refuse;
pub(crate) use collections::cost_of_match;

use crate::ast::operators;
use crate::library::{Cost, Function, Functions, Overload};
use crate::types::Type as T;
use crate::value::Value;

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
        Function::new(operators::NOT).singleton(arithmetic::not).overload(Overload::global(
            "logical_not",
            [T::Bool],
            T::Bool,
        )),
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
            .singleton(arithmetic::add)
            .overload(binary("add_bytes", T::Bytes).cost(Cost::Of(collections::cost_of_both)))
            .overload(binary("add_double", T::Double))
            .overload(binary("add_duration_duration", T::Duration))
            .overload(Overload::global("add_duration_timestamp", [T::Duration, T::Timestamp], T::Timestamp))
            .overload(Overload::global("add_timestamp_duration", [T::Timestamp, T::Duration], T::Timestamp))
            .overload(binary("add_int64", T::Int))
            .overload(binary("add_list", T::list(A)))
            .overload(binary("add_string", T::String).cost(Cost::Of(collections::cost_of_both)))
            .overload(binary("add_uint64", T::Uint)),
        Function::new(operators::DIVIDE)
            .singleton(arithmetic::divide)
            .overload(binary("divide_double", T::Double))
            .overload(binary("divide_int64", T::Int))
            .overload(binary("divide_uint64", T::Uint)),
        Function::new(operators::MODULO)
            .singleton(arithmetic::modulo)
            .overload(binary("modulo_int64", T::Int))
            .overload(binary("modulo_uint64", T::Uint)),
        Function::new(operators::MULTIPLY)
            .singleton(arithmetic::multiply)
            .overload(binary("multiply_double", T::Double))
            .overload(binary("multiply_int64", T::Int))
            .overload(binary("multiply_uint64", T::Uint)),
        Function::new(operators::NEGATE)
            .singleton(arithmetic::negate)
            .overload(Overload::global("negate_double", [T::Double], T::Double))
            .overload(Overload::global("negate_int64", [T::Int], T::Int)),
        Function::new(operators::SUBTRACT)
            .singleton(arithmetic::subtract)
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
    ($operator:expr, $name:literal, $run:expr) => {
        Function::new($operator)
            .singleton($run)
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
            .overload(
                Overload::global(concat!($name, "_string"), [T::String, T::String], T::Bool)
                    .cost(Cost::Of(collections::cost_of_shorter)),
            )
            .overload(
                Overload::global(concat!($name, "_bytes"), [T::Bytes, T::Bytes], T::Bool)
                    .cost(Cost::Of(collections::cost_of_shorter)),
            )
            .overload(Overload::global(concat!($name, "_timestamp"), [T::Timestamp, T::Timestamp], T::Bool))
            .overload(Overload::global(concat!($name, "_duration"), [T::Duration, T::Duration], T::Bool))
    };
}

fn relations() -> [Function; 4] {
    [
        relation!(operators::LESS, "less", arithmetic::less),
        relation!(operators::LESS_EQUALS, "less_equals", arithmetic::less_equals),
        relation!(operators::GREATER, "greater", arithmetic::greater),
        relation!(operators::GREATER_EQUALS, "greater_equals", arithmetic::greater_equals),
    ]
}

fn aggregates() -> [Function; 3] {
    let (list, map) = (T::list(A), T::map(A, B));
    [
        Function::new(operators::INDEX)
            .overload(Overload::global("index_list", [list.clone(), T::Int], A))
            .overload(Overload::global("index_map", [map.clone(), A], B)),
        Function::new(operators::IN)
            .singleton(collections::contains)
            .overload(
                Overload::global("in_list", [A, list.clone()], T::Bool)
                    .cost(Cost::Of(|args, _| args.get(1).map_or(1, Value::cost_size))),
            )
            .overload(Overload::global("in_map", [A, map.clone()], T::Bool)),
        Function::new("size")
            .singleton(collections::size)
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
    let from = |id, of: T, to: T, run| Overload::global(id, [of], to).run(run);
    let traversal = Cost::Of(collections::cost_of_first);
    [
        Function::new("type").singleton(conversions::type_of).overload(Overload::global(
            "type",
            [A],
            T::type_of(A),
        )),
        Function::new("bool")
            .overload(from("bool_to_bool", T::Bool, T::Bool, conversions::same))
            .overload(from("string_to_bool", T::String, T::Bool, conversions::string_to_bool)),
        Function::new("bytes")
            .overload(from("bytes_to_bytes", T::Bytes, T::Bytes, conversions::same))
            .overload(
                from("string_to_bytes", T::String, T::Bytes, conversions::string_to_bytes).cost(traversal),
            ),
        Function::new("double")
            .overload(from("double_to_double", T::Double, T::Double, conversions::same))
            .overload(from("int64_to_double", T::Int, T::Double, conversions::int_to_double))
            .overload(from("string_to_double", T::String, T::Double, conversions::string_to_double))
            .overload(from("uint64_to_double", T::Uint, T::Double, conversions::uint_to_double)),
        Function::new("duration")
            .overload(from("duration_to_duration", T::Duration, T::Duration, conversions::same))
            .overload(from("string_to_duration", T::String, T::Duration, conversions::string_to_duration)),
        Function::new("dyn").singleton(conversions::same).overload(Overload::global("to_dyn", [A], T::Dyn)),
        Function::new("int")
            .overload(from("int64_to_int64", T::Int, T::Int, conversions::same))
            .overload(from("double_to_int64", T::Double, T::Int, conversions::double_to_int))
            .overload(from("duration_to_int64", T::Duration, T::Int, conversions::duration_to_int))
            .overload(from("string_to_int64", T::String, T::Int, conversions::string_to_int))
            .overload(from("timestamp_to_int64", T::Timestamp, T::Int, conversions::timestamp_to_int))
            .overload(from("uint64_to_int64", T::Uint, T::Int, conversions::uint_to_int)),
        Function::new("string")
            .overload(from("string_to_string", T::String, T::String, conversions::same))
            .overload(from("bool_to_string", T::Bool, T::String, conversions::to_string))
            .overload(
                from("bytes_to_string", T::Bytes, T::String, conversions::bytes_to_string).cost(traversal),
            )
            .overload(from("double_to_string", T::Double, T::String, conversions::to_string))
            .overload(from("duration_to_string", T::Duration, T::String, conversions::to_string))
            .overload(from("int64_to_string", T::Int, T::String, conversions::to_string))
            .overload(from("timestamp_to_string", T::Timestamp, T::String, conversions::to_string))
            .overload(from("uint64_to_string", T::Uint, T::String, conversions::to_string)),
        Function::new("timestamp")
            .overload(from("timestamp_to_timestamp", T::Timestamp, T::Timestamp, conversions::same))
            .overload(from("int64_to_timestamp", T::Int, T::Timestamp, conversions::int_to_timestamp))
            .overload(from("string_to_timestamp", T::String, T::Timestamp, conversions::string_to_timestamp)),
        Function::new("uint")
            .overload(from("uint64_to_uint64", T::Uint, T::Uint, conversions::same))
            .overload(from("double_to_uint64", T::Double, T::Uint, conversions::double_to_uint))
            .overload(from("int64_to_uint64", T::Int, T::Uint, conversions::int_to_uint))
            .overload(from("string_to_uint64", T::String, T::Uint, conversions::string_to_uint)),
    ]
}

fn strings() -> [Function; 4] {
    let on = |id, run| Overload::member(id, [T::String, T::String], T::Bool).run(run);
    [
        Function::new("contains").unguarded().overload(
            on("contains_string", collections::contains_string).cost(Cost::Of(collections::cost_of_contains)),
        ),
        Function::new("endsWith").unguarded().overload(
            on("ends_with_string", collections::ends_with).cost(Cost::Of(collections::cost_of_second)),
        ),
        Function::new("startsWith").unguarded().overload(
            on("starts_with_string", collections::starts_with).cost(Cost::Of(collections::cost_of_second)),
        ),
        Function::new("matches")
            .singleton(collections::matches)
            .overload(
                Overload::global("matches", [T::String, T::String], T::Bool)
                    .cost(Cost::Of(collections::cost_of_match)),
            )
            .overload(
                Overload::member("matches_string", [T::String, T::String], T::Bool)
                    .cost(Cost::Of(collections::cost_of_match)),
            ),
    ]
}

/// A part of a timestamp, in UTC or in a time zone.
macro_rules! part {
    ($name:literal, $id:literal, $id_with_zone:literal, $part:expr) => {
        Function::new($name)
            .overload(Overload::member($id, [T::Timestamp], T::Int).run(|args| times::utc(args, $part)))
            .overload(
                Overload::member($id_with_zone, [T::Timestamp, T::String], T::Int)
                    .run(|args| times::in_zone(args, $part)),
            )
    };
}

/// A duration, counted in a unit.
macro_rules! count {
    ($id:literal, $unit:expr) => {
        Overload::member($id, [T::Duration], T::Int).run(|args| times::count(args, $unit))
    };
}

fn times() -> [Function; 10] {
    [
        part!("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |at, _| at.year),
        part!("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |at, _| at.month - 1),
        part!("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |at, _| at
            .day_of_year),
        part!("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |at, _| at
            .day
            - 1),
        part!(
            "getDate",
            "timestamp_to_day_of_month_1_based",
            "timestamp_to_day_of_month_1_based_with_tz",
            |at, _| at.day
        ),
        part!("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |at, _| at
            .day_of_week),
        part!("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |at, _| at.hour)
            .overload(count!("duration_to_hours", times::hours)),
        part!("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |at, _| at.minute)
            .overload(count!("duration_to_minutes", times::minutes)),
        part!("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |at, _| at.second)
            .overload(count!("duration_to_seconds", times::seconds)),
        part!(
            "getMilliseconds",
            "timestamp_to_milliseconds",
            "timestamp_to_milliseconds_with_tz",
            |_, nanos| nanos / 1_000_000
        )
        .overload(count!("duration_to_milliseconds", times::milliseconds)),
    ]
}

fn optionals() -> Vec<Function> {
    const K: T = T::Param("K");
    const V: T = T::Param("V");
    let optional = || T::optional(V);
    let (list, map) = (|| T::list(V), || T::map(K, V));
    let optionals = || T::list(optional());
    vec![
        Function::new("optional.of")
            .overload(Overload::global("optional_of", [V], optional()).run(optionals::of)),
        Function::new("optional.ofNonZeroValue").overload(
            Overload::global("optional_ofNonZeroValue", [V], optional()).run(optionals::of_non_zero),
        ),
        Function::new("optional.none")
            .overload(Overload::global("optional_none", [], optional()).run(optionals::none)),
        Function::new("value")
            .overload(Overload::member("optional_value", [optional()], V).run(optionals::value)),
        Function::new("hasValue")
            .overload(Overload::member("optional_hasValue", [optional()], T::Bool).run(optionals::has_value)),
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
        Function::new("last")
            .overload(Overload::member("list_last", [list()], optional()).run(optionals::last)),
        Function::new("first")
            .overload(Overload::member("list_first", [list()], optional()).run(optionals::first)),
        Function::new("optional.unwrap")
            .overload(Overload::global("optional_unwrap", [optionals()], list()).run(optionals::unwrap)),
        Function::new("unwrapOpt")
            .overload(Overload::member("optional_unwrapOpt", [optionals()], list()).run(optionals::unwrap)),
    ]
}
