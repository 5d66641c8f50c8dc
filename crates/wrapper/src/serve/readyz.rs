//! `/readyz?verbose`: what an operator looks at when a node's view is old or incomplete.

use super::{Answer, Server, text};
use crate::publish::report::Contact;
use edgegrid_runtime::readyz::{Check, verbose};
use http::StatusCode;

/// What decides.
struct World {
    /// Whether the view is served.
    open: bool,
    /// What was not seen yet.
    missing: Vec<String>,
    contact: Contact,
    /// Nodes that are kept though they are gone, one line for each.
    gone: Vec<String>,
    /// How the API server refused the wrapper, if its last answer was a refusal.
    refusal: Option<StatusCode>,
}

impl Server {
    pub(super) fn verbose_readiness(&self) -> Answer {
        let world = World {
            open: self.publisher.is_open(),
            missing: self.publisher.missing(),
            contact: self.publisher.contact(),
            gone: self.publisher.grace_lines(),
            refusal: self.link.refusals.last(),
        };
        let (code, lines) = verbose(&checks(&world));
        text(code, lines)
    }
}

/// A site that is cut off, or whose credentials have expired, serves on: only a view that was never
/// complete is not ready.
fn checks(world: &World) -> [Check; 4] {
    let missing = format!("not seen yet: {}", world.missing.join(", "));
    let view = match world {
        World { open: false, .. } => Check::failed("view", missing),
        World { missing: none, .. } if none.is_empty() => Check::ok("view"),
        _ => Check::degraded("view", missing),
    };
    let upstream = match world.contact {
        Contact::Now => Check::ok("upstream"),
        Contact::Lost(seconds) => {
            Check::degraded("upstream", format!("last heard of {seconds} s ago"))
        }
        Contact::Never => Check::degraded("upstream", "never heard of"),
    };
    let nodes = if world.gone.is_empty() {
        Check::ok("nodes")
    } else {
        Check::degraded("nodes", world.gone.join("; "))
    };
    [view, upstream, nodes, Check::credentials(world.refusal)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(world: &World) -> (u16, Vec<String>) {
        let (code, text) = verbose(&checks(world));
        (code.as_u16(), text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn each_line_says_what_is_wrong_and_only_an_incomplete_view_is_not_ready() {
        let known = || World {
            open: true,
            missing: Vec::new(),
            contact: Contact::Now,
            gone: Vec::new(),
            refusal: None,
        };
        let waiting = || vec!["services".to_owned(), "nodes zone=a".to_owned()];
        let fine = [
            "[+]view ok",
            "[+]upstream ok",
            "[+]nodes ok",
            "[+]credentials ok",
        ];
        let gone = || vec!["a is gone".to_owned(), "b is gone".to_owned()];
        let lost = "[!]upstream: last heard of 47 s ago";
        let never = "[!]upstream: never heard of";
        let old_key = "[!]credentials: the API server answers 401 Unauthorized: renew the kubeconfig's certificate or token";
        let no_view = "[-]view failed: not seen yet: services, nodes zone=a";
        let part_of_view = "[!]view: not seen yet: services, nodes zone=a";
        let refusal = Some(StatusCode::UNAUTHORIZED);
        let table = [
            (known(), 200, fine),
            (
                World {
                    contact: Contact::Lost(47),
                    refusal,
                    ..known()
                },
                200,
                [fine[0], lost, fine[2], old_key],
            ),
            (
                World {
                    missing: waiting(),
                    ..known()
                },
                200,
                [part_of_view, fine[1], fine[2], fine[3]],
            ),
            (
                World {
                    gone: gone(),
                    ..known()
                },
                200,
                [fine[0], fine[1], "[!]nodes: a is gone; b is gone", fine[3]],
            ),
            (
                World {
                    open: false,
                    missing: waiting(),
                    ..known()
                },
                503,
                [no_view, fine[1], fine[2], fine[3]],
            ),
            (
                World {
                    open: false,
                    missing: waiting(),
                    contact: Contact::Never,
                    refusal,
                    ..known()
                },
                503,
                [no_view, never, fine[2], old_key],
            ),
        ];
        for (world, code, mut wanted) in
            table.map(|(world, code, lines)| (world, code, lines.to_vec()))
        {
            wanted.push(if code == 200 {
                "readyz check passed"
            } else {
                "readyz check failed"
            });
            let wanted = wanted.into_iter().map(str::to_owned).collect();
            assert_eq!(lines(&world), (code, wanted));
        }
    }
}
