//! From [`Checked`](crate::check::Checked) to a value, counting what it costs.
