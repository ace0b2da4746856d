//! The first lines and the columns of results: the answer comes first, and nothing that was not measured is stated.

use crate::support::{code, host, run, stdout};

#[test]
fn the_answer_comes_before_the_machine_and_the_legend() {
    let machine = host("derived-pc-untuned");
    for (arguments, first) in [
        (&["doctor", "throttling", "--host", &machine][..], ": Real-time throttling is on"),
        (&["doctor", "-v", "--host", &machine], "No problems."),
        (&["doctor", "-v", "--for", "realtime", "--host", &machine], " of high severity"),
    ] {
        let shown = stdout(&run(arguments));
        let answer = shown.lines().next().unwrap_or_default();
        assert!(
            answer.contains(first) || arguments.contains(&"-v") && answer.contains("problem"),
            "{arguments:?}: {shown}"
        );
        let place = |word: &str| shown.find(&format!("\n{word} ")).unwrap_or_else(|| panic!("{word} in {shown}"));
        assert!(place("severity") > place("  rule"), "{shown}");
    }
}

#[test]
fn a_source_that_is_not_available_has_its_reason_once_and_no_note_on_figures() {
    let output = run(&["probe", "arm-counter"]);
    let shown = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    if code(&output) == 0 {
        return skipped!("the source is available");
    }
    let reason = shown.split_once("available no: ").expect("a reason").1.split(" kernel ").next().expect("a reason");
    assert_eq!(shown.matches(reason).count(), 1, "{shown}");
    assert!(!shown.contains("read overheads may be too high"), "{shown}");
}

#[test]
fn a_figure_of_one_read_is_no_headline() {
    let shown = stdout(&run(&["bench", "-s", "monotonic", "-n", "1"]));
    let first = shown.lines().next().unwrap_or_default();
    assert!(first.contains("too few reads for a headline") && !first.contains(" ns"), "{shown}");
    let shown = stdout(&run(&["bench", "-s", "monotonic", "-n", "20000"]));
    let first = shown.lines().next().unwrap_or_default();
    assert!(first.contains("monotonic") && first.contains(" ± "), "{shown}");
}

#[test]
fn columns_without_a_value_are_left_out_and_the_default_fills_p99() {
    let columns = |arguments: &[&str]| {
        let shown = stdout(&run(&[&["sleep", "--strategy", "busy", "-l", "10us"], arguments].concat()));
        let head =
            shown.lines().find(|line| line.starts_with("sleep ")).unwrap_or_else(|| panic!("{shown}")).to_owned();
        (head.contains(" p99 "), head.contains(" p99.9 "), shown)
    };
    let (has_p99, has_p999, shown) = columns(&[]);
    assert!(has_p99 && !has_p999, "{shown}");
    let (has_p99, _, shown) = columns(&["-n", "100"]);
    assert!(!has_p99 && shown.contains("% of a CPU"), "{shown}");
}
