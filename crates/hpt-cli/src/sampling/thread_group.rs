//! Threads that start together: all of them exist before the first one measures.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
    thread::{Builder, Scope, ScopedJoinHandle},
};

use crate::exit::Failure;

/// Starts a thread for each of `works`. No thread begins its work before all threads exist. If a thread
/// cannot be created, no work is done.
pub(crate) fn begin_together<'scope, 'env, W, T>(
    scope: &'scope Scope<'scope, 'env>,
    works: impl IntoIterator<Item = W>,
) -> Result<Vec<Member<'scope, T>>, Failure>
where
    W: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    let may_begin = Arc::new(RwLock::new(false));
    let mut decision = may_begin.write().unwrap_or_else(PoisonError::into_inner);
    let start = |work: W| {
        let may_begin = Arc::clone(&may_begin);
        let may_begin = move || *may_begin.read().unwrap_or_else(PoisonError::into_inner);
        Builder::new().spawn_scoped(scope, move || may_begin().then(work)).map(Member)
    };
    let members: io::Result<Vec<_>> = works.into_iter().map(start).collect();
    *decision = members.is_ok();
    drop(decision);
    members.map_err(Failure::NoThread)
}

#[derive(Debug)]
pub(crate) struct Member<'scope, T>(ScopedJoinHandle<'scope, Option<T>>);

impl<T> Member<'_, T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Blocks until the thread ends, and returns its result.
    pub(crate) fn join(self) -> T {
        let done = self.0.join().expect("a thread that measures does not panic");
        done.expect("all threads of a returned group were started")
    }
}
