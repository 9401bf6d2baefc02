//! Kafka as the tests need it: a broker, names of one's own on it, writing, reading, and a second opinion.

mod access;
mod broker;
mod member;
mod nodes;
mod read;
mod secured;
mod space;
mod tools;
mod write;

pub use access::Access;
pub use broker::{Broker, shared, skip};
pub use member::Member;
pub use read::{Reader, Row};
pub use secured::{PASSWORD, Secured, USER};
pub use space::Space;
pub use tools::KnownProducer;
pub use write::{Outcome, Pen, Record};

use std::time::Duration;

/// How long a single request may take.
const REQUEST: Duration = Duration::from_secs(30);

/// Waits for one of the client's futures; they are driven by its own threads.
fn wait<T>(future: impl Future<Output = T>) -> T {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
