//! Doing things inside a network namespace: `ip` batches, programs, and code of this process.
//!
//! A namespace belongs to a thread, and a socket to the namespace it was made in. So a short-lived thread can
//! enter a namespace, make a socket there and hand it out, with no program needed inside.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command;
use crate::leftovers::{NAMESPACES, OVERLAYS};
use crate::process::Process;

/// Runs the lines of `batch` by one `ip`, in the root namespace.
pub(super) fn ip(batch: &str) -> Result<()> {
    batch_with(&mut Command::new("ip"), batch)
}

/// Runs the lines of `batch` by one `ip`, in `namespace`.
pub(super) fn ip_in(namespace: &str, batch: &str) -> Result<()> {
    batch_with(Command::new("ip").args(["-n", namespace]), batch)
}

fn batch_with(command: &mut Command, batch: &str) -> Result<()> {
    command::output_with_input(command.args(["-batch", "-"]), batch)
        .map(drop)
        // ip names the line by its number only.
        .with_context(|| format!("set up the network with:\n{}", batch.trim_end()))
}

/// Runs `work` on a thread of this process that is inside `namespace`.
pub(super) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    let path = Path::new(NAMESPACES).join(namespace);
    let enter = || -> Result<T> {
        let file =
            File::open(&path).with_context(|| format!("open namespace {}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("enter namespace {namespace}"))?;
        Ok(work())
    };
    thread::scope(|scope| scope.spawn(enter).join())
        .map_err(|_| anyhow!("panic inside namespace {namespace}"))?
}

/// `command`, to be run inside `namespace`. `ip` replaces itself by the program, so the pid is the program's.
pub(super) fn command(namespace: &str, command: &Command) -> Result<Command> {
    let program = command.get_program();
    // Otherwise ip would say so, in the log only.
    command::find(program)
        .with_context(|| format!("program {} does not exist", program.display()))?;
    let mut inner = Command::new("ip");
    inner
        .args(["netns", "exec", namespace])
        .arg(program)
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => inner.env(key, value),
            None => inner.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        inner.current_dir(folder);
    }
    Ok(inner)
}

/// Writes the file that `ip netns exec` puts over `/etc/resolv.conf`.
pub(super) fn write_resolv_conf(
    namespace: &str,
    nameserver: Ipv4Addr,
    search: &[&str],
) -> Result<()> {
    let folder = Path::new(OVERLAYS).join(namespace);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let mut text = format!("nameserver {nameserver}\noptions ndots:5 timeout:2\n");
    if !search.is_empty() {
        let _ = writeln!(text, "search {}", search.join(" "));
    }
    let path = folder.join("resolv.conf");
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

pub(super) fn remove_overlay(namespace: &str) -> Result<()> {
    let folder: PathBuf = Path::new(OVERLAYS).join(namespace);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Waits until `path` at `address` answers 200, asked from inside `namespace`, or `process` ends.
pub(super) async fn wait_for_ok(
    namespace: &str,
    address: SocketAddrV4,
    path: &str,
    process: &Process,
) -> Result<()> {
    let mut last = String::new();
    for _ in 0..600 {
        process.expect_alive()?;
        let (namespace, path) = (namespace.to_owned(), path.to_owned());
        let asked =
            tokio::task::spawn_blocking(move || inside(&namespace, || status_line(address, &path)));
        match asked.await.context("ask a health endpoint")?? {
            Ok(status) if status.split(' ').nth(1) == Some("200") => return Ok(()),
            Ok(status) => last = status,
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (log, tail) = (process.log().display(), process.tail(20));
    Err(anyhow!(
        "http://{address}{path} in {namespace} is not ready after a minute ({last}), log {log}:\n{tail}"
    ))
}

/// First line of the answer to a GET.
fn status_line(address: SocketAddrV4, path: &str) -> std::io::Result<String> {
    let limit = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address.into(), limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
