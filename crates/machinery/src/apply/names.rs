//! Names of managers.

const MAX_BYTES: usize = 128;

/// A manager name that a request may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// More than 128 bytes.
    #[error("may not be more than {MAX_BYTES} bytes")]
    TooLong,
    /// A character that cannot be printed.
    #[error("invalid character U+{:04X} (at position {position})", *character as u32)]
    NotPrintable {
        /// The character that cannot be printed.
        character: char,
        /// Its place in the name, counted in bytes.
        position: usize,
    },
}

/// Checks a `fieldManager` parameter.
pub fn check_manager(name: &str) -> Result<(), NameError> {
    if name.len() > MAX_BYTES {
        return Err(NameError::TooLong);
    }
    match name.char_indices().find(|(_, c)| !is_printable(*c)) {
        Some((position, character)) => Err(NameError::NotPrintable {
            character,
            position,
        }),
        None => Ok(()),
    }
}

/// The manager of a request that names none: the first word of its user agent.
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in name.chars().filter(|c| is_printable(*c)) {
        if manager.len() + character.len_utf8() > MAX_BYTES {
            break;
        }
        manager.push(character);
    }
    if manager.is_empty() {
        "unknown".to_owned()
    } else {
        manager
    }
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}
