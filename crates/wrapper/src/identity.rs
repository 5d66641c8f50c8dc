//! Who asks, and whether that may be: by client certificate or token, against two lists.

use std::collections::BTreeSet;

/// Somebody with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
}

/// Who may read, over TLS. On loopback everybody on the node may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Names of users.
    pub users: BTreeSet<String>,
    /// Names of groups.
    pub groups: BTreeSet<String>,
}

impl Default for Access {
    /// The programs this is made for, under the names they usually have.
    fn default() -> Self {
        let users = [
            "system:kube-proxy",
            "system:serviceaccount:kube-system:kube-proxy",
            "system:serviceaccount:kube-system:coredns",
        ];
        Self {
            users: users.map(str::to_owned).into(),
            groups: BTreeSet::new(),
        }
    }
}

impl Access {
    /// Whether somebody may read.
    pub fn allows(&self, who: &Identity) -> bool {
        let in_group = who.groups.iter().any(|group| self.groups.contains(group));
        self.users.contains(&who.user) || in_group
    }
}

/// What a certificate says of its holder: the common name and the organisations of its subject.
///
/// It is asked only of certificates that have been verified, and gives nothing for one that is not
/// put together as RFC 5280 requires.
pub(crate) fn subject(certificate: &[u8]) -> Option<Identity> {
    let (certificate, _) = element(certificate)?;
    let (signed, _) = element(certificate.body)?;
    let mut rest = signed.body;
    let (first, after) = element(rest)?;
    // A version is there in all but the oldest; then serial number, algorithm, issuer, validity.
    if first.tag == VERSION {
        rest = after;
    }
    for _ in 0..4 {
        rest = element(rest)?.1;
    }
    let mut names = element(rest)?.0.body;
    let mut who = Identity {
        user: String::new(),
        groups: vec!["system:authenticated".to_owned()],
    };
    while !names.is_empty() {
        let (set, after) = element(names)?;
        let mut pairs = set.body;
        while !pairs.is_empty() {
            let (pair, next) = element(pairs)?;
            let (kind, value) = element(pair.body)?;
            let text = std::str::from_utf8(element(value)?.0.body).ok()?;
            match kind.body {
                COMMON_NAME => text.clone_into(&mut who.user),
                ORGANISATION => who.groups.push(text.to_owned()),
                _ => {}
            }
            pairs = next;
        }
        names = after;
    }
    (!who.user.is_empty()).then_some(who)
}

const VERSION: u8 = 0xa0;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];

/// One element of DER.
struct Element<'a> {
    tag: u8,
    body: &'a [u8],
}

/// The first element of some bytes, and what follows it.
fn element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some((Element { tag: *tag, body }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(name: &str, groups: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificates_subject_is_user_and_group() {
        let who = subject(&certificate("system:node:bj-1", &["system:nodes"])).unwrap();
        assert_eq!(who.user, "system:node:bj-1");
        assert_eq!(who.groups, ["system:authenticated", "system:nodes"]);
        let mut access = Access::default();
        assert!(!access.allows(&who));
        access.groups.insert("system:nodes".to_owned());
        assert!(access.allows(&who));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_subject_or_nothing(bytes: Vec<u8>) {
            subject(&bytes);
        }

        #[test]
        fn a_cut_or_changed_certificate_does_no_harm(cut in 0usize..400, at in 0usize..400, byte: u8) {
            let mut whole = certificate("a", &["b"]);
            let at = at % whole.len();
            whole[at] = byte;
            subject(&whole[..cut.min(whole.len())]);
        }
    }
}
