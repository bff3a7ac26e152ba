//! Heap buffers that run out.

use nf_path::buf::Buf;
use nf_path::buffers::Buffers;
use nf_path::twin::{HEADROOM, HeapBuf};

/// Bytes of a large buffer behind its headroom.
pub const LARGE_LEN: usize = 9728;

/// So many buffers of each kind, which do not come back.
pub struct Pool {
    pub small: usize,
    pub large: usize,
}

impl Pool {
    /// More than any test takes.
    pub fn endless() -> Self {
        Pool {
            small: usize::MAX,
            large: usize::MAX,
        }
    }

    pub fn of(small: usize, large: usize) -> Self {
        Pool { small, large }
    }
}

impl Buffers<HeapBuf> for Pool {
    fn small(&mut self) -> Option<HeapBuf> {
        self.small = self.small.checked_sub(1)?;
        Some(HeapBuf::new(&[]))
    }

    fn linearise(&mut self, scattered: HeapBuf) -> Result<HeapBuf, HeapBuf> {
        if self.large == 0 || scattered.packet_len() > LARGE_LEN {
            return Err(scattered);
        }
        self.large -= 1;
        let todo = scattered.unfinished();
        Ok(
            HeapBuf::sized(&scattered.to_vec(), HEADROOM, HEADROOM + LARGE_LEN)
                .unfinished_by(todo.checksum, todo.segment),
        )
    }
}

/// Runs a test, and fails when it leaves buffers behind.
pub fn leaks_nothing(test: impl FnOnce()) {
    let before = HeapBuf::live();
    test();
    assert_eq!(HeapBuf::live(), before, "buffers were left behind");
}
