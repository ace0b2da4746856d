//! Histograms of every span, in shards that threads rarely share. Knows neither spans in progress nor clocks.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    num::NonZeroUsize,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tracing_core::Metadata;

use hpt_core::stats::Durations;

/// The times of one span in the source code.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) metadata: &'static Metadata<'static>,
    /// From the creation of each span to its end.
    pub(crate) total: Durations,
    /// The part of it in which the span was entered; `None` if it is not recorded.
    pub(crate) busy: Option<Durations>,
}

/// The address of the metadata identifies a span in the source code.
type Shard = HashMap<usize, Recorded, BuildHasherDefault<Addresses>>;

/// Histograms of all spans. Each thread has a shard of its own, until there are more threads than CPUs.
#[derive(Debug)]
pub(crate) struct Recorder {
    shards: Box<[Padded]>,
    digits: u8,
    with_busy: bool,
}

/// A shard in its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Padded {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        // A thread that panicked while it recorded has left at most one incomplete duration.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    pub(crate) fn new(digits: u8, with_busy: bool) -> Self {
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { shards: (0..cpus).map(|_| Padded::default()).collect(), digits, with_busy }
    }

    pub(crate) fn digits(&self) -> u8 {
        self.digits
    }

    pub(crate) fn with_busy(&self) -> bool {
        self.with_busy
    }

    #[inline]
    pub(crate) fn record(&self, metadata: &'static Metadata<'static>, total_ns: u64, busy_ns: u64) {
        let mut shard = self.shards[own_number() % self.shards.len()].lock();
        let recorded = shard.entry(ptr::from_ref(metadata).addr()).or_insert_with(|| Recorded {
            metadata,
            total: Durations::with_digits(self.digits),
            busy: self.with_busy.then(|| Durations::with_digits(self.digits)),
        });
        recorded.total.record_nanos(total_ns);
        if let Some(busy) = &mut recorded.busy {
            busy.record_nanos(busy_ns);
        }
    }

    /// Returns the times of every span, in any order; a span can be returned several times. Other threads wait for a
    /// shard only while it is copied.
    pub(crate) fn copy(&self) -> Vec<Recorded> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Like [`copy`](Self::copy), and begins again with empty histograms.
    pub(crate) fn take(&self) -> Vec<Recorded> {
        self.shards.iter().flat_map(|shard| std::mem::take(&mut *shard.lock()).into_values()).collect()
    }
}

static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
}

#[inline]
fn own_number() -> usize {
    // Spans may end while the thread's variables are destroyed.
    NUMBER.try_with(|&number| number).unwrap_or(0)
}

/// Hashes addresses: a multiplication moves their varying bits into the bits that select the bucket.
#[derive(Debug, Default)]
struct Addresses(u64);

impl Hasher for Addresses {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(usize::from(byte)));
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        // 2^64 divided by the golden ratio. Knuth, The Art of Computer Programming, volume 3, section 6.4.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
