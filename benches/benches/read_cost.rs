//! Measures the cost of one read of the time, back to back and fenced, with every way to read it.
//! ratios.rs compares them within a round.

mod common;

use hpt_benches::{bare, ours::Ours, rivals};
use hpt_core::Host;

fn main() {
    let host = Host::live();
    let ours = common::or_say("hpt: the counter and its clock", Ours::open(&host));
    let mut contenders = common::or_say(bare::Counter::PLAIN, rivals::bare(&host)).unwrap_or_default();
    contenders.extend(ours.iter().flat_map(Ours::contenders));
    contenders.extend(rivals::rivals());
    contenders.push(rivals::coarse());
    common::time_all("read cost", &contenders);
}
