//! When each member cluster last renewed its Lease, and which are out of contact.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_plan::federation::contact::Contact;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;

/// When members last renewed their Lease, by namespace.
#[derive(Clone, Default)]
pub(crate) struct Contacts(Arc<Mutex<BTreeMap<String, Contact>>>);

impl Contacts {
    /// Notes what a member's Lease says.
    pub(crate) fn apply(&self, namespace: &str, lease: Option<&Lease>, now: Timestamp) {
        let mut contacts = self.0.lock();
        let Some(lease) = lease else {
            contacts.remove(namespace);
            return;
        };
        let renewed = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.renew_time.as_ref());
        let earlier = contacts.get(namespace);
        let contact = Contact::observe(earlier, renewed.map(|time| time.0), now);
        contacts.insert(namespace.to_owned(), contact);
    }

    /// Since when a member is out of contact.
    pub(crate) fn away_since(&self, namespace: &str, now: Timestamp) -> Option<Timestamp> {
        let contacts = self.0.lock();
        contacts.get(namespace)?.away_since(now)
    }

    /// All members that are out of contact.
    pub(crate) fn away(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let contacts = self.0.lock();
        let away = contacts
            .iter()
            .filter_map(|(namespace, contact)| Some((namespace.clone(), contact.away_since(now)?)));
        away.collect()
    }
}
