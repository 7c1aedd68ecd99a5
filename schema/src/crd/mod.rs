//! Whether a registration is valid.
