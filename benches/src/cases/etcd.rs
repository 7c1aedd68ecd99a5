//! Reads and writes of single objects where the store is an etcd of one node.

use super::Setup;
use super::widgets::{by_index, name, path, updates};
use crate::client::{Ask, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, Run};
use crate::process::Etcd;
use crate::report::Row;
use crate::shapes::{collection, widget};

/// One client sends so many times fewer requests than all.
const FEWER: usize = 10;

/// Creates, updates, patches and consistent GETs, by one client and by many.
pub(crate) async fn requests(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let counts = &setup.counts;
    let etcd = Etcd::start(&setup.data("etcd"))?;
    let (kindom, mut connection) = setup.with_widgets_on("on-etcd", Some(&etcd)).await?;
    let mut made = 0;
    let loads = [(1, counts.creates / FEWER), (counts.writers, counts.creates)];
    for (round, (clients, requests)) in loads.into_iter().enumerate() {
        let by = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let mut add_row = |what: &str, run: Run| {
            report(Row::cpu(format!("on etcd: {what} by {by}"), run.cpu_us()).remark(run.remark()));
        };
        let mut clients = Clients::connect(&kindom.endpoint()?, Protocol::Http1, clients).await?;
        let first = made;
        let create = move |i| Ask::post(collection("widgets"), widget(&name(first + i), 1).to_string());
        add_row("create of 1 KB", clients.run(&kindom, requests, create).await?);
        made += requests;
        let half = requests / 2;
        let bodies = updates(&mut connection, half).await?;
        add_row("update of 1 KB", clients.run(&kindom, half, by_index(bodies)).await?);
        let patch =
            move |i| Ask::merge_patch(path(i), format!(r#"{{"spec":{{"replicas":{}}}}}"#, 10 + round));
        add_row("merge patch", clients.run(&kindom, half, patch).await?);
        add_row("GET", clients.run(&kindom, half, |i| Ask::get(path(i))).await?);
    }
    kindom.end().await
}
