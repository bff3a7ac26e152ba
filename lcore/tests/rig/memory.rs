//! What the process holds.

/// Resident set size in bytes (`/proc/self/statm`, proc(5)).
pub fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages: i64 = statm
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number of pages");
    pages * 4096
}

/// Panics when the resident set is larger than it was by more than `slack` bytes.
pub fn flat(before: i64, slack: i64, after: &str) {
    let grown = resident() - before;
    println!("resident set: {:+} KB after {after}", grown / 1024);
    assert!(grown <= slack, "{grown} bytes more after {after}");
}
