//! One kind on both servers: several objects live at once, each until its first difference.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::compare::{Comparison, Difference, compare};
use crate::fields;
use crate::kinds::Subject;
use crate::normal::normal;
use crate::requests::{Effect, Life, Requests};
use crate::rng::Rng;
use crate::sides::{Answer, Request, Side};
use crate::watches::{Watch, differences};

/// Objects that live at the same time.
const LIVES: usize = 4;

/// What a run of one kind found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) operations: usize,
    pub(crate) accepted: usize,
    /// How many operations there were of each verb.
    pub(crate) verbs: BTreeMap<&'static str, usize>,
    pub(crate) fields: BTreeSet<String>,
    pub(crate) sent: BTreeSet<String>,
    /// By signature: how often, and one example.
    pub(crate) differences: BTreeMap<String, (usize, String)>,
}

/// A kind under test on both servers.
pub(crate) struct Run<'a> {
    pub(crate) sides: [Side; 2],
    subject: &'a Subject,
    requests: Requests<'a>,
    rng: Rng,
    comparison: Comparison,
    lives: Vec<Life>,
    born: usize,
    spoiled: BTreeSet<String>,
    keys: BTreeSet<String>,
    watches: [Watch; 2],
    pub(crate) found: Found,
}

impl<'a> Run<'a> {
    pub(crate) async fn start(
        sides: [Side; 2],
        subject: &'a Subject,
        seed: u64,
        comparison: Comparison,
    ) -> Result<Self> {
        let requests = Requests::new(subject);
        let watches = [
            Watch::open(&sides[0].client, subject.kind)
                .await
                .context("watch upstream")?,
            Watch::open(&sides[1].client, subject.kind)
                .await
                .context("watch embedded")?,
        ];
        let fields = requests.targets.fields.clone();
        let mut run = Self {
            sides,
            subject,
            requests,
            rng: Rng::new(seed),
            comparison,
            lives: Vec::new(),
            born: 0,
            spoiled: BTreeSet::new(),
            keys: BTreeSet::new(),
            watches,
            found: Found {
                fields,
                ..Found::default()
            },
        };
        for _ in 0..LIVES {
            let life = run.new_life();
            run.lives.push(life);
        }
        Ok(run)
    }

    fn new_life(&mut self) -> Life {
        self.born += 1;
        let key = format!("o{}", self.born);
        self.keys.insert(key.clone());
        Life {
            key,
            ..Life::default()
        }
    }

    /// One request to both.
    pub(crate) async fn step(&mut self) -> Result<()> {
        let index = self.rng.below(self.lives.len());
        let mut life = std::mem::take(&mut self.lives[index]);
        let goes_on = if life.exists && life.history.len() > self.requests.targets.span() {
            self.end_life(&mut life).await?
        } else {
            let (request, effect) = self.requests.next(&mut life, &mut self.rng)?;
            self.ask(&mut life, &request, effect).await?
        };
        self.lives[index] = if goes_on { life } else { self.new_life() };
        Ok(())
    }

    /// Ends a life that lasted long enough, so that new objects come; both must agree on that too.
    async fn end_life(&mut self, life: &mut Life) -> Result<bool> {
        for (request, effect) in self.requests.last() {
            if !self.ask(life, &request, effect).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends, compares, and remembers what is there now; false when the object's life is over.
    async fn ask(&mut self, life: &mut Life, request: &Request, effect: Effect) -> Result<bool> {
        let [upstream, embedded] = self.both(request, &life.known).await?;
        self.note(life, request, &upstream);
        let raw = [upstream.body.clone(), embedded.body.clone()];
        let answers = self.normalised(request, [upstream, embedded]);
        if let Some(difference) = compare(
            self.subject.kind.plural,
            request,
            [&answers[0], &answers[1]],
            self.comparison,
        ) {
            self.report(life, difference);
            self.retire(life).await?;
            return Ok(false);
        }
        if !answers[0].is_success() {
            return Ok(true);
        }
        match effect {
            Effect::Nothing => Ok(true),
            Effect::Writes => {
                life.known = raw;
                life.exists = true;
                Ok(!self.read_removed(life).await?)
            }
            Effect::Deletes => self.refresh(life).await,
        }
    }

    /// Reads an object that lost its last finalizer while it was being deleted, and says whether it is gone.
    async fn read_removed(&mut self, life: &mut Life) -> Result<bool> {
        let metadata = &life.known[0]["metadata"];
        let has_finalizers = metadata["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        if metadata["deletionTimestamp"].is_null() || has_finalizers {
            return Ok(false);
        }
        Ok(!self.refresh(life).await?)
    }

    /// Whether the object is still there; both must agree.
    async fn refresh(&mut self, life: &mut Life) -> Result<bool> {
        let request =
            self.requests
                .request("get", "GET", "{{/metadata/name}}", "application/json", None);
        let [upstream, embedded] = self.both(&request, &life.known).await?;
        self.note(life, &request, &upstream);
        let is_there = upstream.is_success();
        let raw = [upstream.body.clone(), embedded.body.clone()];
        let answers = self.normalised(&request, [upstream, embedded]);
        if let Some(difference) = compare(
            self.subject.kind.plural,
            &request,
            [&answers[0], &answers[1]],
            self.comparison,
        ) {
            self.report(life, difference);
            self.retire(life).await?;
            return Ok(false);
        }
        if is_there {
            life.known = raw;
        }
        Ok(is_there)
    }

    async fn both(&self, request: &Request, known: &[Value; 2]) -> Result<[Answer; 2]> {
        let (upstream, embedded) = tokio::join!(
            self.sides[0].send(request, &known[0]),
            self.sides[1].send(request, &known[1])
        );
        Ok([upstream.context("upstream")?, embedded.context("embedded")?])
    }

    /// A dry run is compared with what was seen, but is not seen itself.
    fn normalised(&mut self, request: &Request, answers: [Answer; 2]) -> [Answer; 2] {
        let mut sides = self.sides.iter_mut();
        answers.map(|answer| {
            let side = sides.next().expect("invariant: as many sides as answers");
            let body = if request.path.contains("dryRun=All") {
                normal(&answer.body, &mut side.seen.clone())
            } else {
                normal(&answer.body, &mut side.seen)
            };
            Answer { body, ..answer }
        })
    }

    fn note(&mut self, life: &mut Life, request: &Request, answer: &Answer) {
        let body = request
            .body
            .as_ref()
            .map(Value::to_string)
            .unwrap_or_default();
        life.history.push(format!(
            "{} {} {} {body} → {}",
            request.verb, request.method, request.path, answer.code
        ));
        self.found.operations += 1;
        *self.found.verbs.entry(request.verb).or_default() += 1;
        if answer.is_success() {
            self.found.accepted += 1;
            if let Some(body) = &request.body {
                fields::record(body, self.subject.shape(), &mut self.found.sent);
                for operation in body.as_array().into_iter().flatten() {
                    let pointer = operation["path"].as_str().unwrap_or_default();
                    fields::record(
                        &nested(pointer, &operation["value"]),
                        self.subject.shape(),
                        &mut self.found.sent,
                    );
                }
            }
        }
    }

    fn report(&mut self, life: &Life, difference: Difference) {
        let history = life.history.join("\n      ");
        let example = format!("{}\n    history:\n      {history}", difference.detail);
        let entry = self
            .found
            .differences
            .entry(difference.signature)
            .or_insert((0, example.clone()));
        entry.0 += 1;
        if example.len() < entry.1.len() {
            entry.1 = example;
        }
    }

    /// Takes an object away from both, whatever they made of it.
    async fn retire(&mut self, life: &Life) -> Result<()> {
        self.spoiled.insert(life.key.clone());
        let place = format!("?labelSelector=life%3D{}", life.key);
        let list = self
            .requests
            .request("list", "GET", "", "application/json", None);
        for side in &self.sides {
            let listed = side.send(&list, &Value::Null).await?;
            let items = listed.body["items"].as_array().cloned().unwrap_or_default();
            let name = |item: &Value| {
                item["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let is_own = |name: &String| name.split('-').next() == Some(&*life.key);
            for name in items.iter().map(name).filter(is_own) {
                self.end(side, &name)
                    .await
                    .with_context(|| format!("retire {name} ({place})"))?;
            }
        }
        Ok(())
    }

    async fn end(&self, side: &Side, name: &str) -> Result<()> {
        let free = json!({ "metadata": { "finalizers": null } });
        let merge = "application/merge-patch+json";
        let delete = format!("{name}?gracePeriodSeconds=0");
        let requests = [
            self.requests
                .request("", "DELETE", &delete, "application/json", None),
            self.requests.request("", "PATCH", name, merge, Some(free)),
            self.requests
                .request("", "DELETE", &delete, "application/json", None),
        ];
        for request in &requests {
            side.send(request, &Value::Null).await?;
        }
        if self.subject.kind.plural == "namespaces" {
            let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": { "finalizers": [] } });
            let path = format!("{name}/finalize");
            let finalize = self
                .requests
                .request("", "PUT", &path, "application/json", Some(body));
            side.send(&finalize, &Value::Null).await?;
        }
        Ok(())
    }

    /// Ends the run: the watches must have seen the same events.
    pub(crate) async fn finish(mut self) -> Result<Found> {
        let last = "last";
        let mut object = self.subject.kind.base()?;
        object["metadata"] = json!({ "name": last });
        let create = self
            .requests
            .request("create", "POST", "", "application/json", Some(object));
        for answer in self.both(&create, &[Value::Null, Value::Null]).await? {
            ensure!(
                answer.is_success(),
                "the base of {} is refused: {}",
                self.subject.kind.kind,
                answer.body
            );
        }
        for (key, left, right) in
            differences(&self.watches, last, &self.spoiled, &self.keys).await?
        {
            let types = |story: &[Value]| {
                story
                    .iter()
                    .map(|event| event["type"].clone())
                    .collect::<Vec<_>>()
            };
            let (upstream, embedded) = (types(&left), types(&right));
            let what = if upstream == embedded {
                "objects"
            } else {
                "events"
            };
            let signature = format!("{} watch: {what} differ", self.subject.kind.plural);
            let detail = match left.iter().zip(&right).find(|(left, right)| left != right) {
                Some((left, right)) if what == "objects" => format!("{left}\n    {right}"),
                _ => format!("{upstream:?}\n    {embedded:?}"),
            };
            let entry = self
                .found
                .differences
                .entry(signature)
                .or_insert((0, format!("{key}: {detail}")));
            entry.0 += 1;
        }
        Ok(self.found)
    }
}

/// A JSON pointer and the value there as the object they mean.
fn nested(pointer: &str, value: &Value) -> Value {
    let steps: Vec<&str> = pointer.split('/').skip(1).collect();
    steps
        .into_iter()
        .rev()
        .fold(value.clone(), |value, step| match step {
            "-" => json!([value]),
            step if step.parse::<usize>().is_ok() => json!([value]),
            step => json!({ step.replace("~1", "/").replace("~0", "~"): value }),
        })
}
