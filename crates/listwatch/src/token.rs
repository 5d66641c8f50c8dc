//! Continue tokens: where a list goes on, and at which revision.

use edgegrid_machinery::status::Status;
use std::fmt;

const VERSION: &str = "v1";

/// The place where a list goes on. Clients hand it back as they got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The revision the list started at; none to go on at the present one, inconsistently.
    pub revision: Option<u64>,
    /// The last key already sent, without the resource's prefix.
    pub after: String,
}

impl Token {
    /// Reads a token a client sent.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parts = text.splitn(3, ':');
        let (version, revision, after) = (parts.next(), parts.next(), parts.next());
        let revision = match revision {
            Some("") => Some(None),
            Some(digits) => digits.parse().ok().map(Some),
            None => None,
        };
        match (version, revision, after) {
            (Some(VERSION), Some(revision), Some(after)) if !after.is_empty() => Ok(Self {
                revision,
                after: after.to_owned(),
            }),
            _ => Err(Status::bad_request(
                "continue key is not valid: not a token of this server",
            )),
        }
    }

    /// The token that goes on at the present revision.
    pub fn inconsistent(&self) -> Self {
        Self {
            revision: None,
            after: self.after.clone(),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self
            .revision
            .map(|revision| revision.to_string())
            .unwrap_or_default();
        write!(f, "{VERSION}:{revision}:{}", self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_reads_back_as_it_was_printed(revision: Option<u64>, after in ".+") {
            let token = Token { revision, after };
            prop_assert_eq!(Token::parse(&token.to_string()), Ok(token));
        }

        #[test]
        fn any_text_is_a_token_or_refused(text in ".*") {
            if let Err(status) = Token::parse(&text) {
                prop_assert_eq!(status.code(), 400);
            }
        }
    }
}
