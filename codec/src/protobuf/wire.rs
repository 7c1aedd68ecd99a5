//! The wire format: tags, varints and lengths, bounded by the bytes that are there.

use super::ProtobufError;

/// A value as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'a> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// A group, which has been skipped.
    Group,
    /// Four bytes, which no field here has.
    Fixed32,
}

impl Raw<'_> {
    /// The number of its wire type.
    pub(super) fn wire_type(self) -> u64 {
        match self {
            Self::Number(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Fixed32 => 5,
        }
    }
}

/// The entries of a message, in order.
pub(super) struct Wire<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8], message: &'static str) -> Self {
        Self { rest: bytes, message }
    }
}

impl<'a> Iterator for Wire<'a> {
    type Item = Result<(u32, Raw<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

impl<'a> Wire<'a> {
    fn entry(&mut self) -> Result<(u32, Raw<'a>), ProtobufError> {
        let tag = self.varint()?;
        let message = self.message;
        if tag & 7 == 4 {
            return Err(ProtobufError::NoGroup(message));
        }
        // Go takes the low 32 bits, as a signed number.
        let [a, b, c, d, ..] = (tag >> 3).to_le_bytes();
        let number = i32::from_le_bytes([a, b, c, d]);
        let field = u32::try_from(number).ok().filter(|number| *number > 0);
        let field = field.ok_or(ProtobufError::IllegalTag { message, number, wire: tag })?;
        Ok((field, self.value(tag & 7)?))
    }

    fn value(&mut self, wire_type: u64) -> Result<Raw<'a>, ProtobufError> {
        Ok(match wire_type {
            0 => Raw::Number(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(*self.array()?)),
            2 => Raw::Bytes(self.bytes()?),
            3 => {
                self.skip_group()?;
                Raw::Group
            }
            5 => {
                self.array::<4>()?;
                Raw::Fixed32
            }
            other => return Err(ProtobufError::IllegalWireType(other)),
        })
    }

    /// Skips to the end of a group that has begun; groups within it are counted, not entered.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.varint()? & 7 {
                3 => open += 1,
                4 => open -= 1,
                other => drop(self.value(other)?),
            }
        }
        Ok(())
    }

    fn bytes(&mut self) -> Result<&'a [u8], ProtobufError> {
        let length = self.varint()?;
        if length > i64::MAX.cast_unsigned() {
            return Err(ProtobufError::NegativeLength);
        }
        let length = usize::try_from(length).map_err(|_| ProtobufError::UnexpectedEnd)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], ProtobufError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Overflow)
    }
}

/// Fields written from the last to the first, so that the length of a message is known when it is written and nothing
/// moves.
#[derive(Debug, Default)]
pub struct Backwards(Vec<u8>);

impl Backwards {
    /// Puts bytes before those that are there, without a tag.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev());
    }

    fn put_varint(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut length = 0;
        for byte in &mut bytes {
            length += 1;
            *byte = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(bytes.get(..length).unwrap_or_default());
    }

    fn put_tag(&mut self, field: u32, wire_type: u64) {
        self.put_varint(u64::from(field) << 3 | wire_type);
    }

    /// A field that is a number; a negative one as its two's complement.
    pub fn number(&mut self, field: u32, number: u64) {
        self.put_varint(number);
        self.put_tag(field, 0);
    }

    /// A field of eight bytes.
    pub fn fixed64(&mut self, field: u32, bits: u64) {
        self.put(&bits.to_le_bytes());
        self.put_tag(field, 1);
    }

    /// A field of text or bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.within(field, |out| out.put(bytes));
    }

    /// A field whose contents `write` writes, last field first.
    pub fn within(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let end = self.0.len();
        write(self);
        self.put_length(field, self.0.len() - end);
    }

    /// The tag of a field of so many bytes, and their number.
    pub(super) fn put_length(&mut self, field: u32, bytes: usize) {
        self.put_varint(bytes as u64);
        self.put_tag(field, 2);
    }

    /// The bytes that were written, in their final order.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.0.reverse();
        self.0
    }
}
