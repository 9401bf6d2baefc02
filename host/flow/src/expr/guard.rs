//! The one place where a panic is caught. Everywhere else in the process a panic hook ends the process; the hook asks
//! [`in_guarded_evaluation`] and stays out of the way here.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside the evaluation or compiling of an expression, where a panic is caught and becomes an
/// error. The process's panic hook asks; everywhere else a panic ends the process.
#[must_use]
pub fn in_guarded_evaluation() -> bool {
    GUARDED.get()
}

/// Restores the mark however the work ends.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        GUARDED.set(self.0);
    }
}

/// Runs work whose panic is an error: its text. What the work had borrowed mutably may be half changed then.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let mark = Mark(GUARDED.replace(true));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    drop(mark);
    outcome.map_err(|panic| describe(&*panic))
}

fn describe(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{guarded, in_guarded_evaluation};

    #[test]
    fn a_panic_is_caught_and_the_mark_is_restored() {
        assert!(!in_guarded_evaluation());
        assert_eq!(guarded(in_guarded_evaluation), Ok(true));
        assert_eq!(guarded(|| -> () { panic!("number {}", 3) }), Err("number 3".to_owned()));
        assert!(!in_guarded_evaluation());
        let nested = guarded(|| guarded(in_guarded_evaluation).map(|_| in_guarded_evaluation()));
        assert_eq!(nested, Ok(Ok(true)));
    }
}
