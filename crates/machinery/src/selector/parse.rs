//! The grammar of label selectors.
//!
//! ```text
//! selector    = [ requirement *( "," requirement ) ]
//! requirement = key | "!" key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ]
//!             | key ( "in" | "notin" ) "(" [ value ] *( "," [ value ] ) ")"
//! ```
//!
//! `in` and `notin` are operators only where an operator can stand; elsewhere they are plain words.

use super::label::invalid;
use super::{Error, Operator, Requirement};
use crate::names;
use std::collections::BTreeSet;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses the comma-separated requirements of `text`, in the order written.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    match parser.peek() {
        Token::End => return Ok(requirements),
        Token::Word(_) | Token::Symbol("!") => {}
        other @ Token::Symbol(_) => return unexpected(other, "!, identifier, or 'end of string'"),
    }
    loop {
        let requirement = parser.requirement().map_err(|why| Error::Requirement {
            source: Box::new(why),
        })?;
        requirements.push(requirement);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return unexpected(other, "identifier after ','"),
            },
            other => return unexpected(other, "',' or 'end of string'"),
        }
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let rest = self.rest.trim_start_matches(is_space);
        let (token, length) = match rest.as_bytes() {
            [] => (Token::End, 0),
            [b'=' | b'!', b'=', ..] => (Token::Symbol(&rest[..2]), 2),
            [first, ..] if is_symbol(char::from(*first)) => (Token::Symbol(&rest[..1]), 1),
            _ => {
                let end = rest
                    .find(|c| is_space(c) || is_symbol(c))
                    .unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
        };
        self.rest = &rest[length..];
        token
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (key, negated) = self.key()?;
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, []);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, []);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => BTreeSet::from([self.value()?.to_owned()]),
        };
        Requirement::new(key, operator, values)
    }

    fn key(&mut self) -> Result<(&'a str, bool), Error> {
        let first = self.next();
        let negated = matches!(first, Token::Symbol("!"));
        match if negated { self.next() } else { first } {
            Token::Word(key) => match invalid("<nil>".to_owned(), key, &names::qualified_name(key))
            {
                Some(error) => Err(error),
                None => Ok((key, negated)),
            },
            other => unexpected(other, "identifier"),
        }
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        Ok(match self.next() {
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            other => return unexpected(other, OPERATORS),
        })
    }

    fn value(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            other @ Token::Symbol(_) => unexpected(other, "identifier"),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, Error> {
        match self.next() {
            Token::Symbol("(") => {}
            other => {
                return Err(Error::NoSet {
                    found: text(other).to_owned(),
                });
            }
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value
                }
                Token::Symbol("," | ")") => "",
                other => return unexpected(other, "',', ')' or identifier"),
            };
            values.insert(value.to_owned());
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return unexpected(other, "',' or ')'"),
            }
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn text(token: Token<'_>) -> &str {
    match token {
        Token::Word(text) | Token::Symbol(text) => text,
        Token::End => "",
    }
}

fn unexpected<T>(token: Token<'_>, expected: &'static str) -> Result<T, Error> {
    Err(Error::Unexpected {
        found: text(token).to_owned(),
        expected,
    })
}
