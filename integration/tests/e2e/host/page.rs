//! `docs/aggregation.md`, word by word but for what it can't know: an address and a port that are free here.

use kindom_integration::{Host, free_ports};

use crate::pages;

const SECTIONS: [&str; 3] = ["## The server", "## The cluster", "## A type through the cluster"];

/// B-01, B-02, B-44, B-45: a cluster's administrator follows the page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_on_aggregation_runs_word_by_word() {
    let Some(host) = Host::start().await.unwrap() else { return };
    let port = free_ports(1).unwrap()[0].port().to_string();
    let local = [("0.0.0.0", "127.0.0.1"), ("kindom.example.org", "localhost"), ("6443", &port)];
    pages::run_as(&host.admin_caller().unwrap(), "docs/aggregation.md", &SECTIONS, 1, &local).await;
}
