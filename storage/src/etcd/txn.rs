//! Transactions in etcd's words, and which compare of a failed one did not hold.

use super::space::{Space, StoredRange};
use super::wire::{self, CompareOp, Operation, RangeRequest, RangeResponse, Target, TxnRequest, number};
use crate::{Applied, Compare, CompareTarget, Op, Revision, StorageError, Txn};

/// etcd's `--max-txn-ops`, for compares and for each branch.
const OPS_MAX: usize = 128;

/// A transaction to be sent, and how to read a refusal.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) request: TxnRequest,
    /// `true` if it certainly changes something when it is committed.
    pub(super) puts: bool,
    /// For each compare, in order.
    probes: Vec<Probe>,
}

/// The reads in the else branch by which a compare is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// It never holds.
    Never,
    /// One read of one key: its mod revision is judged.
    Key(CompareTarget),
    /// One read of the keys that contradict it; an empty range holds or not.
    Range { reads: usize, holds_if_empty: bool },
    /// There was no room to read anything.
    Unread,
}

impl Prepared {
    /// # Errors
    /// [`StorageError::TooLarge`] for more compares or operations than etcd takes; keys outside the store's areas.
    pub(super) fn new(txn: &Txn, space: &Space) -> Result<Self, StorageError> {
        for (what, count) in [("compares", txn.compares.len()), ("operations", txn.ops.len())] {
            if count > OPS_MAX {
                let reason =
                    format!("a transaction of {count} {what} is larger than etcd's limit of {OPS_MAX}");
                return Err(StorageError::Unavailable { reason, applied: Applied::No });
            }
        }
        let mut compares = Vec::with_capacity(txn.compares.len());
        let (mut reads, mut probes) = (Vec::new(), Vec::new());
        for compare in &txn.compares {
            let range = space.range(&compare.range)?;
            compares.push(stored_compare(compare, &range));
            let (probe, needed) = probe(compare.target, &range);
            if reads.len() + needed.len() > OPS_MAX {
                probes.push(Probe::Unread);
            } else {
                reads.extend(needed);
                probes.push(probe);
            }
        }
        let mut ops = Vec::with_capacity(txn.ops.len());
        for op in &txn.ops {
            let key = space.stored(op.key())?.to_bytes();
            ops.push(match op {
                Op::Put(_, value) => Operation::Put(key, value.clone()),
                Op::Delete(_) => Operation::Delete(key),
            });
        }
        let puts = txn.ops.iter().any(|op| op.value().is_some());
        let request = TxnRequest { compare: compares, success: ops, failure: reads };
        Ok(Self { request, puts, probes })
    }

    /// The first compare that did not hold, by the reads of the else branch.
    pub(super) fn first_failed(&self, answers: &[RangeResponse]) -> Option<usize> {
        let mut answers = answers.iter();
        for (at, probe) in self.probes.iter().enumerate() {
            let holds = match *probe {
                Probe::Never => false,
                Probe::Unread => return None,
                Probe::Key(target) => {
                    let found = answers.next()?;
                    let at = found.kvs.first().map_or(Revision::ZERO, |kv| kv.mod_revision);
                    match target {
                        CompareTarget::ModEqual(wanted) => at == wanted,
                        CompareTarget::ModLess(bound) => at < bound,
                        CompareTarget::ModGreater(bound) => at > bound,
                    }
                }
                Probe::Range { reads, holds_if_empty } => {
                    let (mut contradicted, mut keys) = (false, 0);
                    for _ in 0..reads {
                        let found = answers.next()?;
                        contradicted |= !found.kvs.is_empty();
                        keys = found.count;
                    }
                    if keys == 0 { holds_if_empty } else { !contradicted }
                }
            };
            if !holds {
                return Some(at);
            }
        }
        None
    }
}

fn stored_compare(compare: &Compare, range: &StoredRange) -> wire::Compare {
    let (result, bound) = match compare.target {
        CompareTarget::ModEqual(at) => (CompareOp::Equal, at),
        CompareTarget::ModLess(bound) => (CompareOp::Less, bound),
        CompareTarget::ModGreater(bound) => (CompareOp::Greater, bound),
    };
    wire::Compare {
        result,
        target: Target::ModRevision(number(bound)),
        key: range.key.clone(),
        range_end: range.end.clone(),
    }
}

/// The reads that tell whether a compare holds. etcd counts all keys of a range whatever the filters leave out.
fn probe(target: CompareTarget, range: &StoredRange) -> (Probe, Vec<RangeRequest>) {
    let (key, range_end) = (range.key.clone(), range.end.clone());
    let any = RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
    // A filter of 0 would not filter.
    let from = |at: Revision| RangeRequest { min_mod_revision: number(at).max(1), ..any.clone() };
    let upto = |at: Revision| RangeRequest { max_mod_revision: number(at), ..any.clone() };
    if range.end.is_empty() {
        return (Probe::Key(target), vec![any]);
    }
    let reads = match target {
        CompareTarget::ModLess(Revision::ZERO) => return (Probe::Never, Vec::new()),
        CompareTarget::ModEqual(Revision::ZERO) => vec![any],
        CompareTarget::ModEqual(Revision(1)) => vec![from(Revision(2))],
        CompareTarget::ModEqual(at) => vec![upto(Revision(at.0 - 1)), from(at.next())],
        CompareTarget::ModLess(bound) => vec![from(bound)],
        // No key was ever written at 0: a filter that leaves out all.
        CompareTarget::ModGreater(Revision::ZERO) => vec![from(Revision(u64::MAX))],
        CompareTarget::ModGreater(bound) => vec![upto(bound)],
    };
    let holds_if_empty = match target {
        CompareTarget::ModEqual(at) => at == Revision::ZERO,
        CompareTarget::ModLess(_) => true,
        CompareTarget::ModGreater(_) => false,
    };
    (Probe::Range { reads: reads.len(), holds_if_empty }, reads)
}
