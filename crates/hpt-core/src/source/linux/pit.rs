//! The programmable interval timer in PCs, which is listed but not read, because a read requires a write.

use hpt_sys::host::{Architecture, Host};

use crate::source::{Backend, KernelVerdict, Opened, ProbeReport, SourceError, SourceId};

const ID: SourceId = SourceId::new("pit");

/// Returns the reason why the timer is not read. A read requires a command to port 0x43, which latches the count of the
/// i8254 for the next reader, so the kernel and a program could receive each other's counts. Intel 8254 Programmable
/// Interval Timer (231164-005), Read Operations.
fn refusal(host: &Host) -> SourceError {
    match host.facts().architecture {
        Architecture::X86_64 | Architecture::X86 => SourceError::NeedsWrite {
            evidence: "a latch command to port 0x43, which would disturb the kernel and any other user of the timer",
        },
        have @ (Architecture::Aarch64 | Architecture::Arm | Architecture::Riscv64 | Architecture::Other) => {
            SourceError::OtherArchitecture { have }
        }
    }
}

#[derive(Debug)]
pub(super) struct PitBackend;

impl Backend for PitBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        vec![ProbeReport {
            id: ID,
            description: "programmable interval timer (i8254), 1.193 182 MHz",
            availability: Err(refusal(host)),
            kernel: KernelVerdict::Unknown("this timer is not read".to_owned()),
            evidence: Vec::new(),
        }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        Err(refusal(host))
    }
}
