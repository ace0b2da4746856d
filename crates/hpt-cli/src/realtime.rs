//! What a measurement's thread runs by: one group of options for all of them, and what came of it.
//! Measures nothing.

use clap::Args;
use hpt_core::realtime::{AwakeCpus, Fifo, Pinned};
use serde::Serialize;

use crate::{
    cli::{CpuChoice, cpu_choice},
    context::Context,
    exit::Failure,
};

/// The options, to be flattened into a subcommand's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "The thread that measures")]
pub(crate) struct ThreadOptions {
    /// Run on this CPU; `any` does not pin [default: the highest allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    /// Run by SCHED_FIFO with this priority, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Keep all CPUs from sleeping deep meanwhile (/dev/cpu_dma_latency)
    #[arg(long)]
    awake: bool,
}

/// All of it in force, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pinned: Option<Pinned>,
    settings: Settings,
    _awake: Option<AwakeCpus>,
    _fifo: Option<Fifo>,
}

/// What was in force, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) policy: &'static str,
    pub(crate) priority: Option<u8>,
    pub(crate) awake: bool,
}

impl ThreadOptions {
    /// Puts the calling thread, which is the one that will measure, into the state asked for.
    pub(crate) fn hold(&self, context: &Context) -> Result<Held, Failure> {
        let pinned = context.pin(self.cpu)?;
        let awake = self.awake.then(AwakeCpus::hold).transpose()?;
        // The class last: what comes before it is not to keep other threads waiting.
        let fifo = self.fifo.map(Fifo::at).transpose()?;
        let policy = if fifo.is_some() { "fifo" } else { "other" };
        let settings = Settings { policy, priority: self.fifo, awake: self.awake };
        Ok(Held { pinned, settings, _awake: awake, _fifo: fifo })
    }
}

impl Held {
    /// The CPU that the thread stays on.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.pinned.as_ref().map(Pinned::cpu)
    }

    /// What is in force.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }
}

impl Settings {
    /// For people, behind where the thread runs.
    pub(crate) fn words(&self, cpu: Option<usize>) -> String {
        let mut words = cpu.map_or_else(|| "Not pinned".to_owned(), |cpu| format!("Pinned to CPU {cpu}"));
        if let Some(priority) = self.priority {
            words.push_str(&format!(", SCHED_{} {priority}", self.policy.to_uppercase()));
        }
        if self.awake {
            words.push_str(", CPUs kept awake");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn what_is_in_force_is_said_in_words() {
        let plain = Settings { policy: "other", priority: None, awake: false };
        assert_eq!(plain.words(None), "Not pinned");
        let all = Settings { policy: "fifo", priority: Some(50), awake: true };
        assert_eq!(all.words(Some(1)), "Pinned to CPU 1, SCHED_FIFO 50, CPUs kept awake");
    }
}
