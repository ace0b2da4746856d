//! Instances that a killed hpt process left behind, and their removal. Their names contain the process, so no other
//! process's instance is removed.

use std::fs;

use super::{
    TraceError,
    place::{self, Folder},
};

/// The start of the name of each instance that hpt creates.
const PREFIX: &str = "hpt-";

/// An instance whose process no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftInstance {
    /// The name of the instance.
    pub name: String,
    /// The process that created it.
    pub process: u32,
}

/// The result of removing an instance.
#[derive(Debug)]
#[non_exhaustive]
pub struct Removal {
    /// The instance.
    pub instance: LeftInstance,
    /// The error, if the instance could not be removed.
    pub error: Option<std::io::Error>,
}

/// Returns the instances whose processes no longer exist.
///
/// # Errors
///
/// Returns [`TraceError`] if the tracefs cannot be read.
pub fn left_instances() -> Result<Vec<LeftInstance>, TraceError> {
    place::check_pid_namespace()?;
    let names = Folder::mounted()?.below("instances")?.names();
    let left = names.into_iter().filter_map(|name| {
        let (process, started) = parse(&name)?;
        (start_of(process) != Some(started)).then_some(LeftInstance { name, process })
    });
    Ok(left.collect())
}

/// Removes the instances whose processes no longer exist.
///
/// # Errors
///
/// Returns [`TraceError`] if the tracefs cannot be read.
pub fn remove_left_instances() -> Result<Vec<Removal>, TraceError> {
    let left = left_instances()?;
    let instances = Folder::mounted()?.below("instances")?;
    let removed = left.into_iter().map(|instance| Removal { error: instances.remove(&instance.name).err(), instance });
    Ok(removed.collect())
}

/// Returns the name of an instance of this process.
pub(super) fn name_of_own(number: u32) -> String {
    let process = std::process::id();
    format!("{PREFIX}{process}-{}-{number}", start_of(process).unwrap_or(0))
}

/// Returns the process and its start time from the name of an instance.
fn parse(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-');
    let parsed = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next()?.parse::<u32>().ok()?;
    numbers.next().is_none().then_some(parsed)
}

/// Returns the start time of a process in clock ticks, from the 22nd field of /proc/PID/stat; `None` if there is no such
/// process.
fn start_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{name_of_own, parse, start_of};

    #[test]
    fn the_name_of_an_instance_contains_its_process() {
        let own = std::process::id();
        let started = start_of(own).expect("this process exists");
        assert_eq!(parse(&name_of_own(3)), Some((own, started)));
        for other in ["hpt-1-2", "hpt-1-2-3-4", "hpt-a-2-3", "foo", "hpt-", "xhpt-1-2-3", "hpt-1-2-x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
