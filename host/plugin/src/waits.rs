//! The blocking halves of `wasi:io`: poll and streams, with every wait bounded by what is left of the guest's call.
//!
//! Guest code looks at its time at ticks, which it sees only while it runs. A guest that waits in the host (a sleep is a
//! poll on a clock) would hold its worker for as long as it likes, so these take the place of wasmtime-wasi's own on the
//! linker of synchronous calls.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::io::poll as async_poll;
use wasmtime_wasi::p2::bindings::io::streams as async_streams;
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use crate::alarm::Alarm;
use crate::clock::CallClock;
use crate::http::Exchanges;
use crate::state::HostState;

/// The call's time ran out while it waited in the host.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the call's time ran out while it waited")]
pub(crate) struct WaitedTooLong;

/// The host stops, and ended the call: what it was called for stays undone.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the host stops, and ended the call")]
pub(crate) struct Stopped;

/// The resources of a store, with its call.
pub(crate) struct Waits<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) call: Waiting<'a>,
}

/// What bounds the waits of a call, and what they may be for.
pub(crate) struct Waiting<'a> {
    pub(crate) clock: &'a mut CallClock,
    pub(crate) exchanges: &'a Exchanges,
}

struct HasWaits;

impl HasData for HasWaits {
    type Data<'a> = Waits<'a>;
}

/// Puts the bounded halves in place of those that the linker has.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    poll::add_to_linker::<HostState, HasWaits>(linker, HostState::waits)?;
    streams::add_to_linker::<HostState, HasWaits>(linker, HostState::waits)
}

/// Waits for the future, as long as the clock allows.
fn bounded<T>(call: &mut Waiting<'_>, future: impl Future<Output = T>) -> wasmtime::Result<T> {
    let Waiting { clock, exchanges } = call;
    wasmtime_wasi::runtime::in_tokio(async {
        let mut future = pin!(future);
        let alarm = Alarm::new();
        loop {
            if let Poll::Ready(value) = alarm.poll(future.as_mut()) {
                return Ok(value);
            }
            match alarm.rings(clock.left(), |waiting| clock.is_cut(waiting)).await {
                Ok(waited) => clock.wait(waited),
                Err(ended) => return Err(whose(ended, exchanges)),
            }
        }
    })
}

/// The end of a wait: where the guest waited for itself, that is it.
pub(crate) fn whose(ended: wasmtime::Error, exchanges: &Exchanges) -> wasmtime::Error {
    match exchanges.own_wait() {
        Some(own) if ended.is::<WaitedTooLong>() => own.into(),
        _ => ended,
    }
}

fn bounded_stream<T>(
    call: &mut Waiting<'_>,
    future: impl Future<Output = StreamResult<T>>,
) -> StreamResult<T> {
    bounded(call, future).unwrap_or_else(|ended| Err(StreamError::Trap(ended)))
}

impl poll::Host for Waits<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        bounded(&mut self.call, async_poll::Host::poll(self.table, pollables))?
    }
}

impl poll::HostPollable for Waits<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        bounded(&mut self.call, async_poll::HostPollable::ready(self.table, pollable))?
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        bounded(&mut self.call, async_poll::HostPollable::block(self.table, pollable))?
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        async_poll::HostPollable::drop(self.table, pollable)
    }
}

impl streams::Host for Waits<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        Ok(async_streams::Host::convert_stream_error(self.table, error)?.into())
    }
}

impl streams::HostInputStream for Waits<'_> {
    fn read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        async_streams::HostInputStream::read(self.table, stream, len)
    }

    fn blocking_read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        bounded_stream(&mut self.call, async_streams::HostInputStream::blocking_read(self.table, stream, len))
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        async_streams::HostInputStream::skip(self.table, stream, len)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        bounded_stream(&mut self.call, async_streams::HostInputStream::blocking_skip(self.table, stream, len))
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        async_streams::HostInputStream::subscribe(self.table, stream)
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        bounded(&mut self.call, async_streams::HostInputStream::drop(self.table, stream))?
    }
}

impl streams::HostOutputStream for Waits<'_> {
    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        async_streams::HostOutputStream::check_write(self.table, stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        async_streams::HostOutputStream::write(self.table, stream, bytes)
    }

    fn blocking_write_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        bounded_stream(
            &mut self.call,
            async_streams::HostOutputStream::blocking_write_and_flush(self.table, stream, bytes),
        )
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        async_streams::HostOutputStream::flush(self.table, stream)
    }

    fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        bounded_stream(&mut self.call, async_streams::HostOutputStream::blocking_flush(self.table, stream))
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        async_streams::HostOutputStream::subscribe(self.table, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        async_streams::HostOutputStream::write_zeroes(self.table, stream, len)
    }

    fn blocking_write_zeroes_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        len: u64,
    ) -> StreamResult<()> {
        let work = async_streams::HostOutputStream::blocking_write_zeroes_and_flush(self.table, stream, len);
        bounded_stream(&mut self.call, work)
    }

    fn splice(
        &mut self,
        to: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        async_streams::HostOutputStream::splice(self.table, to, from, len)
    }

    fn blocking_splice(
        &mut self,
        to: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        bounded_stream(
            &mut self.call,
            async_streams::HostOutputStream::blocking_splice(self.table, to, from, len),
        )
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        bounded(&mut self.call, async_streams::HostOutputStream::drop(self.table, stream))?
    }
}
