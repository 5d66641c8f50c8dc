//! Rules of volumes.

use super::check::{Errors, FieldValue};
use super::container;
use super::vocabulary::{self, complaint};
use crate::names;
use crate::status::FieldError;
use std::collections::BTreeSet;

/// Where a volume may come from, in the order they are validated.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Of several sources only the first is validated, and one of them goes by another name.
pub(super) fn first_source(volume: &FieldValue<'_>, errors: &mut Errors) {
    volume.only_first_of(SOURCES, errors);
    let disk = format!("{}.", volume.at("gcePersistentDisk").path);
    let shown = format!("{}.", volume.at("persistentDisk").path);
    for error in errors.iter_mut() {
        error.rename(&disk, &shown);
    }
}

/// Checks that a volume has exactly one source.
pub(super) fn volume(volume: &FieldValue<'_>, errors: &mut Errors) {
    let mut given = SOURCES
        .iter()
        .map(|source| volume.at(source))
        .filter(FieldValue::is_set);
    if given.next().is_none() {
        volume.require(errors, "must specify a volume type");
    }
    for another in given {
        // The reference server spells two of them differently here.
        let path = another.path.replace(".downwardAPI", ".downwarAPI");
        let path = path.replace(".cephfs", ".cephFS");
        errors.push(FieldError::forbidden(
            path,
            "may not specify more than 1 volume type",
        ));
    }
}

/// A path on the host has no way up and a known type.
pub(super) fn host_path(source: &FieldValue<'_>, errors: &mut Errors) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = source.at("path");
    let up = path.text().split('/').any(|part| part == "..");
    path.complain(errors, complaint(up, "must not contain '..'"));
    source.at("type").one_of(errors, TYPES);
}

/// A path on a file server is absolute.
pub(super) fn nfs(source: &FieldValue<'_>, errors: &mut Errors) {
    let path = source.at("path");
    path.complain(
        errors,
        complaint(!path.text().starts_with('/'), "must be an absolute path"),
    );
}

/// A key lands in a file below the volume, not among the names we need ourselves.
pub(super) fn key_to_path(item: &FieldValue<'_>, errors: &mut Errors) {
    local_path(&item.at("path"), errors);
}

/// A path below the volume, and not one of ours.
fn local_path(path: &FieldValue<'_>, errors: &mut Errors) {
    let text = path.text();
    path.complain(errors, vocabulary::descending_path(text));
    let reserved = text.starts_with("..") && !text.starts_with("../");
    path.complain(errors, complaint(reserved, "must not start with '..'"));
}

/// Files from fields of the pod: each has a path and one source. Complaints name the list's parent.
pub(super) fn downward_files(source: &FieldValue<'_>, errors: &mut Errors) {
    const FIELDS: &[&str] = &[
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];
    for file in source.at("items").items() {
        let file = FieldValue {
            path: source.path.clone(),
            ..file
        };
        file.at("path").needed(errors);
        local_path(&file.at("path"), errors);
        let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
        match (field.is_set(), resource.is_set()) {
            (true, both) => {
                container::field_ref(&field, FIELDS, errors);
                if both {
                    file.invalid(errors, "may not have both fieldRef and resourceFieldRef");
                }
            }
            (false, true) => container::resource_ref(&resource, true, errors),
            (false, false) => file.require(errors, "one of fieldRef and resourceFieldRef"),
        }
        let mode = file.at("mode");
        if mode.is_set() && !(0..=0o777).contains(&mode.number()) {
            mode.invalid(errors, "must be a number between 0 and 0777 (octal)");
        }
    }
}

/// Each part has one source, and no two parts write the same file.
pub(super) fn projected(volume: &FieldValue<'_>, errors: &mut Errors) {
    let mut paths = BTreeSet::new();
    for part in volume.at("sources").items() {
        let given = part.keys().filter(|source| part.at(source).is_set());
        if given.count() > 1 {
            part.forbid(errors, "may not specify more than 1 volume type per source");
        }
        let token = part.at("serviceAccountToken");
        if token.is_set() {
            let path = FieldValue {
                path: volume.at("path").path,
                ..token.at("path")
            };
            path.needed(errors);
            local_path(&path, errors);
        }
        if files(&part).any(|path| !paths.insert(path.to_owned())) {
            volume.invalid(errors, "conflicting duplicate paths");
        }
    }
}

/// The files a part writes, as far as they are compared.
fn files<'a>(part: &FieldValue<'a>) -> impl Iterator<Item = &'a str> {
    let lists = ["secret", "configMap", "downwardAPI"].map(|source| part.at(source).at("items"));
    let listed: Vec<FieldValue<'a>> = lists.iter().flat_map(FieldValue::items).collect();
    let certificate = part.at("podCertificate");
    let single = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    let single = single.map(|path| certificate.at(path)).into_iter();
    let paths = listed.into_iter().map(|item| item.at("path"));
    let bundle = part.at("clusterTrustBundle").at("path");
    let paths = paths.chain(single).chain([bundle]);
    paths
        .map(|path| path.text())
        .filter(|path| !path.is_empty())
}

/// Trust comes by name or by signer.
pub(super) fn trust_bundle(bundle: &FieldValue<'_>, errors: &mut Errors) {
    let (name, signer) = (bundle.at("name"), bundle.at("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid(errors, "only one of name and signerName may be used"),
        (true, false) => {
            if name.needed(errors) {
                name.dns_subdomain(errors);
            }
            if bundle.at("labelSelector").is_set() {
                let why = "must be unset if name is specified";
                bundle.at("labelSelector").invalid(errors, why);
            }
        }
        (false, true) => {
            signer_name(&signer, errors);
            bundle.at("labelSelector").selector(errors);
        }
        (false, false) => bundle.require(errors, "either name or signerName must be specified"),
    }
    local_path(&bundle.at("path"), errors);
}

/// A certificate has a signer and somewhere to go.
pub(super) fn pod_certificate(certificate: &FieldValue<'_>, errors: &mut Errors) {
    signer_name(&certificate.at("signerName"), errors);
    let paths = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    let paths = paths.map(|path| certificate.at(path));
    if paths.iter().all(FieldValue::is_empty) {
        certificate.require(errors, "must have at least one path");
    }
    for path in paths {
        local_path(&path, errors);
    }
}

fn signer_name(signer: &FieldValue<'_>, errors: &mut Errors) {
    let is_valid = signer.text().split_once('/').is_some_and(|(domain, path)| {
        domain.contains('.')
            && [domain, path]
                .iter()
                .all(|part| names::dns_subdomain(part).is_empty())
    });
    if signer.needed(errors) && !is_valid {
        signer.invalid(
            errors,
            "must be a domain and a path, as in example.com/signer-name",
        );
    }
}

/// Names of both ends have a known form, and what authenticates has a secret.
pub(super) fn iscsi(source: &FieldValue<'_>, errors: &mut Errors) {
    let is_name = |name: &str| {
        ["iqn", "eui", "naa"]
            .iter()
            .any(|form| name.starts_with(form))
    };
    let target = source.at("iqn");
    if !target.is_empty() && !is_name(target.text()) {
        target.invalid(errors, "must start with iqn, eui or naa");
    }
    let initiator = FieldValue {
        path: source.at("initiatorname").path,
        ..source.at("initiatorName")
    };
    if initiator.is_set() && !is_name(initiator.text()) {
        initiator.invalid(errors, "must start with iqn, eui or naa");
    }
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"];
    if authenticates.iter().any(|field| source.at(field).is_true())
        && !source.at("secretRef").is_set()
    {
        source.at("secretRef").require(errors, "");
    }
}

/// A data set is named in one way.
pub(super) fn flocker(source: &FieldValue<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.at("datasetName"), source.at("datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => source.require(errors, "one of datasetName and datasetUUID"),
        (false, false) => source.invalid(errors, "may not have both datasetName and datasetUUID"),
        _ => {}
    }
    if name.text().contains('/') {
        name.invalid(errors, "must not contain '/'");
    }
}

/// Servers come as host and port.
pub(super) fn quobyte(source: &FieldValue<'_>, errors: &mut Errors) {
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    let is_pair = |pair: &str| pair.matches(':').count() == 1;
    if registry.is_empty() {
    } else if tenant.text().len() >= 65 {
        tenant.require(errors, "may not exceed 64 characters");
    } else if !registry.text().split(',').all(is_pair) {
        registry.invalid(
            errors,
            "must be pairs of host and port, separated by commas",
        );
    }
}

/// A disk is addressed by port or by identity.
pub(super) fn fibre_channel(source: &FieldValue<'_>, errors: &mut Errors) {
    let (ports, lun) = (source.at("targetWWNs"), source.at("lun"));
    match (ports.is_empty(), source.at("wwids").is_empty()) {
        (true, true) => ports.require(errors, "must specify either targetWWNs or wwids"),
        (false, false) => ports.invalid(errors, "may not be specified with wwids"),
        _ => {}
    }
    if !ports.is_empty() && !lun.is_set() {
        lun.require(errors, "required with targetWWNs");
    } else if !ports.is_empty() {
        lun.complain(errors, vocabulary::between(lun.number(), 0, 255));
    }
}

/// Where a disk is depends on who manages it.
pub(super) fn azure_disk(source: &FieldValue<'_>, errors: &mut Errors) {
    let start = match source.at("kind").text() {
        "Managed" => "/subscriptions/",
        _ => "https://",
    };
    let uri = source.at("diskURI");
    if source.at("kind").is_set() && !uri.text().starts_with(start) {
        uri.unsupported(errors, &[start]);
    }
}

/// A claim that is made with the pod takes labels and annotations from its template, nothing else.
pub(super) fn claim_template(source: &FieldValue<'_>, errors: &mut Errors) {
    let metadata = source.at("volumeClaimTemplate").at("metadata");
    metadata.at("labels").labels(errors);
    let is_open = |field: &&str| matches!(*field, "labels" | "annotations");
    for field in metadata.keys().filter(|field| !is_open(field)) {
        let field = metadata.at(field);
        if field.is_set() && !field.is_empty() {
            field.forbid(errors, "cannot be set");
        }
    }
}
