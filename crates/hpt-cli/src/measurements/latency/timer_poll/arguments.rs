//! The options of `hpt latency timer` and `hpt latency poll`.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::time_of_day::{TimeOfDay, time_of_day};
use crate::{
    arguments::{Codes, after_help},
    measurements::common_options::{CommonOptions, CpuOption},
    output::chart_option::{self, ChartOption},
    sampling::{
        conditions::ConditionOptions,
        cpu_options::CpuOptions,
        explain::ExplainOptions,
        gpio_pulse::PulseOptions,
        limits::{option::LimitOptions, quantity::Accepted},
        load::LoadOptions,
        result_files::ResultOptions,
        run_length::RunLength,
        warm_up::WarmUpOption,
    },
};

const TIMER_EXAMPLES: &str = "  \
  hpt latency timer                            one CPU, every millisecond, 10 s
  sudo hpt latency timer --cpu all -P f:80 --dma-latency 0 --duration 1h
  hpt latency timer --duration 1m --limit p99=500us,max=20ms,missed=0
  hpt latency timer --at 23:59:50 --interval 1s --duration 20s
  sudo hpt latency timer -P f:80 --stop-above 100us --write cyclictest=run.hist";
const TIMER_EXAMPLE: &str = "Example: sudo hpt latency timer -c all -P f:80 --load cpu --explain -d 1h";
const POLL_EXAMPLES: &str = "  \
  hpt latency poll                        one CPU, every millisecond, 10 s
  sudo hpt latency poll --cpu 3 -P f:99 --no-throttling --duration 18h \\
    --write line=counts";
const POLL_EXAMPLE: &str = "Example: sudo hpt latency poll -P f:99 --no-throttling --load cpu --explain";
const RAW: &str = "Also write every wake-up to FILE: CPU number; deadline and latency in nanoseconds";

/// Measure wake-up latency at periodic deadlines
///
/// One thread on each CPU sleeps until a deadline, reads the clock, records the latency, and sleeps
/// until the next deadline, one interval later. By default, each sleep is a single system call.
/// cyclictest measures the same latency.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = TIMER_EXAMPLE, after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above, or a quantity its --limit")), TIMER_EXAMPLES))]
pub(crate) struct TimerArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Sleep method: kernel or hpt
    ///
    /// kernel: sleep with one system call. hpt: sleep with hpt's Sleeper, which wakes up before the deadline and then
    /// spins until the deadline.
    #[arg(long, value_enum, value_name = "METHOD", default_value = "kernel", hide_possible_values = true)]
    pub(super) by: WakerKind,
}

/// Measure how late a polling thread detects deadlines
///
/// One busy-polling thread on each CPU reads the clock continuously. Everything that takes the CPU
/// away from this thread adds latency: interrupts, kernel work, other programs or a hypervisor.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = POLL_EXAMPLE, after_long_help = after_help(Codes::measuring(Some("a sample exceeded --stop-above, or a quantity its --limit")), POLL_EXAMPLES))]
pub(crate) struct PollArguments {
    #[command(flatten)]
    pub(super) common: Common,
}

/// A tool that counts missed deadlines differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum Tool {
    Cyclictest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum WakerKind {
    Kernel,
    Hpt,
}

#[derive(Debug, Args, Serialize, Deserialize)]
#[command(mut_arg("raw", |raw| raw.help(RAW)))]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) run_length: RunLength,
    #[command(flatten)]
    pub(super) warm_up: WarmUpOption,
    #[command(flatten)]
    pub(super) threads: CpuOptions,
    /// Start at this time of day
    ///
    /// For example 12:30, 12:30:15.5 or 2030-01-31T12:30:15Z; local time if no time zone is given.
    /// The start time and the deadlines follow the wall clock, even if it is stepped.
    #[arg(long, value_name = "TIME", value_parser = time_of_day, hide_short_help = true)]
    pub(super) at: Option<TimeOfDay>,
    /// Clock that timestamps the samples
    ///
    /// A counter, or monotonic (the kernel's clock) [default: monotonic with --by kernel, otherwise
    /// the source that hpt's Instant uses]
    #[arg(short, long, value_name = "NAME", conflicts_with = "at", hide_short_help = true)]
    pub(super) source: Option<String>,
    /// Count like another tool: cyclictest
    ///
    /// cyclictest: a missed deadline is no sample. By default, a deadline that passed before the thread waited for it
    /// is a sample: the time from the deadline until the thread ran.
    #[arg(long = "as", value_enum, value_name = "TOOL", hide_possible_values = true, hide_short_help = true)]
    pub(super) as_tool: Option<Tool>,
    #[command(flatten)]
    pub(super) limits: LimitOptions,
    #[command(flatten)]
    pub(super) keeping: ResultOptions,
    #[command(flatten)]
    pub(super) conditions: ConditionOptions,
    #[command(flatten)]
    pub(super) load: LoadOptions,
    #[command(flatten)]
    pub(super) explain: ExplainOptions,
    #[command(flatten)]
    pub(super) pulse: PulseOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

impl Common {
    fn options(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::LATENCY)),
            has_length: self.run_length.is_given(),
            duration: Some(&mut self.run_length.duration),
            cpu: CpuOption::Several(&mut self.threads.cpu),
            realtime: Some(&self.threads.realtime),
            load: Some(&self.load),
            explain: Some(&mut self.explain),
            ..CommonOptions::default()
        }
    }
}

impl TimerArguments {
    pub(in crate::measurements::latency) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions { spins: false, ..self.common.options() }
    }

    pub(crate) fn chart(&self) -> Option<chart_option::ChartFile<'_>> {
        self.common.chart.file()
    }
}

impl PollArguments {
    pub(in crate::measurements::latency) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions { spins: true, ..self.common.options() }
    }

    pub(crate) fn chart(&self) -> Option<chart_option::ChartFile<'_>> {
        self.common.chart.file()
    }
}
