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
    cmd::check::Prepared,
    context::Context,
    exit::{Failure, USAGE, causes, code, code_of_signal},
    output::{
        Answer, Document, Format,
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

fn run(command: &Command, printed: &Printed, forbidden: std::io::Result<bool>) -> Result<ExitCode, Failure> {
    let format = printed.format();
    let wants_metrics = format == Format::Openmetrics || printed.textfile.is_some();
    if wants_metrics && !command.has_metrics() {
        let option = if printed.textfile.is_some() { "--textfile" } else { "--format openmetrics" };
        return Err(Failure::NoMetrics { option, command: command.name() });
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
        Command::Report(arguments) => cmd::report::run(arguments, &context, &part),
        Command::Check(arguments) => cmd::check::run(arguments, &context, &step),
        Command::Doctor(arguments) if arguments.tries() => {
            cmd::doctor::try_fixes(arguments, &context, &|line| step(line).map(drop))
        }
        command => document(command, &context),
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

/// Runs a subcommand that has a document, and returns the document.
fn document(command: &Command, context: &Context) -> Result<Document, Failure> {
    match command {
        Command::Probe(arguments) => cmd::probe::run(arguments, context),
        Command::Read(arguments) => cmd::read::run(arguments, context),
        Command::Calibrate(arguments) => cmd::calibrate::run(arguments, context),
        Command::Bench(arguments) => cmd::bench::run(arguments, context),
        Command::Latency(arguments) => cmd::latency::run(arguments, context),
        Command::Experiment(arguments) => cmd::experiment::run(arguments, context),
        Command::Sleep(arguments) => cmd::sleep::run(arguments, context),
        Command::Doctor(arguments) => cmd::doctor::run(arguments, context),
        Command::Compare(arguments) => cmd::report::compare::run(arguments, context),
        Command::Capture(arguments) => cmd::capture::run(arguments, context),
        Command::Clocksource(arguments) => cmd::clocksource::run(arguments, context),
        Command::Watch(arguments) => cmd::watch::run(arguments, context),
        Command::Restore(arguments) => cmd::restore::run(arguments, context),
        Command::Report(_)
        | Command::Check(_)
        | Command::Schema(_)
        | Command::Completions(_)
        | Command::Manual(_)
        | Command::Run(_) => Err(Failure::Usage("this command cannot be part of a report")),
    }
}

/// Runs a command line as part of a report, and returns its document.
fn part(line: &[String], context: &Context) -> Result<Document, Failure> {
    let cli = Cli::read(line, clap::ColorChoice::Never).expect("the command lines of a report are valid");
    document(&cli.command.expect("they name a command"), context)
}

/// Reads the command line of a step of a check. Returns the reason if it is no measurement with limits.
fn step(line: &[String]) -> Result<Prepared, String> {
    let cli = Cli::read(line, clap::ColorChoice::Never).map_err(|error| {
        let text = usage_error::text(error, line.iter().skip(1).map(Into::into), Cli::definition());
        let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    })?;
    if !cli.printed.is_default() {
        return Err("options for the output belong to hpt check itself, not to a step".to_owned());
    }
    let command = cli.command.ok_or("the command is missing")?;
    // A check may come from another user, and must not make root write a file.
    let options = ["--raw", "--write", "--svg", "--journal"];
    let names_a_file = |word: &String| options.contains(&word.split('=').next().unwrap_or(word));
    if line.iter().any(names_a_file) {
        return Err("a step writes no files, so it has no --raw, --write, --svg or --journal".to_owned());
    }
    let limits = command.limits().ok_or_else(|| {
        format!(
            "hpt {} has no limits; a step is bench, sleep, or latency timer, poll, stall, pairs or gpio",
            command.name()
        )
    })?;
    Ok(Prepared { limits: limits.to_vec(), run: Box::new(move |context| document(&command, context)) })
}
