//! What people should hear about: an Event in Kubernetes, one per change of state.

/// Something worth an Event on the object that was planned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Whether somebody should act.
    pub level: Level,
    /// One word, from [`edgegrid_api::names::reason`].
    pub reason: &'static str,
    /// What happened, to which object, and the way out.
    pub message: String,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is as it should be.
    Normal,
    /// Something is wrong, and somebody should look at it.
    Warning,
}

impl Notice {
    /// A notice that all is well.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            level: Level::Normal,
            reason,
            message: message.into(),
        }
    }

    /// A notice that something is wrong.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            reason,
            message: message.into(),
        }
    }
}
