//! Records how long the spans of a program take, and prints the result as a table, as JSON and as OpenMetrics.
#![forbid(unsafe_code)]

use std::{thread, time::Duration};

use hpt_tracing::{SpanTimes, time::Uptime};
use tracing::{info, info_span};
use tracing_subscriber::{fmt, layer::SubscriberExt, registry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times = SpanTimes::new();
    let lines = fmt::layer().with_timer(Uptime::new());
    tracing::subscriber::set_global_default(registry().with(times.layer()).with(lines))?;

    for number in 1..=3 {
        let request = info_span!("request", number);
        // The request waits: this time is part of its total time, but not of its busy time.
        thread::sleep(Duration::from_millis(1));
        request.in_scope(|| {
            info_span!("parse").in_scope(|| thread::sleep(Duration::from_micros(200)));
            info!("parsed");
        });
    }

    let snapshot = times.snapshot();
    println!("\n{snapshot}");
    println!("{}\n", serde_json::to_string(&snapshot)?);
    print!("{}", snapshot.to_openmetrics());
    Ok(())
}
