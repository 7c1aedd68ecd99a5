//! The scrub: reads all sealed segments once in an interval, slowly, so that damage is known before a client needs the
//! value, and while there is a backup.

use std::time::Duration;

use kindom_actor_kit::Clock;
use kindom_storage::{Embedded, Finding};

/// So many bytes are read at once, and then it rests: 4 MiB a second at most, which leaves the disk to those who write.
const STEP_BYTES: u64 = 256 << 10;
const REST: Duration = Duration::from_millis(62);

/// Scrubs for ever: a pass begins an interval after the one before began, or when that one has ended.
pub(crate) async fn keep(store: Embedded, clock: Clock, interval: Duration) {
    let mut next = clock.now() + interval;
    loop {
        clock.sleep(next.saturating_duration_since(clock.now())).await;
        next = clock.now() + interval;
        pass(&store, &clock, report).await;
    }
}

/// Reads everything that is sealed now, and reports damages.
async fn pass(store: &Embedded, clock: &Clock, tell: impl Fn(&Finding)) {
    let mut scrub = store.scrub();
    loop {
        // Reading blocks, and so must not be done on a thread that serves.
        let step = tokio::task::spawn_blocking(move || {
            let step = scrub.step(STEP_BYTES);
            (scrub, step)
        });
        let Ok((again, step)) = step.await else { return };
        let Some(step) = step else { return };
        scrub = again;
        step.findings.iter().for_each(&tell);
        clock.sleep(REST).await;
    }
}

fn report(finding: &Finding) {
    if finding.is_loss() {
        tracing::error!(%finding, "the store is damaged: see kindom storage check");
    } else {
        tracing::warn!(%finding, "the store is damaged, but no present value is");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::FileExt as _;

    use bytes::Bytes;
    use kindom_storage::{EmbeddedOptions, Key, Op, Storage as _, Txn};

    use super::*;

    async fn filled(folder: &std::path::Path) -> Embedded {
        let options = EmbeddedOptions { segment_bytes: 1 << 20, ..EmbeddedOptions::default() };
        let store = Embedded::open(folder, options).unwrap();
        for n in 0..40 {
            let op =
                Op::Put(Key::from(format!("/k/{n:02}")), Bytes::from(format!("value {n:06}").repeat(9000)));
            store.txn(Txn { compares: Vec::new(), ops: vec![op] }).await.unwrap();
        }
        store
    }

    /// In virtual time, which passes only where the scrub rests.
    #[tokio::test(start_paused = true)]
    async fn a_pass_names_what_is_damaged_and_rests_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path()).await;
        let log = std::fs::OpenOptions::new().write(true).open(folder.path().join("00000001.log")).unwrap();
        log.write_all_at(b"damage", 200_000).unwrap();
        let clock = Clock::system();
        let begun = clock.now();
        let found = RefCell::new(Vec::new());
        pass(&store, &clock, |finding| found.borrow_mut().push(finding.clone())).await;
        let found = found.into_inner();
        let [finding] = &found[..] else { panic!("{found:?}") };
        let damaged = finding.of.as_ref().unwrap();
        assert_eq!((finding.file.as_str(), &damaged.key), ("00000001.log", &Key::from("/k/01")));
        assert!(finding.is_loss());
        let counts = store.scrub_counts();
        assert_eq!((counts.passes, counts.damaged), (1, 1));
        let rested = clock.now() - begun;
        let least = REST * u32::try_from(counts.bytes / (STEP_BYTES + (128 << 10))).unwrap();
        assert!(counts.bytes > 3 << 20 && rested >= least, "{rested:?} for {} bytes", counts.bytes);
        store.close().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn passes_begin_an_interval_apart() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path()).await;
        let scrubbing = tokio::spawn(keep(store.clone(), Clock::system(), Duration::from_secs(3600)));
        // In the middle between two: a pass takes a few seconds.
        tokio::time::sleep(Duration::from_secs(1800)).await;
        for passes in 0..3 {
            assert_eq!(store.scrub_counts().passes, passes);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        scrubbing.abort();
        store.close().await.unwrap();
    }
}
