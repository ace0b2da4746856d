//! Limits on the quantities of a run (`--limit`): the option, the verdicts, and their table.

pub(crate) mod option;
pub(crate) mod quantity;
pub(crate) mod table;
pub(crate) mod verdict;
