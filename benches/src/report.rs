//! The results of a comparison, as data, JSON and a table.
//! Measures nothing.

use comfy_table::{CellAlignment, Table, presets};
use hpt_core::Host;
use hpt_sys::host::Cpu;
use serde::{Deserialize, Serialize};

use crate::{
    bare::Counter,
    contender::{Contender, Gives, Group, Skipped},
    pairs::{self, PairLine},
    rivals::STD_INSTANT,
    rounds::{Quantiles, Times},
};

/// The version of the JSON.
pub const SCHEMA: u32 = 1;

/// A comparison with all information that is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// The origin of the program.
    pub provenance: Provenance,
    /// The machine.
    pub machine: Machine,
    /// The method of the measurement.
    pub method: Method,
    /// The results of single reads.
    pub contenders: Vec<Line>,
    /// The results of pairs; older records have none.
    #[serde(default)]
    pub pairs: Vec<PairLine>,
    /// The contenders that were not measured, and the reasons.
    pub skipped: Vec<Skipped>,
}

/// The origin of the program. Unknown values are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The day, as YYYY-MM-DD.
    pub date: Option<String>,
    /// The commit.
    pub commit: Option<String>,
    /// The compiler.
    pub rustc: Option<String>,
}

/// The machine, without anything that identifies an individual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The machine's kind in one word, for file names.
    pub slug: String,
    /// The board, or else the processor, as the kernel names it.
    pub name: String,
    /// The hypervisor's name for itself; absent on bare hardware.
    pub hypervisor: Option<String>,
    /// The instruction set.
    pub architecture: String,
    /// `uname -r`.
    pub kernel_release: String,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The CPU to which the comparison was pinned; absent if it could not be pinned.
    pub pinned_cpu: Option<usize>,
}

/// The method of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// Rounds of back-to-back reads.
    pub rounds_in_a_row: usize,
    /// Rounds of reads with a fence after each.
    pub rounds_fenced: usize,
    /// Rounds of pairs with a fence after each read.
    #[serde(default)]
    pub rounds_of_pairs: usize,
    /// Reads, or pairs, that each contender makes in a round.
    pub reads_per_batch: u64,
    /// The clock that timed the batches.
    pub timed_by: String,
    /// The instruction after every fenced read; absent if there was none.
    pub fence: Option<String>,
}

/// One contender's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The name of the contender.
    pub name: String,
    /// The group of the contender.
    pub group: Group,
    /// The unit of a reading.
    pub gives: Gives,
    /// Time per back-to-back read, in nanoseconds.
    pub in_a_row_ns: Option<Quantiles>,
    /// That time divided by the bare instruction's in the same round.
    pub ratio_to_bare: Option<Quantiles>,
    /// That time divided by the standard library's in the same round.
    pub ratio_to_std: Option<Quantiles>,
    /// Time per read with a fence after it, in nanoseconds.
    pub fenced_ns: Option<Quantiles>,
    /// The fenced time minus that of the bare instruction with the same fence, in the same round.
    pub fenced_extra_ns: Option<Quantiles>,
}

/// Returns the lines of two comparisons of the same contenders.
#[must_use]
pub fn lines(contenders: &[Contender<'_>], in_a_row: &Times, fenced: Option<&Times>) -> Vec<Line> {
    let place = |name: &str| contenders.iter().position(|contender| contender.name == name);
    let (bare, standard) = (place(Counter::PLAIN), place(STD_INSTANT));
    contenders
        .iter()
        .enumerate()
        .map(|(at, contender)| Line {
            name: contender.name.to_owned(),
            group: contender.group,
            gives: contender.gives,
            in_a_row_ns: in_a_row.read_ns(at),
            ratio_to_bare: bare.and_then(|bare| in_a_row.ratio(at, bare)),
            ratio_to_std: standard.and_then(|standard| in_a_row.ratio(at, standard)),
            fenced_ns: fenced.and_then(|fenced| fenced.read_ns(at)),
            fenced_extra_ns: bare.zip(fenced).and_then(|(bare, fenced)| fenced.extra_ns(at, bare)),
        })
        .collect()
}

impl Machine {
    /// Describes this machine, for a comparison that is pinned to `pinned_cpu`.
    #[must_use]
    pub fn of(host: &Host, pinned_cpu: Option<usize>) -> Self {
        let cpu = host.cpu();
        let name = cpu.board().or(cpu.name()).unwrap_or("unknown processor");
        let hypervisor = cpu.hypervisor();
        Self {
            slug: slug(name, hypervisor.as_deref()),
            name: name.to_owned(),
            hypervisor,
            architecture: host.facts().architecture.name().to_owned(),
            kernel_release: host.facts().kernel_release.clone(),
            clock_source: host.clock_sources().current,
            pinned_cpu,
        }
    }
}

impl Report {
    /// Returns the table, which is also Markdown, followed by the machine and the method.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header([
            "what".to_owned(),
            "gives".to_owned(),
            "ns per read".to_owned(),
            format!("/ {}", Counter::PLAIN),
            format!("/ {STD_INSTANT}"),
            "fenced, ns".to_owned(),
            format!("fenced, ns over {}", Counter::PLAIN),
        ]);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for line in &self.contenders {
            table.add_row([
                line.name.clone(),
                line.gives.name().to_owned(),
                Quantiles::median(line.in_a_row_ns),
                Quantiles::spread(line.ratio_to_bare),
                Quantiles::median(line.ratio_to_std),
                Quantiles::median(line.fenced_ns),
                Quantiles::spread(line.fenced_extra_ns),
            ]);
        }
        let mut text = format!("{table}\n\n{}\n", self.circumstances());
        if !self.pairs.is_empty() {
            text.push_str(&format!(
                "\nThe cost of timing an operation with `now` and then `elapsed`, compared with two bare reads that are not subtracted. \
                 Medians of {} rounds with the same number of pairs, in the same run.\n\n{}\n",
                self.method.rounds_of_pairs,
                pairs::table(&self.pairs)
            ));
        }
        for Skipped { name, reason } in &self.skipped {
            text.push_str(&format!("\nNot measured: {name}: {reason}.\n"));
        }
        text
    }

    /// Returns a whole record: a heading, and the table between the marks by which
    /// docs/benchmarks.md finds it.
    #[must_use]
    pub fn record(&self) -> String {
        let date = self.provenance.date.as_deref().unwrap_or("undated");
        format!(
            "# One read, {date}, {}\n\n<!-- bench:begin -->\n{}<!-- bench:end -->\n",
            self.machine.name,
            self.table()
        )
    }

    /// Returns a paragraph with the machine, the number of samples and the method.
    fn circumstances(&self) -> String {
        let Self { provenance, machine, method, .. } = self;
        let unknown = || "unknown".to_owned();
        let hypervisor = machine
            .hypervisor
            .as_ref()
            .map(|name| format!(" under {}", Cpu::hypervisor_name(name)))
            .unwrap_or_default();
        let pinned = machine.pinned_cpu.map_or("not pinned".to_owned(), |cpu| format!("pinned to CPU {cpu}"));
        let fence = match &method.fence {
            Some(fence) => format!("In fenced rounds, {fence} follows every read."),
            None => "No fence instruction is known for this architecture.".to_owned(),
        };
        format!(
            "{}{hypervisor}, {}, Linux {}, clocksource {}, {pinned}. Measured on {} at commit {}, built with {}. The table \
             shows medians of {} rounds of back-to-back reads and {} rounds of fenced reads, with {} reads per round, timed \
             with {}. The values in parentheses are the 10th and 90th percentiles over the rounds. Ratios and differences are \
             computed within each round. {fence}",
            machine.name,
            machine.architecture,
            machine.kernel_release,
            machine.clock_source.clone().unwrap_or_else(unknown),
            provenance.date.clone().unwrap_or_else(|| "an unknown date".to_owned()),
            provenance.commit.clone().unwrap_or_else(unknown),
            provenance.rustc.clone().unwrap_or_else(|| "an unknown compiler".to_owned()),
            method.rounds_in_a_row,
            method.rounds_fenced,
            method.reads_per_batch,
            method.timed_by,
        )
    }
}

/// Returns a file name: the names of the machine and its hypervisor, in lower case and with
/// hyphens, without words that are common in processor names.
#[must_use]
pub fn slug(name: &str, hypervisor: Option<&str>) -> String {
    const EMPTY_WORDS: [&str; 5] = ["r", "tm", "cpu", "processor", "with"];
    let hypervisor = hypervisor.map(Cpu::hypervisor_name);
    // Some vendors append the frequency to the name, such as "@ 3.40GHz".
    let name = name.split('@').next().unwrap_or(name);
    [Some(name), hypervisor]
        .into_iter()
        .flatten()
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric()))
        .map(str::to_ascii_lowercase)
        .filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(&word.as_str()))
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::{Line, Machine, Method, Provenance, Report, lines, slug};
    use crate::{
        bare::Counter,
        contender::{Contender, Gives, Group, Skipped},
        rivals::STD_INSTANT,
        rounds::{Quantiles, Times},
    };

    fn contender(name: &'static str) -> Contender<'static> {
        Contender::new(name, Group::Rival, Gives::Ticks, || 0)
    }

    /// Times of 1, 2 and 4 ns for back-to-back reads, and 10 ns more with a fence.
    fn figures(names: &[&'static str]) -> Vec<Line> {
        let contenders: Vec<_> = names.iter().copied().map(contender).collect();
        let race = |more_ns| Times::of_race(contenders.len(), 3, |at| [1.0, 2.0, 4.0][at] + more_ns, || true);
        lines(&contenders, &race(0.0), Some(&race(10.0)))
    }

    fn report(contenders: Vec<Line>, skipped: Vec<Skipped>) -> Report {
        let machine = Machine {
            slug: "a-board".to_owned(),
            name: "A Board".to_owned(),
            hypervisor: None,
            architecture: "arm".to_owned(),
            kernel_release: "6.12".to_owned(),
            clock_source: None,
            pinned_cpu: Some(3),
        };
        let provenance = Provenance { date: Some("2026-01-31".to_owned()), ..Provenance::default() };
        let method = Method {
            rounds_in_a_row: 3,
            rounds_fenced: 3,
            rounds_of_pairs: 0,
            reads_per_batch: 10,
            timed_by: "monotonic-raw".to_owned(),
            fence: None,
        };
        Report { schema: super::SCHEMA, provenance, machine, method, contenders, pairs: Vec::new(), skipped }
    }

    #[test]
    fn figures_are_compared_with_the_bare_instruction_and_the_standard_library() {
        let lines = figures(&[Counter::PLAIN, STD_INSTANT, "quick"]);
        let p50 = |quantiles: Option<Quantiles>| quantiles.map(|quantiles| quantiles.p50);
        assert_eq!((p50(lines[2].ratio_to_bare), p50(lines[2].ratio_to_std)), (Some(4.0), Some(2.0)));
        assert_eq!((p50(lines[2].fenced_ns), p50(lines[2].fenced_extra_ns)), (Some(14.0), Some(3.0)));
    }

    #[test]
    fn without_the_bare_instruction_the_rest_and_the_reason_are_reported() {
        let skipped = vec![Skipped { name: "bare rdtsc".to_owned(), reason: "another processor".to_owned() }];
        let report = report(figures(&[STD_INSTANT, "quick"]), skipped);
        assert_eq!(report.contenders[1].ratio_to_bare, None);
        assert!(report.contenders[1].ratio_to_std.is_some());
        assert!(report.table().contains("Not measured: bare rdtsc: another processor."), "{}", report.table());
    }

    #[test]
    fn a_record_survives_a_round_trip() {
        let report = report(figures(&[Counter::PLAIN, "quick"]), Vec::new());
        let json = serde_json::to_string_pretty(&report).expect("plain data");
        assert!(json.starts_with("{\n  \"schema\": 1,"), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).expect("just written"), report);
    }

    #[test]
    fn a_record_has_marks_around_its_table() {
        let record = report(figures(&[Counter::PLAIN]), Vec::new()).record();
        let (before, rest) = record.split_once("<!-- bench:begin -->\n").expect("the begin mark");
        let (table, after) = rest.split_once("<!-- bench:end -->\n").expect("the end mark");
        assert!(before.starts_with("# ") && after.is_empty());
        assert!(table.starts_with("| what") && table.contains("10 reads per round"), "{table}");
    }

    #[test]
    fn a_slug_has_only_the_kind_of_machine() {
        assert_eq!(slug("AMD EPYC", Some("KVMKVMKVM")), "amd-epyc-kvm");
        assert_eq!(slug("Intel(R) Core(TM) i7-2600 CPU @ 3.40GHz", None), "intel-core-i7-2600");
        assert_eq!(slug("Raspberry Pi 4 Model B Rev 1.4", None), "raspberry-pi-4-model-b-rev-1-4");
    }
}
