//! The behavior of a program that loads the library. The programs check their readings themselves; these tests check
//! that the library served the readings.

use crate::{
    program::{CHILDREN, OTHER_CLOCKS, READINGS},
    support::{Ended, Statistic, library, run},
};

/// Runs a program with the library.
#[track_caller]
fn preloaded(name: &str) -> Option<(Ended, Statistic)> {
    let mut ended = run(name, &[&library()?]);
    let statistic = ended.statistic.take().expect("the library was loaded");
    Some((ended, statistic))
}

#[test]
fn without_the_library_nothing_is_reported() {
    assert_eq!(run("one thread", &[]).statistic, None);
}

#[test]
fn every_reading_is_served_and_close_to_the_kernels() {
    let Some((_, statistic)) = preloaded("one thread") else { return };
    assert_eq!(statistic, Statistic { served: READINGS, passed_on: 0 });
}

#[test]
fn errno_is_unchanged_from_the_first_call_on() {
    let Some((_, statistic)) = preloaded("errno") else { return };
    assert_eq!(statistic.served, READINGS);
}

#[test]
fn other_clocks_and_unknown_ones_are_passed_on() {
    let Some((_, statistic)) = preloaded("other clocks") else { return };
    assert_eq!(statistic, Statistic { served: 0, passed_on: OTHER_CLOCKS.len() as u64 + 1 });
}

#[test]
fn a_null_pointer_fails_as_without_the_library() {
    let Some((with, _)) = preloaded("null pointer") else { return };
    assert_eq!(with.stdout, run("null pointer", &[]).stdout);
}

#[test]
fn the_first_call_may_be_in_a_signal_handler() {
    let Some((_, statistic)) = preloaded("first call in a handler") else { return };
    assert_eq!(statistic, Statistic { served: 2, passed_on: 0 });
}

#[test]
fn a_handler_never_reads_a_time_before_the_interrupted_reading() {
    let Some((_, statistic)) = preloaded("interrupted") else { return };
    assert!(statistic.served > READINGS / 2, "{statistic:?}");
    assert_eq!(statistic.passed_on, 0);
}

#[test]
fn children_and_grandchildren_are_served() {
    let Some((_, statistic)) = preloaded("forked") else { return };
    // Each process counts its own calls.
    assert_eq!(statistic.served, CHILDREN);
}

#[test]
fn time_never_goes_back_across_eight_threads() {
    let Some((_, statistic)) = preloaded("threads") else { return };
    // A thread that is stopped between reading the count and writing it discards the counts of the others, so the total
    // depends on the scheduler. None was passed on, so each was served.
    assert!(statistic.served > 0, "{statistic:?}");
    assert_eq!(statistic.passed_on, 0);
}

#[test]
fn the_standard_library_is_served() {
    let Some((_, statistic)) = preloaded("standard library") else { return };
    assert!(statistic.served > READINGS, "{statistic:?}");
}

/// Each library finds another function of its name before or after it.
#[test]
fn two_preloaded_copies_do_not_call_each_other_recursively() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let second = folder.path().join("libhpt_preload_too.so");
    std::fs::copy(&library, &second).expect("a library that was built");
    let ended = run("one thread", &[&library, &second]);
    assert_eq!(ended.statistic.map(|statistic| statistic.served), Some(READINGS));
}
