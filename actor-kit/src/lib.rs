//! The parts that kindom needs and actix lacks: supervision that recreates an actor, asks with a bound and a deadline, fair shares
//! of processors and memory, and time and randomness as parameters.
//!
//! **Owns:** the life of every actor ([`Supervisor`]), the list of them ([`ActorTable`]), the way
//! to talk to one ([`Handle`], [`Wake`]), and the threads they live on ([`Arbiters`]). An actor that
//! takes no message is a loop without a mailbox ([`Reconciler`]), and otherwise like any other.
//!
//! **Messages:** none of its own. [`Handle::ask`] carries the messages of the actor it belongs to.
//!
//! **Invariants**
//!
//! - An actor that panics, is killed or cannot load is replaced by a fresh one that its factory
//!   builds from storage; nothing of the broken struct is used again, not even its `stopping` and
//!   `stopped` hooks.
//! - A supervisor never gives up. Past its restart budget it says so
//!   ([`ActorState::Failed`]) and goes on at its longest back-off.
//! - A mailbox holds no more messages than its bound, also when the callers have gone away.
//! - No wake-up is lost: a loop listens before its first look, whichever its incarnation.
//! - A panic is a bug and counted as such ([`ActorInfo::panics`]). An actor whose state went stale for
//!   another reason asks for a successor ([`Incarnation::reload`]).
//! - Stopping is final: no restart follows, and every later ask says [`AskError::Gone`].
//! - A message that was handed to an actor is never sent again unless the caller said that it may
//!   be ([`Handle::ask_retrying`]).
//!
//! **Sources:** actix 0.13 `context_impl.rs` (dropping a context polls its actor once more),
//! `address/channel.rs` (a capacity of 0 never parks a sender), `address/envelope.rs` (a message
//! whose caller has gone is skipped).
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use actix::{Actor, Context, Handler, Message};
//! use kindom_actor_kit::{ActorTable, Arbiters, Deadline, Entropy, Policy, Supervisor, run_system};
//!
//! struct Counter(u64);
//! impl Actor for Counter {
//!     type Context = Context<Self>;
//! }
//!
//! struct Add(u64);
//! impl Message for Add {
//!     type Result = u64;
//! }
//! impl Handler<Add> for Counter {
//!     type Result = u64;
//!     fn handle(&mut self, add: Add, _: &mut Context<Self>) -> u64 {
//!         self.0 += add.0;
//!         self.0
//!     }
//! }
//!
//! let total = run_system(async {
//!     let supervisor = Supervisor::new(ActorTable::new(), Entropy::seeded(1));
//!     let counter = supervisor
//!         .start("counter", &Arbiters::current()?.place("counter"), Policy::default(), |_| async {
//!             Ok(Counter(40)) // a real factory reads its state from storage
//!         })?;
//!     let deadline = Deadline::after(Duration::from_secs(1));
//!     let total = counter.handle().ask(Add(2), deadline).await?;
//!     counter.stop().await;
//!     Ok::<_, Box<dyn std::error::Error>>(total)
//! })??;
//! assert_eq!(total, 42);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod arbiters;
mod budget;
mod clock;
mod company;
mod entropy;
mod handle;
pub mod latest;
mod mailbox;
mod processors;
mod reconciler;
mod restart;
#[cfg(any(test, feature = "test-util"))]
pub mod simulation;
mod supervisor;
mod table;
mod turn;
mod wake;

pub use arbiters::{ArbiterError, ArbiterHandle, Arbiters, run_system};
pub use budget::{Budget, Held, Room, Share};
pub use clock::{Clock, Deadline};
pub use company::{Company, give_way};
pub use entropy::Entropy;
pub use handle::{AskError, Handle};
pub use mailbox::Supervised;
pub use processors::{
    DEAR, FairQueue, Flow, Foreign, Lost, NoAnswer, Overloaded, Processors, Run, back, dear, foreign,
    foreign_future, is_in_pool, is_run, thread_time, turn,
};
pub use reconciler::Reconciler;
pub use restart::Policy;
pub use supervisor::{BoxError, Incarnation, StartError, Supervisor};
pub use table::{ActorInfo, ActorState, ActorTable};
pub use turn::install_panic_hook;
pub use wake::{Wake, Woke, Woken};
