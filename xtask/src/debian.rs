//! What the network lab needs from the system: root, and a few commands that Debian packages bring.

use anyhow::{Result, anyhow, bail};

use crate::process;

/// Command → the Debian package that has it.
const COMMANDS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
];

/// Makes sure that the lab can run, installing what is missing; the error says in one line why it cannot.
pub(crate) fn ensure() -> Result<()> {
    let missing = packages_for(|command| process::on_path(command).is_none());
    let list = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        let and_packages = if missing.is_empty() {
            String::new()
        } else {
            format!(" and the packages {list}")
        };
        bail!("network namespaces need root{and_packages}");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if process::on_path("apt-get").is_none() {
        bail!("install {list} first: there is no apt-get to do it here");
    }
    eprintln!("installing from Debian: {list}");
    install(&missing).map_err(|error| {
        let why = format!("{error:#}").replace('\n', " ");
        anyhow!("install {list} first: {why}")
    })
}

fn install(packages: &[&str]) -> Result<()> {
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn packages_for(is_missing: impl Fn(&str) -> bool) -> Vec<&'static str> {
    COMMANDS
        .iter()
        .filter(|(command, _)| is_missing(command))
        .map(|(_, package)| *package)
        .collect()
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut apt_get = process::command("apt-get");
    apt_get
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-qq"])
        .args(arguments);
    process::output(&mut apt_get).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_missing_commands_are_installed() {
        assert_eq!(
            packages_for(|command| command == "nft" || command == "ip"),
            ["iproute2", "nftables"]
        );
        assert!(packages_for(|_| false).is_empty());
    }
}
