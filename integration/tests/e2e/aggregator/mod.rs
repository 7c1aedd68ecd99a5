//! In front of other API servers: APIServices route group-versions to them (B-45, `server/src/aggregator`).

mod chain;
mod forwarding;
mod full;
mod sample;
