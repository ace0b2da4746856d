//! The measurement that shows the effect of fixes: the one of `--with`, or the usual one for the goal.

use std::time::Duration;

use hpt_instrument::diagnose::Goal;

use super::{
    options::{TrialFigure, TrialOptions},
    run::{Wanted, has_a_free_cpu, shows_spinning},
};
use crate::{exit::Failure, measurements::Request, sampling::cpu_options::Cpus};

/// The measurement that shows the effect of throttling and of the fair server, which pause only a real-time thread that
/// never blocks. hpt measures a second at a time, and the other CPUs stay free.
const SPINNING: &str = "latency poll --fifo 80 --accept-throttling --interval 500us";

/// The measurement of a trial.
#[derive(Debug)]
pub(super) struct TrialMeasurement {
    pub(super) request: Request,
    /// Whether hpt chooses the duration.
    pub(super) is_chosen: bool,
    /// Whether the measuring thread blocks, and hpt chose the measurement.
    pub(super) blocks: bool,
    /// Whether the measurement has an idle and a loaded phase.
    pub(super) has_load: bool,
}

/// The usual measurement for a goal.
const fn usual(goal: Goal) -> &'static str {
    match goal {
        Goal::Realtime => "latency timer --fifo 80 --interval 500us",
        Goal::Benchmarks => "latency poll --interval 500us",
        Goal::General | Goal::Timekeeping => "latency timer --interval 500us",
    }
}

impl TrialMeasurement {
    pub(super) fn of(options: &TrialOptions, wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let refused = |why: String| Failure::NotTried(format!("--with: {why}"));
        let line = match &options.with {
            Some(line) => line.as_str(),
            None if shows_spinning(wanted.fixes) && has_a_free_cpu() => SPINNING,
            None => usual(wanted.goal),
        };
        let mut request = Request::read_line(line).map_err(refused)?;
        let TrialFigure(quantity) = options.figure;
        request.observe(quantity).map_err(refused)?;
        let common = request.common();
        if let Some(realtime) = common.realtime {
            if common.spins && realtime.is_refused_while_throttled() {
                let text = "the kernel throttles a real-time thread that never blocks, and hpt measures it only with --accept-throttling; add this option";
                return Err(refused(text.to_owned()));
            }
            // Only one process can change settings at a time.
            if let Some(option) = realtime.option_that_changes_settings() {
                return Err(refused(format!(
                    "{option} changes a setting of the system, but only hpt doctor --try itself changes settings during the run; omit it"
                )));
            }
        }
        let is_chosen = common.duration.is_some() && !common.has_length;
        let has_load = common.load.is_some_and(crate::sampling::load::LoadOptions::is_requested);
        let blocks = options.with.is_none() && !common.spins;
        match request.cpu() {
            (Some(cpu), _) if cpu != wanted.cpu => {
                let text = format!("--with measures CPU {cpu}, but --cpu is {}; name one CPU only", wanted.cpu);
                return Err(Failure::NotTried(text));
            }
            (_, false) if wanted.is_cpu_named || options.with.is_none() => request.on(Cpus::These(vec![wanted.cpu])),
            _ => {}
        }
        Ok(Self { request, is_chosen, blocks, has_load })
    }

    /// Returns the request with a duration, unless the request itself determines it.
    pub(super) fn lasting(&mut self, duration: Option<Duration>) -> &Request {
        if let Some(duration) = duration {
            self.request.for_time(duration);
        }
        &self.request
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_instrument::diagnose::Goal;

    use super::{
        super::{options::tests::options, run::Wanted},
        Failure, TrialMeasurement,
    };

    fn of(with: Option<&str>, goal: Goal, is_cpu_named: bool) -> Result<TrialMeasurement, String> {
        let wanted = Wanted { goal, cpu: 3, is_cpu_named, fixes: &[], examined: &[] };
        TrialMeasurement::of(&options(with), &wanted).map_err(|failure| match failure {
            Failure::NotTried(why) => why,
            other => other.to_string(),
        })
    }

    #[test]
    fn the_options_of_a_measurement_are_known() {
        for line in
            ["latency timer -c 3", "hpt latency timer --cpu 3", "latency timer --cpu=3 -d1s", "latency timer -c3"]
        {
            let mut measured = of(Some(line), Goal::General, true).expect(line);
            assert_eq!(
                (measured.request.cpu(), measured.is_chosen),
                ((Some(3), true), !line.contains("-d1s")),
                "{line}"
            );
        }
        assert_eq!(
            of(Some("latency timer -c 0,2"), Goal::General, false).map(|mut one| one.request.cpu()),
            Ok((None, true))
        );
        for line in
            ["latency timer -d 1s", "latency timer --duration=1s", "latency timer -n1000", "bench --count 5", "bench"]
        {
            assert!(of(Some(line), Goal::General, false).is_ok_and(|measured| !measured.is_chosen), "{line}");
        }
        let loaded = of(Some("latency timer --load cpu"), Goal::General, false);
        assert!(loaded.is_ok_and(|measured| measured.is_chosen && measured.has_load && !measured.blocks));
        let mut usual = of(None, Goal::Realtime, false).expect("the usual one");
        assert!(usual.is_chosen && usual.blocks && usual.request.cpu() == (Some(3), true));
        let line = usual.lasting(Some(Duration::from_millis(250))).line_with(Some(Duration::from_millis(250)));
        assert_eq!(line, "hpt latency timer --fifo 80 --interval 500us --cpu 3 --duration 250ms");
    }

    #[test]
    fn a_measurement_that_does_not_fit_is_refused() {
        let why = |with: &str| of(Some(with), Goal::Realtime, true).err().unwrap_or_default();
        assert_eq!(why("latency timer -c 3 --dma-latency 0"), "");
        assert!(why("latency timer -c 2").starts_with("--with measures CPU 2, but --cpu is 3"));
        for option in ["--no-throttling", "--governor=performance", "--no-turbo"] {
            let why = why(&format!("latency timer --fifo 80 {option}"));
            assert!(
                why.starts_with(&format!("--with: {} changes a setting", option.split('=').next().expect("one"))),
                "{why}"
            );
        }
        assert!(why("latency timer --raw x").starts_with("--with: a step writes no files"));
        assert!(why("probe").starts_with("--with: hpt probe has no limits"));
        assert!(why("sleep").is_empty() && why("latency").starts_with("--with: "));
    }

    #[test]
    fn a_real_time_thread_that_never_blocks_has_to_accept_throttling() {
        let is_refused = |line: &str| of(Some(line), Goal::Realtime, false).is_err_and(|why| why.contains("throttles"));
        assert!(
            is_refused("latency poll --fifo 80")
                && is_refused("latency stall -P f:80 -c 1")
                && is_refused("latency poll --rr=3")
        );
        assert!(
            !is_refused("latency poll") && !is_refused("latency timer --fifo 80") && !is_refused("latency poll -P o")
        );
        assert!(!is_refused("latency poll --fifo 80 --accept-throttling"));
    }
}
