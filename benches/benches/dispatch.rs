//! Measures the cost of reading a source through a generic, a reference, a box or `dyn`.
//! Includes the bare instruction and the competitors for comparison.

mod common;

use hpt_benches::{bare, ours::Ours, rivals};
use hpt_core::Host;

fn main() {
    let host = Host::live();
    let ours = common::or_say("hpt: the counter and its clock", Ours::open(&host));
    let mut contenders = common::or_say(bare::Counter::PLAIN, rivals::bare(&host)).unwrap_or_default();
    contenders.extend(ours.iter().flat_map(Ours::by_every_way));
    contenders.extend(rivals::rivals());
    common::time_all("dispatch", &contenders);
}
