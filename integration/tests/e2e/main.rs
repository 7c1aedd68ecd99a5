//! Placeholder while the modules are being written.
