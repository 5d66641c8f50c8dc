//! The walk-through on real Kubernetes, as far as edgegrid goes today: six simulated nodes in
//! two sites, `edgegrid controller`, the manifests SuperEdge's users have, and as root
//! `edgegrid wrapper` and `edgegrid agent` with real packets. `cargo xtask demo` runs it.
//!
//! Each step shows a table and checks it; at the end the cluster stays for you to play with.

#![expect(clippy::print_stdout, reason = "showing is the purpose")]

mod names;
mod traffic;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use edgegrid_api::{DeploymentGrid, WhenUnreachable};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::lab::Lab;
use edgegrid_testkit::{Cluster, Patience, eventually_within};

/// Shows edgegrid on a Kubernetes of its own: etcd, kube-apiserver, kube-controller-manager and
/// kube-scheduler on loopback, with six simulated nodes.
#[derive(Parser)]
struct Args {
    /// End after the last step instead of waiting for Ctrl-C (also when there is no terminal).
    #[arg(long)]
    once: bool,

    /// Leave out the steps with real packets, for this reason.
    #[arg(long, value_name = "WHY")]
    without_packets: Option<String>,
}

const STEPS: usize = 8;
const NODES: [&str; 6] = ["bj-1", "bj-2", "bj-3", "gz-1", "gz-2", "gz-3"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let result = tokio::select! {
        result = walk_through(&args) => result,
        stopped = tokio::signal::ctrl_c() => {
            println!("\nstopped; the cluster is gone");
            stopped.context("listen for Ctrl-C")
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn walk_through(args: &Args) -> Result<()> {
    title(1, "start Kubernetes 1.37 with six simulated nodes");
    let lab = match args.without_packets {
        Some(_) => None,
        None => Some(Arc::new(Lab::start().await?)),
    };
    let lab = lab.as_ref();
    let cluster = Cluster::upstream().version("1.37").with_controllers();
    let cluster = match lab {
        Some(lab) => cluster.listen_on(lab.gateway()).pods(lab.clone()).await?,
        None => cluster.await?,
    };
    for name in NODES {
        traffic::add_node(&cluster, lab.map(Arc::as_ref), name, &[]).await?;
    }
    show(&cluster, &["get", "nodes"], |table| {
        ensure!(count(table, " Ready ") == 6, "not all six nodes are Ready");
        Ok(())
    })
    .await?;

    title(
        2,
        "start edgegrid controller with the rights in deploy/rbac",
    );
    let _controller = Controller::start(&cluster, "controller", &[]).await?;
    show(&cluster, &["get", "crd"], |table| {
        ensure!(
            count(table, "superedge.io") == 5,
            "not all five kinds are there"
        );
        Ok(())
    })
    .await?;

    sites(&cluster).await?;
    grids(&cluster).await?;
    a_mistake(&cluster).await?;
    a_new_site(&cluster, lab.map(Arc::as_ref)).await?;
    title(7, "traffic stays at home: curl of the Service in two sites");
    if let Some(lab) = lab {
        traffic::stays_at_home(&cluster, lab).await?;
    }
    left_out(args);
    title(8, "one name, in every site its own pod: edgegrid agent");
    if let Some(lab) = lab {
        names::are_local(&cluster, lab).await?;
    }
    left_out(args);
    stay(&cluster, args.once).await
}

async fn sites(cluster: &Cluster) -> Result<()> {
    title(3, "name the sites: two NodeUnits, one NodeGroup");
    apply(cluster, "walkthrough/sites.yaml").await?;
    show(cluster, &["get", "nu,ng"], |table| {
        for line in ["beijing ", "guangzhou ", "unit-node-all "] {
            ensure!(table.contains(line), "{line} is missing");
        }
        ensure!(
            count(table, " 3/3 ") == 2 && count(table, " 6/6 ") == 1,
            "not all nodes are counted"
        );
        Ok(())
    })
    .await?;
    show(cluster, &["get", "nodes", "-L", "location"], |table| {
        ensure!(
            count(table, " beijing") == 3 && count(table, " guangzhou") == 3,
            "not all nodes are labelled"
        );
        Ok(())
    })
    .await
}

async fn grids(cluster: &Cluster) -> Result<()> {
    title(
        4,
        "the application: a Deployment and a StatefulSet in every site, one Service",
    );
    let web = edgegrid_testkit::grid("deploymentgrid-demo")
        .by("location")
        .replicas(2);
    let mut web = DeploymentGrid::from(web);
    web.spec.when_unreachable = Some(WhenUnreachable::Keep);
    cluster.apply::<DeploymentGrid>(web).await?;
    apply(cluster, "seeds/001-servicegrid.yaml").await?;
    let set = std::fs::read_to_string(fixtures().join("seeds/001-statefulsetgrid.yaml"))?;
    let kept = set.replacen("\nspec:\n", "\nspec:\n  whenUnreachable: Keep\n", 1);
    print!(
        "{}",
        cluster
            .kubectl_with_input(["apply", "-f", "-"], &kept)
            .await?
    );
    let field = "jsonpath={.spec.whenUnreachable}";
    for grid in ["dg/deploymentgrid-demo", "ssg/statefulsetgrid-demo"] {
        let stored = cluster.kubectl(["get", grid, "-o", field]).await?;
        ensure!(stored == "Keep", "{grid} would restart after a long cut");
    }
    show(
        cluster,
        &["get", "deployments,statefulsets,services"],
        |table| {
            ensure!(
                count(table, " 2/2 ") == 2 && count(table, " 3/3 ") == 2,
                "not all sites run it"
            );
            ensure!(
                table.contains("servicegrid-demo-svc"),
                "the Service is missing"
            );
            Ok(())
        },
    )
    .await?;
    show(cluster, &["get", "dg,ssg,sg"], |table| {
        ensure!(count(table, " 2/2 ") == 2, "not both grids are ready");
        Ok(())
    })
    .await
}

async fn a_mistake(cluster: &Cluster) -> Result<()> {
    title(5, "a mistake is refused, with the way out");
    let typo = ["patch", "dg", "deploymentgrid-demo", "--type=merge", "-p"];
    let patch = r#"{"spec":{"templates":{"beijing":"tset1"}}}"#;
    println!("$ kubectl {} '{patch}'", typo.join(" "));
    match cluster.kubectl(typo.into_iter().chain([patch])).await {
        Ok(_) => bail!("a template that does not exist was accepted"),
        Err(refusal) => {
            let refusal = format!("{refusal:#}");
            let (_, says) = refusal.split_once('\n').unwrap_or_default();
            println!("{says}");
            ensure!(
                says.contains("not in templatePool: add it there"),
                "the message gives no way out"
            );
            Ok(())
        }
    }
}

async fn a_new_site(cluster: &Cluster, lab: Option<&Lab>) -> Result<()> {
    title(
        6,
        "a node with a new label is a new site, without another command",
    );
    traffic::add_node(cluster, lab, "sh-1", &[("location", "shanghai")]).await?;
    show(cluster, &["get", "pods", "-o", "wide"], |table| {
        ensure!(
            count(table, "-shanghai-") == 5,
            "shanghai does not run all of it"
        );
        for (site, home) in [
            ("beijing", " bj-"),
            ("guangzhou", " gz-"),
            ("shanghai", " sh-"),
        ] {
            let pods = table
                .lines()
                .filter(|line| line.contains(&format!("-{site}-")));
            let away = pods.filter(|line| !line.contains(home)).count();
            ensure!(away == 0, "a pod of {site} is outside its site");
        }
        ensure!(count(table, " Running ") == 15, "not all pods run");
        Ok(())
    })
    .await
}

/// Keeps the cluster for the user, who ends it with Ctrl-C.
async fn stay(cluster: &Cluster, once: bool) -> Result<()> {
    if once || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    println!(
        "\nIt is yours until Ctrl-C:\n  export KUBECONFIG={}",
        cluster.kubeconfig()?.display()
    );
    println!("  kubectl get dg,ssg,sg,nu,ng");
    std::future::pending().await
}

fn left_out(args: &Args) {
    if let Some(why) = &args.without_packets {
        println!("left out: {why}");
    }
}

fn title(number: usize, text: &str) {
    println!("\n[{number}/{STEPS}] {text}");
}

async fn apply(cluster: &Cluster, fixture: &str) -> Result<()> {
    let path = fixtures().join(fixture);
    let path = path.to_str().context("the project's path is not text")?;
    print!("{}", cluster.kubectl(["apply", "-f", path]).await?);
    Ok(())
}

/// Shows a kubectl table once it is as it should be.
async fn show(cluster: &Cluster, args: &[&str], check: impl Fn(&str) -> Result<()>) -> Result<()> {
    let patience = Patience {
        pause: Duration::from_millis(500),
        ..Patience::default()
    };
    let wanted = format!("`kubectl {}` shows what it should", args.join(" "));
    let table = eventually_within(patience, &wanted, async || {
        let table = cluster.kubectl(args).await?;
        check(&table).with_context(|| table.clone())?;
        Ok(table)
    })
    .await?;
    println!("$ kubectl {}\n{}", args.join(" "), table.trim_end());
    Ok(())
}

fn count(table: &str, word: &str) -> usize {
    table.lines().filter(|line| line.contains(word)).count()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/fixtures")
}
