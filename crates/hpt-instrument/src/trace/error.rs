//! The reasons why the kernel's trace cannot be recorded, each with its fix.

use std::io;

/// The reason why the kernel's trace cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The kernel has no tracefs.
    #[error("this kernel has no tracefs")]
    NoTracefs,
    /// No tracefs is mounted.
    #[error("tracefs is not mounted")]
    NotMounted,
    /// This process lacks permission to use tracefs.
    #[error("tracefs needs root")]
    NotAllowed(#[source] io::Error),
    /// The kernel's lockdown prevents tracing.
    #[error("the kernel's lockdown (mode {mode}) prevents tracing")]
    Lockdown {
        /// The mode of the lockdown.
        mode: String,
    },
    /// This process runs in a PID namespace, in which thread IDs differ from those in the trace.
    #[error("hpt runs in a container (a PID namespace), where thread IDs differ from those in the kernel's trace")]
    PidNamespace,
    /// The mount point does not contain a tracefs.
    #[error("{path} is not a tracefs")]
    NotTracefs {
        /// The mount point.
        path: String,
    },
    /// The kernel lacks an event or a clock that is needed.
    #[error("this kernel's trace has no {what}")]
    Missing {
        /// The event or the clock.
        what: &'static str,
    },
    /// The kernel refused an operation on a file of the trace.
    #[error("the kernel refused to use {file} in tracefs")]
    Refused {
        /// The file, relative to the root of the tracefs.
        file: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// A file of the trace has an unknown format.
    #[error("the format of {file} in tracefs is unknown")]
    UnknownFormat {
        /// The file, relative to the root of the tracefs.
        file: String,
    },
}

impl TraceError {
    /// Returns the fix in the imperative, or `None` if there is none.
    #[must_use]
    pub fn fix(&self) -> Option<&'static str> {
        match self {
            Self::NoTracefs | Self::Missing { .. } => {
                Some("boot a kernel that is built with CONFIG_FTRACE and CONFIG_ENABLE_DEFAULT_TRACERS")
            }
            Self::NotMounted => Some("mount it: sudo mount -t tracefs nodev /sys/kernel/tracing"),
            Self::NotAllowed(_) => Some("run hpt with sudo"),
            Self::Lockdown { .. } => Some("boot with the kernel parameter lockdown=integrity or without lockdown"),
            Self::PidNamespace => {
                Some("run hpt outside the container, or start the container with the host's PID namespace (--pid=host)")
            }
            Self::NotTracefs { .. } | Self::Refused { .. } | Self::UnknownFormat { .. } => None,
        }
    }
}
