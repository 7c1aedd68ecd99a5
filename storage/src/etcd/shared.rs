//! One call at a time for all that wait.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::StorageError;

type Reply<T> = oneshot::Sender<Result<T, StorageError>>;

/// One call at a time, which all callers share. A caller that comes while a call is under way waits for the next one: the
/// one under way may have been answered from a state before the caller came.
#[derive(Debug)]
pub(super) struct Shared<T> {
    state: Arc<Mutex<State<T>>>,
}

#[derive(Debug)]
struct State<T> {
    running: bool,
    waiting: Vec<Reply<T>>,
}

impl<T: Clone + Send + 'static> Shared<T> {
    pub(super) fn new() -> Self {
        Self { state: Arc::new(Mutex::new(State { running: false, waiting: Vec::new() })) }
    }

    /// The result of a call that starts after this moment.
    ///
    /// # Cancel safety
    /// Dropping it has no effect on others.
    pub(super) async fn ask<F>(
        &self,
        runtime: &Handle,
        call: impl Fn() -> F + Send + 'static,
    ) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, StorageError>> + Send,
    {
        let (reply, answer) = oneshot::channel();
        let start = {
            let mut state = self.state.lock();
            state.waiting.push(reply);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            let state = Arc::clone(&self.state);
            runtime.spawn(async move {
                let _running = Running(&state);
                while let Some(waiting) = next(&state) {
                    let answer = call().await;
                    for reply in waiting {
                        // A caller that no longer waits needs no answer.
                        let _ = reply.send(answer.clone());
                    }
                }
            });
        }
        answer.await.unwrap_or_else(|_| Err(StorageError::closed()))
    }
}

/// Resets the state if a call panics, so that the callers that wait, and later ones, start a new call instead of waiting for
/// ever.
struct Running<'a, T>(&'a Mutex<State<T>>);

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.running = false;
            state.waiting.clear();
        }
    }
}

fn next<T>(state: &Mutex<State<T>>) -> Option<Vec<Reply<T>>> {
    let mut state = state.lock();
    let waiting = std::mem::take(&mut state.waiting);
    state.running = !waiting.is_empty();
    state.running.then_some(waiting)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn who_comes_during_a_call_waits_for_the_next() {
        let (shared, calls) = (Shared::new(), Arc::new(AtomicU32::new(0)));
        let gate = Arc::new(Semaphore::new(0));
        let runtime = Handle::current();
        let ask = || {
            let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
            let call = move || {
                let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
                async move {
                    let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
                    gate.acquire().await.unwrap().forget();
                    Ok(number)
                }
            };
            shared.ask(&runtime, call)
        };
        let mut first = Box::pin(ask());
        assert!(first.as_mut().now_or_never().is_none());
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let (mut second, mut third) = (Box::pin(ask()), Box::pin(ask()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        gate.add_permits(2);
        assert_eq!((first.await, second.await, third.await), (Ok(1), Ok(2), Ok(2)));
    }

    #[tokio::test]
    async fn a_call_that_panics_is_not_waited_for() {
        let shared = Shared::new();
        let runtime = Handle::current();
        assert!(shared.ask(&runtime, || async { panic!("as a bug does") }).await.is_err());
        assert_eq!(shared.ask(&runtime, || async { Ok(1) }).await, Ok(1));
    }
}
