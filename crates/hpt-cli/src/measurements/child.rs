//! A measurement in a process of its own, which can be ended at any time. The process reads the measurement as JSON from
//! standard input, and prints the document as JSON.

use std::{
    env,
    io::{self, Read, Write},
    process::{Child, Command, ExitCode, Stdio},
};

use super::measurement::Measurement;
use crate::{
    context::Context,
    exit::{Failure, code},
    output::{self, Format},
    sampling::load::command_of_own_program,
};

/// The first argument of such a process.
const MEASURE: &str = "__measure";

/// Returns the command of a process that makes the measurement which [`send`] sends.
pub(crate) fn command() -> Command {
    let mut command = command_of_own_program();
    command.arg(MEASURE).stdin(Stdio::piped());
    command
}

/// Sends the measurement to a process.
pub(crate) fn send(child: &mut Child, measurement: &Measurement) -> io::Result<()> {
    let text = serde_json::to_vec(measurement)?;
    child.stdin.take().map_or(Ok(()), |mut input| input.write_all(&text))
}

/// Returns whether this process is one of them.
pub(crate) fn is_asked() -> bool {
    env::args_os().nth(1).is_some_and(|word| word == MEASURE)
}

/// Makes the measurement that another process requests. `forbidden` tells whether access to the counter was disabled.
pub(crate) fn answer(forbidden: io::Result<bool>) -> ExitCode {
    measured(forbidden).unwrap_or_else(|failure| {
        failure.report();
        failure.code()
    })
}

fn measured(forbidden: io::Result<bool>) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text).map(|_| text);
    let parsed = read.and_then(|text| Ok(serde_json::from_str::<Measurement>(&text)?));
    let measurement = parsed.map_err(Failure::NoRequest)?;
    let context = Context::new(forbidden, Format::Json, None)?;
    let document = measurement.measure(&context)?;
    output::print(&document, Format::Json).map_err(Failure::Print)?;
    Ok(code(document.answer))
}
