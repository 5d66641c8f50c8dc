//! Uids and name suffixes from a seed: the same seed gives the same objects again.

use std::fmt::Write as _;

use parking_lot::Mutex;

/// Letters of a generated name: no vowels, so that it spells nothing.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// A source of identities.
#[derive(Debug)]
pub(crate) struct Ids(Mutex<fastrand::Rng>);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A new uid, in the form of a random UUID.
    pub(crate) fn uid(&self) -> String {
        let random = self.0.lock().u128(..);
        let (version, variant) = (0b0100 << 76, 0b10 << 62);
        let uuid = (random & !(0b1111 << 76) & !(0b11 << 62)) | version | variant;
        let mut text = String::with_capacity(36);
        let _ = write!(
            text,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            uuid >> 96,
            (uuid >> 80) & 0xffff,
            (uuid >> 64) & 0xffff,
            (uuid >> 48) & 0xffff,
            uuid & 0xffff_ffff_ffff,
        );
        text
    }

    /// What is appended to a `generateName`.
    pub(crate) fn suffix(&self) -> String {
        let mut rng = self.0.lock();
        (0..SUFFIX_LENGTH)
            .map(|_| char::from(LETTERS[rng.usize(..LETTERS.len())]))
            .collect()
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
