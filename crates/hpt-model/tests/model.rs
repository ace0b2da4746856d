//! No reading is below an earlier one, and each interruption ends one sleep, under all thread interleavings. Each test
//! tries thousands of them, which takes seconds with optimization.
#![cfg(target_pointer_width = "64")]

#[test]
fn a_segment_is_read_whole() {
    hpt_model::one_segment_at_a_time();
}

#[test]
fn nothing_goes_back_where_a_segment_ends() {
    hpt_model::where_a_segment_ends();
}

#[test]
fn nothing_goes_back_where_a_segment_ends_that_was_ahead() {
    hpt_model::where_a_segment_ends_that_was_ahead();
}

#[test]
fn nothing_goes_back_while_the_rate_is_learned() {
    hpt_model::while_the_rate_is_learned();
}

#[test]
fn nothing_goes_back_after_a_long_pause() {
    hpt_model::after_a_long_pause();
}

#[test]
fn nothing_goes_back_when_the_counter_is_set_back() {
    hpt_model::when_the_counter_is_set_back();
}

#[test]
fn an_interruption_ends_one_sleep_or_the_next() {
    hpt_model::sleeper::one_interruption_ends_one_sleep();
}

#[test]
fn no_interruption_is_lost() {
    hpt_model::sleeper::no_interruption_is_lost();
}

#[test]
fn each_interruption_has_its_sleep() {
    hpt_model::sleeper::each_interruption_has_its_sleep();
}

#[test]
fn an_interruption_ends_a_sleep_of_two_stages() {
    hpt_model::sleeper::an_interruption_in_any_stage_ends_the_sleep();
}

#[test]
fn a_dropped_waker_is_not_forgotten() {
    hpt_model::sleeper::a_dropped_waker_is_not_forgotten();
}
