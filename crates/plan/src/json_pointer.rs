//! JSON pointers (RFC 6901), as the paths of patches.

/// A member's name as part of a pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
