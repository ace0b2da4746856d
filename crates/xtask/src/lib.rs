//! The checks of this workspace: wording, the picture of the crates, and the answers of emulated boards.
#![forbid(unsafe_code)]

pub mod judge;
pub mod picture;
mod violation;
pub mod words;

pub use violation::Violation;

/// The pages for users of the library are run as tests.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident = $file:literal),* $(,)?) => {$(
            #[doc = include_str!(concat!("../../../docs/library/", $file))]
            mod $name {}
        )*};
    }

    pages! {
        control_loop = "control-loop.md",
        driver_delays = "driver-delays.md",
        from_std = "from-std.md",
        testing = "testing.md",
        tokio_service = "tokio-service.md",
        two_processes = "two-processes.md",
        which_sleep = "which-sleep.md",
    }
}
