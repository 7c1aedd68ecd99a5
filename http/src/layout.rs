//! Answers that are laid out for people, indented or in YAML. A byte of an object may take hundreds so, hence they come in pieces.

use kindom_api::json::Indenter;
use kindom_codec::yaml;

/// The bytes of a piece, more or less.
pub(crate) const LAID_OUT_BYTES: usize = 64 << 10;

/// A layout of JSON.
pub(crate) enum Layout {
    Indented(Indenter),
    Yaml(yaml::Writer),
}

impl Layout {
    /// A piece of what JSON looks like, and the bytes of the JSON that it takes.
    fn piece(&mut self, json: &[u8]) -> (usize, Vec<u8>) {
        match self {
            Self::Indented(indenter) => {
                let mut piece = Vec::new();
                (indenter.write(json, LAID_OUT_BYTES, &mut piece), piece)
            }
            Self::Yaml(writer) => {
                let (piece, taken) = writer.write(json, LAID_OUT_BYTES);
                (taken, piece.into_bytes())
            }
        }
    }
}

/// The pieces of JSON in a layout.
pub(crate) struct LaidOut<P> {
    layout: Layout,
    pieces: P,
    /// JSON that is laid out next, from that byte on.
    json: Vec<u8>,
    at: usize,
}

impl<P> LaidOut<P> {
    pub(crate) fn new(layout: Layout, pieces: P) -> Self {
        Self { layout, pieces, json: Vec::new(), at: 0 }
    }
}

impl<E, P: Iterator<Item = Result<Vec<u8>, E>>> Iterator for LaidOut<P> {
    type Item = Result<Vec<u8>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (taken, piece) = self.layout.piece(self.json.get(self.at..).unwrap_or_default());
            self.at += taken;
            if !piece.is_empty() {
                return Some(Ok(piece));
            }
            // Nothing more comes of what is left, which may be the first half of something.
            match self.pieces.next()? {
                Ok(more) => {
                    self.json.drain(..self.at);
                    self.json.extend(more);
                    self.at = 0;
                }
                Err(why) => return Some(Err(why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    #[test]
    fn deep_objects_come_in_small_pieces() {
        let deep = format!("{}{}0{}\n", "[".repeat(200), "1,".repeat(20_000), "]".repeat(200));
        let tree = json::parse(deep.as_bytes()).unwrap();
        for (layout, whole) in [
            (Layout::Indented(Indenter::default()), tree.to_vec_indented()),
            (Layout::Yaml(yaml::Writer::default()), yaml::to_yaml(&tree).into_bytes()),
        ] {
            assert!(whole.len() > 8_000_000, "{}", whole.len());
            // Cut in the middle of a number, too.
            let cut = deep.as_bytes().chunks(777).map(|part| Ok::<_, ()>(part.to_vec()));
            let mut laid_out = Vec::new();
            for piece in LaidOut::new(layout, cut) {
                let piece = piece.unwrap();
                assert!(piece.len() < LAID_OUT_BYTES + 1000);
                laid_out.extend(piece);
            }
            assert!(laid_out == whole);
        }
    }
}
