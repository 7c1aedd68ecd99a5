//! What takes longer: `./test --full`.

use kindom_integration::full;

use super::Behind;
use crate::sessions;

/// kubectl prints what it prints with Kubernetes itself, whatever it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_of_kubectl_goes_through_the_host() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::start().await else { return };
    let faults = sessions::through(&behind).await;
    assert!(faults.is_empty(), "{faults}");
}
