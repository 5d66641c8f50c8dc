//! The items of a list, cut out of its text as it arrives: a list of any size is never in memory
//! as a whole.

/// How deep in the text the items are: the list itself, then its `items`.
const ITEM_DEPTH: usize = 2;
/// What stands around the items is small; a server that sends more there is not to be trusted.
const MAX_AROUND: usize = 1 << 20;

/// Cuts items out of chunks of a list.
#[derive(Debug, Default)]
pub(super) struct Items {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the array at depth two is the one called `items`.
    inside: bool,
    /// The last string at depth one, with its quotes: a member's name.
    name: Vec<u8>,
    /// What is around the items: the list without them.
    around: Vec<u8>,
    current: Vec<u8>,
}

impl Items {
    /// Takes a chunk; calls `found` with every item that is complete with it.
    pub(super) fn feed<E>(
        &mut self,
        chunk: &[u8],
        mut found: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = chunk;
        while let Some((byte, after)) = rest.split_first() {
            // Most of the text is the inside of items, where only a few bytes count.
            let in_item = self.inside && self.depth > ITEM_DEPTH;
            let plain = if in_item { self.plain(rest) } else { 0 };
            if plain > 0 {
                self.current.extend_from_slice(&rest[..plain]);
                self.escaped = false;
                rest = &rest[plain..];
                continue;
            }
            if self.step(*byte) {
                found(&self.current)?;
                self.current.clear();
            }
            rest = after;
        }
        Ok(())
    }

    /// The list without its items, if the text has come to its end.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        let complete = self.depth == 0 && !self.in_string && !self.around.is_empty();
        complete.then_some(self.around)
    }

    /// Whether what stands around the items has become too much.
    pub(super) fn is_overgrown(&self) -> bool {
        self.around.len() > MAX_AROUND
    }

    /// How many bytes at the start change nothing.
    fn plain(&self, rest: &[u8]) -> usize {
        if self.escaped {
            return 0;
        }
        let next = if self.in_string {
            memchr::memchr2(b'"', b'\\', rest)
        } else {
            rest.iter()
                .position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
        };
        next.unwrap_or(rest.len())
    }

    /// Takes a byte; true if an item is complete with it.
    fn step(&mut self, byte: u8) -> bool {
        let before = self.depth;
        self.turn(byte);
        let inside = self.inside && before.max(self.depth) > ITEM_DEPTH;
        if inside {
            self.current.push(byte);
            return self.depth == ITEM_DEPTH && before > ITEM_DEPTH;
        }
        let between = self.inside && before == ITEM_DEPTH && self.depth == ITEM_DEPTH;
        if !between {
            self.around.push(byte);
        }
        false
    }

    fn turn(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            if self.depth == 1 {
                self.name.push(byte);
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 {
                    self.name = vec![byte];
                }
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == ITEM_DEPTH {
                    self.inside = byte == b'[' && self.name == br#""items""#;
                }
            }
            b'}' | b']' => {
                if self.depth == ITEM_DEPTH {
                    self.inside = false;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn cut(text: &[u8], sizes: &[usize]) -> (Vec<Value>, Option<Value>) {
        let mut items = Items::default();
        let mut found = Vec::new();
        let mut rest = text;
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let size = sizes
                .next()
                .map_or(rest.len(), |size| (*size).min(rest.len()));
            let (chunk, after) = rest.split_at(size.max(1).min(rest.len()));
            items
                .feed(chunk, |item| {
                    found.push(serde_json::from_slice(item).unwrap());
                    Ok::<_, ()>(())
                })
                .unwrap();
            rest = after;
        }
        (
            found,
            items
                .finish()
                .map(|text| serde_json::from_slice(&text).unwrap()),
        )
    }

    #[test]
    fn items_are_cut_out_and_the_rest_is_the_list_without_them() {
        let items = json!([{"a": "]}\"\\"}, {"items": [1, {"items": []}]}, {}]);
        for text in [
            json!({"kind": "XList", "metadata": {"resourceVersion": "7"}, "items": items})
                .to_string(),
            serde_json::to_string_pretty(
                &json!({"items": items, "metadata": {"resourceVersion": "7"}}),
            )
            .unwrap(),
        ] {
            for sizes in [vec![1], vec![3, 1], vec![4096]] {
                let (found, around) = cut(text.as_bytes(), &sizes);
                assert_eq!(Value::from(found), items);
                let around = around.unwrap();
                assert_eq!(around["items"], json!([]));
                assert_eq!(around["metadata"]["resourceVersion"], "7");
            }
        }
    }

    #[test]
    fn what_ends_early_is_never_complete() {
        let text = json!({"metadata": {"items": [1]}, "items": [{"a": 1}], "x": null}).to_string();
        for end in 0..text.len() {
            let mut items = Items::default();
            items
                .feed(&text.as_bytes()[..end], |_| Ok::<_, ()>(()))
                .unwrap();
            assert_eq!(items.finish(), None, "{}", &text[..end]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_do_no_harm(chunks in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut items = Items::default();
            for chunk in &chunks {
                items.feed(chunk, |_| Ok::<_, ()>(())).unwrap();
            }
            items.finish();
        }
    }
}
