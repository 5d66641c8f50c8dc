//! What names resolve to on this node, at one moment.
//!
//! Changed service by service, so that the cost of a change does not grow with what else is known. It is small: it
//! lies in the memory of every node beside the view, so what is the same is kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Everything this node can name: `<host>.<service>.<namespace>.svc.<domain>` and what lies above.
#[derive(Debug, Default)]
pub struct Records {
    namespaces: BTreeSet<Box<str>>,
    services: BTreeMap<Arc<ServiceName>, ServiceRecords>,
    /// Which services have an address, for names of addresses; sorted, and almost always one.
    owners: BTreeMap<IpAddr, Vec<Arc<ServiceName>>>,
    /// Which services have short names.
    aliased: BTreeSet<Arc<ServiceName>>,
    /// Whether everything there is has been seen once.
    complete: bool,
}

/// A service's namespace and name, in lower case as Kubernetes demands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// What the names of one service stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecords {
    /// What its own name is.
    pub target: Target,
    /// Its named ports, for a service with addresses of its own.
    pub ports: Vec<Port>,
    /// What can be asked for below its name: pods by hostname, or by their dashed address.
    pub hosts: BTreeMap<Box<str>, Host>,
}

/// What a service's own name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The service's own addresses.
    Addresses(Vec<IpAddr>),
    /// Those of its pods.
    Headless,
    /// Another name.
    External(Box<str>),
}

/// A port with a name, as in `_http._tcp`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The port's name; empty if it has none.
    pub name: Box<str>,
    /// In lower case: `tcp`, `udp` or `sctp`.
    pub protocol: Box<str>,
    /// Its number.
    pub number: u16,
}

/// One name below a service's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Where it is, sorted.
    pub addresses: Vec<IpAddr>,
    /// Its ports, sorted; pods of one slice share them.
    pub ports: Arc<[Port]>,
    /// Whether this is a second, short name of a pod that has another: no record but its own A and AAAA shows it.
    pub alias: bool,
}

impl Records {
    /// The records of a service.
    pub fn service(&self, name: &ServiceName) -> Option<&ServiceRecords> {
        self.services.get(name)
    }

    /// Whether a namespace is known.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// The services that have something at an address.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = (&ServiceName, &ServiceRecords)> {
        let owners = self.owners.get(&address).into_iter().flatten();
        owners.filter_map(|name| Some((&**name, self.services.get(name)?)))
    }

    /// All services, sorted.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceName, &ServiceRecords)> {
        let services = self.services.iter();
        services.map(|(name, service)| (&**name, service))
    }

    /// All short names, sorted by service.
    pub fn aliases(&self) -> impl Iterator<Item = (&ServiceName, &str, &Host)> {
        let services = self.aliased.iter();
        let services = services.filter_map(|name| self.services.get_key_value(name));
        services.flat_map(|(name, service)| {
            let aliases = service.hosts.iter().filter(|(_, host)| host.alias);
            aliases.map(move |(alias, host)| (&**name, &**alias, host))
        })
    }

    /// Whether everything there is has been seen once: before, what is not here may exist nevertheless.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes note that everything has been seen once; being cut off later changes nothing about that.
    pub fn set_complete(&mut self) {
        self.complete = true;
    }

    /// Takes note of a namespace, or of its end.
    pub fn set_namespace(&mut self, namespace: &str, exists: bool) {
        if exists {
            self.namespaces.insert(namespace.into());
        } else {
            self.namespaces.remove(namespace);
        }
    }

    /// Replaces a service's records; `None` when it is gone.
    pub fn set_service(&mut self, name: &ServiceName, records: Option<ServiceRecords>) {
        if let Some(old) = self.services.remove(name) {
            for address in old.addresses() {
                self.disown(address, name);
            }
        }
        self.aliased.remove(name);
        let Some(records) = records else { return };
        let name = Arc::new(name.clone());
        if records.hosts.values().any(|host| host.alias) {
            self.aliased.insert(Arc::clone(&name));
        }
        for address in records.addresses() {
            let owners = self.owners.entry(address);
            let owners = owners.or_insert_with(|| Vec::with_capacity(1));
            if let Err(at) = owners.binary_search(&name) {
                owners.insert(at, Arc::clone(&name));
            }
        }
        self.services.insert(name, records);
    }

    fn disown(&mut self, address: IpAddr, name: &ServiceName) {
        let Some(owners) = self.owners.get_mut(&address) else {
            return;
        };
        owners.retain(|owner| **owner != *name);
        if owners.is_empty() {
            self.owners.remove(&address);
        }
    }
}

impl ServiceRecords {
    /// Every address its names lead to.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let own = match &self.target {
            Target::Addresses(addresses) => addresses.as_slice(),
            Target::Headless | Target::External(_) => &[],
        };
        let hosts = self.hosts.values().flat_map(|host| &host.addresses);
        own.iter().chain(hosts).copied()
    }
}
