//! Behind a real kube-apiserver of Kubernetes 1.37 with its aggregator, RBAC and audit log (B-01, B-02, B-44, B-45, B-46).

mod behind;
mod delegation;
mod full;
mod page;
mod partition;
mod user;
mod wrong;

pub(crate) use behind::{Behind, described};
