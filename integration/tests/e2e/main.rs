//! The real binary, started as a process, with real clients.
//!
//! Every test has a server of its own. See `kindom_integration` for the harness.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod access_log;
mod accounts;
mod admission_policies;
mod admission_webhooks;
mod aggregation;
mod aggregator;
mod apply_built_in;
mod apply_chaos;
mod audit;
mod authority;
mod authorization;
mod builder_document;
mod cert_manager;
mod change;
mod chaos;
mod circles;
mod cluster;
mod cluster_api;
mod config_maps;
mod conversion;
mod conversion_webhooks;
mod corpus;
#[path = "../../../schema/tests/schema/corpus_folder.rs"]
mod corpus_folder;
mod credentials;
mod crowds;
mod damage;
mod declared_conversion;
mod declared_subresources;
mod delegation;
mod deletion;
mod demo;
mod depth;
mod differential;
mod envtest;
mod etcd_away;
mod etcd_tls;
mod events;
mod everyday;
mod evictions;
mod exhausted;
mod explanations;
mod fabric8;
mod faces;
mod fair;
mod fallback;
mod flow_schemas;
mod flux;
mod foreign;
mod frames;
mod garbage;
mod gatekeeper;
mod go_clients;
mod host;
mod hostile;
mod hostile_apply;
mod hostile_schemas;
mod import;
mod kill9;
mod kube_rs;
mod kubernetes_endpoints;
mod layers;
mod leases;
mod linearizable;
mod load;
mod migration;
mod mutating_policies;
mod names;
mod older_face;
mod openapi;
mod operations;
mod operators;
mod ownership;
mod pages;
mod passage;
mod plugins;
mod projects;
mod protobuf;
mod python_client;
mod quotas;
mod rbac;
mod registration;
mod replay;
mod requirements;
mod reviews;
mod scale;
mod secrets;
mod services;
mod sessions;
mod shell;
mod shutdown;
mod simulation;
mod snapshots;
mod stand_in;
mod start;
mod status;
mod storage_versions;
mod support;
mod taken_over;
mod test_control_plane;
mod tokens;
mod type_checking;
mod typed;
mod webhook;
mod websocket;
mod whole_schemas;
