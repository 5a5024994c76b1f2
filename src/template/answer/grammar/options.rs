//! A choice among given strings, of which none is the beginning of another: keys and the ends of
//! pairs, each with the signs behind it.

/// The strings that the bytes so far may become, by number.
#[derive(Clone, Debug)]
pub(super) struct Options {
    numbers: Vec<usize>,
    /// Bytes so far.
    depth: usize,
}

impl Options {
    pub fn new(numbers: impl IntoIterator<Item = usize>) -> Options {
        Options { numbers: numbers.into_iter().collect(), depth: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Keeps those that go on with `byte`; `None` if there are none.
    pub fn narrow(&mut self, strings: &[Vec<u8>], byte: u8) -> Option<()> {
        self.numbers.retain(|number| strings[*number].get(self.depth) == Some(&byte));
        self.depth += 1;
        (!self.is_empty()).then_some(())
    }

    /// The string that is written out; the first of equal ones.
    pub fn complete(&self, strings: &[Vec<u8>]) -> Option<usize> {
        self.numbers.first().copied().filter(|number| strings[*number].len() == self.depth)
    }

    /// The bytes that may follow.
    pub fn next(&self, strings: &[Vec<u8>], mut mark: impl FnMut(&[u8])) {
        self.numbers.iter().filter_map(|number| strings[*number].get(self.depth..self.depth + 1)).for_each(&mut mark);
    }
}
