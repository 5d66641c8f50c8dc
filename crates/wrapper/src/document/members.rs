//! The members of a JSON object, in their order and without a look into their values.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A value as it was written.
pub(super) type Raw<'a> = Cow<'a, RawValue>;

/// A text that is borrowed where nothing in it is escaped.
#[derive(Debug, serde::Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The members of an object.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Members<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(member, _)| member == name);
        found.map(|(_, value)| &**value)
    }

    /// The text of a member, if it is one.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let found = self.0.iter().find(|(member, _)| member == name);
        match &found?.1 {
            Cow::Borrowed(raw) => serde_json::from_str::<Text<'a>>(raw.get())
                .ok()
                .map(|text| text.0),
            Cow::Owned(raw) => serde_json::from_str(raw.get()).ok().map(Cow::Owned),
        }
    }

    /// The members of a member, if it is an object.
    pub(super) fn members(&self, name: &str) -> Option<Members<'_>> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Takes all members of that name out; gives the last, as JSON readers do.
    pub(super) fn take(&mut self, name: &str) -> Option<Raw<'a>> {
        let mut taken = None;
        while let Some(at) = self.0.iter().position(|(member, _)| member == name) {
            taken = Some(self.0.remove(at).1);
        }
        taken
    }

    /// Takes a member out that is an object; absent and null are empty ones.
    pub(super) fn take_members(&mut self, name: &str) -> Result<Members<'a>, serde_json::Error> {
        match self.take(name) {
            Some(Cow::Borrowed(raw)) => {
                let members: Option<Members<'a>> = serde_json::from_str(raw.get())?;
                Ok(members.unwrap_or_default())
            }
            _ => Ok(Members::default()),
        }
    }

    /// Takes a member out that is a list; absent and null are empty ones.
    pub(super) fn take_list(&mut self, name: &str) -> Result<Vec<Raw<'a>>, serde_json::Error> {
        match self.take(name) {
            Some(Cow::Borrowed(raw)) => {
                let list: Option<Vec<&'a RawValue>> = serde_json::from_str(raw.get())?;
                Ok(list
                    .unwrap_or_default()
                    .into_iter()
                    .map(Cow::Borrowed)
                    .collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn put(&mut self, name: &'a str, value: Box<RawValue>) {
        self.take(name);
        self.0.push((name.into(), Cow::Owned(value)));
    }

    /// Writes all members, each behind a comma but the first, which is behind `before`.
    pub(super) fn write(&self, out: &mut Vec<u8>, before: &[u8]) {
        self.write_where(out, before, |_| true);
    }

    /// Writes some members; gives what must stand before a further one.
    pub(super) fn write_where(
        &self,
        out: &mut Vec<u8>,
        before: &[u8],
        wanted: impl Fn(&str) -> bool,
    ) -> &'static [u8] {
        let start = out.len();
        for (name, value) in self.0.iter().filter(|(name, _)| wanted(name)) {
            out.extend_from_slice(if out.len() == start { before } else { b"," });
            write_member(out, name, value);
        }
        if out.len() == start { b"" } else { b"," }
    }
}

pub(super) fn write_member(out: &mut Vec<u8>, name: &str, value: &RawValue) {
    if name
        .bytes()
        .all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
    {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
    }
    out.push(b':');
    out.extend_from_slice(value.get().as_bytes());
}

/// An object with a list of endpoints in it: most of the text is there, so it is gone through only
/// once.
#[derive(Debug, Default)]
pub(super) struct WithEndpoints<'a> {
    pub(super) rest: Members<'a>,
    pub(super) endpoints: Vec<Raw<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = deserializer.deserialize_map(AllMembers { apart: None })?;
        Ok(all.rest)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for WithEndpoints<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let apart = Some("endpoints");
        deserializer.deserialize_map(AllMembers { apart })
    }
}

/// Takes all members as they are, but for one that is a list and is taken item by item.
struct AllMembers {
    apart: Option<&'static str>,
}

impl<'de> Visitor<'de> for AllMembers {
    type Value = WithEndpoints<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WithEndpoints<'de>, A::Error> {
        let mut members = Vec::with_capacity(8);
        let mut endpoints = Vec::new();
        while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
            if Some(&*name) == self.apart {
                let list: Option<Vec<&'de RawValue>> = map.next_value()?;
                endpoints = list
                    .unwrap_or_default()
                    .into_iter()
                    .map(Cow::Borrowed)
                    .collect();
            } else {
                members.push((name, Cow::Borrowed(map.next_value::<&'de RawValue>()?)));
            }
        }
        Ok(WithEndpoints {
            rest: Members(members),
            endpoints,
        })
    }
}
