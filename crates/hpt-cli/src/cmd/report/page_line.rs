//! The line that names a page on a terminal.

use std::path::Path;

use crate::output::Cell;

/// Returns the line that names a page. A terminal can open the address, so it is never wrapped.
pub(super) fn page_line(path: &Path) -> Vec<Cell> {
    vec![Cell::command(format!("Report: {}", file_url(path)))]
}

/// Returns the address of a file, as a browser expects it.
fn file_url(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut url = "file://".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::file_url;

    #[test]
    fn the_address_of_a_page_can_be_opened() {
        assert_eq!(file_url(Path::new("/tmp/my report µ#1.html")), "file:///tmp/my%20report%20%C2%B5%231.html");
        assert!(file_url(Path::new("a.html")).starts_with("file:///"));
    }
}
