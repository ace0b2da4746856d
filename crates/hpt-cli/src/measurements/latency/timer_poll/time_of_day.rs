//! The start time of a run: parses a time of day, and converts it to wall-clock time.

use serde::{Deserialize, Serialize};
use std::{fmt, time::SystemTime};

use jiff::{Timestamp, Zoned, civil, tz::TimeZone};

/// A requested time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TimeOfDay {
    /// The next occurrence of a time of day, in the system's time zone.
    Next(civil::Time),
    /// A time on a given date.
    Exactly(Timestamp),
}

pub(super) fn time_of_day(text: &str) -> Result<TimeOfDay, String> {
    // jiff parses the second 60 as 59.
    if text.split(':').nth(2).is_some_and(|second| second.starts_with("60")) {
        return Err("the seconds of a time are 0 to 59".to_owned());
    }
    let of_a_date = || text.parse::<Timestamp>().ok();
    let local = || text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::system()).ok();
    // Without this check, a time alone would be parsed as the start of a date, and a date alone as midnight.
    if text.contains(['T', 't', ' ']) {
        of_a_date().or_else(|| Some(local()?.timestamp())).map(TimeOfDay::Exactly)
    } else {
        text.parse::<civil::Time>().ok().filter(|_| text.contains(':')).map(TimeOfDay::Next)
    }
    .ok_or_else(|| "expected a time such as 12:30:15, or a date and a time such as 2030-01-31T12:30:15Z".to_owned())
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Next(time) => write!(f, "{time}"),
            Self::Exactly(timestamp) => write!(f, "{timestamp}"),
        }
    }
}

impl TimeOfDay {
    /// Returns the time, or `None` if it has passed.
    pub(super) fn after(&self, now: &Zoned) -> Option<SystemTime> {
        let timestamp = match self {
            Self::Exactly(timestamp) => *timestamp,
            Self::Next(time) => {
                let today = now.date();
                let on =
                    |day: civil::Date| Some(day.to_datetime(*time).to_zoned(now.time_zone().clone()).ok()?.timestamp());
                let days = [Some(today), today.tomorrow().ok()];
                days.into_iter().flatten().filter_map(on).find(|&moment| moment > now.timestamp())?
            }
        };
        (timestamp > now.timestamp()).then(|| timestamp.into())
    }
}

#[cfg(test)]
mod tests {
    use jiff::{Zoned, civil, tz::TimeZone};

    use super::{TimeOfDay, time_of_day};

    #[test]
    fn a_time_of_day_is_the_next_one_and_a_date_is_that_date() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now: Zoned = civil::datetime(2030, 1, 31, 12, 0, 0, 0).to_zoned(zone).expect("a moment");
        let at =
            |text| time_of_day(text).map(|time| time.after(&now).map(|at| humantime::format_rfc3339(at).to_string()));
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(at("12:00:00.5"), some("2030-01-31T10:00:00.500000000Z"));
        assert_eq!(at("12:00"), some("2030-02-01T10:00:00Z"));
        assert_eq!(at("00:00:01"), some("2030-01-31T22:00:01Z"));
        assert_eq!(at("2030-01-31T10:00:01Z"), some("2030-01-31T10:00:01Z"));
        assert_eq!(at("2030-01-31T12:00:01+02:00"), some("2030-01-31T10:00:01Z"));
        assert_eq!(at("2030-01-31T09:59:59Z"), Ok(None));
        assert!(matches!(time_of_day("2031-05-06 07:08:09"), Ok(TimeOfDay::Exactly(_))));
        for wrong in [
            "",
            "12:00:60",
            "2030-02-01T00:00:60Z",
            "25:00",
            "noon",
            "12",
            "2030-01-31",
            "12:00Z",
            "2030-02-30T00:00:00Z",
        ] {
            assert!(at(wrong).is_err(), "{wrong}: {:?}", at(wrong));
        }
    }
}
