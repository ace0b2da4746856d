//! The order of alternating measurements. The order changes in every round, so that no measurement always follows the
//! same measurement. The sequence of orders is the same in every run.

/// A sequence of permutations of the numbers below `count`.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    places: Vec<usize>,
    random: u64,
}

impl Orders {
    pub(super) fn of(count: usize) -> Self {
        Self { places: (0..count).collect(), random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns the next order.
    pub(super) fn shuffled(&mut self) -> &[usize] {
        for last in (1..self.places.len()).rev() {
            // Marsaglia's xorshift generator is sufficient to shuffle an order.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let other = usize::try_from(self.random >> 33).unwrap_or(0) % (last + 1);
            self.places.swap(last, other);
        }
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use super::Orders;

    #[test]
    fn every_item_occurs_once_and_follows_each_other_item_equally_often() {
        let mut orders = Orders::of(5);
        let mut after = [[0_u32; 5]; 5];
        for _ in 0..4_000 {
            let order = orders.shuffled();
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            order.windows(2).for_each(|two| after[two[0]][two[1]] += 1);
        }
        for (one, row) in after.iter().enumerate() {
            for (other, &times) in row.iter().enumerate() {
                assert!((one == other && times == 0) || (650..950).contains(&times), "{after:?}");
            }
        }
        assert!(Orders::of(0).shuffled().is_empty() && Orders::of(1).shuffled() == [0]);
    }
}
