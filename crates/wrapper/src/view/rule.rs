//! What a Service says about who may see its endpoints.

use edgegrid_api::names::annotation;
use edgegrid_machinery::names::qualified_name;
use serde_json::Value;

/// What decides over a service's endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The keys and their order.
    pub topology: Topology,
    /// Whether endpoints on no node stay in spite of the keys.
    pub keep_external: bool,
    /// The keys of a headless service that shows everything all the same: they still say whose
    /// pods have short names.
    pub opened: Vec<Box<str>>,
}

/// The annotation `topologyKeys`, understood or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// No keys: the service is as plain Kubernetes has it.
    Open,
    /// Node label keys in order of preference.
    Keys {
        /// The keys; empty if there is only a `"*"`.
        keys: Vec<Box<str>>,
        /// Whether a last `"*"` lets any endpoint do.
        any: bool,
    },
    /// Something is there that is no list of keys; the text says what is wrong with it.
    Malformed(String),
}

const ANY: &str = "*";
const KEEP: &str = "keep";
const OPEN: &str = "open";
const HEADLESS_ADDRESS: &str = "None";

impl Rule {
    /// Reads the rule from a Service.
    pub fn from_service(service: &Value) -> Self {
        let annotation = |name: &str| service["metadata"]["annotations"][name].as_str();
        let is_headless = service["spec"]["clusterIP"] == HEADLESS_ADDRESS;
        let is_opened = is_headless && annotation(annotation::HEADLESS) == Some(OPEN);
        let mut opened = Vec::new();
        let mut topology = match &service["metadata"]["annotations"][annotation::TOPOLOGY_KEYS] {
            Value::Null => Topology::Open,
            Value::String(text) => Topology::parse(text),
            other => Topology::Malformed(format!("{other} is no text")),
        };
        if is_opened {
            if let Topology::Keys { keys, .. } = topology {
                opened = keys;
            }
            topology = Topology::Open;
        }
        let keep_external = annotation(annotation::EXTERNAL_ENDPOINTS) == Some(KEEP);
        Self {
            topology,
            keep_external,
            opened,
        }
    }

    /// The node label keys whose values matter.
    pub fn keys(&self) -> &[Box<str>] {
        match &self.topology {
            Topology::Keys { keys, .. } => keys,
            Topology::Open | Topology::Malformed(_) => &[],
        }
    }

    /// The keys by which units have short names for their pods here.
    pub fn naming_keys(&self) -> &[Box<str>] {
        match &self.topology {
            Topology::Keys { keys, .. } => keys,
            Topology::Open | Topology::Malformed(_) => &self.opened,
        }
    }
}

impl Topology {
    /// Reads the annotation's text; an empty list is no list.
    pub fn parse(text: &str) -> Self {
        let malformed = |why: String| Self::Malformed(why);
        let entries: Vec<String> = match serde_json::from_str(text) {
            Ok(entries) => entries,
            Err(error) => return malformed(format!("no JSON list of texts: {error}")),
        };
        let (keys, any) = match entries.split_last() {
            None => return Self::Open,
            Some((last, before)) if last == ANY => (before, true),
            Some(_) => (&*entries, false),
        };
        if keys.iter().any(|key| key == ANY) {
            return malformed("\"*\" may only be the last entry".to_owned());
        }
        if let Some((key, why)) = keys.iter().find_map(complaint) {
            return malformed(format!("{key:?} is no label key: {why}"));
        }
        let keys = keys.iter().map(|key| key.as_str().into()).collect();
        Self::Keys { keys, any }
    }
}

fn complaint(key: &String) -> Option<(&String, String)> {
    let why = qualified_name(key).into_iter().next()?;
    Some((key, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn keys(keys: &[&str], any: bool) -> Topology {
        let keys = keys.iter().map(|key| (*key).into()).collect();
        Topology::Keys { keys, any }
    }

    #[test]
    fn an_annotation_is_a_list_of_label_keys_with_an_optional_star_at_the_end() {
        for (text, expected) in [
            ("[]", Topology::Open),
            (r#"["location"]"#, keys(&["location"], false)),
            (
                r#" [ "kubernetes.io/hostname", "location", "*" ] "#,
                keys(&["kubernetes.io/hostname", "location"], true),
            ),
            (r#"["*"]"#, keys(&[], true)),
        ] {
            assert_eq!(Topology::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_such_list_is_malformed_and_never_open() {
        for text in [
            "",
            "null",
            "{}",
            "location",
            "\"location\"",
            "[\"location\"",
            "[1]",
            "[null]",
            r#"["*","location"]"#,
            r#"["*","*"]"#,
            r#"[""]"#,
            r#"["a b"]"#,
            r#"["/x"]"#,
            r#"["location",""]"#,
            r#"["location"] x"#,
        ] {
            let parsed = Topology::parse(text);
            assert!(
                matches!(parsed, Topology::Malformed(_)),
                "{text}: {parsed:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::fuzz_cases()))]

        #[test]
        fn no_text_but_an_empty_list_opens_a_service(
            text in prop_oneof![any::<String>(), "[\\[\\]\",*a-b/ .{}0n]{0,12}"]
        ) {
            let list = serde_json::from_str::<Value>(&text).ok();
            let is_empty = list.is_some_and(|list| list.as_array().is_some_and(Vec::is_empty));
            prop_assert_eq!(Topology::parse(&text) == Topology::Open, is_empty);
        }
    }

    #[test]
    fn only_a_headless_service_can_be_opened() {
        let service = |address: &str| {
            json!({
                "metadata": {"annotations": {
                    "topologyKeys": "[\"a\"]", "edgegrid.io/headless": "open",
                    "edgegrid.io/external-endpoints": "keep",
                }},
                "spec": {"clusterIP": address},
            })
        };
        let opened = Rule::from_service(&service("None"));
        assert_eq!(opened.topology, Topology::Open);
        assert!(opened.keys().is_empty() && opened.naming_keys() == ["a".into()]);
        assert_eq!(
            Rule::from_service(&service("10.0.0.1")).topology,
            keys(&["a"], false)
        );
        assert!(Rule::from_service(&service("10.0.0.1")).keep_external);
        assert_eq!(Rule::from_service(&json!({})).topology, Topology::Open);
        let number = json!({"metadata": {"annotations": {"topologyKeys": 7}}});
        assert!(matches!(
            Rule::from_service(&number).topology,
            Topology::Malformed(_)
        ));
    }
}
