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

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::PreciseSleep<'_> {}
    impl Sealed for crate::Sleep {}
}

/// A sleep of this crate: [`Sleep`](crate::Sleep) or [`PreciseSleep`](crate::PreciseSleep).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a sleep of hpt-async",
    note = "the first argument of `timeout` is a sleep, such as `timers.sleep(duration)`; the second one is the future that it limits"
)]
pub trait AnySleep: Future + sealed::Sealed {}

impl<S: Future + sealed::Sealed> AnySleep for S {}

/// Waits for `future`, but no longer than for `sleep`, a sleep of [`Timers`](crate::Timers) or
/// [`AsyncSleeper`](crate::AsyncSleeper). The one that does not end first is dropped.
///
/// # Errors
///
/// Returns [`TimeoutError`] if `sleep` ends before `future`. If both have ended, the output of `future` counts.
///
/// The compiler refuses exchanged arguments:
///
/// ```compile_fail,E0277
/// # async fn exchanged(timers: hpt_async::Timers) {
/// let _ = hpt_async::timeout(async { 7 }, timers.sleep(std::time::Duration::from_secs(1))).await;
/// # }
/// ```
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
pub async fn timeout<F: Future>(sleep: impl AnySleep, future: F) -> Result<F::Output, TimeoutError> {
    let (mut sleep, mut future) = (pin!(sleep), pin!(future));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|_| Err(TimeoutError)),
    })
    .await
}
