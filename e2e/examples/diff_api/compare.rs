//! What is different between two answers, in a form that groups alike differences.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sides::{Answer, Request};

/// A difference between two answers to one request.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    /// The same for all differences of the same cause, as far as can be told.
    pub(crate) signature: String,
    /// The two answers where they differ.
    pub(crate) detail: String,
}

/// What to compare beside codes, reasons, causes and objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison {
    /// Whether messages must be equal as well.
    pub(crate) messages: bool,
}

/// The first difference; both answers are normalised.
pub(crate) fn compare(
    plural: &str,
    request: &Request,
    answers: [&Answer; 2],
    comparison: Comparison,
) -> Option<Difference> {
    let [upstream, embedded] = answers;
    let verb = request.verb;
    let detail = |what: &str| {
        format!(
            "{what}\n    upstream: {}\n    embedded: {}",
            brief(upstream),
            brief(embedded)
        )
    };
    if upstream.code != embedded.code {
        let signature = format!(
            "{plural} {verb}: {} / {}",
            outcome(upstream),
            outcome(embedded)
        );
        return Some(Difference {
            signature,
            detail: detail("code"),
        });
    }
    if upstream.body["kind"] == "Status"
        && embedded.body["kind"] == "Status"
        && !upstream.is_success()
    {
        return statuses(upstream, embedded, comparison).map(|what| Difference {
            signature: format!("{plural} {verb}: {what}"),
            detail: detail(&what),
        });
    }
    let (left, right) = (&upstream.body, &embedded.body);
    // What nobody can see but in the revision comes last.
    let content = objects(&unrevised(left), &unrevised(right), &mut String::new());
    let (what, detail) = content.or_else(|| objects(left, right, &mut String::new()))?;
    Some(Difference {
        signature: format!("{plural} {verb}: {what}"),
        detail,
    })
}

/// An object, or a list of them, without revisions.
fn unrevised(body: &Value) -> Value {
    let mut body = body.clone();
    let strip = |object: &mut Value| {
        if let Some(revision) = object.pointer_mut("/metadata/resourceVersion") {
            *revision = Value::Null;
        }
    };
    strip(&mut body);
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(strip);
    }
    body
}

fn statuses(upstream: &Answer, embedded: &Answer, comparison: Comparison) -> Option<String> {
    let (left, right) = (&upstream.body, &embedded.body);
    if left["reason"] != right["reason"] {
        return Some(format!(
            "{} {} / {}",
            upstream.code, left["reason"], right["reason"]
        ));
    }
    let (wanted, got) = (causes(left), causes(right));
    if wanted != got {
        let missing: Vec<&String> = wanted.iter().filter(|cause| !got.contains(cause)).collect();
        let extra: Vec<&String> = got.iter().filter(|cause| !wanted.contains(cause)).collect();
        return Some(format!("causes: missing {missing:?}, extra {extra:?}"));
    }
    for field in ["name", "group", "kind"] {
        if left["details"][field] != right["details"][field] {
            return Some(format!(
                "{} {} details.{field}",
                upstream.code, left["reason"]
            ));
        }
    }
    let differs = comparison.messages && left["message"] != right["message"];
    differs.then(|| format!("{} {} message", upstream.code, left["reason"]))
}

fn outcome(answer: &Answer) -> String {
    if answer.is_success() {
        return answer.code.to_string();
    }
    let reason = answer.body["reason"].as_str().unwrap_or("-");
    match causes(&answer.body) {
        causes if causes.is_empty() => format!("{} {reason}", answer.code),
        causes => format!("{} {reason} {}", answer.code, causes.join(", ")),
    }
}

/// Field and reason of each cause, once each; which item of a list it was does not matter to a
/// signature.
fn causes(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let unique: BTreeSet<(String, String)> = causes
        .map(|cause| (text(&cause["field"]), text(&cause["reason"])))
        .collect();
    let mut causes: Vec<String> = unique
        .into_iter()
        .map(|(field, reason)| format!("{}:{reason}", without_indexes(&field)))
        .collect();
    causes.sort();
    causes
}

/// `a[3].b[key]` as `a[].b[]`.
fn without_indexes(path: &str) -> String {
    let mut text = String::new();
    let mut depth = 0usize;
    for letter in path.chars() {
        match letter {
            '[' => {
                depth += 1;
                text.push('[');
            }
            ']' => {
                depth = depth.saturating_sub(1);
                text.push(']');
            }
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text
}

/// The first place where two values differ: a signature, and both values.
fn objects(left: &Value, right: &Value, path: &mut String) -> Option<(String, String)> {
    if left == right {
        return None;
    }
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                let length = path.len();
                path.push('.');
                path.push_str(key);
                match (a.get(key), b.get(key)) {
                    (Some(left), Some(right)) => {
                        if let Some(found) = objects(left, right, path) {
                            return Some(found);
                        }
                    }
                    (Some(left), None) => return Some(only("upstream", path, left)),
                    (None, Some(right)) => return Some(only("embedded", path, right)),
                    (None, None) => {}
                }
                path.truncate(length);
            }
            None
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            path.push_str("[]");
            let found = a
                .iter()
                .zip(b)
                .find_map(|(left, right)| objects(left, right, &mut path.clone()));
            found.or_else(|| Some(differs(path, left, right)))
        }
        _ => Some(differs(path, left, right)),
    }
}

fn only(side: &str, path: &str, value: &Value) -> (String, String) {
    (
        format!("object {path} only {side}"),
        format!("{path} only {side}: {}", clip(&value.to_string())),
    )
}

fn differs(path: &str, left: &Value, right: &Value) -> (String, String) {
    let detail = format!(
        "{path}\n    upstream: {}\n    embedded: {}",
        clip(&left.to_string()),
        clip(&right.to_string())
    );
    let what = match (left.as_str(), right.as_str()) {
        (Some("<new>"), Some("<same>")) => format!("object {path} new upstream only"),
        (Some("<same>"), Some("<new>")) => format!("object {path} new embedded only"),
        _ => format!("object {path} differs"),
    };
    (what, detail)
}

fn brief(answer: &Answer) -> String {
    let body = match answer.body["message"].as_str() {
        Some(message) if !answer.is_success() => message.to_owned(),
        _ => answer.body.to_string(),
    };
    format!("{} {}", answer.code, clip(&body))
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(600).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
