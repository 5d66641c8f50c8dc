//! Numbers from a seed.

/// The numbers that one input is drawn with.
pub(crate) struct Random(fastrand::Rng);

impl Random {
    /// The sequence of one input: whoever knows seed, target and number can draw it again.
    pub(crate) fn new(seed: u64, target: &str, number: u64) -> Self {
        let parts = target.bytes().map(u64::from).chain([number]);
        let seed = parts.fold(seed, |seed, part| {
            fastrand::Rng::with_seed(seed).u64(..) ^ part
        });
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`; zero if that is zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    pub(crate) fn word(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.u8(..)
    }
}
