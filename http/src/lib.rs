//! kindom: http.

pub mod authn;
pub mod decode;
pub mod discovery;
mod error;
pub mod negotiate;
pub mod patch;
pub mod query;
pub mod request_info;
pub mod table;
pub mod version;

pub use error::RequestError;
