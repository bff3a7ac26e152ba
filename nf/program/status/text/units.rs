//! Texts, ages and numbers as people read them.

/// Only what a terminal shows as it is: a process's name may hold anything.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' })
        .collect()
}

/// Seconds in the two largest units: "3 h 12 min".
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

/// How long ago, to a tenth of a second in the first minute.
pub fn ago(milliseconds: Option<u64>) -> String {
    match milliseconds {
        None => "never".into(),
        Some(ms) if ms < 60_000 => format!("{:.1} s ago", ms as f64 / 1000.0),
        Some(ms) => format!("{} ago", duration(ms / 1000)),
    }
}

/// Bytes in decimal units: "1.23 GB".
pub fn bytes(n: u64) -> String {
    scaled(n, "B")
}

/// A number as it is up to six digits, then in decimal units: "12.3 M".
pub fn count(n: u64) -> String {
    if n < 1_000_000 {
        n.to_string()
    } else {
        scaled(n, "")
    }
}

fn scaled(n: u64, unit: &str) -> String {
    let (mut value, mut prefix) = (n as f64, "");
    for next in ["k", "M", "G", "T", "P", "E"] {
        // What would be rounded to 1000 counts as such.
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, next);
    }
    let decimals = match value {
        _ if prefix.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {prefix}{unit}")
}
