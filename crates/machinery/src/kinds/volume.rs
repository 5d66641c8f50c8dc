//! Rules of volumes.

use super::check::{Errors, Place};
use super::vocabulary::complaint;
use crate::status::FieldError;

/// Where a volume may come from, in the order they are judged.
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

/// Of several sources only the first is judged.
pub(super) fn first_source(volume: &Place<'_>, errors: &mut Errors) {
    volume.only_first_of(SOURCES, errors);
}

/// Exactly one source.
pub(super) fn volume(volume: &Place<'_>, errors: &mut Errors) {
    let mut given = SOURCES
        .iter()
        .map(|source| volume.at(source))
        .filter(Place::is_set);
    if given.next().is_none() {
        volume.require(errors, "must specify a volume type");
    }
    for another in given {
        // The reference server misspells one of them.
        let path = another.path.replace(".downwardAPI", ".downwarAPI");
        errors.push(FieldError::forbidden(
            path,
            "may not specify more than 1 volume type",
        ));
    }
}

/// A path on the host has no way up and a known type.
pub(super) fn host_path(source: &Place<'_>, errors: &mut Errors) {
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
pub(super) fn nfs(source: &Place<'_>, errors: &mut Errors) {
    let path = source.at("path");
    path.complain(
        errors,
        complaint(!path.text().starts_with('/'), "must be an absolute path"),
    );
}

/// A key lands in a file below the volume, not among the names we need ourselves.
pub(super) fn key_to_path(item: &Place<'_>, errors: &mut Errors) {
    let path = item.at("path");
    let text = path.text();
    path.complain(
        errors,
        complaint(text.starts_with('/'), "must be a relative path"),
    );
    path.complain(
        errors,
        complaint(
            text.split('/').any(|part| part == ".."),
            "must not contain '..'",
        ),
    );
    let reserved = text.starts_with("..") && !text.starts_with("../");
    path.complain(
        errors,
        complaint(reserved && text != "..", "must not start with '..'"),
    );
}
