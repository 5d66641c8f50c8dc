//! The pure half: patches, apply, selectors, schemas.

use edgegrid_machinery::apply::{
    PathSet, PlainVersions, Writer, apply, restore_times, track_update,
};
use edgegrid_machinery::patch::{self, json_patch, merge_patch, strategic_merge_patch};
use edgegrid_machinery::schema::{Schema, read_strict};
use edgegrid_machinery::selector::{FieldSelector, LabelSelector};
use edgegrid_machinery::table::{Shape, table};
use serde_json::Value;

use crate::corpus::{self, SELECTORS};
use crate::mutate;
use crate::random::Random;
use crate::run::Target;

type PatchFunction = fn(&Value, &Value, Shape<'_>) -> Result<Value, patch::Error>;

/// One of the patch formats.
pub(crate) struct Patches {
    objects: Vec<Value>,
    corpus: Vec<Value>,
    function: PatchFunction,
}

impl Patches {
    pub(crate) fn json() -> Self {
        Self::new(corpus::json_patches(), |object, patch, _| {
            json_patch(object, patch)
        })
    }

    pub(crate) fn merge() -> Self {
        Self::new(corpus::patches(), |object, patch, _| {
            merge_patch(object, patch)
        })
    }

    pub(crate) fn strategic() -> Self {
        Self::new(corpus::patches(), strategic_merge_patch)
    }

    fn new(corpus: Vec<Value>, function: PatchFunction) -> Self {
        Self {
            objects: corpus::objects()
                .into_iter()
                .map(|(_, object)| object)
                .collect(),
            corpus,
            function,
        }
    }
}

impl Target for Patches {
    type Input = (Value, Value);

    fn draw(&self, random: &mut Random) -> Self::Input {
        let object = random.pick(&self.objects).clone();
        let patch = match random.below(4) {
            0 => random.pick(&self.objects).clone(),
            _ => random.pick(&self.corpus).clone(),
        };
        let object = mutate::value(random, object, &self.corpus);
        (object, mutate::value(random, patch, &self.objects))
    }

    fn feed(&mut self, (object, patch): &Self::Input) -> bool {
        (self.function)(object, patch, shape_of(object)).is_ok()
    }
}

/// The shape of an object, or that of a Deployment if it does not say what it is.
fn shape_of(object: &Value) -> Shape<'static> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap_or_default();
    table()
        .shape(group, version, kind)
        .or_else(|| table().shape("apps", "v1", "Deployment"))
        .expect("invariant: the table has Deployments")
}

/// Apply by two managers, with an update between them.
pub(crate) struct Apply {
    objects: Vec<Value>,
}

impl Apply {
    pub(crate) fn new() -> Self {
        let objects = corpus::objects().into_iter().map(|(_, object)| object);
        Self {
            objects: objects.collect(),
        }
    }
}

impl Target for Apply {
    type Input = (Value, Value, Value, bool);

    fn draw(&self, random: &mut Random) -> Self::Input {
        let base = random.pick(&self.objects).clone();
        // Not all three odd, or hardly any would come to the end.
        let mut odd = |base: Value| match random.below(2) {
            0 => base,
            _ => mutate::value(random, base, &self.objects),
        };
        let (first, update, second) = (odd(base.clone()), odd(base.clone()), odd(base));
        (first, update, second, random.once_in(2))
    }

    fn feed(&mut self, (first, update, second, force): &Self::Input) -> bool {
        let text = |field: &str| first[field].as_str().unwrap_or("apps/v1");
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", "v1"));
        let shape = table().shape(group, version, text("kind"));
        let shapes = shape.map(|shape| (text("apiVersion").to_owned(), shape));
        let versions = PlainVersions(shapes.into_iter().collect());
        let reset = PathSet::of_fields(&["status"]);
        let writer = |manager| Writer {
            versions: &versions,
            api_version: text("apiVersion"),
            subresource: None,
            manager,
            reset: &reset,
            now: "2026-01-01T00:00:00Z",
        };
        let Ok(created) = apply(&writer("one"), None, first, false) else {
            // As it stands, managers and all: what is stored need not be what we would write.
            return apply(&writer("kubectl"), Some(update), second, *force).is_ok();
        };
        let mut live = created.object;
        let mut updated = update.clone();
        if updated["metadata"].is_object() && live["metadata"]["managedFields"].is_array() {
            updated["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        }
        let mut tracked = track_update(&writer("two"), Some(&live), &updated);
        restore_times(&live, &mut tracked);
        live = tracked;
        apply(&writer("three"), Some(&live), second, *force).is_ok()
    }
}

/// One kind of selector.
pub(crate) struct Selectors {
    parse: fn(&str) -> bool,
}

impl Selectors {
    pub(crate) fn label() -> Self {
        Self {
            parse: |text| {
                let parsed = LabelSelector::parse(text);
                parsed.is_ok_and(|selector| {
                    let again = LabelSelector::parse(&selector.to_string());
                    assert_eq!(
                        again.ok().as_ref(),
                        Some(&selector),
                        "shown as something else"
                    );
                    selector.matches_with(|_| Some("1"));
                    true
                })
            },
        }
    }

    pub(crate) fn field() -> Self {
        Self {
            parse: |text| {
                let parsed = FieldSelector::parse(text);
                parsed.is_ok_and(|selector| {
                    selector.matches(|path| Some(path.to_owned()));
                    true
                })
            },
        }
    }
}

impl Target for Selectors {
    type Input = String;

    fn draw(&self, random: &mut Random) -> String {
        let mut text = random.word(SELECTORS).to_owned();
        if random.once_in(4) {
            text.push(',');
            text.push_str(random.word(SELECTORS));
        }
        for _ in 0..random.below(4) {
            text = mutate::text(random, &text);
        }
        text
    }

    fn feed(&mut self, text: &String) -> bool {
        (self.parse)(text)
    }
}

/// A schema and objects for it: read, pruned, defaulted, validated.
pub(crate) struct Schemas {
    schema: Value,
    thing: Value,
}

impl Schemas {
    pub(crate) fn new() -> Self {
        Self {
            schema: corpus::schema(),
            thing: serde_json::json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": corpus::thing()}),
        }
    }
}

impl Target for Schemas {
    type Input = (Value, Vec<u8>, Value);

    fn draw(&self, random: &mut Random) -> Self::Input {
        let donors = [self.schema.clone(), self.thing.clone()];
        let schema = match random.below(3) {
            0 => self.schema.clone(),
            _ => mutate::value(random, self.schema.clone(), &donors),
        };
        let object = mutate::value(random, self.thing.clone(), &donors);
        let mut body = object.to_string().into_bytes();
        if random.once_in(4) {
            mutate::bytes(random, &mut body);
        }
        (
            schema,
            body,
            mutate::value(random, self.thing.clone(), &donors),
        )
    }

    fn feed(&mut self, (schema, body, old): &Self::Input) -> bool {
        let Ok(schema) = Schema::parse(schema, "schema") else {
            return false;
        };
        let Ok((mut object, _)) = read_strict(body) else {
            return false;
        };
        schema.prune(&mut object);
        schema.apply_defaults(&mut object);
        let validation = schema.validate(&object);
        schema.validate_update(&object, old);
        schema.validate_status_update(&object, old);
        validation.errors.is_empty()
    }
}
