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

use crate::{
    arguments::Printed,
    cli::{Cli, Command},
    context::Context,
    exit::{Failure, USAGE, causes, code, code_of_signal},
    output::{
        Answer, Document, Format,
        chart_option::ChartFile,
        message::{self, ColorChoice, Manner},
    },
};

fn main() -> ExitCode {
    // Before anything else reads a clock: under PR_TSC_SIGSEGV the standard library's clocks would end this process.
    let forbidden = hpt_core::source::permit_counter();
    // Before anything reads a counter that can be closed meanwhile. Without it the same happens, and without a word.
    let _ = hpt_core::source::explain_refused_cycles(cycle_counters::WHY_ENDED);
    // Where a shell asks what could come next, it is told, and nothing else is done.
    shell_completion::answer_the_shell(Cli::definition);
    let color = cli::color_of(std::env::args_os().skip(1));
    let cli = match Cli::read(std::env::args_os(), color) {
        Ok(cli) => cli,
        Err(answer) => {
            if answer.use_stderr() {
                message::behave(Manner { color: ColorChoice::of(color), ..Manner::default() });
                message::wrong_usage(&answer.render().to_string());
            } else {
                // Help. If nobody reads it, there is nobody to tell.
                let _ = answer.print();
            }
            return match (answer.use_stderr(), cli::is_for_run(std::env::args_os().skip(1))) {
                (true, true) => ExitCode::from(cmd::run::FAILED),
                (true, false) => ExitCode::from(USAGE),
                (false, _) => code(Answer::Yes),
            };
        }
    };
    message::behave(cli.printed.manner());
    let Some(command) = &cli.command else {
        return overview(&cli.printed, forbidden).unwrap_or_else(|failure| {
            failure.report();
            failure.code()
        });
    };
    match run(command, &cli.printed, forbidden) {
        Ok(code) => code,
        Err(failure) => {
            failure.report();
            match command {
                Command::Run(_) => ExitCode::from(cmd::run::FAILED),
                _ => failure.code(),
            }
        }
    }
}

/// What hpt prints without a command.
fn overview(printed: &Printed, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    let context = Context::new(forbidden, printed.format(), printed.textfile.as_deref())?;
    cmd::overview::run(&context).map(code)
}

fn run(command: &Command, printed: &Printed, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    let format = printed.format();
    let wants_metrics = format == Format::Openmetrics || printed.textfile.is_some();
    if wants_metrics && !command.has_metrics() {
        let option = if printed.textfile.is_some() { "--textfile" } else { "--format openmetrics" };
        return Err(Failure::NoMetrics { option, command: command.name() });
    }
    let context = Context::new(forbidden, format, printed.textfile.as_deref())?;
    let picture = command.picture();
    picture.map_or(Ok(()), ChartFile::check)?;
    let mut document = match command {
        Command::Schema(arguments) => return cmd::schema::run(arguments).map(code),
        Command::Completions(arguments) => return cmd::completions::run(arguments).map(code),
        Command::Manual(arguments) => return cmd::manual::run(arguments, Cli::definition()).map(code),
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
    output::print(&document, format).map_err(Failure::Print)?;
    for warning in &document.warnings {
        message::warning(warning);
    }
    // A run without an end is ended so, and has an answer.
    let cut_short = context.signal().filter(|_| document.data.interrupted() && !command.is_endless());
    Ok(cut_short.map_or_else(|| code(document.answer), code_of_signal))
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
        Command::Report(_) | Command::Schema(_) | Command::Completions(_) | Command::Manual(_) | Command::Run(_) => {
            Err(Failure::Usage("it is no part of a report"))
        }
    }
}

/// A measurement of a report: what the same command line would find.
fn part(line: &[String], context: &Context) -> Result<Document, Failure> {
    let cli = Cli::read(line, clap::ColorChoice::Never).expect("a report's own command lines are sound");
    document(&cli.command.expect("they name a command"), context)
}
