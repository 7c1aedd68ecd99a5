//! The seal that ends every object that kindom stores. It distinguishes our values from those of other programs, which are
//! repaired, pruned and defaulted whenever they are read.
//!
//! A seal is white space, so that every reader of JSON passes over it: a line break and 32 characters of two bits each. They
//! hold a CRC-32C of what precedes them and of the *shape*, and the shape: the number of the schema that the object was
//! pruned and defaulted by. A value without a seal, or that was changed behind one, is another program's.

use bytes::Bytes;
use kindom_api::json;

/// The number of the schema that an object was pruned and defaulted by.
pub type Shape = u32;

/// The shape of an object that may not be served as it is stored, whatever its schema is.
pub const NO_SHAPE: Shape = 0;

const BEGIN: u8 = b'\n';
/// Characters of a number of 32 bits.
const NUMBER: usize = 16;
const LEN: usize = 1 + 2 * NUMBER;

/// A value to store, seal included.
#[derive(Debug, Clone)]
pub struct Sealed {
    value: Bytes,
    shape: Shape,
}

impl Sealed {
    /// Seals an object's JSON, which has to be valid, with keys that are sorted and unique, as `Value` writes it: what is sealed is
    /// not read to its end again. A float that is a negative zero is stored as `-0`, which every parser reads as the integer 0;
    /// such an object is never served as it is stored.
    pub fn new(mut json: Vec<u8>, shape: Shape) -> Self {
        let shape = if json::may_hold_negative_zero(&json) { NO_SHAPE } else { shape };
        let sum = checksum(&json, shape);
        json.reserve_exact(LEN);
        json.push(BEGIN);
        for number in [sum, shape] {
            json.extend((0..NUMBER).map(|at| sign(number >> (2 * at))));
        }
        Self { value: json.into(), shape }
    }

    /// The bytes to store.
    pub fn value(&self) -> Bytes {
        self.value.clone()
    }

    /// The object's JSON, without the seal.
    pub fn json_bytes(&self) -> &[u8] {
        self.value.get(..self.value.len().saturating_sub(LEN)).unwrap_or_default()
    }

    /// The object's JSON, without the seal, as a part of the value.
    pub fn json(&self) -> Bytes {
        self.value.slice(..self.value.len() - LEN)
    }

    /// The shape that the seal holds.
    pub fn shape(&self) -> Shape {
        self.shape
    }
}

/// The JSON and the shape of a value that kindom stored; none for another program's value.
pub fn unseal(value: &Bytes) -> Option<(Bytes, Shape)> {
    let at = value.len().checked_sub(LEN)?;
    let (json, seal) = value.split_at_checked(at)?;
    let (&begin, numbers) = seal.split_first()?;
    let (sum, shape) = numbers.split_at_checked(NUMBER)?;
    if begin != BEGIN || number(sum)? != checksum(json, number(shape)?) {
        return None;
    }
    Some((value.slice(..at), number(shape)?))
}

/// The sign of the lowest two bits.
fn sign(bits: u32) -> u8 {
    match bits & 3 {
        0 => b' ',
        1 => b'\t',
        2 => b'\n',
        _ => b'\r',
    }
}

/// The number of 16 signs, the lowest bits first.
fn number(signs: &[u8]) -> Option<u32> {
    signs.iter().rev().try_fold(0, |number, sign| {
        let bits = match sign {
            b' ' => 0,
            b'\t' => 1,
            b'\n' => 2,
            b'\r' => 3,
            _ => return None,
        };
        Some(number << 2 | bits)
    })
}

fn checksum(json: &[u8], shape: Shape) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(json), &shape.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{LEN, NO_SHAPE, Sealed, unseal};

    proptest! {
        #[test]
        fn what_is_sealed_is_known_again(json in "[^-]{0,50}", shape in any::<u32>()) {
            let sealed = Sealed::new(json.clone().into_bytes(), shape);
            let json = Bytes::from(json);
            prop_assert_eq!(sealed.value().len(), json.len() + LEN);
            prop_assert_eq!((sealed.json(), sealed.shape()), (json.clone(), shape));
            prop_assert_eq!(unseal(&sealed.value()), Some((json, shape)));
        }

        #[test]
        fn what_was_changed_is_not_ours(json in "[^-]{1,50}", shape in any::<u32>(), at in any::<usize>(), by in 1_u8..) {
            let mut bytes = Sealed::new(json.into_bytes(), shape).value().to_vec();
            let at = at % bytes.len();
            bytes[at] ^= by;
            prop_assert_eq!(unseal(&Bytes::from(bytes)), None);
        }
    }

    #[test]
    fn others_end_their_values_in_other_ways() {
        let blanks = " \t\n\r".repeat(9);
        for value in ["", "{}", "{}\n", "{}\n\n", blanks.as_str(), &format!("{{}}\n{}", " ".repeat(32))] {
            assert_eq!(unseal(&Bytes::copy_from_slice(value.as_bytes())), None, "{value:?}");
        }
    }

    #[test]
    fn a_negative_zero_has_no_shape() {
        assert_eq!(Sealed::new(b"{\"n\":-0}".to_vec(), 7).shape(), NO_SHAPE);
        assert_eq!(Sealed::new(b"{\"n\":-0.5}".to_vec(), 7).shape(), 7);
    }
}
