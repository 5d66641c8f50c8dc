//! Whom to ask: the cluster's DNS, and the node's resolvers as its file names them.

use parking_lot::Mutex;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{info, warn};

use super::config::Resolvers;

const PORT: u16 = 53;
/// The file is looked at again when somebody is to be asked, but not more often than this.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Servers of one kind, the one that answered last before the others.
#[derive(Debug)]
pub(super) struct Upstreams {
    source: Source,
    good: AtomicUsize,
}

#[derive(Debug)]
enum Source {
    These(Arc<[SocketAddr]>),
    File(Mutex<Watched>),
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    own: Vec<SocketAddr>,
    looked: Option<Instant>,
    modified: Option<SystemTime>,
    servers: Arc<[SocketAddr]>,
}

impl Upstreams {
    /// Those of a list, but never ourselves.
    pub(super) fn these(servers: &[SocketAddr], own: &[SocketAddr]) -> Self {
        Self::from(Source::These(without(servers.iter().copied(), own)))
    }

    pub(super) fn resolvers(resolvers: &Resolvers, own: &[SocketAddr]) -> Self {
        match resolvers {
            Resolvers::These(servers) => Self::these(servers, own),
            Resolvers::File(path) => Self::from(Source::File(Mutex::new(Watched {
                path: path.clone(),
                own: own.to_owned(),
                looked: None,
                modified: None,
                servers: Arc::default(),
            }))),
        }
    }

    fn from(source: Source) -> Self {
        let good = AtomicUsize::new(0);
        Self { source, good }
    }

    /// Whom to ask one after the other, for ever if there is anybody.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (usize, SocketAddr)> + use<> {
        let servers = match &self.source {
            Source::These(servers) => Arc::clone(servers),
            Source::File(watched) => {
                let mut watched = watched.lock();
                watched.servers()
            }
        };
        let first = self.good.load(Ordering::Relaxed);
        let mut turn = first..;
        std::iter::from_fn(move || {
            let number = turn.next()?.checked_rem(servers.len())?;
            Some((number, servers[number]))
        })
    }

    /// Takes note of who answered.
    pub(super) fn answered(&self, number: usize) {
        self.good.store(number, Ordering::Relaxed);
    }
}

impl Watched {
    fn servers(&mut self) -> Arc<[SocketAddr]> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            self.looked = Some(Instant::now());
            if let Err(error) = self.look() {
                let path = self.path.display();
                warn!(%path, %error, "cannot read the resolvers, keeping those known before");
            }
        }
        Arc::clone(&self.servers)
    }

    fn look(&mut self) -> io::Result<()> {
        let modified = modified(&self.path)?;
        if self.modified == Some(modified) {
            return Ok(());
        }
        let text = fs::read_to_string(&self.path)?;
        self.modified = Some(modified);
        let servers = name_servers(&text).map(|address| SocketAddr::new(address, PORT));
        self.servers = without(servers, &self.own);
        let path = self.path.display();
        info!(%path, servers = ?self.servers, "read the node's resolvers");
        Ok(())
    }
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// Asking ourselves would go round in circles.
fn without(servers: impl Iterator<Item = SocketAddr>, own: &[SocketAddr]) -> Arc<[SocketAddr]> {
    servers.filter(|server| !own.contains(server)).collect()
}

/// The addresses behind `nameserver`, as resolv.conf(5) has it; a zone (`%eth0`) is left out.
fn name_servers(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().filter(|word| *word == "nameserver");
        let address = address.and_then(|_| words.next())?;
        let (address, _) = address.split_once('%').unwrap_or((address, ""));
        address.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn resolvers_are_read_as_the_manual_says_and_never_ourselves() {
        let text = "# nameserver 9.9.9.9\nsearch example.org\nnameserver 192.0.2.1\n\
                    nameserver   fe80::1%eth0\nnameserver 127.0.0.53 # local\nnameserver odd\n nameserver 192.0.2.2\n";
        let found: Vec<_> = name_servers(text).map(|found| found.to_string()).collect();
        assert_eq!(found, ["192.0.2.1", "fe80::1", "127.0.0.53", "192.0.2.2"]);
        let own = [address("127.0.0.53:53")];
        let servers = name_servers(text).map(|found| SocketAddr::new(found, PORT));
        assert_eq!(without(servers, &own).len(), 3);
    }

    #[test]
    fn who_answered_last_is_asked_first() {
        let upstreams = Upstreams::these(&[address("192.0.2.1:53"), address("192.0.2.2:53")], &[]);
        let first = |upstreams: &Upstreams| upstreams.in_turn().next().unwrap();
        assert_eq!(first(&upstreams).0, 0);
        upstreams.answered(1);
        assert_eq!(first(&upstreams), (1, address("192.0.2.2:53")));
        let turn: Vec<_> = upstreams.in_turn().take(3).map(|(n, _)| n).collect();
        assert_eq!(turn, [1, 0, 1]);
        let nobody = Upstreams::these(&[], &[]);
        assert_eq!(nobody.in_turn().next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_read_again_and_a_lost_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let upstreams = Upstreams::resolvers(&Resolvers::File(path.clone()), &[]);
        assert_eq!(upstreams.in_turn().next(), None, "there is no file yet");
        let write = |text: &str, seconds| {
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(at).unwrap();
        };
        let first = |upstreams: &Upstreams| upstreams.in_turn().next().map(|(_, server)| server);
        for (number, text) in ["nameserver 192.0.2.1", "nameserver 192.0.2.2"]
            .iter()
            .enumerate()
        {
            write(text, number as u64);
            tokio::time::advance(LOOK_AGAIN).await;
            assert_eq!(
                first(&upstreams),
                Some(address(&format!("192.0.2.{}:53", number + 1)))
            );
        }
        fs::remove_file(&path).unwrap();
        tokio::time::advance(LOOK_AGAIN).await;
        assert_eq!(first(&upstreams), Some(address("192.0.2.2:53")));
    }
}
