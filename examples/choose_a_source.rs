//! Chooses the best time source, explains the choice, and opens another source by name.
#![forbid(unsafe_code)]

use hpt_core::{Host, TimeSource, source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::live();
    let chosen = source::choose(&host)?;
    println!("{}", chosen.reason());
    for verdict in chosen.selection.verdicts() {
        println!("  {:<17} {}", verdict.id, verdict.fitness);
    }

    let by_name = source::open(&host, "boottime")?;
    let info = by_name.info();
    println!("{} reads {} ticks, via {}", info.id, by_name.ticks(), info.read_path.name());

    match source::open(&host, "bootime") {
        Ok(_) => println!("unexpectedly, there is a source with that name"),
        Err(reason) => println!("{reason}; {}", reason.remedy().unwrap_or_default()),
    }
    Ok(())
}
