//! Response bodies: frames that are made as they are asked for.

use bytes::Bytes;
use edgegrid_machinery::status::Status;
use futures::Stream;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response body; a watch lives in it and ends with it.
pub struct Body {
    frames: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    /// What is left, where that is known.
    left: Option<u64>,
}

impl Body {
    /// A body of one piece.
    pub fn full(bytes: Bytes) -> Self {
        let left = bytes.len() as u64;
        Self::sized(
            stream::iter([bytes].into_iter().filter(|bytes| !bytes.is_empty())),
            left,
        )
    }

    pub(crate) fn sized(frames: impl Stream<Item = Bytes> + Send + 'static, length: u64) -> Self {
        Self {
            frames: Box::pin(frames),
            left: Some(length),
        }
    }

    pub(crate) fn endless(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self {
            frames: Box::pin(frames),
            left: None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = std::task::ready!(self.frames.as_mut().poll_next(context));
        if let (Some(bytes), Some(left)) = (&next, &mut self.left) {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// A status as the answer to a request, with `Retry-After` where it says when to come back.
pub fn status_response(status: &Status) -> Response<Body> {
    let mut response = json(Body::full(status.to_json().to_string().into()));
    *response.status_mut() =
        StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let seconds = status
        .details()
        .map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(crate) fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
