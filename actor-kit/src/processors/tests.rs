//! The processors, by what they do to requests.

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn flow(user: u64, kind: u64) -> Flow {
    Flow { user, kind }
}

fn thread() -> Option<String> {
    std::thread::current().name().map(str::to_owned)
}

/// Takes a thread of the pool until the sender is dropped; returns once it has begun.
async fn block(pool: &Processors, of: Flow) -> (mpsc::Sender<()>, tokio::task::JoinHandle<bool>) {
    let (release, held) = mpsc::channel::<()>();
    let (began, begun) = oneshot::channel();
    let step = async move {
        dear(MINUTE).await.unwrap();
        let _ = began.send(());
        held.recv().is_err()
    };
    let running = pool.run(of, step);
    let blocked = tokio::spawn(async move { running.await == Ok(true) });
    begun.await.unwrap();
    (release, blocked)
}

#[tokio::test]
async fn what_is_cheap_stays_and_what_is_dear_goes() {
    let pool = Processors::new(1).unwrap();
    let here = thread();
    let request = async move {
        let mut seen = vec![thread()];
        dear(Duration::from_micros(999)).await.unwrap();
        seen.push(thread());
        dear(Duration::from_millis(1)).await.unwrap();
        seen.push(thread());
        tokio::time::sleep(Duration::from_millis(1)).await;
        seen.push(thread());
        seen
    };
    let seen = pool.run(flow(1, 1), request).await.unwrap();
    assert_eq!(seen[..2], [here.clone(), here]);
    assert!(seen[2..].iter().all(|name| name.as_deref().is_some_and(|n| n.starts_with("processor-"))));
    assert_eq!(dear(MINUTE).await, Ok(()), "outside a pool");
}

/// A request with a foreign step that lasts until the sender is dropped; it has the name of its kind.
fn stuck(pool: &Processors, of: Flow) -> (mpsc::Sender<()>, Run<Result<bool, Overloaded>>) {
    let (release, held) = mpsc::channel::<()>();
    let name = of.kind.to_string().into();
    let request = async move {
        dear(DEAR).await?;
        foreign(&name, || held.recv().is_err())
    };
    (release, pool.run(of, request))
}

#[tokio::test]
async fn a_step_that_does_not_end_costs_its_thread_alone() {
    let pool = Processors::new(1).unwrap();
    let mut releases = Vec::new();
    let in_time = || Instant::now() + MINUTE;
    // Each but the first two begins in the place of one that is written off.
    let waiting: Vec<_> = (0..worker::WRITTEN_OFF_MAX)
        .map(|_| {
            let (release, request) = stuck(&pool, flow(1, 7));
            releases.push(release);
            tokio::spawn(request.within(in_time()))
        })
        .collect();
    // Others have all the threads that there were.
    let (release, blocked) = block(&pool, flow(1, 1)).await;
    let short = pool.run(flow(1, 2), async { dear(DEAR).await.is_ok() });
    assert_eq!(short.await, Ok(true));
    drop(release);
    assert!(blocked.await.unwrap());
    // No more of this kind, once all of them are written off.
    let refused = Overloaded { retry_after: worker::FOREIGN_MAX };
    loop {
        let (release, request) = stuck(&pool, flow(2, 7));
        drop(release);
        match request.within(in_time()).await {
            Ok(Err(why)) => break assert_eq!(why, refused),
            answer => assert_eq!(answer, Ok(Ok(true))),
        }
    }
    assert_eq!(pool.shared.workers.lock().len(), 2 + worker::WRITTEN_OFF_MAX);
    let (_release, late) = stuck(&pool, flow(1, 8));
    assert_eq!(late.within(Instant::now() + DEAR).await, Err(NoAnswer::Late));
    // Once a step ends after all, its kind has room again.
    releases.pop();
    loop {
        let (release, request) = stuck(&pool, flow(1, 7));
        drop(release);
        match request.within(in_time()).await {
            Ok(Err(_)) => tokio::task::yield_now().await,
            answer => break assert_eq!(answer, Ok(Ok(true))),
        }
    }
    releases.clear();
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok(Ok(true)));
    }
    pool.shutdown();
}

/// Also of those that waited in the queue before.
#[tokio::test]
async fn so_many_steps_of_a_kind_do_not_end() {
    let pool = Processors::new(1).unwrap();
    let (releases, requests): (Vec<_>, Vec<_>) = (0..30).map(|_| stuck(&pool, flow(1, 7))).unzip();
    let mut answers: FuturesUnordered<_> =
        requests.into_iter().map(|request| request.within(Instant::now() + MINUTE)).collect();
    // Both threads may be in one when the last one is written off.
    let most = worker::WRITTEN_OFF_MAX + 1;
    for _ in most..30 {
        assert!(matches!(answers.next().await, Some(Ok(Err(_)))));
    }
    assert!(pool.shared.workers.lock().len() <= 2 + most);
    drop(releases);
    while let Some(answer) = answers.next().await {
        assert!(matches!(answer, Ok(Ok(true) | Err(_))), "{answer:?}");
    }
    pool.shutdown();
}

#[tokio::test]
async fn a_pool_ends_though_a_step_does_not() {
    let pool = Processors::new(1).unwrap();
    let (_release, request) = stuck(&pool, flow(1, 1));
    assert_eq!(request.within(Instant::now() + worker::FOREIGN_MAX / 10).await, Err(NoAnswer::Late));
    pool.shutdown();
}

/// A foreign future goes on in the pool, also after it has left it, and a step of it that does not end costs its thread alone.
#[tokio::test]
async fn a_foreign_future_goes_on_in_the_pool() {
    let pool = Processors::new(1).unwrap();
    let here = || std::thread::current().name().unwrap_or_default().to_owned();
    let request = pool.run(flow(1, 1), async move {
        foreign_future(&"a test".into(), async move {
            let first = here();
            back().await;
            tokio::task::yield_now().await;
            (first, here())
        })
        .await
    });
    let (first, then) = request.await.unwrap().unwrap();
    assert!(first.starts_with("processor-") && then.starts_with("processor-"), "{first}, {then}");
    // A step within a step is looked after by the outer one.
    let (release, held) = mpsc::channel::<()>();
    let stuck = pool.run(flow(1, 7), async move {
        foreign_future(&"a test".into(), async move {
            foreign(&"inner".into(), || ()).unwrap();
            held.recv().is_err()
        })
        .await
    });
    let stuck = tokio::spawn(stuck.within(Instant::now() + MINUTE));
    let (other, blocked) = block(&pool, flow(1, 1)).await;
    let third = pool.run(flow(1, 2), async { dear(DEAR).await.is_ok() });
    assert_eq!(third.await, Ok(true), "in place of the thread that is written off");
    drop(other);
    assert!(blocked.await.unwrap());
    drop(release);
    assert_eq!(stuck.await.unwrap(), Ok(Ok(true)));
    pool.shutdown();
}

/// One that has begun is not refused any more: it goes on once steps of its name have a thread again.
#[tokio::test]
async fn a_foreign_future_that_has_begun_waits_for_a_thread() {
    let pool = Processors::new(1).unwrap();
    let (began, begun) = oneshot::channel();
    let (wake, woken) = oneshot::channel::<()>();
    let request = pool.run(flow(1, 7), async move {
        foreign_future(&"7".into(), async move {
            began.send(()).unwrap();
            woken.await.is_ok()
        })
        .await
    });
    let running = tokio::spawn(request);
    begun.await.unwrap();
    let mut releases = Vec::new();
    let lost: Vec<_> = (0..worker::WRITTEN_OFF_MAX)
        .map(|_| {
            let (release, request) = stuck(&pool, flow(1, 7));
            releases.push(release);
            tokio::spawn(request.within(Instant::now() + MINUTE))
        })
        .collect();
    loop {
        let (release, request) = stuck(&pool, flow(2, 7));
        drop(release);
        if matches!(request.within(Instant::now() + MINUTE).await, Ok(Err(_))) {
            break;
        }
    }
    wake.send(()).unwrap();
    for _ in 0..10 {
        assert_eq!(pool.run(flow(1, 2), async { dear(DEAR).await.is_ok() }).await, Ok(true));
    }
    assert!(!running.is_finished());
    releases.pop();
    assert_eq!(running.await.unwrap(), Ok(Ok(true)));
    releases.clear();
    for lost in lost {
        assert_eq!(lost.await.unwrap(), Ok(Ok(true)));
    }
    pool.shutdown();
}

/// Does something when it is dropped.
struct Dropped<F: FnMut()>(F);

impl<F: FnMut()> Drop for Dropped<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A future that is given up may panic or block once more, when it is dropped; so may a value that is dropped elsewhere.
#[tokio::test]
async fn what_is_given_up_hurts_nobody() {
    let pool = Processors::new(1).unwrap();
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let (release, held) = mpsc::channel::<()>();
    // Begins an endless future, and gives it up.
    let give_up = async |at_the_end: Box<dyn FnMut() + Send>| {
        let (began, begun) = oneshot::channel();
        let request = async move {
            let kept = Dropped(at_the_end);
            foreign_future(&"a test".into(), async move {
                let _kept = kept;
                began.send(()).unwrap();
                std::future::pending::<()>().await;
            })
            .await
        };
        let running = tokio::spawn(pool.run(flow(1, 7), request));
        begun.await.unwrap();
        running.abort();
    };
    let tell = ended.clone();
    let bug = Box::new(move || {
        tell.send(thread()).unwrap();
        panic!("a bug in a destructor");
    });
    give_up(bug).await;
    assert!(ends.recv().await.flatten().unwrap().starts_with("processor-"));
    let tell = ended.clone();
    let blocks = Box::new(move || {
        tell.send(thread()).unwrap();
        let _ = held.recv();
    });
    give_up(blocks).await;
    ends.recv().await.unwrap();
    // Both threads are at work for others.
    let (others, blocked) = block(&pool, flow(1, 1)).await;
    let short = pool.run(flow(1, 2), async { dear(DEAR).await.is_ok() });
    assert_eq!(short.await, Ok(true));
    drop(others);
    assert!(blocked.await.unwrap());
    drop(release);

    let (tell, here) = (ended.clone(), std::thread::current().id());
    let value = Dropped(move || {
        tell.send(Some((std::thread::current().id() == here).to_string())).unwrap();
        panic!("a bug in a destructor");
    });
    drop(Foreign::new(&"a test".into(), value));
    assert_eq!(ends.recv().await.flatten().as_deref(), Some("false"));
    pool.shutdown();
}

#[tokio::test]
async fn a_foreign_step_may_panic() {
    let pool = Processors::new(1).unwrap();
    let request = pool.run(flow(1, 1), async {
        dear(DEAR).await.unwrap();
        foreign(&"a test".into(), || panic!("a bug")).unwrap()
    });
    let answer: Result<(), NoAnswer> = request.within(Instant::now() + MINUTE).await;
    assert_eq!(answer, Err(NoAnswer::Lost(Lost)));
    let (release, request) = stuck(&pool, flow(1, 1));
    drop(release);
    assert_eq!(request.within(Instant::now() + MINUTE).await, Ok(Ok(true)));
    assert_eq!(foreign(&"a test".into(), || true), Ok(true), "outside a pool");
}

/// The thread for short pieces cannot take one that has a long one before it.
#[tokio::test]
async fn no_thread_stays_idle_while_pieces_wait() {
    let pool = Processors::new(2).unwrap();
    for _ in 0..200 {
        let (done, waits) = mpsc::channel();
        let long = pool.run(flow(1, 1), async move {
            dear(MINUTE).await.unwrap();
            waits.recv().unwrap()
        });
        let short = pool.run(flow(1, 1), async move {
            turn(DEAR).await;
            done.send(()).unwrap();
        });
        let both = futures::future::join(long, short);
        let (long, short) = timeout_at(Instant::now() + MINUTE, both).await.unwrap();
        assert_eq!((long, short), (Ok(()), Ok(())));
    }
}

#[tokio::test]
async fn a_request_may_come_back() {
    let pool = Processors::new(1).unwrap();
    let here = thread();
    let request = async move {
        back().await;
        let mut seen = vec![thread()];
        for _ in 0..2 {
            dear(DEAR).await.unwrap();
            seen.push(thread());
            back().await;
            seen.push(thread());
            tokio::task::yield_now().await;
            seen.push(thread());
        }
        seen
    };
    let seen = pool.run(flow(1, 1), request).await.unwrap();
    let away: Vec<bool> = seen.iter().map(|thread| *thread != here).collect();
    assert_eq!(away, [false, true, false, false, true, false, false]);
    // Parts of a request that wait for a turn of their own keep it there.
    let parts = pool.run(flow(1, 1), async {
        dear(DEAR).await.unwrap();
        let part = async {
            dear(DEAR).await.unwrap();
            thread()
        };
        futures::join!(back(), part).1
    });
    assert_ne!(parts.await.unwrap(), thread());
    let in_pool = pool.run(flow(1, 1), async {
        dear(DEAR).await.unwrap();
        back().await;
        dear(DEAR).await.unwrap();
        panic!("after it came back")
    });
    assert_eq!(in_pool.await, Err::<(), _>(Lost));
    back().await;
}

/// However many steps of a request go back while it is in the pool: each of them goes on.
#[tokio::test]
async fn many_steps_may_come_back_together() {
    let pool = Processors::new(1).unwrap();
    let request = async {
        dear(DEAR).await?;
        // More than `join_all` polls without being woken for them.
        futures::future::join_all((0..100).map(|_| back())).await;
        Ok::<_, Overloaded>(())
    };
    assert_eq!(pool.run(flow(1, 1), request).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn an_attempt_ends_with_the_first_dear_step() {
    let pool = Processors::new(1).unwrap();
    let cheap = pin!(async {
        tokio::task::yield_now().await;
        dear(Duration::from_micros(999)).await.map(|()| thread())
    });
    assert_eq!(pool.attempt(flow(1, 1), cheap).await, Some(Ok(thread())));
    let went_on = AtomicUsize::new(0);
    let costly = pin!(async {
        went_on.fetch_add(1, Ordering::Relaxed);
        let _ = dear(MINUTE).await;
        went_on.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(pool.attempt(flow(1, 1), costly).await, None);
    assert_eq!((went_on.load(Ordering::Relaxed), pool.waiting()), (1, 0));
}

#[tokio::test]
async fn a_newcomer_is_next_however_much_another_has_queued() {
    let pool = Processors::new(1).unwrap();
    let (release, blocked) = block(&pool, flow(9, 9)).await;
    let (order, mut done) = tokio::sync::mpsc::unbounded_channel();
    let mut running = Vec::new();
    let add = |of: Flow, name: &'static str| {
        let (pool, order) = (pool.clone(), order.clone());
        tokio::spawn(async move {
            let step = move || order.send(name).unwrap();
            pool.compute(of, Duration::from_secs(1), step).await.unwrap();
        })
    };
    for _ in 0..3 {
        running.push(add(flow(1, 1), "many"));
    }
    while pool.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    running.push(add(flow(2, 1), "one"));
    while pool.waiting() < 4 {
        tokio::task::yield_now().await;
    }
    drop(release);
    assert!(blocked.await.unwrap());
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(done.recv().await.unwrap());
    }
    assert!(names[..2].contains(&"one"), "{names:?}");
}

/// All threads but one have a long piece; the last one still takes short ones.
#[tokio::test]
async fn long_pieces_leave_a_thread_to_short_ones() {
    let pool = Processors::new(1).unwrap();
    let (release, blocked) = block(&pool, flow(1, 1)).await;
    let short = pool.compute(flow(1, 2), Duration::from_millis(2), thread).await.unwrap();
    assert_eq!(short.as_deref(), Some("processor-1"));
    drop(release);
    assert!(blocked.await.unwrap());
}

#[tokio::test]
async fn a_flow_that_waits_for_too_long_is_refused_and_others_are_not() {
    let pool = Processors::new(1).unwrap();
    let (release, blocked) = block(&pool, flow(9, 9)).await;
    let mut running = Vec::new();
    for n in 1..=2 {
        let pool_of_task = pool.clone();
        running.push(tokio::spawn(async move {
            pool_of_task.compute(flow(1, 1), Duration::from_secs(4), || ()).await.unwrap();
        }));
        while pool.waiting() < n {
            tokio::task::yield_now().await;
        }
    }
    let refused = pool.run(flow(1, 1), dear(Duration::from_secs(4))).await.unwrap();
    assert_eq!(refused, Err(Overloaded { retry_after: Duration::from_secs(8) }));
    let other = pool.compute(flow(1, 2), Duration::from_millis(3), || 7).await;
    assert_eq!(other, Ok(7));
    drop(release);
    assert!(blocked.await.unwrap());
    for task in running {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_is_dropped() {
    let pool = Processors::new(1).unwrap();
    let (release, blocked) = block(&pool, flow(9, 9)).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let step = move || counted.fetch_add(1, Ordering::SeqCst);
    let mut left = Box::pin(pool.compute(flow(1, 1), MINUTE, step));
    assert!(futures::poll!(&mut left).is_pending());
    assert_eq!(pool.waiting(), 1);
    drop(left);
    drop(release);
    assert!(blocked.await.unwrap());
    pool.compute(flow(2, 1), MINUTE, || ()).await.unwrap();
    while pool.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&ran), 1);
}

#[tokio::test]
async fn a_panic_ends_its_request_alone() {
    let pool = Processors::new(1).unwrap();
    let lost = pool.compute(flow(1, 1), MINUTE, || assert!(thread().is_none(), "as planned")).await;
    assert_eq!(lost, Err(Lost));
    assert_eq!(pool.compute(flow(1, 1), MINUTE, || 7).await, Ok(7));
}

/// What waits when the pool ends is dropped, and who waits for it learns of it.
#[tokio::test]
async fn the_end_of_the_pool_ends_what_waits() {
    let pool = Processors::new(1).unwrap();
    let (release, blocked) = block(&pool, flow(9, 9)).await;
    let mut waits = Box::pin(pool.run(flow(1, 1), async { dear(MINUTE).await }));
    assert!(futures::poll!(&mut waits).is_pending());
    drop(pool);
    drop(release);
    assert!(blocked.await.unwrap());
    assert_eq!(waits.await, Err(Lost));
}

#[tokio::test]
async fn a_pool_that_is_shut_down_has_no_thread_left() {
    let pool = Processors::new(2).unwrap();
    let clone = pool.clone();
    pool.shutdown();
    assert_eq!(Arc::strong_count(&clone.shared), 2, "the clone's and that of its end");
    assert_eq!(clone.compute(flow(1, 1), MINUTE, || 7).await, Err(Lost));
}
