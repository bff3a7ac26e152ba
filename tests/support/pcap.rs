//! Capture files, written and read byte by byte: the classic pcap format, and enough of pcapng to write one.

use std::path::Path;

/// Link type Ethernet (`LINKTYPE_ETHERNET`).
pub const ETHERNET: u32 = 1;
/// Link type Linux "cooked" (`LINKTYPE_LINUX_SLL`).
pub const LINUX_SLL: u32 = 113;

/// The file header of a capture of this link type, in little-endian order, microseconds.
pub fn header(link: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 262_144, link] {
        out.extend(word.to_le_bytes());
    }
    out
}

/// One record: `captured` bytes of a frame that had `len`.
pub fn record(captured: &[u8], len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [1, 0, captured.len() as u32, len as u32] {
        out.extend(word.to_le_bytes());
    }
    out.extend(captured);
    out
}

/// Writes whole Ethernet frames.
pub fn write<F: AsRef<[u8]>>(path: &Path, frames: &[F]) {
    let mut out = header(ETHERNET);
    for frame in frames {
        out.extend(record(frame.as_ref(), frame.as_ref().len()));
    }
    std::fs::write(path, out).expect("a folder that can be written to");
}

/// Writes whole Ethernet frames as pcapng: a section header, an interface, an enhanced packet block a frame.
pub fn write_ng<F: AsRef<[u8]>>(path: &Path, frames: &[F]) {
    let block = |kind: u32, body: Vec<u8>| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &body, &len].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    out.extend(block(1, words(&[ETHERNET, 262_144])));
    for frame in frames {
        let frame = frame.as_ref();
        let len = frame.len() as u32;
        let mut body = words(&[0, 0, 0, len, len]);
        body.extend(frame);
        body.resize(body.len().next_multiple_of(4), 0);
        out.extend(block(6, body));
    }
    std::fs::write(path, out).expect("a folder that can be written to");
}

/// The frames of a classic capture in this machine's byte order. Panics at anything else, and at a frame cut short.
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert!(
        [0xa1b2_c3d4, 0xa1b2_3c4d].contains(&word(0)),
        "{}: no classic capture",
        path.display()
    );
    let (mut frames, mut at) = (Vec::new(), 24);
    while at < bytes.len() {
        let (captured, len) = (word(at + 8), word(at + 12));
        assert_eq!(
            captured,
            len,
            "{}: frame {} is cut short",
            path.display(),
            frames.len() + 1
        );
        frames.push(bytes[at + 16..at + 16 + len as usize].to_vec());
        at += 16 + len as usize;
    }
    frames
}
