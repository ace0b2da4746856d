//! The instruction sets that this crate distinguishes. Reads no files: the target of the build determines the result.

/// The instruction set of this program, or of the system in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Architecture {
    /// x86-64.
    #[cfg_attr(feature = "serde", serde(rename = "x86-64"))]
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
    /// 32-bit x86.
    X86,
    /// 64-bit RISC-V.
    Riscv64,
    /// Any other architecture that Linux supports.
    Other,
}

impl Architecture {
    /// The architecture for which this program was built.
    pub const HERE: Self = if cfg!(target_arch = "x86_64") {
        Self::X86_64
    } else if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "arm") {
        Self::Arm
    } else if cfg!(target_arch = "x86") {
        Self::X86
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::Other
    };

    /// Returns whether this is x86, with 32 or 64 bits.
    pub const fn is_x86(self) -> bool {
        matches!(self, Self::X86_64 | Self::X86)
    }

    /// Returns the usual name of the architecture.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::X86 => "x86",
            Self::Riscv64 => "riscv64",
            Self::Other => "this architecture",
        }
    }
}
