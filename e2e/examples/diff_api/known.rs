//! Differences that are explained: each is also in `docs/embedded.md`, section "Differences".

/// A family of differences that shall be.
pub(crate) struct Known {
    /// Every word must occur in the signature.
    pub(crate) words: &'static [&'static str],
    pub(crate) reason: &'static str,
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        words: &[": 599 - /"],
        reason: "kube-apiserver drops the connection instead of answering; we answer",
    },
    Known {
        words: &["metadata.resourceVersion new upstream only"],
        reason: "kube-apiserver compares stored bytes, so it writes where nothing can be seen to \
                 change: a claim's default phase, a null that became empty",
    },
    Known {
        words: &["strategic: 422 Invalid / 500 -"],
        reason: RANDOM_ORDER,
    },
    Known {
        words: &["strategic: 500 - / 422 Invalid patch:FieldValueInvalid"],
        reason: RANDOM_ORDER,
    },
];

const RANDOM_ORDER: &str = "kube-apiserver takes the keys of a patch in random order, so it refuses \
                            a list that is both taken from and given an item of another type now \
                            as unmergeable, now as invalid";

/// Why a difference is as it shall be.
pub(crate) fn reason(signature: &str) -> Option<&'static str> {
    let matches = |known: &&Known| known.words.iter().all(|word| signature.contains(word));
    KNOWN.iter().find(matches).map(|known| known.reason)
}
