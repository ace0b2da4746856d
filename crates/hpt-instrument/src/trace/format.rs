//! The layout of the kernel's ring buffer and of its events, as the kernel describes them in header_page and in the
//! format files (Documentation/trace/events.rst).

/// The maximum size of a page of the ring buffer, in bytes, and of a field.
const LONGEST_PAGE: usize = 1 << 20;

/// The layout of a page of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) big_endian: bool,
    /// The size of the field that contains the number of valid bytes: 4 on 32-bit kernels, 8 on 64-bit kernels.
    pub(super) commit_size: usize,
    pub(super) data_offset: usize,
    pub(super) page_size: usize,
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) signed: bool,
    /// Whether the field contains the place of its value: the length in the upper half, the offset in the lower half.
    pub(super) is_location: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventFormat {
    pub(super) id: u16,
    fields: Vec<(String, Field)>,
}

impl Layout {
    /// Parses the content of events/header_page.
    pub(super) fn parse(text: &str, big_endian: bool) -> Option<Self> {
        let fields: Vec<_> = text.lines().filter_map(field).collect();
        let named = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|&(_, field)| field);
        let (time, commit, data) = (named("timestamp")?, named("commit")?, named("data")?);
        let page_size = data.offset.checked_add(data.size)?;
        let is_known = (time.offset, time.size) == (0, 8)
            && commit.offset == 8
            && [4, 8].contains(&commit.size)
            && data.offset == 8 + commit.size
            && page_size <= LONGEST_PAGE;
        is_known.then_some(Self { big_endian, commit_size: commit.size, data_offset: data.offset, page_size })
    }
}

impl EventFormat {
    /// Parses the content of a format file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(other, _)| other == name).map(|&(_, field)| field)
    }
}

/// Parses a line that declares a field with its offset, its size and its sign, each followed by a semicolon.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?.trim();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    // Kernels before 2.6.30 do not state whether a field is signed.
    let signed = number("signed:").is_some_and(|signed| signed != 0);
    let name = declared.rsplit([' ', '*']).next()?.split('[').next()?;
    let is_plausible = !name.is_empty() && offset <= LONGEST_PAGE && size <= LONGEST_PAGE;
    let is_location = declared.starts_with("__data_loc");
    is_plausible.then(|| (name.to_owned(), Field { offset, size, signed, is_location }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{EventFormat, Field, Layout};

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn the_layout_of_a_page_is_as_the_kernel_describes_it() {
        let layout = Layout { big_endian: false, commit_size: 8, data_offset: 16, page_size: 4_096 };
        assert_eq!(Layout::parse(PAGE, false), Some(layout));
        let of_32_bits = PAGE
            .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        assert_eq!(
            Layout::parse(&of_32_bits, true),
            Some(Layout { big_endian: true, commit_size: 4, data_offset: 12, page_size: 4_096 })
        );
        for wrong in
            [PAGE.replace("offset:16", "offset:4"), PAGE.replace("commit", "other"), PAGE.replace("4080", "99999999")]
        {
            assert_eq!(Layout::parse(&wrong, false), None, "{wrong}");
        }
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "name: irq_handler_entry\nID: 225\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\tfield:void * hrtimer;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"irq=%d\", REC->irq\n";
        let format = EventFormat::parse(text).expect("a format");
        assert_eq!(format.id, 225);
        assert_eq!(format.field("irq"), Some(Field { offset: 8, size: 4, signed: true, is_location: false }));
        assert!(format.field("name").is_some_and(|field| field.is_location));
        assert!(format.field("hrtimer").is_some() && format.field("print").is_none());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
            let _ = (EventFormat::parse(&text), Layout::parse(&text, false));
        }
    }
}
