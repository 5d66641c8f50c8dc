//! What the network lab needs from the system: root, and a few commands that Debian packages bring.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process;

/// Command → the Debian package that has it.
const COMMANDS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
];

/// Folders that a plain user's PATH often lacks.
const SYSTEM_FOLDERS: &[&str] = &["/usr/sbin", "/sbin"];

/// Makes sure that the lab can run, installing what is missing; the error says why it cannot.
pub(crate) fn ensure() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("network namespaces need root");
    }
    let missing = packages_for(|command| !is_installed(command));
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if process::on_path("apt-get").is_none() {
        bail!("there is no apt-get to install {list} with");
    }
    eprintln!("installing from Debian: {list}");
    apt_get(&["update"])?;
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing);
    apt_get(&install).with_context(|| format!("install {list}"))
}

fn packages_for(is_missing: impl Fn(&str) -> bool) -> Vec<&'static str> {
    COMMANDS
        .iter()
        .filter(|(command, _)| is_missing(command))
        .map(|(_, package)| *package)
        .collect()
}

fn is_installed(command: &str) -> bool {
    let in_folder = |folder: &&str| Path::new(*folder).join(command).is_file();
    process::on_path(command).is_some() || SYSTEM_FOLDERS.iter().any(in_folder)
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
