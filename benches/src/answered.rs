//! Requests that kube-apiserver has answered, as it counts them itself.

use anyhow::{Context, Result};
use http::Request;
use kube::Client;

/// How often one kind of request was answered in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// In upper case; an apply is `APPLY`.
    pub verb: String,
    /// The resource's plural, as in paths.
    pub resource: String,
    /// Empty if it was the resource itself.
    pub subresource: String,
    /// The HTTP status.
    pub code: String,
    /// Since the server's start.
    pub count: u64,
}

impl Answered {
    /// Verb and resource, as in `APPLY deployments/status`.
    pub fn kind(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.verb, self.resource, self.subresource)
    }
}

/// What was answered until now.
pub async fn until_now(client: &Client) -> Result<Vec<Answered>> {
    let request = Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await.context("read metrics")?;
    Ok(text.lines().filter_map(read).collect())
}

fn read(line: &str) -> Option<Answered> {
    let rest = line.strip_prefix("apiserver_request_total{")?;
    let (labels, count) = rest.rsplit_once("} ")?;
    let label = |name: &str| {
        let value = |pair: &str| {
            let value = pair.strip_prefix(name)?.strip_prefix("=\"")?;
            Some(value.trim_end_matches('"').to_owned())
        };
        labels.split(',').find_map(value)
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter"
    )]
    let count = count.parse::<f64>().ok()? as u64;
    Some(Answered {
        verb: label("verb")?,
        resource: label("resource")?,
        subresource: label("subresource").unwrap_or_default(),
        code: label("code")?,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_servers_metrics_is_read_label_by_label() {
        let line = r#"apiserver_request_total{code="409",component="apiserver",group="apps",resource="deployments",scope="resource",subresource="status",verb="APPLY",version="v1"} 1.2e+03"#;
        let read = read(line).unwrap();
        assert_eq!(read.kind(), "APPLY deployments/status");
        assert_eq!((read.code.as_str(), read.count), ("409", 1200));
        assert_eq!(super::read("apiserver_other{} 1"), None);
    }
}
