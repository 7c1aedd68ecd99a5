//! README's demo and the tour, word by word.

use kindom_integration::Server;

use crate::pages;

/// The tour's watch prints these lines at once: the header and the object.
const FIRST_LINES: usize = 2;

#[tokio::test]
async fn the_readme_demo_runs_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, "README.md", "## A demo", 0).await;
}

#[tokio::test]
async fn the_tour_runs_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, "docs/tour.md", "## A type from its registration to its end", FIRST_LINES).await;
}
