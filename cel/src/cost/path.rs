//! The way to a value through its declaration: `self`, `spec`, `list`, `@items`.
//!
//! Upstream keeps these ways in Go slices that it appends to. Appending to one slice twice writes the second step over the
//! first, where both share an array with room to spare; sizes are looked up later, at the overwritten way. Which rules a
//! registration may have depends on the estimate, so the arrays are shared here in the same way: with room that doubles.

/// A path to a value. Its target may still change: see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Path {
    array: u32,
    len: u32,
}

/// The arrays that ways share.
#[derive(Debug)]
pub(super) struct Arrays<'a>(Vec<Array<'a>>);

#[derive(Debug)]
struct Array<'a> {
    steps: Vec<&'a str>,
    room: usize,
}

impl<'a> Arrays<'a> {
    pub(super) fn new() -> Self {
        // The first is that of all empty ways.
        Self(vec![Array { steps: Vec::new(), room: 0 }])
    }

    /// The way to a variable.
    pub(super) fn variable(&mut self, name: &'a str) -> Path {
        self.append(Path::default(), name)
    }

    /// One step on.
    pub(super) fn append(&mut self, path: Path, step: &'a str) -> Path {
        let len = path.len as usize;
        let Some(array) = self.0.get_mut(path.array as usize) else { return path };
        if len < array.room {
            match array.steps.get_mut(len) {
                Some(place) => *place = step,
                None => array.steps.push(step),
            }
            return Path { len: path.len + 1, ..path };
        }
        let room = (array.room * 2).max(1);
        let mut steps = Vec::with_capacity(room);
        steps.extend(array.steps.iter().take(len));
        steps.push(step);
        let array = u32::try_from(self.0.len()).unwrap_or(0);
        self.0.push(Array { steps, room });
        Path { array, len: path.len + 1 }
    }

    pub(super) fn steps(&self, path: Path) -> &[&'a str] {
        self.0.get(path.array as usize).and_then(|a| a.steps.get(..path.len as usize)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrays, Path};

    #[test]
    fn a_second_append_overwrites_where_there_is_room() {
        let mut arrays = Arrays::new();
        assert!(arrays.steps(Path::default()).is_empty());
        let one = arrays.variable("self");
        let (a, b) = (arrays.append(one, "a"), arrays.append(one, "b"));
        assert_eq!((arrays.steps(a), arrays.steps(b)), (&["self", "a"][..], &["self", "b"][..]));
        let three = arrays.append(a, "@items");
        let (x, y) = (arrays.append(three, "x"), arrays.append(three, "y"));
        assert_eq!(arrays.steps(x), ["self", "a", "@items", "y"]);
        assert_eq!(arrays.steps(x), arrays.steps(y));
        let (p, q) = (arrays.append(x, "p"), arrays.append(x, "q"));
        assert_eq!((arrays.steps(p).last(), arrays.steps(q).last()), (Some(&"p"), Some(&"q")));
    }
}
