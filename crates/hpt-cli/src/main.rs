//! The command `hpt`: starts, hands over to one subcommand, prints its document.
//! Measures nothing itself.
#![forbid(unsafe_code)]

mod arguments;
mod cli;
mod cmd;
mod consent;
mod context;
mod cycle_counters;
mod document_head;
mod exit;
mod experiments;
#[cfg(test)]
mod golden;
mod kernel_clocksources;
mod output;
mod read_cost;
mod sampling;
mod shell_completion;
mod signals;
mod source_granularity;
mod source_rate;
mod stopwatch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::{
    cli::{Cli, Command},
    context::Context,
    exit::{Failure, causes, code, say},
    output::{Answer, Document, Format, chart_option::ChartFile},
};

fn main() -> ExitCode {
    // Before anything else reads a clock: under PR_TSC_SIGSEGV the standard library's clocks would end this process.
    let forbidden = hpt_core::source::permit_counter();
    // Before anything reads a counter that can be closed meanwhile. Without it the same happens, and without a word.
    let _ = hpt_core::source::explain_refused_cycles(cycle_counters::WHY_ENDED);
    // Where a shell asks what could come next, it is told, and nothing else is done.
    shell_completion::answer_the_shell(Cli::command);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => {
            // Help or a usage error. If nobody reads it, there is nobody to tell.
            let _ = answer.print();
            return match (answer.use_stderr(), cli::is_for_run(std::env::args_os().skip(1))) {
                (true, true) => ExitCode::from(cmd::run::FAILED),
                (true, false) => code(Answer::Unknown),
                (false, _) => code(Answer::Yes),
            };
        }
    };
    match run(&cli, forbidden) {
        Ok(code) => code,
        Err(failure) => {
            failure.report();
            match cli.command {
                Command::Run(_) => ExitCode::from(cmd::run::FAILED),
                _ => code(Answer::Unknown),
            }
        }
    }
}

fn run(cli: &Cli, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    let wants_metrics = cli.printed.format == Format::Openmetrics || cli.printed.textfile.is_some();
    if wants_metrics && !cli.command.has_metrics() {
        return Err(Failure::Usage(
            "it has no metrics; probe, calibrate, watch, doctor, latency timer, poll, stall and gpio have",
        ));
    }
    let context = Context::new(forbidden, cli.printed.format, cli.printed.textfile.as_deref())?;
    let picture = cli.command.picture();
    picture.map_or(Ok(()), ChartFile::check)?;
    let mut document = match &cli.command {
        Command::Completions(arguments) => return cmd::completions::run(arguments).map(code),
        Command::Manual(arguments) => return cmd::manual::run(arguments, Cli::command()).map(code),
        // What is printed is the capture.
        Command::Capture(arguments) if arguments.is_printed() => return cmd::capture::print(&context).map(code),
        // What is printed is the program's, and so is the exit code.
        Command::Run(arguments) => return Ok(cmd::run::run(arguments, &context)),
        Command::Report(arguments) => cmd::report::run(arguments, &context, &part),
        command => document(command, &context),
    }?;
    let kept =
        [context.keep_metrics(&document.data), picture.map_or(Ok(()), |picture| Ok(picture.draw(&document.data)?))];
    for failure in kept.into_iter().filter_map(Result::err) {
        // What was measured is printed all the same.
        document.warnings.push(causes(&failure));
        document.answer = Answer::Unknown;
    }
    output::print(&document, cli.printed.format).map_err(Failure::Print)?;
    for warning in &document.warnings {
        say(warning);
    }
    Ok(code(document.answer))
}

/// What a subcommand finds that has a document of its own.
fn document(command: &Command, context: &Context) -> Result<Document, Failure> {
    match command {
        Command::Probe(arguments) => cmd::probe::run(arguments, context),
        Command::Calibrate(arguments) => cmd::calibrate::run(arguments, context),
        Command::Bench(arguments) => cmd::bench::run(arguments, context),
        Command::Latency(arguments) => cmd::latency::run(arguments, context),
        Command::Experiment(arguments) => cmd::experiment::run(arguments, context),
        Command::Sleep(arguments) => cmd::sleep::run(arguments, context),
        Command::Doctor(arguments) => cmd::doctor::run(arguments, context),
        Command::Capture(arguments) => cmd::capture::run(arguments, context),
        Command::Clocksource(arguments) => cmd::clocksource::run(arguments, context),
        Command::Watch(arguments) => cmd::watch::run(arguments, context),
        Command::Restore(arguments) => cmd::restore::run(arguments, context),
        Command::Report(_) | Command::Completions(_) | Command::Manual(_) | Command::Run(_) => {
            Err(Failure::Usage("it is no part of a report"))
        }
    }
}

/// A measurement of a report: what the same command line would find.
fn part(line: &[String], context: &Context) -> Result<Document, Failure> {
    let cli = Cli::try_parse_from(line).expect("a report's own command lines are sound");
    document(&cli.command, context)
}
