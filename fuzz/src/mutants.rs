//! Real inputs with a few edits.

use bolero::{Driver, ValueGenerator};

/// The longest mutant in bytes: long enough to show quadratic work, short enough for thousands of rounds.
const LONGEST: usize = 16 << 10;
/// Edits of one mutant. A few find more than many: a mutant has to get past the first token.
const EDITS: u32 = 6;

/// Numbers at the edges of what integers and floats hold, and what only some readers take for a number.
const NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "-1",
    "127",
    "128",
    "255",
    "256",
    "65536",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1e400",
    "0.1e-320",
    "00",
];
/// Characters of several bytes, invisible ones, and ones that end strings for some readers.
const CHARACTERS: [&str; 12] =
    ["\0", "\n", "\r", "\t", "\u{7f}", "é", "\u{301}", "\u{2028}", "\u{feff}", "\u{fffd}", "\u{10ffff}", "𝔸"];

/// Inputs that are one of the seeds after at most six edits: bytes flipped, dropped, inserted and doubled, tokens of the
/// language inserted, repeated and nested, numbers and characters replaced by awkward ones, and pieces of other seeds put
/// in. One in eight is no seed's mutant but random bytes and tokens.
#[derive(Clone, Debug)]
pub struct Mutants {
    seeds: Vec<Vec<u8>>,
    tokens: Vec<Vec<u8>>,
    nests: Vec<(Vec<u8>, Vec<u8>)>,
    longest: usize,
}

/// A number below `bound`; 0 if `bound` is 0.
pub(crate) fn below<D: Driver>(driver: &mut D, bound: usize) -> Option<usize> {
    let drawn = driver.produce::<u32>()? as usize;
    Some(drawn.checked_rem(bound).unwrap_or(0))
}

/// One of the items.
pub(crate) fn one<'a, D: Driver, T>(driver: &mut D, of: &'a [T]) -> Option<&'a T> {
    let index = below(driver, of.len())?;
    of.get(index)
}

impl Mutants {
    /// Mutants of these inputs.
    pub fn of<S: AsRef<[u8]>>(seeds: impl IntoIterator<Item = S>) -> Self {
        let seeds = seeds.into_iter().map(|seed| seed.as_ref().to_vec()).collect();
        Self { seeds, tokens: Vec::new(), nests: Vec::new(), longest: LONGEST }
    }

    /// Words of the language, to insert and to repeat.
    #[must_use]
    pub fn tokens(mut self, tokens: &[&str]) -> Self {
        self.tokens.extend(tokens.iter().map(|token| token.as_bytes().to_vec()));
        self
    }

    /// The tokens that open and close a level of the language, for nesting.
    #[must_use]
    pub fn nests(mut self, nests: &[(&str, &str)]) -> Self {
        self.nests
            .extend(nests.iter().map(|(open, close)| (open.as_bytes().to_vec(), close.as_bytes().to_vec())));
        self
    }

    /// No mutant is longer than this.
    #[must_use]
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    fn start<D: Driver>(&self, driver: &mut D) -> Option<Vec<u8>> {
        if below(driver, 8)? != 0 && !self.seeds.is_empty() {
            return one(driver, &self.seeds).cloned();
        }
        let mut bytes = Vec::new();
        for _ in 0..below(driver, 24)? {
            match one(driver, &self.tokens) {
                Some(token) if below(driver, 3)? != 0 => bytes.extend_from_slice(token),
                _ => bytes.push(driver.produce()?),
            }
        }
        Some(bytes)
    }

    fn edit<D: Driver>(&self, driver: &mut D, bytes: &mut Vec<u8>) -> Option<()> {
        let at = below(driver, bytes.len() + 1)?;
        match below(driver, 11)? {
            0 => {
                let byte = driver.produce()?;
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            1 => {
                let end = (at + 1 + below(driver, 16)?).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            2 => {
                let end = (at + 1 + below(driver, 64)?).min(bytes.len());
                let piece: Vec<u8> = bytes.get(at..end).unwrap_or_default().to_vec();
                let to = below(driver, bytes.len() + 1)?;
                insert(bytes, to, &piece);
            }
            3 | 4 => {
                if let Some(token) = one(driver, &self.tokens) {
                    insert(bytes, at, token);
                }
            }
            5 => {
                let piece: [u8; 4] = driver.produce()?;
                insert(bytes, at, &piece);
            }
            6 => {
                if let Some(other) = one(driver, &self.seeds) {
                    let from = below(driver, other.len() + 1)?;
                    let end = (from + below(driver, 256)?).min(other.len());
                    insert(bytes, at, other.get(from..end).unwrap_or_default());
                }
            }
            7 => {
                let token = one(driver, &self.tokens).cloned().unwrap_or_else(|| bytes.clone());
                let times = 1usize << below(driver, 13)?;
                insert(bytes, at, &repeated(&token, times, self.longest));
            }
            8 => {
                if let Some((open, close)) = one(driver, &self.nests) {
                    // Around the limits of depth that readers have, and far past them.
                    let deep = 1 + below(driver, 300)? + 4000 * usize::from(below(driver, 8)? == 0);
                    let end = at + below(driver, bytes.len() - at + 1)?;
                    insert(bytes, end, &repeated(close, deep, self.longest / 2));
                    insert(bytes, at, &repeated(open, deep, self.longest / 2));
                }
            }
            9 => {
                let number = one(driver, &NUMBERS)?;
                let digit = |b: &u8| b.is_ascii_digit();
                let from = at + bytes.get(at..).and_then(|rest| rest.iter().position(digit)).unwrap_or(0);
                let to =
                    from + bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|b| digit(b)).count());
                bytes.splice(from.min(bytes.len())..to.min(bytes.len()), number.bytes());
            }
            _ => insert(bytes, at, one(driver, &CHARACTERS)?.as_bytes()),
        }
        bytes.truncate(self.longest);
        Some(())
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let at = at.min(bytes.len());
    bytes.splice(at..at, piece.iter().copied());
}

/// A piece several times over, but no more of it than fits.
fn repeated(piece: &[u8], times: usize, longest: usize) -> Vec<u8> {
    piece.repeat(times.min(longest / piece.len().max(1)))
}

impl ValueGenerator for Mutants {
    type Output = Vec<u8>;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Vec<u8>> {
        let mut bytes = self.start(driver)?;
        for _ in 0..below(driver, EDITS as usize + 1)? {
            self.edit(driver, &mut bytes)?;
        }
        Some(bytes)
    }
}

/// [`Mutants`] for parsers of text: bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug)]
pub struct Texts(pub Mutants);

impl ValueGenerator for Texts {
    type Output = String;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<String> {
        Some(String::from_utf8_lossy(&self.0.generate(driver)?).into_owned())
    }
}
