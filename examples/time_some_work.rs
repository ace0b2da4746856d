//! Times a piece of work with the best counter of this machine, and reports the read overhead.
#![forbid(unsafe_code)]

use hpt_core::{Host, Stopwatch, source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::live();
    let source = source::choose(&host)?.source;
    let stopwatch = Stopwatch::calibrated(&host, source)?;

    let (sum, lap) = stopwatch.time(|| (0..100_000_u64).map(|n| n ^ (n << 7)).fold(0, u64::wrapping_add));
    println!("mixing 100,000 numbers to {sum:#x} took {lap}");
    println!("without the read overhead: {:?}", lap.without_own_cost());

    let ((), lap) = stopwatch.time(|| ());
    println!("an empty closure took {lap}");
    Ok(())
}
