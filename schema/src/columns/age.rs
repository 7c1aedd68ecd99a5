//! Durations for people (apimachinery `pkg/util/duration`).

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// The longest duration that Go can hold, in seconds.
const LONGEST: i64 = i64::MAX / 1_000_000_000;

/// Two or three significant figures of a number of seconds. Up to a second into the future is now.
pub(super) fn human(seconds: i64) -> String {
    let seconds = seconds.min(LONGEST);
    let (minutes, hours) = (seconds / MINUTE, seconds / HOUR);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 2 * MINUTE => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn durations_print_as_kubectl_shows_them() {
        const DAY: i64 = 86_400;
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * 60 + 59, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3600, "2d1h"),
            (8 * DAY + 3600, "8d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(human(seconds), want);
        }
    }
}
