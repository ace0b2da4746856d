//! The command `hpt`: runs one subcommand and prints its document.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own"))]

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
mod kernel_reads;
mod measurements;
mod output;
mod pause;
mod read_cost;
mod sampling;
mod shell_completion;
mod signals;
mod source_granularity;
mod source_rate;
mod statistics;
mod stopwatch;
mod usage_error;

use std::process::ExitCode;

use crate::{
    arguments::Printed,
    cli::{Cli, Command},
    context::Context,
    exit::{Failure, USAGE, causes, code, code_of_signal},
    output::{
        Answer, Format,
        chart_option::ChartFile,
        message::{self, ColorChoice, Manner},
    },
};

fn main() -> ExitCode {
    // This call must be first, because under PR_TSC_SIGSEGV, a read of the standard library's clocks would kill this
    // process.
    let forbidden = hpt_core::source::permit_counter();
    // This call must precede every read of a counter whose access can be revoked. Otherwise, the process would end
    // without a message.
    let _ = hpt_core::source::explain_refused_cycles(cycle_counters::WHY_ENDED);
    // A process of --load runs until hpt kills it.
    if let Some(code) = sampling::load::run_if_asked() {
        return code;
    }
    // A process that makes one measurement for another one reads its request.
    if measurements::is_asked() {
        return measurements::answer(forbidden);
    }
    // If a shell requests completions, hpt prints them and exits.
    shell_completion::answer_the_shell(Cli::definition);
    let color = cli::color_of(std::env::args_os().skip(1));
    let cli = match Cli::read(std::env::args_os(), color) {
        Ok(cli) => cli,
        Err(answer) => {
            if answer.use_stderr() {
                message::behave(Manner { color: ColorChoice::of(color), ..Manner::default() });
                let arguments = std::env::args_os().skip(1);
                message::wrong_usage(&usage_error::text(answer, arguments, Cli::definition()));
                let is_for_run = cli::is_for_run(std::env::args_os().skip(1));
                return ExitCode::from(if is_for_run { cmd::run::FAILED } else { USAGE });
            }
            // This call prints the help. If it fails, hpt could not print an error message either.
            let _ = answer.print();
            return code(Answer::Yes);
        }
    };
    message::behave(cli.printed.manner());
    let Some(command) = &cli.command else {
        return overview(&cli.printed, forbidden).unwrap_or_else(|failure| {
            failure.report();
            failure.code()
        });
    };
    match run(&cli, command, forbidden) {
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

/// Prints the overview, which is the output of hpt without a command.
fn overview(printed: &Printed, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    if printed.textfile.is_some() {
        return Err(Failure::Usage(
            "--textfile needs a command with metrics, for example hpt watch or hpt latency timer",
        ));
    }
    let context = Context::new(forbidden, printed.format(), None)?;
    cmd::overview::run(&context).map(code)
}

fn run(cli: &Cli, command: &Command, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    let printed = &cli.printed;
    let format = printed.format();
    let wants_metrics = format == Format::Openmetrics || printed.textfile.is_some();
    if wants_metrics && !command.has_metrics() {
        let option = if printed.textfile.is_some() { "--textfile" } else { "--format openmetrics" };
        return Err(Failure::NoMetrics { option, command: cli.name.clone() });
    }
    let context = Context::new(forbidden, format, printed.textfile.as_deref())?;
    let chart = command.chart();
    chart.map_or(Ok(()), ChartFile::check)?;
    let mut document = match command {
        Command::Schema(arguments) => return cmd::schema::run(arguments).map(code),
        Command::Completions(arguments) => return cmd::completions::run(arguments).map(code),
        Command::Manual(arguments) => return cmd::manual::run(arguments, Cli::definition()).map(code),
        // The output is the capture itself, not a document.
        Command::Capture(arguments) if arguments.is_printed() => return cmd::capture::print(&context).map(code),
        // The program that hpt runs determines the output and the exit code.
        Command::Run(arguments) => return Ok(cmd::run::run(arguments, &context)),
        Command::Measurement(measurement) => measurement.measure(&context),
        Command::Doctor(arguments) => cmd::doctor::run(arguments, &context),
        Command::Read(arguments) => cmd::read::run(arguments, &context),
        Command::Calibrate(arguments) => cmd::calibrate::run(arguments, &context),
        Command::Report(arguments) => cmd::report::run(arguments, &context),
        Command::Compare(arguments) => cmd::report::compare::run(arguments, &context),
        Command::Capture(arguments) => cmd::capture::run(arguments, &context),
        Command::Check(arguments) => cmd::check::run(arguments, &context),
        Command::Clocksource(arguments) => cmd::clocksource::run(arguments, &context),
        Command::Restore(arguments) => cmd::restore::run(arguments, &context),
    }?;
    let kept = [context.keep_metrics(&document.data), chart.map_or(Ok(()), |chart| Ok(chart.draw(&document.data)?))];
    for failure in kept.into_iter().filter_map(Result::err) {
        // hpt still prints the result.
        document.warnings.push(causes(&failure));
        document.answer = document.answer.and(Answer::Unknown);
    }
    if context.signal().is_some() {
        message::erase_echo();
    }
    output::print(&document, format).map_err(Failure::Print)?;
    for warning in &document.warnings {
        message::warning(warning);
    }
    // A signal is the normal way to end an endless run, so the answer determines the exit code.
    let cut_short = context.signal().filter(|_| document.data.interrupted() && !command.is_endless());
    Ok(cut_short.map_or_else(|| code(document.answer), code_of_signal))
}
