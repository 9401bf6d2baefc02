//! An answer's body whose pauses have an end.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::Error;

/// See the module's description.
pub(super) struct Timed {
    body: Incoming,
    limit: Duration,
    /// When the pause under way is over; none while none is.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    pub(super) fn new(body: Incoming, limit: Duration) -> Self {
        Timed { body, limit, pause: None }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.pause = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        let limit = this.limit;
        let pause =
            this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        pause.as_mut().poll(cx).map(|()| Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
