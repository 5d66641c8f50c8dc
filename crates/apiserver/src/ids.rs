//! Uids and name suffixes from a seed: the same seed gives the same objects again.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Letters of a generated name: no vowels, so that it spells nothing.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// A source of identities.
#[derive(Debug)]
pub(crate) struct Ids(AtomicU64);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A new uid, in the form of a random UUID.
    pub(crate) fn uid(&self) -> String {
        let (high, low) = (self.next(), self.next());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        let mut text = String::with_capacity(36);
        let _ = write!(
            text,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff,
        );
        text
    }

    /// What is appended to a `generateName`.
    pub(crate) fn suffix(&self) -> String {
        let mut bits = self.next();
        let count = LETTERS.len() as u64;
        (0..SUFFIX_LENGTH)
            .map(|_| {
                let letter = usize::try_from(bits % count).unwrap_or_default();
                bits /= count;
                char::from(LETTERS[letter])
            })
            .collect()
    }

    /// The next number of a splitmix64 sequence.
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_the_same_identities_again_and_no_two_alike() {
        let draw = |seed| {
            let ids = Ids::new(seed);
            (0..1000).map(|_| ids.uid()).collect::<BTreeSet<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_eq!(draw(7).len(), 1000);
        assert!(draw(7).is_disjoint(&draw(8)));
    }

    #[test]
    fn a_uid_has_the_form_of_a_random_uuid() {
        let uid = Ids::new(1).uid();
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uid.as_bytes()[19]));
    }
}
