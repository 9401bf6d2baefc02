//! The HTTP exchanges of one instance: for whom they wait, and how much of their requests waits in the host.
//!
//! A guest may write a request's body before it calls `handle`, and nobody takes of it until then. So there is room for as
//! much as a call may hand over (`limits.output`), for all bodies of the instance together; bytes that were sent make room
//! again.
//!
//! A guest that waits for what only it can do itself waits for ever, however fast the service is: for room that only its own
//! call of `handle` can make, or for an answer to a request whose body it has not finished. That is told as what it is
//! ([`OwnWait`]), where a slow service would be waited for. While anything outside may still end the wait, it is none of
//! these.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::p2::body::HostOutgoingBody;
use wasmtime_wasi_http::{Error, WasiBody};

use crate::fault::size;
use crate::state::HostState;

/// What a piece of a body takes of the room at least: many small ones need as much for themselves.
const PIECE: usize = 128;

/// A wait that only the guest itself can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OwnWait {
    /// For room.
    #[error(
        "waited for itself: it wrote more than {} of a request's body (`limits.output`), of which nothing is sent before it calls `handle`",
        size(*.0)
    )]
    Room(u64),
    /// For an answer.
    #[error(
        "waited for itself: for the answer to a request whose body it has not finished (`outgoing-body.finish`)"
    )]
    Unfinished,
}

/// The client did not ask in vain.
const FED: u64 = u64::MAX;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Exchanges {
    limit: u64,
    room: Arc<Semaphore>,
    /// Waits for room that are under way.
    waiting: AtomicUsize,
    /// Pieces that were written, of all bodies. Held while one is written, and while a client looks for one.
    written: Mutex<u64>,
    /// Those of them that a client has taken and not sent.
    taken: AtomicUsize,
    begun: Mutex<Vec<Weak<Exchange>>>,
}

/// One request and its answer.
#[derive(Debug)]
struct Exchange {
    /// The request's body has not ended.
    sending: AtomicBool,
    /// What was written when the client asked for more of it and there was nothing; [`FED`] where there was.
    starved: AtomicU64,
    /// The answer has begun.
    answered: AtomicBool,
    /// The answer has ended, or nobody waits for it any more.
    over: AtomicBool,
}

impl Exchange {
    /// The client waits for more of the request's body. What was written since may be what it waits for.
    fn is_starved(&self, written: u64) -> bool {
        self.starved.load(Ordering::Acquire) == written
    }

    /// The answer cannot be expected before the guest goes on with the request.
    fn is_the_guests(&self, written: u64) -> bool {
        self.is_starved(written) && !self.answered.load(Ordering::Acquire) && !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl Exchanges {
    /// With room for so many bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let limit = limit.min(u64::from(u32::MAX - 1)) as u32;
        // One byte more, so that a body that takes all of the room does not end in a wait for more.
        let room = Arc::new(Semaphore::new(limit as usize + 1));
        Arc::new(Exchanges {
            limit: u64::from(limit),
            room,
            waiting: AtomicUsize::new(0),
            written: Mutex::new(0),
            taken: AtomicUsize::new(0),
            begun: Mutex::default(),
        })
    }

    /// Pieces of a body that may wait: as many as there are bytes, so that the bytes decide.
    pub(crate) fn pieces(&self) -> usize {
        self.limit as usize + 1
    }

    /// A request is sent. The answer's part is dropped when there will be none.
    pub(crate) fn begin(self: &Arc<Self>, request: Request<WasiBody>) -> (Request<WasiBody>, AnswerPart) {
        let exchange = Arc::new(Exchange {
            sending: AtomicBool::new(true),
            starved: AtomicU64::new(FED),
            answered: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|other| other.strong_count() > 0);
        begun.push(Arc::downgrade(&exchange));
        drop(begun);
        let (all, own) = (self.clone(), exchange.clone());
        let request = request.map(|body| Upload { body, all, exchange: own }.boxed_unsync());
        (request, AnswerPart(exchange))
    }

    fn any(&self, is_so: impl Fn(&Exchange) -> bool) -> bool {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.iter().filter_map(Weak::upgrade).any(|exchange| is_so(&exchange))
    }

    fn written(&self) -> MutexGuard<'_, u64> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client holds what makes room when it is sent.
    fn is_sending(&self) -> bool {
        self.taken.load(Ordering::Acquire) > 0
    }

    /// Whether what is being sent, or will be, may make room.
    fn makes_room(&self) -> bool {
        let written = *self.written();
        self.is_sending()
            || self.any(|exchange| exchange.sending.load(Ordering::Acquire) && !exchange.is_starved(written))
    }

    /// What the guest's wait under way is, where it is one that only the guest can end.
    pub(crate) fn own_wait(&self) -> Option<OwnWait> {
        let written = *self.written();
        if self.makes_room() || self.any(|exchange| !exchange.is_over() && !exchange.is_the_guests(written)) {
            return None;
        }
        if self.waiting.load(Ordering::Acquire) > 0 {
            return Some(OwnWait::Room(self.limit));
        }
        self.any(|exchange| exchange.is_the_guests(written)).then_some(OwnWait::Unfinished)
    }
}

/// A request's body on its way out.
struct Upload {
    body: WasiBody,
    all: Arc<Exchanges>,
    exchange: Arc<Exchange>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Upload { body, all, exchange } = &mut *self;
        let written = all.written();
        let polled = Pin::new(body).poll_frame(cx);
        exchange.starved.store(if polled.is_pending() { *written } else { FED }, Ordering::Release);
        drop(written);
        polled.map_ok(|frame| frame.map_data(|bytes| Bytes::from_owner(Taken::new(bytes, all))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.exchange.sending.store(false, Ordering::Release);
        self.exchange.starved.store(FED, Ordering::Release);
    }
}

/// A piece of a body that the client has taken, until it was sent.
struct Taken {
    bytes: Bytes,
    all: Arc<Exchanges>,
}

impl Taken {
    fn new(bytes: Bytes, all: &Arc<Exchanges>) -> Self {
        all.taken.fetch_add(1, Ordering::AcqRel);
        Taken { bytes, all: all.clone() }
    }
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Its room first, so that who finds nothing taken any more finds the room.
        self.bytes = Bytes::new();
        self.all.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The answer to a request, while it is waited for.
pub(crate) struct AnswerPart(Arc<Exchange>);

impl AnswerPart {
    /// It has begun.
    pub(crate) fn begun(self, answer: Response<WasiBody>) -> Response<WasiBody> {
        self.0.answered.store(true, Ordering::Release);
        answer.map(|body| Answer { body, part: self }.boxed_unsync())
    }
}

impl Drop for AnswerPart {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// An answer's body on its way in.
struct Answer {
    body: WasiBody,
    part: AnswerPart,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.part.0.over.store(true, Ordering::Release);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a guest writes a request's body to.
struct Writer {
    inner: DynOutputStream,
    exchanges: Arc<Exchanges>,
}

/// A piece of a body. It keeps its room until it was sent.
struct Piece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.inner.ready().await;
        if self.exchanges.room.available_permits() == 0 {
            self.exchanges.waiting.fetch_add(1, Ordering::AcqRel);
            let _waiting = Waiting(&self.exchanges.waiting);
            // Only looked for: what is written takes it. The room is never closed.
            let _ = self.exchanges.room.acquire().await;
        }
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let takes = bytes.len().max(PIECE).min(self.exchanges.room.available_permits()).max(bytes.len());
        let room = u32::try_from(takes).ok().and_then(|takes| {
            let room = self.exchanges.room.clone();
            room.try_acquire_many_owned(takes).ok()
        });
        let Some(room) = room else { return Err(StreamError::trap("write exceeded budget")) };
        let mut written = self.exchanges.written();
        self.inner.write(Bytes::from_owner(Piece { bytes, _room: room }))?;
        *written += 1;
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(self.inner.check_write()?.min(self.exchanges.room.available_permits()))
    }

    /// What waits here waits for nothing else.
    async fn write_ready(&mut self) -> StreamResult<usize> {
        loop {
            let permit = self.check_write()?;
            if permit > 0 {
                return Ok(permit);
            }
            if !self.exchanges.makes_room() && self.check_write()? == 0 {
                return Err(StreamError::Trap(OwnWait::Room(self.exchanges.limit).into()));
            }
            self.ready().await;
        }
    }
}

/// Puts our stream of a request's body in place of the one that the linker has.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.instance("wasi:http/types@0.2.12")?.func_wrap(
        "[method]outgoing-body.write",
        |mut store, (body,): (Resource<HostOutgoingBody>,)| {
            let state: &mut HostState = store.data_mut();
            let exchanges = state.exchanges().clone();
            let Some(inner) = state.table.get_mut(&body)?.take_output_stream() else {
                return Ok((Err(()),));
            };
            let writer: DynOutputStream = Box::new(Writer { inner, exchanges });
            Ok((Ok::<Resource<DynOutputStream>, ()>(state.table.push_child(writer, &body)?),))
        },
    )
}
