//! Valid input made odd: JSON by its structure, text and bytes by their letters.

use serde_json::{Map, Value, json};

use crate::corpus::WORDS;
use crate::random::Random;

/// Nesting beyond what the server follows.
const DEEP: usize = 400;
const LONG: usize = 20_000;

/// A value with a few changes at random places.
pub(crate) fn value(random: &mut Random, mut value: Value, donors: &[Value]) -> Value {
    for _ in 0..random.below(6) {
        let mut at = &mut value;
        while !random.once_in(4)
            && let Some(below) = descend(random, at)
        {
            // Descends again: the borrow of a conditional step cannot outlive the condition.
            at = match below {
                Step::Key(key) => &mut at[key],
                Step::Index(index) => &mut at[index],
            };
        }
        change(random, at, donors);
    }
    value
}

enum Step {
    Key(String),
    Index(usize),
}

fn descend(random: &mut Random, at: &Value) -> Option<Step> {
    match at {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(random.below(map.len()))?;
            Some(Step::Key(key.clone()))
        }
        Value::Array(items) if !items.is_empty() => Some(Step::Index(random.below(items.len()))),
        _ => None,
    }
}

fn change(random: &mut Random, at: &mut Value, donors: &[Value]) {
    match (random.below(12), &mut *at) {
        (0..=2, Value::Object(map)) => {
            let word = word(random);
            map.insert(word, any(random, 3));
        }
        (3..=4, Value::Object(map)) => {
            let key = map.keys().nth(random.below(map.len())).cloned();
            map.remove(&key.unwrap_or_default());
        }
        (0..=2, Value::Array(items)) => items.push(any(random, 3)),
        (3, Value::Array(items)) if !items.is_empty() => {
            let copy = items[random.below(items.len())].clone();
            items.extend(std::iter::repeat_n(copy, 1 + random.below(20)));
        }
        (4, Value::Array(items)) if !items.is_empty() => {
            items.remove(random.below(items.len()));
        }
        (0..=4, Value::String(text)) => *text = self::text(random, text),
        (5, _) if random.once_in(10) => nest(random, at),
        (6, Value::String(text)) if random.once_in(10) => {
            *text = text.repeat(LONG / (1 + text.len()));
        }
        (7..=8, _) if !donors.is_empty() => *at = part_of(random, donors),
        _ => *at = any(random, 2),
    }
}

fn nest(random: &mut Random, at: &mut Value) {
    for _ in 0..random.below(DEEP) {
        let inner = at.take();
        *at = if random.once_in(2) {
            json!([inner])
        } else {
            json!({ word(random): inner })
        };
    }
}

/// Some subtree of some other input.
fn part_of(random: &mut Random, donors: &[Value]) -> Value {
    let mut at = random.pick(donors);
    while !random.once_in(3)
        && let Some(step) = descend(random, at)
    {
        at = match step {
            Step::Key(key) => &at[key],
            Step::Index(index) => &at[index],
        };
    }
    at.clone()
}

/// A random JSON value, at most so deep.
pub(crate) fn any(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => random.once_in(2).into(),
        2 => random
            .pick(&[0, 1, -1, i64::MAX, i64::MIN, 65_536])
            .to_owned()
            .into(),
        3 => random
            .pick(&[0.5, -0.0, 1e300, f64::MIN_POSITIVE, 1e18])
            .to_owned()
            .into(),
        4 => word(random).into(),
        5 => {
            let start = word(random);
            text(random, &start).into()
        }
        6 => (0..random.below(4))
            .map(|_| any(random, depth - 1))
            .collect(),
        _ => {
            let fields = (0..random.below(4)).map(|_| (word(random), any(random, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// A word that means something somewhere.
pub(crate) fn word(random: &mut Random) -> String {
    random.word(WORDS).to_owned()
}

/// A text with a few changes.
pub(crate) fn text(random: &mut Random, text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(letters.len() + 1);
        let end = (at + random.below(6)).min(letters.len());
        match random.below(5) {
            0 => drop(letters.drain(at..end)),
            1 => letters.insert(at, letter(random)),
            2 => drop(letters.splice(at..at, word(random).chars())),
            3 => {
                let copy: Vec<char> = letters[at..end].to_vec();
                letters.splice(at..at, copy);
            }
            _ => drop(letters.splice(at..end, [letter(random)])),
        }
    }
    letters.into_iter().collect()
}

fn letter(random: &mut Random) -> char {
    const ODD: &[char] = &[
        '\0',
        '\n',
        '"',
        '\\',
        '/',
        '~',
        '%',
        '{',
        '[',
        '(',
        ',',
        '=',
        '!',
        'é',
        '\u{1F600}',
        '\u{202e}',
    ];
    if random.once_in(2) {
        *random.pick(ODD)
    } else {
        char::from(random.byte() & 0x7f)
    }
}

/// Bytes with a few changes; now and then nothing of them is left.
pub(crate) fn bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    if random.once_in(20) {
        *bytes = (0..random.below(200)).map(|_| random.byte()).collect();
    }
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        match random.below(5) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.insert(at, random.byte()),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, copy));
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => {}
        }
    }
}
