//! Random sites, grids and pods: the three ways answer what the rule demands, written a second time in a few lines, and the same
//! as each other. No name of a closed service leads out of its unit, by any way.

use crate::agent::Agent;
use crate::scene::{
    Front, GRIDS, ORDINALS, OWN, Owner, Pod, Reach, SERVICES, Scene, scenes, stage,
};
use crate::ways::{Answers, Asking, below, by_coredns, by_hosts_file, dashed};
use anyhow::{Context, Result, ensure};
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

const CASES: u32 = 16;
/// In virtual time; far more than the hosts file takes, which is the slowest.
const TIMEOUT: Patience = Patience {
    limit: Duration::from_secs(5),
    pause: Duration::from_millis(250),
};

/// Two readers who agree but for the differences in `docs/names.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    CoreDns,
    Own,
}

/// Who sees whom: everybody behind an open service, the own unit's pods behind a closed one. Only a headless service
/// can be opened.
fn visible_pods(scene: &Scene, service: usize) -> impl Iterator<Item = &Pod> + Clone {
    let everybody = !is_strict(&scene.services[service]);
    let pods = scene.pods.iter();
    pods.filter(move |pod| pod.is_behind(service) && (everybody || pod.is_at_home()))
}

fn is_strict(front: &Front) -> bool {
    front.reach == Reach::Closed || front.reach == Reach::Opened && front.address.is_some()
}

/// The rule of all names but the short ones.
fn full_names(scene: &Scene, service: usize, reader: Reader) -> Answers {
    let front = &scene.services[service];
    let mut answers = Answers::default();
    for pod in visible_pods(scene, service) {
        // CoreDNS knows of no end; our own server does.
        let stays = !pod.terminating || front.publishes && reader == Reader::CoreDns;
        if !stays || !(pod.ready || front.publishes) {
            continue;
        }
        for address in &pod.addresses {
            let name = match pod.hostname(service) {
                Some(name) => name.to_owned(),
                None if front.address.is_none() || reader == Reader::CoreDns => dashed(*address),
                None => continue,
            };
            if front.address.is_none() {
                answers.targets.insert(name.clone());
                let all = answers.addresses.entry(String::new()).or_default();
                all.insert(*address);
            }
            let one = answers.addresses.entry(name).or_default();
            one.insert(*address);
        }
    }
    if let Some(own) = front.address {
        answers.addresses.insert(String::new(), [own].into());
        answers.targets.insert(String::new());
    }
    answers
}

/// The rule of short names: a seen pod of one of the own unit's sets, on one of its nodes, is `<grid>-<ordinal>` too,
/// unless a pod that is seen is called so.
fn short_names(scene: &Scene, service: usize) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let front = &scene.services[service];
    let mut names: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    let taken: BTreeSet<&str> = visible_pods(scene, service)
        .filter_map(|pod| pod.hostname(service))
        .collect();
    let answers = |pod: &&Pod| {
        let ready = pod.ready || front.publishes;
        ready && !pod.terminating && pod.is_at_home() && pod.owner != Owner::Foreign
    };
    for pod in visible_pods(scene, service).filter(answers) {
        for (set, stamped) in scene.sets.iter().filter(|(_, set)| set.unit == OWN) {
            let hostname = pod.hostname(service);
            let ordinal = hostname.and_then(|name| name.strip_prefix(set)?.strip_prefix('-'));
            let Some(ordinal) = ordinal.and_then(|rest| rest.parse::<u32>().ok()) else {
                continue;
            };
            let name = format!("{}-{ordinal}", stamped.grid);
            if front.reach != Reach::Plain && !taken.contains(&*name) {
                names.entry(name).or_default().extend(&pod.addresses);
            }
        }
    }
    names
}

/// Every label that somebody might ask for.
fn labels(scene: &Scene) -> BTreeSet<String> {
    let short = GRIDS
        .iter()
        .flat_map(|grid| ORDINALS.map(|ordinal| format!("{grid}-{ordinal}")));
    let pods = scene.pods.iter().flat_map(|pod| {
        let addresses = pod.addresses.iter().map(|address| dashed(*address));
        addresses.chain([pod.name.clone()])
    });
    short.chain(pods).chain([String::new()]).collect()
}

async fn all_ways_agree(agent: &Agent, scene: &Scene) -> Result<()> {
    let (by_coredns, by_file) = (by_coredns(agent).await?, by_hosts_file(agent)?);
    let records = agent.names.read();
    let asking = Asking::new(&records)?;
    let mut lines = BTreeMap::new();
    for (at, name) in SERVICES.into_iter().enumerate() {
        let by_server = asking.service(name, &labels(scene))?;
        let short = short_names(scene, at);
        for (reader, answers) in [
            (Reader::CoreDns, &by_coredns[at]),
            (Reader::Own, &by_server),
        ] {
            let mut rule = full_names(scene, at, reader);
            rule.addresses.extend(short.clone());
            ensure!(
                *answers == rule,
                "{name} by {reader:?}: {answers:#?}, not {rule:#?}"
            );
        }
        let front = &scene.services[at];
        if front.address.is_none() && !front.publishes {
            ensure!(
                by_server == by_coredns[at],
                "{name}: two servers differ: {by_server:#?}, {:#?}",
                by_coredns[at]
            );
        }
        for (short, addresses) in &short {
            let line = format!("{short}.{name}.default.svc.cluster.local");
            for answers in [&by_coredns[at], &by_server] {
                let same = answers.addresses.get(short) == by_file.get(&line);
                ensure!(same, "{line}: {answers:#?}, not {:?}", by_file.get(&line));
            }
            lines.insert(line, addresses.clone());
        }
        stays_at_home(scene, at, [&by_coredns[at], &by_server])?;
    }
    ensure!(by_file == lines, "hosts file: {by_file:#?}, not {lines:#?}");
    addresses_have_full_names(scene, &asking)
}

/// No address of another unit's pod behind a strict service, whoever is asked.
fn stays_at_home(scene: &Scene, service: usize, answers: [&Answers; 2]) -> Result<()> {
    let front = &scene.services[service];
    if !is_strict(front) {
        return Ok(());
    }
    let answers = answers.into_iter().flat_map(|answers| &answers.addresses);
    for (label, addresses) in answers {
        for address in addresses.iter().filter(|one| Some(**one) != front.address) {
            let mut pods = scene.pods.iter();
            let pod = pods.find(|pod| pod.addresses.contains(address));
            let pod = pod.with_context(|| format!("{address} is nobody's"))?;
            ensure!(pod.is_at_home(), "{label:?} leads to {pod:?}");
        }
    }
    Ok(())
}

/// Backwards our own server has one name of a pod for each of its services, never a short one.
fn addresses_have_full_names(scene: &Scene, asking: &Asking<'_>) -> Result<()> {
    let mut rule: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
    for (at, service) in SERVICES.into_iter().enumerate() {
        let parent = format!("{service}.default.svc.cluster.local.");
        let front = &scene.services[at];
        for (label, addresses) in full_names(scene, at, Reader::Own).addresses {
            if label.is_empty() && front.address.is_none() {
                continue;
            }
            for address in addresses {
                let names = rule.entry(address).or_default();
                names.insert(below(&label, &parent));
            }
        }
    }
    for address in scene.pods.iter().flat_map(|pod| &pod.addresses) {
        let answers = asking.backwards(*address)?;
        let rule = rule.remove(address).unwrap_or_default();
        ensure!(answers == rule, "{address}: {answers:?}, not {rule:?}");
    }
    Ok(())
}

async fn holds(scenes: &[Scene; 2]) -> Result<()> {
    let (cluster, folder) = (Cluster::embedded().await?, tempfile::tempdir()?);
    stage(&cluster, &scenes[0], None).await?;
    let agent = Agent::start(&cluster, "node-a", folder.path())?;
    let mut before = None;
    for scene in scenes {
        stage(&cluster, scene, before).await?;
        let what = "all ways agree with the rule";
        eventually_within(TIMEOUT, what, async || all_ways_agree(&agent, scene).await).await?;
        before = Some(scene);
    }
    agent.stop().await;
    Ok(())
}

#[test]
fn three_ways_agree_with_the_rule_and_with_each_other() {
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        max_shrink_iters: 100,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&scenes(), |scenes| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(holds(&scenes)).unwrap();
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
