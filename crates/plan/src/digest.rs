//! The hash by which we tell whether something is as we left it.

use sha2::{Digest, Sha256};

/// Hash of a text, as long as a SHA-256 in hexadecimal digits.
pub fn digest(text: &str) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    Sha256::digest(text.as_bytes())
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
        .collect()
}
