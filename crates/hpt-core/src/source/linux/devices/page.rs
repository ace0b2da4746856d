//! Maps the registers of a device, from a UIO window or from /dev/mem. Does not depend on the device, and reads no
//! register.

use std::{
    io,
    path::{Path, PathBuf},
};

use hpt_sys::{
    host::{Host, Region, UioWindow},
    mmio::Window,
    process,
};

use super::rights;
use crate::source::{MissingRight, SourceError};

const MEMORY: &str = "/dev/mem";

/// Maps the registers, from a UIO window if one can be opened, otherwise from /dev/mem. Also returns the path of the
/// mapped file.
pub(super) fn map(host: &Host, region: Region) -> Result<(Window, PathBuf), SourceError> {
    let mut refused = None;
    if let Some(uio) = host.uio_window(region) {
        let path = Path::new("/dev").join(&uio.device);
        match map_uio(&path, &uio, region) {
            Ok(window) => return Ok((window, path)),
            Err(error) => refused = Some((path, error)),
        }
    }
    map_memory(region).map_err(|error| match refused {
        // The UIO window was created for this purpose, so its error is the problem to fix.
        Some((path, error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            SourceError::NoRight { path: path.display().to_string(), right: MissingRight::FileMode }
        }
        _ => diagnose(host, error),
    })
}

/// Maps the registers from /dev/mem, which only root can open, even if a UIO window shows them.
pub(super) fn map_as_root(host: &Host, region: Region) -> Result<(Window, PathBuf), SourceError> {
    map_memory(region).map_err(|error| match diagnose(host, error) {
        SourceError::NoRight { path, right: MissingRight::FileMode | MissingRight::Capability } => {
            SourceError::NoRight { path, right: MissingRight::RootOnly }
        }
        reason => reason,
    })
}

fn map_uio(path: &Path, uio: &UioWindow, region: Region) -> io::Result<Window> {
    // Map N of a UIO device starts N pages into its file, regardless of the device's address (uio-howto).
    let offset = process::page_size() * u64::from(uio.map);
    Window::map(path, offset, within(region.address - uio.region.address)?, within(region.length)?)
}

fn map_memory(region: Region) -> io::Result<(Window, PathBuf)> {
    let path = PathBuf::from(MEMORY);
    let page_address = region.address & !(process::page_size() - 1);
    let start = within(region.address - page_address)?;
    Window::map(&path, page_address, start, within(region.length)?).map(|window| (window, path))
}

fn within(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Returns the first missing permission, in the order in which the kernel checks them: the file's mode, the capability,
/// lockdown, the page itself.
///
/// # References
///
/// Linux, drivers/char/mem.c, `open_port` and `mmap_mem`.
fn diagnose(host: &Host, error: io::Error) -> SourceError {
    let missing = |right| SourceError::NoRight { path: MEMORY.to_owned(), right };
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => SourceError::NoDevice {
            evidence: format!(
                "{MEMORY} does not exist: the kernel was built without CONFIG_DEVMEM, or the container does not have the device"
            ),
        },
        Some(libc::EACCES) => missing(MissingRight::FileMode),
        Some(libc::EPERM) => missing(rights::behind_eperm(host).unwrap_or(MissingRight::Page)),
        _ => SourceError::refused(MEMORY, error),
    }
}
