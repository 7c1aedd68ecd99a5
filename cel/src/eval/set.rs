//! Constant lists of scalars, as sets (cel-go `maybeOptimizeSetMembership`).

use std::collections::HashSet;

use crate::value::{List, Value, whole, whole_unsigned};

/// Up to this many members a lookup compares one by one.
const FEW: usize = 8;

/// The members of a constant list, by type: a number is a member of each type that it is the same number in.
#[derive(Debug)]
pub(super) enum Set {
    Few(Box<[Member]>),
    Many(HashSet<Member>),
}

/// A scalar as Go's maps compare it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Member {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

impl Set {
    /// The set of a constant list, if all its items are scalars.
    #[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
    pub(super) fn of(list: &List<'_>) -> Option<Self> {
        let mut members = Vec::with_capacity(list.len());
        for item in list.iter() {
            match item.ok()? {
                Value::Bool(b) => members.push(Member::Bool(b)),
                Value::String(text) => members.push(Member::String(text.as_str().into())),
                Value::Double(x) => {
                    members.extend(double(x));
                    members.extend(whole(x).map(Member::Int));
                    members.extend(whole_unsigned(x).map(Member::Uint));
                }
                Value::Int(n) => {
                    members.push(Member::Int(n));
                    members.extend(double(n as f64));
                    members.extend(u64::try_from(n).ok().map(Member::Uint));
                }
                Value::Uint(n) => {
                    members.push(Member::Uint(n));
                    members.extend(double(n as f64));
                    members.extend(i64::try_from(n).ok().map(Member::Int));
                }
                _ => return None,
            }
        }
        Some(if members.len() <= FEW {
            Self::Few(members.into())
        } else {
            Self::Many(members.into_iter().collect())
        })
    }

    pub(super) fn contains(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Few(members) => members.iter().any(|member| match (member, value) {
                (Member::String(a), Value::String(b)) => **a == *b.as_str(),
                (Member::Bool(a), Value::Bool(b)) => a == b,
                (Member::Int(a), Value::Int(b)) => a == b,
                (Member::Uint(a), Value::Uint(b)) => a == b,
                (Member::Double(a), Value::Double(b)) => double(*b) == Some(Member::Double(*a)),
                _ => false,
            }),
            Self::Many(members) => match value {
                Value::Bool(b) => members.contains(&Member::Bool(*b)),
                Value::Int(n) => members.contains(&Member::Int(*n)),
                Value::Uint(n) => members.contains(&Member::Uint(*n)),
                Value::Double(x) => double(*x).is_some_and(|x| members.contains(&x)),
                Value::String(text) => members.contains(&Member::String(text.as_str().into())),
                _ => false,
            },
        }
    }
}

/// Both zeros are equal, and NaN is equal to nothing.
fn double(x: f64) -> Option<Member> {
    (!x.is_nan()).then(|| Member::Double((x + 0.0).to_bits()))
}
