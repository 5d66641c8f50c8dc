//! What watches bring to a client, counted at its end of the link.

use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt;
use parking_lot::Mutex;
use serde::Deserialize;

use super::Recorded;

/// Who wants to know of the events of which watches; clones share it.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<Record>>>);

/// Which watches, and where to note their events.
type Record = (Box<Choice>, Recorded);

/// Whether somebody wants to know of a watch, by its path.
type Choice = dyn Fn(&str) -> bool + Send;

/// An event of which only the type matters.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    type_: String,
}

impl Events {
    pub(super) fn record(&self, matches: impl Fn(&str) -> bool + Send + 'static) -> Recorded {
        let recorded = Recorded::default();
        let mut all = self.0.lock();
        all.push((Box::new(matches), recorded.clone()));
        recorded
    }

    /// A watch whose events are noted for those who want to know.
    pub(super) fn over(&self, path: &str, body: Body) -> Body {
        let all = self.0.lock();
        let wanting = all.iter().filter(|(matches, _)| matches(path));
        let wanting: Vec<Recorded> = wanting.map(|(_, recorded)| recorded.clone()).collect();
        if wanting.is_empty() {
            return body;
        }
        let short = path.split('?').next().unwrap_or(path).to_owned();
        let mut rest = Vec::new();
        Body::from_stream(body.into_data_stream().inspect(move |frame| {
            let Ok(frame) = frame else { return };
            rest.extend_from_slice(frame);
            for type_ in whole_events(&mut rest) {
                let line = format!("{type_} {short}");
                for one in &wanting {
                    one.push(line.clone());
                }
            }
        }))
    }
}

/// The types of the events that are complete, which are then over.
fn whole_events(bytes: &mut Vec<u8>) -> Vec<String> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        return Vec::new();
    };
    let whole: Vec<u8> = bytes.drain(..=end).collect();
    let lines = whole.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<Event>(line).ok())
        .map(|event| event.type_)
        .filter(|type_| type_ != "BOOKMARK")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_counts_when_it_is_complete_and_a_bookmark_never() {
        let mut bytes = b"{\"type\":\"ADDED\"}\n{\"type\":\"BOOKMARK\"}\n{\"type\":".to_vec();
        assert_eq!(whole_events(&mut bytes), ["ADDED"]);
        bytes.extend_from_slice(b"\"MODIFIED\"}\n");
        assert_eq!(whole_events(&mut bytes), ["MODIFIED"]);
        assert!(bytes.is_empty());
    }
}
