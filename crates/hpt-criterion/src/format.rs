//! Formats measured values for Criterion: times as Criterion itself does, and counts with their unit.

use criterion::{
    Throughput,
    measurement::{Measurement, ValueFormatter, WallTime},
};

/// Formats nanoseconds with the units and the precision of Criterion's own measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nanoseconds;

static WALL_TIME: WallTime = WallTime;

impl ValueFormatter for Nanoseconds {
    // A difference of two times may be negative; its size selects the unit.
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        WALL_TIME.formatter().scale_values(typical.abs(), values)
    }

    fn scale_throughputs(&self, typical: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        WALL_TIME.formatter().scale_throughputs(typical.abs(), throughput, values)
    }

    fn scale_for_machines(&self, values: &mut [f64]) -> &'static str {
        WALL_TIME.formatter().scale_for_machines(values)
    }
}

/// The names of a counted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// The quantity, for example `cycles`.
    pub(crate) one: &'static str,
    /// Thousands, millions and billions of it.
    pub(crate) larger: [&'static str; 3],
    /// The quantity for each bit, byte and element.
    pub(crate) per: [&'static str; 3],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) &'static Units);

impl ValueFormatter for Count {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let [thousands, millions, billions] = self.0.larger;
        let (divisor, unit) = match typical.abs() {
            below if below < 1e4 => (1.0, self.0.one),
            below if below < 1e6 => (1e3, thousands),
            below if below < 1e9 => (1e6, millions),
            _ => (1e9, billions),
        };
        values.iter_mut().for_each(|value| *value /= divisor);
        unit
    }

    fn scale_throughputs(&self, _typical: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        let [per_bit, per_byte, per_element] = self.0.per;
        let (amount, unit) = match *throughput {
            Throughput::Bits(bits) => (bits, per_bit),
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (bytes, per_byte),
            Throughput::Elements(elements) | Throughput::ElementsAndBytes { elements, .. } => (elements, per_element),
        };
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        let amount = amount.max(1) as f64;
        values.iter_mut().for_each(|value| *value /= amount);
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        self.0.one
    }
}

#[cfg(test)]
mod tests {
    use criterion::{Throughput, measurement::ValueFormatter};

    use super::{Count, Nanoseconds, Units};

    const APPLES: Units = Units {
        one: "apples",
        larger: ["Kapples", "Mapples", "Gapples"],
        per: ["apples/bit", "apples/byte", "apples/element"],
    };

    #[test]
    fn times_have_the_units_of_criterion() {
        assert_eq!(Nanoseconds.format_value(0.5), "500.00 ps");
        assert_eq!(Nanoseconds.format_value(1_234.0), "1.2340 µs");
        assert_eq!(Nanoseconds.scale_for_machines(&mut [1.0]), "ns");
    }

    #[test]
    fn a_negative_time_has_the_unit_of_its_size() {
        assert!(Nanoseconds.format_value(-12_000.0).ends_with(" µs"));
    }

    #[test]
    fn counts_have_their_own_units() {
        let count = Count(&APPLES);
        assert_eq!(count.format_value(9_999.0), "9999.0 apples");
        assert_eq!(count.format_value(12_000.0), "12.000 Kapples");
        assert_eq!(count.format_value(5e6), "5.0000 Mapples");
        assert_eq!(count.format_value(5e9), "5.0000 Gapples");
        assert_eq!(count.scale_for_machines(&mut [1.0]), "apples");
    }

    #[test]
    fn throughput_is_the_count_for_each_unit_of_input() {
        let count = Count(&APPLES);
        assert_eq!(count.format_throughput(&Throughput::Bytes(100), 250.0), "2.5000 apples/byte");
        assert_eq!(count.format_throughput(&Throughput::Bits(0), 3.0), "3.0000 apples/bit");
        let both = Throughput::ElementsAndBytes { elements: 2, bytes: 100 };
        assert_eq!(count.format_throughput(&both, 3.0), "1.5000 apples/element");
    }
}
