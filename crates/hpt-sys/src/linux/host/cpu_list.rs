//! Sets of CPUs in the kernel's notation: lists (`0-2,7`) and masks (`f,ffffffff`).

use std::{collections::BTreeSet, fmt};

/// The maximum number of CPUs that Linux supports on any architecture: arch/x86/Kconfig, NR_CPUS_RANGE_END.
const MOST_CPUS: usize = 8192;

/// A set of CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Parses a list in the kernel's notation: numbers and ranges separated by commas. Empty text and `(null)` yield an
    /// empty list. Returns `None` if the text is not a valid list.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut cpus = BTreeSet::new();
        let mut named = 0;
        // The kernel (lib/vsprintf.c) writes `(null)` if the mask of nohz_full was never allocated.
        if text.is_empty() || text == "(null)" {
            return Some(Self(cpus));
        }
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= MOST_CPUS {
                return None;
            }
            // Ranges in the kernel's lists do not overlap. Without this check, a list with more CPUs than can exist
            // would take minutes to expand.
            named += last - first + 1;
            if named > MOST_CPUS {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// Parses a mask in the kernel's notation: hexadecimal groups of 32 CPUs, separated by commas, with the highest
    /// CPUs first.
    pub fn parse_mask(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.trim().split(',').collect();
        if groups.len() > MOST_CPUS / 32 {
            return None;
        }
        let mut cpus = BTreeSet::new();
        for (index, group) in groups.iter().rev().enumerate() {
            let bits = u32::from_str_radix(group, 16).ok()?;
            cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit));
        }
        Some(Self(cpus))
    }

    /// Creates a list that contains only this CPU.
    #[must_use]
    pub fn only(cpu: usize) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// Returns whether a CPU is in the list.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the CPU numbers in ascending order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Returns the CPUs that are in this list but not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns the CPUs that are in both lists.
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns the CPUs that are in at least one of the two lists.
    pub fn or(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Formats the list as a mask, in the kernel's notation.
    pub fn mask(&self) -> String {
        let groups = self.0.last().map_or(0, |last| last / 32) + 1;
        let group = |index: usize| {
            (0..32).filter(|bit| self.contains(index * 32 + bit)).fold(0_u32, |bits, bit| bits | 1 << bit)
        };
        let mut text = format!("{:x}", group(groups - 1));
        for index in (0..groups - 1).rev() {
            text.push_str(&format!(",{:08x}", group(index)));
        }
        text
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            // The numbers ascend, so the difference cannot overflow.
            while let Some(next) = rest.next_if(|next| next - last == 1) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::btree_set,
        prelude::{any, prop_assert_eq, proptest},
    };

    use super::CpuList;

    #[test]
    fn lists_are_parsed_in_the_kernels_format() {
        let list = CpuList::parse("0-2,7\n").expect("a list");
        assert_eq!((list.len(), list.contains(2), list.contains(3)), (4, true, false));
        assert_eq!(list.to_string(), "0-2,7");
        for nothing in ["", "\n", "(null)\n"] {
            assert!(CpuList::parse(nothing).is_some_and(|list| list.is_empty()), "{nothing:?}");
        }
        for wrong in ["3-1", "0-99999999", "x", "1,,2", "-1", "1-"] {
            assert_eq!(CpuList::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn masks_start_with_the_highest_cpus() {
        let mask = |text| CpuList::parse_mask(text).map(|list| list.to_string());
        assert_eq!((mask("f\n").as_deref(), mask("1,00000002").as_deref()), (Some("0-3"), Some("1,32")));
        assert_eq!((mask("x"), mask("")), (None, None));
        assert_eq!(CpuList::parse("0-2").expect("a list").mask(), "7");
    }

    #[test]
    fn a_list_with_more_cpus_than_possible_is_refused() {
        assert!(CpuList::parse("0-8191").is_some_and(|all| all.len() == 8_192));
        assert_eq!(CpuList::parse("0-3,2,1-2").map(|list| list.len()), Some(4));
        assert_eq!(CpuList::parse("0-8191,0"), None);
    }

    proptest! {
        #[test]
        fn written_text_parses_to_the_same_value(cpus in btree_set(0_usize..300, 0..40)) {
            let list: CpuList = cpus.into_iter().collect();
            prop_assert_eq!(CpuList::parse(&list.to_string()), Some(list.clone()));
            prop_assert_eq!(CpuList::parse_mask(&list.mask()), Some(list));
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
            let _ = (CpuList::parse(&text), CpuList::parse_mask(&text));
        }
    }
}
