//! A way to a server that can be cut.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes connections on to a port, unless it is cut.
pub(super) struct Proxy {
    pub(super) url: String,
    /// The round of connections that may live; 0: none.
    round: Arc<watch::Sender<u64>>,
    rounds: u64,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let round = Arc::new(watch::Sender::new(1));
        let rounds = Arc::clone(&round);
        let accepting = tokio::spawn(async move {
            while let Ok((mut inward, _)) = listener.accept().await {
                let mut lives = rounds.subscribe();
                let now = *lives.borrow_and_update();
                if now == 0 {
                    continue;
                }
                tokio::spawn(async move {
                    let pass = async {
                        let Ok(mut outward) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                        let _ = tokio::io::copy_bidirectional(&mut inward, &mut outward).await;
                    };
                    tokio::select! {
                        () = pass => {}
                        _ = lives.wait_for(|round| *round != now) => {}
                    }
                });
            }
        });
        Self { url, round, rounds: 1, accepting }
    }

    /// Ends all connections; new ones live.
    pub(super) fn cut(&mut self) {
        self.rounds += 1;
        self.round.send_replace(self.rounds);
    }

    /// Ends all connections, and lets none live until the next [`Proxy::cut`].
    pub(super) fn close(&mut self) {
        self.round.send_replace(0);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
