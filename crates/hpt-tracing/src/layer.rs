//! The layer: takes the time of each span at its creation, at each entry and exit, and at its end. Stores the state of
//! a span in the registry, and its times in the recorder.

use std::sync::Arc;

use hpt_core::Instant;
use tracing_core::{
    Subscriber,
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use crate::{recorder::Recorder, snapshot::Snapshot};

/// The significant digits of quantiles.
const DIGITS: u8 = 2;

/// Records how long spans take, in one histogram for each span in the source code.
///
/// Two times are recorded when a span ends: the *total* time since its creation, and the *busy* time in which it was
/// entered. They differ for spans of asynchronous tasks, which wait between two polls. A span that is entered several
/// times at once counts as busy from the first entry to the last exit. Spans that have not ended are not included.
///
/// The time is read with [`hpt_core::Instant`], so a span can end on another thread than the one that created it.
///
/// Clones share the histograms. Any thread can read them at any time.
///
/// # Memory
///
/// The number of histograms depends on the source code, not on the run time: one or two for each span in the source
/// code and each CPU. A histogram of durations up to a second takes about 25 KB with two significant digits.
///
/// # Examples
///
/// ```
/// use hpt_tracing::SpanTimes;
/// use tracing_subscriber::{layer::SubscriberExt, registry};
///
/// let times = SpanTimes::new();
/// tracing::subscriber::with_default(registry().with(times.layer()), || {
///     tracing::info_span!("parse").in_scope(|| "3".parse::<u32>())
/// })?;
/// assert_eq!(times.snapshot().span("parse").map(|parse| parse.total.count()), Some(1));
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpanTimes {
    recorder: Arc<Recorder>,
}

impl Default for SpanTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl SpanTimes {
    /// Records total and busy times, with quantiles that are exact to 1 %.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    /// });
    /// print!("{}", times.snapshot());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with(DIGITS, true)
    }

    fn with(digits: u8, with_busy: bool) -> Self {
        Self { recorder: Arc::new(Recorder::new(digits, with_busy)) }
    }

    /// Records only total times. Entering and leaving a span then costs nothing. Call this before
    /// [`layer`](Self::layer): an earlier layer records elsewhere.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new().without_busy_times();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    /// });
    /// assert!(times.snapshot().span("work").is_some_and(|work| work.busy.is_none()));
    /// ```
    #[must_use]
    pub fn without_busy_times(self) -> Self {
        Self::with(self.recorder.digits(), false)
    }

    /// Records quantiles with 1 to 5 significant digits. Each further digit takes about ten times the memory. Call this
    /// before [`layer`](Self::layer): an earlier layer records elsewhere.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// // Quantiles that are exact to 0.1 %.
    /// let times = SpanTimes::new().with_significant_digits(3);
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    /// });
    /// println!("{:?}", times.snapshot().span("work").and_then(|work| work.total.quantile(0.5)));
    /// ```
    #[must_use]
    pub fn with_significant_digits(self, digits: u8) -> Self {
        Self::with(digits, self.recorder.with_busy())
    }

    /// Returns a layer that records into these histograms. Add it to one subscriber, once: of several such layers in
    /// one subscriber, only the first records.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry, util::SubscriberInitExt};
    ///
    /// let times = SpanTimes::new();
    /// // For all threads of the program.
    /// registry().with(times.layer()).init();
    /// tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    /// assert!(times.snapshot().span("work").is_some());
    /// ```
    #[must_use]
    pub fn layer(&self) -> SpanTimesLayer {
        SpanTimesLayer { recorder: Arc::clone(&self.recorder) }
    }

    /// Returns the times of all spans that have ended so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     let open = tracing::info_span!("request");
    ///     // A span that has not ended is not included.
    ///     assert!(times.snapshot().spans.is_empty());
    ///     drop(open);
    ///     assert_eq!(times.snapshot().spans.len(), 1);
    /// });
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.recorder.copy())
    }

    /// Returns the times of all spans that have ended since the last call, and begins again.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     for _ in 0..2 {
    ///         tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    ///         let of_this_round = times.take();
    ///         assert_eq!(of_this_round.span("work").map(|work| work.total.count()), Some(1));
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn take(&self) -> Snapshot {
        Snapshot::of(self.recorder.take())
    }
}

/// The layer of [`SpanTimes`].
#[derive(Debug)]
pub struct SpanTimesLayer {
    recorder: Arc<Recorder>,
}

/// A span in progress, which the registry stores.
#[derive(Debug)]
struct Progress {
    /// The address of the recorder, which tells several layers in one subscriber apart.
    recorder: usize,
    created: Instant,
    /// The number of entries without an exit.
    entries: u32,
    entered: Instant,
    busy_ns: u64,
}

impl SpanTimesLayer {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.recorder).addr()
    }

    /// Calls `change` with the state of a span, if this layer has stored it.
    #[inline]
    fn with_progress<S>(&self, id: &Id, context: &Context<'_, S>, change: impl FnOnce(&mut Progress))
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let progress = extensions.get_mut::<Progress>();
        if let Some(progress) = progress.filter(|progress| progress.recorder == self.address()) {
            change(progress);
        }
    }
}

impl<S> Layer<S> for SpanTimesLayer
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, _attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<Progress>().is_none() {
            // As late as possible, so that the span includes little of the layer.
            let created = Instant::now();
            extensions.insert(Progress { recorder: self.address(), created, entries: 0, entered: created, busy_ns: 0 });
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !self.recorder.with_busy() {
            return;
        }
        self.with_progress(id, &context, |progress| {
            progress.entries += 1;
            if progress.entries == 1 {
                progress.entered = Instant::now();
            }
        });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if !self.recorder.with_busy() {
            return;
        }
        let now = Instant::now();
        self.with_progress(id, &context, |progress| {
            progress.entries = progress.entries.saturating_sub(1);
            if progress.entries == 0 {
                progress.busy_ns = progress.busy_ns.saturating_add(now.nanos_since(progress.entered));
            }
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let now = Instant::now();
        let Some(span) = context.span(&id) else { return };
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<Progress>().is_none_or(|progress| progress.recorder != self.address()) {
            return;
        }
        // Without its state, another layer of the same recorder does not record the span again.
        let Some(progress) = extensions.remove::<Progress>() else { return };
        drop(extensions);
        self.recorder.record(span.metadata(), now.nanos_since(progress.created), progress.busy_ns);
    }
}
