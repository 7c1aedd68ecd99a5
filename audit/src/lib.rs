//! The audit log: a line for each stage of a request that the policy wants recorded.
//!
//! **Owns** the policy ([`Policy`]), the record of one request ([`Record`]), and the file with its thread ([`AuditLog`]).
//! **Deliberately absent:** HTTP, and any knowledge of how a request is answered.
//!
//! **Invariants**
//!
//! - No thread that answers requests touches the file: lines go to a thread of their own.
//! - In the modes `blocking` and `blocking-strict` a stage is over once its line is written, but for the end of an answer in pieces.
//!   In mode `batch` nobody waits. A line for which there is no room is lost and counted.
//! - Objects in records have a bounded memory. One for which there is no room is left out, and the event says so.
//! - A record is handed to the log at its end, also if it is only dropped.
//!
//! **Sources:** apiserver `pkg/apis/audit`, `pkg/audit`, `plugin/pkg/audit/{log,buffered,truncate}`, `pkg/server/options/audit.go`
//! (1.37); the names of old files are those of lumberjack 2.2.

mod event;
mod file;
mod log;
mod policy;
mod record;

pub use event::{Level, ObjectReference, Stage};
pub use file::{FileOptions, Sink};
pub use log::{AuditLog, Counts, Failing, Mode, Settings};
pub use policy::{Decided, Place, Policy, Subject};
pub use record::{Beginning, Record, Rooms};
