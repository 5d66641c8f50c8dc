//! From an HTTP request to the verb that answers it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use edgegrid_listwatch::{Body, Form, Read, status_response};
use edgegrid_machinery::status::Status;
use edgegrid_machinery::table::table;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Response};
use serde_json::json;

use crate::answer::{Answer, json_response};
use crate::options::{Options, Sender};
use crate::path::{self, Target};
use crate::request::Request;
use crate::served::ServedResource;
use crate::state::ServerState;
use crate::{body, create, delete, delete_collection, patch, patch_type, pods, scale, update};

/// The whole API under one fallback: what a path means is not known before the request is there.
pub(crate) fn router(server: Arc<ServerState>) -> Router {
    Router::new().fallback(handle).with_state(server)
}

async fn handle(
    State(server): State<Arc<ServerState>>,
    request: axum::extract::Request,
) -> axum::response::Response {
    let response = answer(&server, request)
        .await
        .unwrap_or_else(|status| status_response(&status));
    response.map(axum::body::Body::new).into_response()
}

async fn answer(
    state: &ServerState,
    request: axum::extract::Request,
) -> Result<Response<Body>, Status> {
    let path = request.uri().path().to_owned();
    if let Some(answer) = plain(&path) {
        return Ok(answer);
    }
    let target = path::parse(&path).ok_or_else(Status::unknown_path)?;
    let served = state
        .registry
        .resource(&target.group, &target.version, &target.plural)
        .ok_or_else(Status::unknown_path)?;
    check_scope(&target, &served)?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    if request.method() == Method::GET
        && matches!(target.subresource.as_deref(), None | Some("status"))
    {
        return read(state, &target, &served, &query, request.headers()).await;
    }
    let (parts, bytes) = request.into_parts();
    let media_type = body::media_type(&parts.headers);
    if parts.method == Method::PATCH {
        patch_type::check(&served, &media_type)?;
    }
    let form = Form::negotiate(header(&parts.headers, &ACCEPT))?;
    let body = body::bytes(bytes).await?;
    let sender = Sender {
        method: &parts.method,
        user_agent: header(&parts.headers, &USER_AGENT),
        applies: parts.method == Method::PATCH && patch_type::is_apply(&media_type),
    };
    // A delete says what it wants in its body or in its query, never in both.
    let is_in_body = parts.method == Method::DELETE && !body.is_empty();
    let request = Request {
        server: state,
        served: served.clone(),
        options: Options::parse(if is_in_body { "" } else { &query }, sender)?,
        media_type,
        body,
        target,
    };
    let answer = dispatch(request, &parts.method, &query).await?;
    answer.into_response(&served, form)
}

async fn dispatch(
    mut request: Request<'_>,
    method: &Method,
    query: &str,
) -> Result<Answer, Status> {
    let target = &request.target;
    let sub = target.subresource.clone();
    match (method.as_str(), target.name.is_some(), sub.as_deref()) {
        ("POST", false, None) => create::create(&request),
        ("PUT", true, None | Some("status" | "finalize")) => update::update(&request),
        ("PATCH", true, None | Some("status")) => patch::patch(&request),
        ("DELETE", true, None) => delete::delete(&mut request),
        ("DELETE", false, None) if request.served.deletes_collections() => {
            delete_collection::delete_collection(request, query).await
        }
        ("GET", true, Some("scale")) => scale::show(&request),
        ("PUT", true, Some("scale")) => scale::write(&request, false),
        ("PATCH", true, Some("scale")) => scale::write(&request, true),
        ("POST", true, Some("binding")) => pods::bind(&request),
        ("POST", true, Some("eviction")) => pods::evict(&mut request),
        _ => Err(Status::method_not_allowed()),
    }
}

async fn read(
    state: &ServerState,
    target: &Target,
    served: &Arc<ServedResource>,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let read = Read {
        resource: &served.read,
        namespace: target.namespace.as_deref(),
        name: target.name.as_deref(),
        query,
        accept: header(headers, &ACCEPT),
    };
    state.reader.try_read(read).await
}

/// Refuses paths that no resource of this kind has.
fn check_scope(target: &Target, served: &ServedResource) -> Result<(), Status> {
    let in_namespace = target.namespace.is_some();
    let needs_namespace = served.read.namespaced && target.name.is_some();
    let has_subresource = |name: &String| served.subresources.contains(name);
    let is_known = target.subresource.as_ref().is_none_or(has_subresource);
    let is_misplaced =
        (in_namespace && !served.read.namespaced) || (needs_namespace && !in_namespace);
    match (is_misplaced, is_known, &target.name) {
        (false, true, _) => Ok(()),
        (false, false, Some(name)) if served.is_custom() => {
            Err(Status::not_found(&served.group_resource(), name))
        }
        _ => Err(Status::unknown_path()),
    }
}

/// Paths that are no resources: health and version.
fn plain(path: &str) -> Option<Response<Body>> {
    let content = match path {
        "/healthz" | "/livez" | "/readyz" => return Some(Response::new(Body::full("ok".into()))),
        "/version" => {
            let version = table().version();
            let mut parts = version.split('.');
            json!({
                "major": parts.next(),
                "minor": parts.next(),
                "gitVersion": format!("v{version}+edgegrid"),
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "rustc",
                "platform": "linux/amd64",
            })
        }
        _ => return None,
    };
    Some(json_response(content.to_string().into_bytes()))
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
