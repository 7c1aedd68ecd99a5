//! README's 60-second demo, word by word.

use kindom_integration::Server;

use crate::pages;

/// The lines that the watch in the second terminal prints at once: the header and the object.
const FIRST_LINES: usize = 2;

#[tokio::test]
async fn the_readme_demo_runs_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, "README.md", "## A 60-second demo", FIRST_LINES).await;
}
