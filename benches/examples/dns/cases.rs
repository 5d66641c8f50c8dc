//! What is asked, and what came of it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_testkit::Cluster;
use hickory_proto::op::Message;

use crate::contender::Contender;
use crate::load::{self, LoadResult};
use crate::names;

/// Questions under way when the most is asked of a server.
pub(crate) const AT_ONCE: usize = 32;

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) services: u32,
    pub(crate) runs: usize,
    pub(crate) compared: usize,
    pub(crate) cases: Vec<Case>,
    /// Resident memory of ours and of CoreDNS', before and after the questions, and what of it is no file's.
    pub(crate) memory: [Memory; 2],
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) at_rest: u64,
    pub(crate) afterwards: u64,
    pub(crate) anonymous: u64,
}

/// Questions of one sort, ours before CoreDNS'.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) results: [Measured; 2],
}

#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// With many under way, sorted by how many were answered.
    pub(crate) many: Vec<LoadResult>,
    /// With one at a time.
    pub(crate) single: LoadResult,
    /// CPU time of one question with many under way.
    pub(crate) cpu: Duration,
}

pub(crate) async fn measure(edgegrid: &Path, quick: bool) -> Result<Figures> {
    let (services, runs, during) = if quick {
        (100, 1, Duration::from_millis(500))
    } else {
        (1000, 5, Duration::from_secs(2))
    };
    let cluster = Cluster::upstream().await?;
    eprintln!("{services} services …");
    names::populate(&cluster.client(), services).await?;
    let (folder, kubeconfig) = (tempfile::tempdir()?, cluster.kubeconfig()?);
    let servers = [
        Contender::ours(edgegrid, services, folder.path(), kubeconfig).await?,
        Contender::coredns(services, folder.path(), kubeconfig).await?,
    ];
    let mut memory = [Memory::default(); 2];
    for (memory, server) in memory.iter_mut().zip(&servers) {
        memory.at_rest = server.usage()?.resident;
    }
    let sorts = sorts(services)?;
    let compared = compare(&servers, services)?;
    let mut cases = Vec::new();
    for (name, questions) in sorts {
        eprintln!("{name} …");
        let results = ask_both(&servers, &questions, (runs, during))?;
        cases.push(Case { name, results });
    }
    for (memory, server) in memory.iter_mut().zip(&servers) {
        let usage = server.usage()?;
        (memory.afterwards, memory.anonymous) = (usage.resident, usage.anonymous);
    }
    Ok(Figures {
        services,
        runs,
        compared,
        cases,
        memory,
    })
}

/// What is asked for, and the packets that ask for it.
type Sort = (&'static str, Vec<Vec<u8>>);

fn sorts(services: u32) -> Result<[Sort; 3]> {
    let all = |chosen: fn(&u32) -> bool, name: fn(u32) -> String| -> Result<Vec<Vec<u8>>> {
        let numbers = (0..services).filter(chosen);
        numbers.map(|n| load::question(&name(n), "A")).collect()
    };
    Ok([
        (
            "A of a service",
            all(|n| !names::is_headless(*n), names::full_name)?,
        ),
        (
            "A of a headless service, ten pods",
            all(|n| names::is_headless(*n), names::full_name)?,
        ),
        (
            "a name that does not exist",
            all(|_| true, |n| format!("no.{}", names::full_name(n)))?,
        ),
    ])
}

/// Both in turns, so that a busy moment of the machine is not one server's alone.
fn ask_both(
    servers: &[Contender; 2],
    questions: &[Vec<u8>],
    (runs, during): (usize, Duration),
) -> Result<[Measured; 2]> {
    let mut results = [Measured::default(), Measured::default()];
    let mut cpu = [Duration::ZERO; 2];
    for _ in 0..runs {
        for ((server, result), cpu) in servers.iter().zip(&mut results).zip(&mut cpu) {
            let before = server.usage()?.cpu;
            let seen = load::run(server.address, questions, AT_ONCE, during)?;
            *cpu += server.usage()?.cpu.saturating_sub(before);
            result.many.push(seen);
        }
    }
    for ((server, result), cpu) in servers.iter().zip(&mut results).zip(cpu) {
        result.single = load::run(server.address, questions, 1, during)?;
        let answers: usize = result.many.iter().map(|seen| seen.answers).sum();
        result.cpu = cpu / u32::try_from(answers.max(1)).unwrap_or(u32::MAX);
        result.many.sort_by_key(|seen| seen.answers);
    }
    Ok(results)
}

/// Checks that both answer the same; returns how many questions were compared.
fn compare(servers: &[Contender; 2], services: u32) -> Result<usize> {
    let mut count = 0;
    for service in 0..services.min(40) {
        let name = names::full_name(service);
        // Pods behind a service with an address of its own have names with CoreDNS only.
        let (host, address) = if names::is_headless(service) {
            (names::host_name(3), names::pod_address(service, 3))
        } else {
            ("no".to_owned(), names::service_address(service))
        };
        let [a, b, c, d] = address.octets();
        for (name, kind) in [
            (name.clone(), "A"),
            (name.clone(), "AAAA"),
            (name.clone(), "SRV"),
            (name.clone(), "TXT"),
            (format!("_http._tcp.{name}"), "SRV"),
            (format!("{host}.{name}"), "A"),
            (format!("nobody.{name}"), "A"),
            (format!("{d}.{c}.{b}.{a}.in-addr.arpa."), "PTR"),
        ] {
            let packet = load::roomy_question(&name, kind)?;
            let [ours, theirs] = [
                load::ask(servers[0].address, &packet)?,
                load::ask(servers[1].address, &packet)?,
            ];
            let (ours, theirs) = (essence(&ours), essence(&theirs));
            ensure!(
                ours == theirs,
                "{kind} of {name}: {ours:?}, CoreDNS {theirs:?}"
            );
            count += 1;
        }
    }
    Ok(count)
}

/// An answer's code, whether it is whole, and what it holds, in any order.
fn essence(message: &Message) -> (String, bool, Vec<String>) {
    let answers = message.answers.iter();
    let mut answers: Vec<String> = answers
        .map(|record| format!("{} {} {}", record.name, record.record_type(), record.data))
        .collect();
    answers.sort();
    let metadata = &message.metadata;
    (
        metadata.response_code.to_string(),
        metadata.truncation,
        answers,
    )
}
