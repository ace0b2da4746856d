//! Limits the time that a future may take.

use std::{error, fmt, future::poll_fn, pin::pin, task::Poll};

/// The error of a future that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutError;

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline passed first")
    }
}

impl error::Error for TimeoutError {}

/// Waits for `future`, but no longer than for `sleep`, a sleep of [`Timers`](crate::Timers) or
/// [`AsyncSleeper`](crate::AsyncSleeper). The one that does not end first is dropped.
///
/// # Errors
///
/// Returns [`TimeoutError`] if `sleep` ends before `future`. If both have ended, the output of `future` counts.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "tokio")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::{future, time::Duration};
/// use hpt_async::{Timers, timeout};
///
/// let timers = Timers::new()?;
/// let never = timeout(timers.sleep(Duration::from_millis(1)), future::pending::<()>()).await;
/// assert!(never.is_err());
/// assert_eq!(timeout(timers.sleep(Duration::from_secs(3600)), async { 7 }).await, Ok(7));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "tokio"))]
/// # fn main() {}
/// ```
pub async fn timeout<F: Future>(sleep: impl Future, future: F) -> Result<F::Output, TimeoutError> {
    let (mut sleep, mut future) = (pin!(sleep), pin!(future));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|_| Err(TimeoutError)),
    })
    .await
}
