//! Searches the device tree for nodes by their `compatible` property, and determines the addresses of their registers,
//! as seen by the processor. It interprets properties, but does not determine the purpose of a device.

use std::iter::once;

use super::{Host, soc::cell};

/// The directory in which Linux shows the device tree.
const ROOT: &str = "/proc/device-tree";
/// The maximum depth of nested buses, which no board reaches. The limit ensures that the search of a tree with cycles
/// terminates.
const DEEPEST: usize = 8;
/// The maximum number of buses that are searched. A BeagleBone Black has more than 130, and a Raspberry Pi 4 has 6.
const MOST_BUSES: u32 = 1_000;

/// A node of the device tree.
///
/// # References
///
/// Devicetree Specification v0.4, 2.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Its path from the root of the tree, for example `/soc/timer@7e003000`.
    pub path: String,
    /// Its first block of registers; `None` if `reg` or the `ranges` of a bus above it cannot be interpreted.
    pub registers: Option<Region>,
    /// `clock-frequency` in hertz.
    pub clock_frequency_hz: Option<u32>,
}

/// A range of addresses, as seen by the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first address.
    pub address: u64,
    /// The length, in bytes.
    pub length: u64,
}

/// The sizes of the addresses and lengths below a bus, each as a number of 32-bit cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cells {
    address: usize,
    size: usize,
}

/// A bus on the path from a device to the root: its cell counts, and the address ranges of its children. The root has
/// no `ranges`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bus {
    path: String,
    cells: Cells,
    ranges: Option<Vec<u8>>,
}

/// The properties of a bus that determine whether and where its children can be read.
const OF_A_BUS: [&str; 4] = ["#address-cells", "#size-cells", "ranges", "status"];
/// The properties that are read from a node.
const OF_A_NODE: [&str; 5] = ["compatible", "reg", "clock-frequency", "clocks", "status"];
/// The properties that are read from a clock.
const OF_A_CLOCK: [&str; 3] = ["compatible", "phandle", "clock-frequency"];
const FIXED_CLOCK: &str = "fixed-clock";

impl Host {
    /// Returns the first node, in the order of names, that has this `compatible` name and is accessible to the
    /// processor.
    #[must_use]
    pub fn device_node(&self, compatible: &str) -> Option<DeviceNode> {
        let (path, buses) = find(self, compatible)?;
        Some(self.node(path, &buses))
    }

    /// Returns all enabled nodes that `pick` picks by their `compatible` property, and what it returned. The nodes of a
    /// bus come before those of the buses below it.
    pub(super) fn device_nodes<T>(&self, mut pick: impl FnMut(&[u8]) -> Option<T>) -> Vec<(T, DeviceNode)> {
        let mut found = Vec::new();
        let Some(root) = bus(self, String::new()) else { return found };
        search(self, &[root], &mut 0, &mut |path, compatible, buses| {
            let is_enabled = || once(path).chain(buses.iter().map(|bus| bus.path.as_str())).all(|at| enabled(self, at));
            if let Some(picked) = pick(compatible).filter(|_| is_enabled()) {
                found.push((picked, self.node(path.to_owned(), buses)));
            }
            false
        });
        found
    }

    fn node(&self, path: String, buses: &[Bus]) -> DeviceNode {
        let property = |name: &str| self.read(&format!("{ROOT}{path}/{name}")).ok();
        let registers = property("reg").as_deref().and_then(|reg| locate(reg, buses));
        DeviceNode { registers, clock_frequency_hz: property("clock-frequency").as_deref().and_then(cell), path }
    }

    /// Returns the frequency of the first clock of a node in hertz, if that clock is a `fixed-clock` in the root or in
    /// /clocks. The rates of all other clocks depend on registers.
    ///
    /// # References
    ///
    /// Linux, Documentation/devicetree/bindings/clock/fixed-clock.yaml.
    pub(super) fn fixed_clock_hz(&self, node: &DeviceNode) -> Option<u32> {
        let clock = self.fixed_clock(&node.path)?;
        self.read(&format!("{clock}/clock-frequency")).ok().as_deref().and_then(cell)
    }

    fn fixed_clock(&self, path: &str) -> Option<String> {
        let clocks = self.read(&format!("{ROOT}{path}/clocks")).ok()?;
        let wanted = clocks.first_chunk::<4>()?;
        let places = [ROOT.to_owned(), format!("{ROOT}/clocks")];
        let mut clocks =
            places.iter().flat_map(|place| self.list(place).into_iter().map(move |name| format!("{place}/{name}")));
        clocks.find(|clock| {
            let has = |name: &str, holds: &dyn Fn(&[u8]) -> bool| {
                self.read(&format!("{clock}/{name}")).is_ok_and(|property| holds(&property))
            };
            has("phandle", &|phandle| phandle == wanted)
                && has("compatible", &|names| is_compatible(names, FIXED_CLOCK))
        })
    }

    /// Returns the paths of the files that [`device_node`](Self::device_node) reads from the node and from the buses
    /// above it.
    pub(in crate::linux::host) fn device_node_files(&self, compatible: &str) -> Vec<String> {
        find(self, compatible).map_or_else(Vec::new, |(path, _)| self.files_of_node(&path))
    }

    /// Returns the paths of the files that are read from the node at `path`, from the buses above it, and from its
    /// clock.
    pub(super) fn files_of_node(&self, path: &str) -> Vec<String> {
        let buses = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
        let of_buses = buses.flat_map(|bus| OF_A_BUS.map(|name| format!("{ROOT}{bus}/{name}")));
        let of_clock =
            self.fixed_clock(path).into_iter().flat_map(|clock| OF_A_CLOCK.map(|name| format!("{clock}/{name}")));
        of_buses.chain(OF_A_NODE.map(|name| format!("{ROOT}{path}/{name}"))).chain(of_clock).collect()
    }
}

/// Returns the path of the node, and the buses from its parent up to the root.
fn find(host: &Host, compatible: &str) -> Option<(String, Vec<Bus>)> {
    let root = bus(host, String::new())?;
    let mut found = None;
    search(host, &[root], &mut 0, &mut |path, names, buses| {
        let is_it = is_compatible(names, compatible);
        if is_it {
            found = Some((path.to_owned(), buses.to_vec()));
        }
        is_it
    });
    found
}

/// A visitor of nodes. Its arguments are the path of the node, its `compatible` property, and the buses above it. It
/// returns whether the search ends.
type Visit<'a> = &'a mut dyn FnMut(&str, &[u8], &[Bus]) -> bool;

/// Visits the children of `buses[0]`, and then the buses among these children. A bus without `ranges` is skipped
/// because the processor cannot access the devices below it. Returns whether a visit ended the search.
fn search(host: &Host, buses: &[Bus], entered: &mut u32, visit: Visit<'_>) -> bool {
    *entered += 1;
    let parent = &buses[0].path;
    let children: Vec<String> =
        host.list(&format!("{ROOT}{parent}")).into_iter().map(|name| format!("{parent}/{name}")).collect();
    for path in &children {
        let names = host.read(&format!("{ROOT}{path}/compatible"));
        if names.is_ok_and(|names| visit(path, &names, buses)) {
            return true;
        }
    }
    if buses.len() > DEEPEST || *entered > MOST_BUSES {
        return false;
    }
    children.into_iter().any(|path| {
        let Some(bus) = bus(host, path).filter(|bus| bus.ranges.is_some()) else { return false };
        let below: Vec<Bus> = once(bus).chain(buses.iter().cloned()).collect();
        search(host, &below, entered, visit)
    })
}

/// Returns whether a node is in use. Devicetree Specification v0.4, 2.3.4, `status`; Linux, drivers/of/base.c.
fn enabled(host: &Host, path: &str) -> bool {
    host.read(&format!("{ROOT}{path}/status")).map_or(true, |status| matches!(&status[..], b"okay\0" | b"ok\0"))
}

/// Returns the properties of a bus; `None` if its cell counts cannot be interpreted.
fn bus(host: &Host, path: String) -> Option<Bus> {
    // Devicetree Specification v0.4, 2.3.5: by default, an address has two cells and a size has one.
    let cells = |name: &str, unsaid: usize| match host.read(&format!("{ROOT}{path}/{name}")) {
        Ok(property) => cell(&property).and_then(|cells| usize::try_from(cells).ok()),
        Err(_) => Some(unsaid),
    };
    let cells = Cells { address: cells("#address-cells", 2)?, size: cells("#size-cells", 1)? };
    let ranges = host.read(&format!("{ROOT}{path}/ranges")).ok();
    Some(Bus { path, cells, ranges })
}

/// Returns whether a `compatible` property, a list of zero-terminated names, contains `wanted`.
pub(super) fn is_compatible(names: &[u8], wanted: &str) -> bool {
    names.split(|&byte| byte == 0).any(|name| name == wanted.as_bytes())
}

/// Returns the first region in `reg`, as seen by the processor. `buses` contains the buses from the node's parent to
/// the root.
fn locate(reg: &[u8], buses: &[Bus]) -> Option<Region> {
    let cells = buses.first()?.cells;
    let (address, rest) = number(reg, cells.address)?;
    let (length, _) = number(rest, cells.size)?;
    let mut region = Region { address, length };
    for step in buses.windows(2) {
        region.address = translate(region, &step[0], step[1].cells)?;
    }
    region.address.checked_add(region.length).map(|_| region)
}

/// Returns the address of a region below `bus` in the address space of the bus's parent, whose cell counts are
/// `parent`.
///
/// # References
///
/// Devicetree Specification v0.4, 2.3.8, `ranges`: triplets of child address, parent address and length. The property
/// is empty if child and parent addresses are the same.
fn translate(region: Region, bus: &Bus, parent: Cells) -> Option<u64> {
    let ranges = bus.ranges.as_deref()?;
    if ranges.is_empty() {
        return Some(region.address);
    }
    let mut rest = ranges;
    while !rest.is_empty() {
        let (child, after_child) = number(rest, bus.cells.address)?;
        let (above, after_above) = number(after_child, parent.address)?;
        let (length, after_length) = number(after_above, bus.cells.size)?;
        rest = after_length;
        let inside = region.address.checked_sub(child);
        let fits = |inside: &u64| inside.checked_add(region.length).is_some_and(|end| end <= length);
        if let Some(inside) = inside.filter(fits) {
            return above.checked_add(inside);
        }
    }
    None
}

/// Returns the number of one or two cells at the start of a property, and the rest of the property. Longer numbers,
/// such as PCI addresses with three cells, are not supported because no register that this crate uses has one.
fn number(property: &[u8], cells: usize) -> Option<(u64, &[u8])> {
    if !(1..=2).contains(&cells) {
        return None;
    }
    let (bytes, rest) = property.split_at_checked(4 * cells)?;
    Some((bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), rest))
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{Strategy, any, prop_assert, proptest},
    };

    use super::{Bus, Cells, Region, is_compatible, locate};

    fn cells(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn bus(address: usize, size: usize, ranges: Option<&[u32]>) -> Bus {
        Bus { path: String::new(), cells: Cells { address, size }, ranges: ranges.map(cells) }
    }

    const TIMER: [u32; 2] = [0x7e00_3000, 0x1000];

    #[test]
    fn the_timer_is_found_on_every_generation() {
        let at = |address| Some(Region { address, length: 0x1000 });
        let one_cell = |above| [bus(1, 1, Some(&[0x7e00_0000, above, 0x100_0000])), bus(1, 1, None)];
        assert_eq!(locate(&cells(&TIMER), &one_cell(0x2000_0000)), at(0x2000_3000));
        assert_eq!(locate(&cells(&TIMER), &one_cell(0x3f00_0000)), at(0x3f00_3000));
        let bcm2711 = [bus(1, 1, Some(&[0x7e00_0000, 0, 0xfe00_0000, 0x180_0000])), bus(2, 1, None)];
        assert_eq!(locate(&cells(&TIMER), &bcm2711), at(0xfe00_3000));
        // Above 4 GiB, and through the second of two ranges.
        let ranges = [0x4000_0000, 0x10, 0, 0x100_0000, 0x7c00_0000, 0x10, 0x7c00_0000, 0x400_0000];
        let bcm2712 = [bus(1, 1, Some(&ranges)), bus(2, 2, None)];
        assert_eq!(locate(&cells(&[0x7c00_3000, 0x1000]), &bcm2712), at(0x10_7c00_3000));
        // Later trees of the same machine have one range for all.
        let bcm2712 = [bus(1, 1, Some(&[0, 0x10, 0, 0x8000_0000])), bus(2, 2, None)];
        assert_eq!(locate(&cells(&[0x7c00_3000, 0x1000]), &bcm2712), at(0x10_7c00_3000));
    }

    #[test]
    fn every_bus_on_the_path_translates_the_address() {
        let buses = [
            bus(1, 1, Some(&[0, 0x100, 0x100])),
            bus(1, 1, Some(&[])),
            bus(1, 1, Some(&[0, 0x8000, 0x1000])),
            bus(1, 1, None),
        ];
        assert_eq!(locate(&cells(&[0x10, 4]), &buses), Some(Region { address: 0x8110, length: 4 }));
    }

    #[test]
    fn an_address_outside_of_every_range_is_unreachable() {
        let reached = |reg: &[u32], ranges| locate(&cells(reg), &[bus(1, 1, ranges), bus(1, 1, None)]);
        assert_eq!(reached(&TIMER, None), None, "a bus without ranges leads nowhere");
        assert_eq!(reached(&TIMER, Some(&[0x7f00_0000, 0, 0x1000])), None, "before the range");
        assert_eq!(reached(&TIMER, Some(&[0x7e00_0000, 0, 0x3000])), None, "behind the range");
        assert_eq!(reached(&TIMER, Some(&[0x7e00_0000, 0, 0x3ff0])), None, "half in the range");
        assert_eq!(locate(&cells(&TIMER), &[bus(3, 1, Some(&[])), bus(1, 1, None)]), None, "three cells");
    }

    #[test]
    fn a_node_matches_any_of_its_full_names() {
        assert!(is_compatible(b"brcm,bcm2711-x\0brcm,bcm2835-system-timer\0", "brcm,bcm2835-system-timer"));
        assert!(!is_compatible(b"brcm,bcm2835-system-timer-too\0", "brcm,bcm2835-system-timer"));
        assert!(!is_compatible(b"brcm,bcm2835-system-t", "brcm,bcm2835-system-timer"));
    }

    fn any_bus() -> impl Strategy<Value = Bus> {
        let ranges = proptest::option::of(vec(any::<u8>(), 0..64));
        (0..5_usize, 0..5_usize, ranges).prop_map(|(address, size, ranges)| Bus {
            path: String::new(),
            cells: Cells { address, size },
            ranges,
        })
    }

    proptest! {
        #[test]
        fn any_tree_is_traversed_without_a_panic(reg in vec(any::<u8>(), 0..32), buses in vec(any_bus(), 0..6)) {
            if let Some(region) = locate(&reg, &buses) {
                prop_assert!(region.address.checked_add(region.length).is_some());
            }
        }

        #[test]
        fn a_truncated_property_never_yields_another_address(cut_reg in 0..8_usize, cut_ranges in 1..16_usize) {
            let whole = [0x7e00_0000, 0, 0xfe00_0000, 0x180_0000];
            let mut cut = bus(1, 1, Some(&whole));
            cut.ranges.as_mut().expect("it has ranges").truncate(cut_ranges);
            let root = bus(2, 1, None);
            prop_assert!(locate(&cells(&TIMER), &[cut, root.clone()]).is_none());
            prop_assert!(locate(&cells(&TIMER)[..cut_reg], &[bus(1, 1, Some(&whole)), root]).is_none());
        }
    }
}
