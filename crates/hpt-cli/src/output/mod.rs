//! Results as text, report pages, charts and files. This module re-exports the names that other modules use most. It
//! does not depend on subcommands and measures nothing.

mod bar;
pub(crate) mod cause_words;
pub(crate) mod chart;
pub(crate) mod chart_option;
mod csv;
pub(crate) mod files;
pub(crate) mod html;
mod human;
mod json;
pub(crate) mod latency_files;
pub(crate) mod live;
pub(crate) mod message;
pub(crate) mod metrics;
mod openmetrics;
mod print;
mod printable;
pub(crate) mod progress;
pub(crate) mod quantiles;
mod text;

/// The heading of the output options in help texts.
pub(crate) const OUTPUT: &str = "Output";

pub(crate) use self::{
    bar::bar,
    human::{Align, Block, Cell, Column, Table, Tone, exact_time, remarks, short_frequency, short_time, unbroken},
    print::{
        Format, columns, has_metrics, print, print_as_it_is, print_one_of_several, print_page, print_so_far, textfile,
        textfile_so_far,
    },
    printable::{Answer, Document},
    text::{
        has_tail, one_or_many, rounded, rounded_cpu_share, rounded_share, saturating_nanos, short_percent, tail,
        without_escapes,
    },
};
#[cfg(test)]
pub(crate) use self::{human::Look, print::rendered};
