//! Parses the notation for a line: its name or its number, with or without its chip. Does not check whether the line
//! exists; `chip` does.

use std::{fmt, str::FromStr};

/// A line as a user specifies it, for example `GPIO17`, `17`, `gpiochip0:17` or `pinctrl-bcm2835:GPIO17`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LineName {
    pub(super) chip: Option<String>,
    pub(super) line: Which,
}

/// A line of a chip, specified by its number or its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Which {
    Number(u32),
    Name(String),
}

impl LineName {
    /// Adds `chip` to the name, unless the name already includes a chip.
    #[must_use]
    pub fn or_on(mut self, chip: Option<&str>) -> Self {
        self.chip = self.chip.or_else(|| chip.map(str::to_owned));
        self
    }
}

impl FromStr for LineName {
    type Err = String;

    /// Parses a name. Line names can contain colons. The part before the first colon is therefore treated as a chip
    /// only if it looks like a chip name or a path, or if the rest is a number.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a line name or number, optionally with a chip, for example GPIO17, 17 or gpiochip0:17".to_owned()
        };
        let is_chip = |text: &str| text.starts_with("gpiochip") || text.starts_with("pinctrl") || text.starts_with('/');
        if text.starts_with(':') {
            return Err(wrong());
        }
        let (chip, line) = match text.split_once(':') {
            Some((chip, line)) if is_chip(chip) || is_number(line) => (Some(chip.to_owned()), line),
            Some(_) | None => (None, text),
        };
        if line.is_empty() || line.starts_with('-') {
            return Err(wrong());
        }
        let line = if is_number(line) {
            Which::Number(line.parse().map_err(|_| format!("line number {line} is too large"))?)
        } else {
            Which::Name(line.to_owned())
        };
        Ok(Self { chip, line })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for LineName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chip) = &self.chip {
            write!(formatter, "{chip}:")?;
        }
        match &self.line {
            Which::Number(number) => write!(formatter, "{number}"),
            Which::Name(name) => formatter.write_str(name),
        }
    }
}

/// Returns the names, at most three, that contain `wanted` or are contained in it, ignoring case.
pub(super) fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let is_near = |name: &str| {
        let name = name.to_lowercase();
        !name.is_empty() && (name.contains(&wanted) || wanted.contains(&name))
    };
    let mut near: Vec<_> = names.into_iter().filter(|name| is_near(name)).collect();
    near.sort_by_key(|name| name.len().abs_diff(wanted.len()));
    near.truncate(3);
    near
}

#[cfg(test)]
mod tests {
    use proptest::{
        prelude::{prop_assert_eq, proptest},
        string::string_regex,
    };

    use super::{LineName, Which, similar};

    fn read(text: &str) -> Result<LineName, String> {
        text.parse()
    }

    #[test]
    fn a_line_has_a_name_or_a_number_and_may_have_a_chip() {
        let of = |chip: Option<&str>, line: Which| Ok(LineName { chip: chip.map(str::to_owned), line });
        let name = |name: &str| Which::Name(name.to_owned());
        assert_eq!(read("GPIO17"), of(None, name("GPIO17")));
        assert_eq!(read("17"), of(None, Which::Number(17)));
        assert_eq!(read("gpiochip0:17"), of(Some("gpiochip0"), Which::Number(17)));
        assert_eq!(read("/dev/gpiochip4:GPIO17"), of(Some("/dev/gpiochip4"), name("GPIO17")));
        assert_eq!(read("pinctrl-rp1:GPIO17"), of(Some("pinctrl-rp1"), name("GPIO17")));
        assert_eq!(read("9030000.pl061:3"), of(Some("9030000.pl061"), Which::Number(3)));
        // Names in device trees contain colons.
        assert_eq!(read("status:led"), of(None, name("status:led")));
        assert_eq!(read("a b"), of(None, name("a b")));
        for wrong in ["", ":", ":17", "gpiochip0:", "-1", "gpiochip0:-1", "4294967296"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_named_chip_is_not_replaced_by_the_default() {
        let on = |text: &str| read(text).expect("a name").or_on(Some("gpiochip1")).to_string();
        assert_eq!((on("17").as_str(), on("gpiochip0:17").as_str()), ("gpiochip1:17", "gpiochip0:17"));
        assert_eq!(read("17").expect("a name").or_on(None).to_string(), "17");
    }

    #[test]
    fn nearly_correct_names_are_suggested() {
        let names = ["GPIO1", "GPIO17", "GPIO170", "", "ID_SDA"];
        assert_eq!(similar("gpio17", names), ["GPIO17", "GPIO1", "GPIO170"]);
        assert_eq!(similar("17", names), ["GPIO17", "GPIO170"]);
        assert!(similar("LED", names).is_empty());
    }

    proptest! {
        #[test]
        fn a_parsed_name_prints_and_parses_again(text in string_regex("(gpiochip[0-9]{1,2}:)?([0-9]{1,4}|[A-Za-z][A-Za-z0-9_ ]{0,9})").expect("an expression")) {
            let name = read(&text).expect("a valid name");
            prop_assert_eq!(read(&name.to_string()), Ok(name));
        }

        #[test]
        fn any_text_is_parsed_or_refused_with_a_reason(text in ".{0,40}") {
            let _ = read(&text);
        }
    }
}
