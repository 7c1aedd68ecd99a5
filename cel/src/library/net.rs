//! `ip('10.0.0.1')` and `cidr('10.0.0.0/8')` (`apiserver/pkg/cel/library/ip.go` and `cidr.go`, 1.37).

use std::any::Any;
use std::fmt;

use kindom_api::field::go_quote;
use kindom_formats::net::{Address, Network};

use super::arguments::{made, opaque, text};
use super::cost::{size_at, tenth, traverse, traverse_twice};
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

const IP: Type = Type::Opaque("net.IP");
const CIDR: Type = Type::Opaque("net.CIDR");

/// The library of addresses.
pub(super) fn declare_ip(functions: &mut Functions) {
    let tells =
        |name, id, run: Run| Function::new(name).overload(Overload::member(id, [IP], Type::Bool).run(run));
    for function in [
        Function::new("ip")
            .overload(Overload::global("string_to_ip", [Type::String], IP).run(to_ip))
            .cost(Cost::Of(traverse)),
        Function::new("family").overload(Overload::member("ip_family", [IP], Type::Int).run(family)),
        Function::new("ip.isCanonical")
            .overload(Overload::global("ip_is_canonical", [Type::String], Type::Bool).run(is_canonical))
            .cost(Cost::Of(traverse_twice)),
        tells("isUnspecified", "ip_is_unspecified", |args| {
            Ok(Value::Bool(address(args, 0)?.is_unspecified()))
        }),
        tells("isLoopback", "ip_is_loopback", |args| Ok(Value::Bool(address(args, 0)?.is_loopback()))),
        tells("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
            Ok(Value::Bool(address(args, 0)?.is_link_local_multicast()))
        }),
        tells("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| {
            Ok(Value::Bool(address(args, 0)?.is_link_local_unicast()))
        }),
        tells("isGlobalUnicast", "ip_is_global_unicast", |args| {
            Ok(Value::Bool(address(args, 0)?.is_global_unicast()))
        }),
        Function::new("isIP")
            .overload(Overload::global("is_ip", [Type::String], Type::Bool).run(is_ip))
            .cost(Cost::Of(traverse)),
        Function::new("string").overload(
            Overload::global("ip_to_string", [IP], Type::String)
                .run(|args| Ok(Value::string(address(args, 0)?.to_string()))),
        ),
    ] {
        functions.add(function);
    }
}

/// The library of networks.
pub(super) fn declare_cidr(functions: &mut Functions) {
    for function in [
        Function::new("cidr")
            .overload(Overload::global("string_to_cidr", [Type::String], CIDR).run(to_cidr))
            .cost(Cost::Of(traverse)),
        Function::new("containsIP")
            .cost(Cost::Of(cost_of_contains_ip))
            .overload(
                Overload::member("cidr_contains_ip_string", [CIDR, Type::String], Type::Bool)
                    .run(contains_ip_string)
                    .cost(Cost::Of(|args, result| {
                        cost_of_contains_ip(args, result).saturating_add(tenth(size_at(args, 1)))
                    })),
            )
            .overload(
                Overload::member("cidr_contains_ip_ip", [CIDR, IP], Type::Bool)
                    .run(|args| Ok(Value::Bool(network(args, 0)?.contains(address(args, 1)?))))
                    .cost(Cost::Of(cost_of_contains_ip)),
            ),
        Function::new("containsCIDR")
            .cost(Cost::Of(cost_of_contains_cidr))
            .overload(
                Overload::member("cidr_contains_cidr_string", [CIDR, Type::String], Type::Bool)
                    .run(contains_cidr_string)
                    .cost(Cost::Of(|args, result| {
                        cost_of_contains_cidr(args, result).saturating_add(tenth(size_at(args, 1)))
                    })),
            )
            .overload(
                Overload::member("cidr_contains_cidr", [CIDR, CIDR], Type::Bool)
                    .run(|args| Ok(Value::Bool(includes(network(args, 0)?, network(args, 1)?))))
                    .cost(Cost::Of(cost_of_contains_cidr)),
            ),
        Function::new("ip").overload(
            Overload::member("cidr_ip", [CIDR], IP)
                .run(|args| Ok(made(Ip(network(args, 0)?.address.clone())))),
        ),
        Function::new("prefixLength").overload(
            Overload::member("cidr_prefix_length", [CIDR], Type::Int)
                .run(|args| Ok(Value::Int(network(args, 0)?.bits.into()))),
        ),
        Function::new("masked").overload(
            Overload::member("cidr_masked", [CIDR], CIDR)
                .run(|args| Ok(made(Cidr(network(args, 0)?.masked())))),
        ),
        Function::new("isCIDR")
            .overload(Overload::global("is_cidr", [Type::String], Type::Bool).run(is_cidr))
            .cost(Cost::Of(traverse)),
        Function::new("string").overload(
            Overload::global("cidr_to_string", [CIDR], Type::String)
                .run(|args| Ok(Value::string(network(args, 0)?.to_string()))),
        ),
    ] {
        functions.add(function);
    }
}

/// Two comparisons of as many bytes as the prefix has.
fn cost_of_contains_ip(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    tenth(size_at(args, 0).saturating_mul(2))
}

/// One to mask it besides.
fn cost_of_contains_cidr(args: &[Value<'_>], result: &Value<'_>) -> u64 {
    cost_of_contains_ip(args, result).saturating_add(tenth(size_at(args, 0))).saturating_add(1)
}

/// An address, of no zone and not mapped.
struct Ip(Address);

/// A network.
struct Cidr(Network);

impl fmt::Debug for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip({:?})", self.0.to_string())
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cidr({:?})", self.0.to_string())
    }
}

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn go_type(&self) -> &'static str {
        "cel.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    fn size(&self) -> u64 {
        u64::from(self.0.bits()).div_ceil(8)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn go_type(&self) -> &'static str {
        "cel.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    fn size(&self) -> u64 {
        u64::from(self.0.bits).div_ceil(8)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn address<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Address, EvalError> {
    Ok(&opaque::<Ip>(args, at)?.0)
}

fn network<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Network, EvalError> {
    Ok(&opaque::<Cidr>(args, at)?.0)
}

/// `parseIPAddr`
fn parse_ip(text: &str) -> Result<Address, String> {
    let quoted = || go_quote(text);
    let address = Address::parse(text)
        .map_err(|why| format!("IP Address {} parse error during conversion from string: {why}", quoted()))?;
    if !address.zone().is_empty() {
        return Err(format!("IP address {} with zone value is not allowed", quoted()));
    }
    if address.is_mapped() {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted()));
    }
    Ok(address)
}

/// `parseCIDR`. Its error for a text that is no CIDR repeats the prefix, as upstream's does.
fn parse_cidr(text: &str) -> Result<Network, String> {
    const FAILED: &str = "network address parse error during conversion from string";
    let network = Network::parse(text).map_err(|why| format!("{FAILED}: {FAILED}: {why}"))?;
    if network.address.is_mapped() {
        return Err(format!("{FAILED}: IPv4-mapped IPv6 address {} is not allowed", go_quote(text)));
    }
    Ok(network)
}

fn to_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(made(Ip(parse_ip(text(args, 0)?).map_err(EvalError::message)?)))
}

fn is_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(parse_ip(text(args, 0)?).is_ok()))
}

fn is_canonical<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let text = text(args, 0)?;
    Ok(Value::Bool(parse_ip(text).map_err(EvalError::message)?.to_string() == text))
}

fn family<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(match address(args, 0)? {
        Address::V4(_) => 4,
        Address::V6(..) => 6,
    }))
}

fn to_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(made(Cidr(parse_cidr(text(args, 0)?).map_err(EvalError::message)?)))
}

fn is_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(parse_cidr(text(args, 0)?).is_ok()))
}

fn contains_ip_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    // For a text that is no address upstream only reports that there is no overload.
    let address = parse_ip(text(args, 1)?).map_err(|_| EvalError::NoSuchOverload)?;
    Ok(Value::Bool(network(args, 0)?.contains(&address)))
}

fn contains_cidr_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let other = parse_cidr(text(args, 1)?).map_err(EvalError::message)?;
    Ok(Value::Bool(includes(network(args, 0)?, &other)))
}

/// Returns true if `network` contains all addresses of `other`.
fn includes(network: &Network, other: &Network) -> bool {
    network.overlaps(other) && network.bits <= other.bits
}
