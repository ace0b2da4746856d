//! The command `hpt`: starts, hands over to one subcommand, prints its document.
//! Measures nothing itself.
#![forbid(unsafe_code)]

mod ask;
mod cli;
mod cmd;
mod context;
mod cycles;
mod exit;
mod lateness;
mod machine;
mod progress;
mod realtime;
mod render;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    context::Context,
    exit::{Failure, code, say},
    render::Answer,
};

fn main() -> ExitCode {
    // Before anything else reads a clock: under PR_TSC_SIGSEGV the standard library's clocks would end this process.
    let forbidden = hpt_core::source::permit_counter();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => {
            // Help or a usage error. If nobody reads it, there is nobody to tell.
            let _ = answer.print();
            return code(if answer.use_stderr() { Answer::Unknown } else { Answer::Yes });
        }
    };
    match run(&cli, forbidden) {
        Ok(answer) => code(answer),
        Err(failure) => {
            failure.report();
            code(Answer::Unknown)
        }
    }
}

fn run(cli: &Cli, forbidden: std::io::Result<bool>) -> Result<Answer, Failure> {
    let context = Context::new(forbidden, cli.format)?;
    let document = match &cli.command {
        Command::Probe(arguments) => cmd::probe::run(arguments, &context),
        Command::Calibrate(arguments) => cmd::calibrate::run(arguments, &context),
        Command::Bench(arguments) => cmd::bench::run(arguments, &context),
        Command::Latency(arguments) => cmd::latency::run(arguments, &context),
        Command::Sleep(arguments) => cmd::sleep::run(arguments, &context),
        Command::Clocksource(arguments) => cmd::clocksource::run(arguments, &context),
        Command::Watch(arguments) => cmd::watch::run(arguments, &context),
        Command::Restore(arguments) => cmd::restore::run(arguments, &context),
    }?;
    render::print(&document, cli.format).map_err(Failure::Print)?;
    for warning in &document.warnings {
        say(warning);
    }
    Ok(document.answer)
}
