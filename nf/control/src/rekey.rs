//! When a key has to be replaced, and that it is said once.
//!
//! The daemon sees no packets, so it cannot count them: what it would do at these limits is said in the log, and as
//! an event, for the operator or the daemon to act on.

use std::fmt;

use nf_state::{Cipher, Millis};

/// The first id of which OpenVPN says that a new key should be negotiated (its packet-id wrap trigger).
const IDS_LOW: u64 = 0xff00_0000;

/// Ids are low, too, when no more are left than are used in so many milliseconds: a server of OpenVPN 2.7 that is told takes
/// up to nine seconds until it negotiates, and the negotiation takes its time as well.
const IDS_LAST_FOR_MS: u64 = 30_000;

/// The last packet id.
const IDS_LAST: u64 = 0xffff_ffff;

/// Packets and 16-byte blocks under one AES-GCM key: half of the 2^36 that leave an attacker an advantage of 2^-57
/// (draft-irtf-cfrg-aead-limits, AEAD_AES_128_GCM).
const USAGE_HIGH: u64 = 1 << 35;

/// Which half of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Records that we seal.
    Outbound,
    /// Records that we open.
    Inbound,
}

/// What a key was used for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// The next packet id, up to 2^32.
    pub next_id: u64,
    /// Packets and 16-byte blocks sealed.
    pub sealed: u64,
    /// Packets and 16-byte blocks opened.
    pub opened: u64,
}

/// That a key nears a limit, or has reached it. Displays as a message for the log, without peer and key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    /// The next packet id is above 0xff000000, or the rest lasts for less than half a minute at the present rate.
    IdsLow,
    /// The last packet id is used: nothing leaves under this key any more.
    IdsExhausted,
    /// 2^35 packets and 16-byte blocks were sealed or opened.
    UsageHigh {
        /// Which of the two.
        direction: Direction,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Notice::IdsLow => "rekey needed: packet ids run low",
            Notice::IdsExhausted => {
                "rekey needed: all packet ids are used, nothing is sent under this key any more"
            }
            Notice::UsageHigh {
                direction: Direction::Outbound,
            } => "rekey needed: 2^35 packets and 16-byte blocks were sealed under this key",
            Notice::UsageHigh {
                direction: Direction::Inbound,
            } => "rekey needed: 2^35 packets and 16-byte blocks were opened under this key",
        })
    }
}

/// Watches one key from its installation on.
#[derive(Clone, Debug)]
pub struct RekeyWatch {
    /// `None`: the cipher has no limit that 2^32 packets could reach.
    usage_high: Option<u64>,
    said: [bool; 4],
    /// The last reading of the next packet id, and when it was.
    last: Option<(u64, Millis)>,
}

impl RekeyWatch {
    /// For a new key. ChaCha20-Poly1305 has no usage limit here: its forgeries, not its packets, are what is limited
    /// (RFC 9001, 6.6).
    pub fn new(cipher: Cipher) -> RekeyWatch {
        let usage_high = match cipher {
            Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm => Some(USAGE_HIGH),
            Cipher::ChaCha20Poly1305 => None,
        };
        RekeyWatch {
            usage_high,
            said: [false; 4],
            last: None,
        }
    }

    /// Takes a reading at `now` and yields what was not said before, in the order of [`Notice`]: each at most once, also
    /// when a later reading is below the limit again. A reading past several limits yields a notice for each. Readings less
    /// than half a second after one another say nothing about the rate.
    pub fn observe(&mut self, key: KeyUse, now: Millis) -> impl Iterator<Item = Notice> + use<> {
        let low = key.next_id > IDS_LOW || self.lasts_for(key.next_id, now) < IDS_LAST_FOR_MS;
        let high = |used: u64| self.usage_high.is_some_and(|limit| used >= limit);
        let reached = [
            (low, Notice::IdsLow),
            (key.next_id > IDS_LAST, Notice::IdsExhausted),
            (
                high(key.sealed),
                Notice::UsageHigh {
                    direction: Direction::Outbound,
                },
            ),
            (
                high(key.opened),
                Notice::UsageHigh {
                    direction: Direction::Inbound,
                },
            ),
        ];
        let before = self.said;
        for (said, (reached, _)) in self.said.iter_mut().zip(reached) {
            *said |= reached;
        }
        reached
            .into_iter()
            .zip(before)
            .filter_map(|((reached, notice), said)| (reached && !said).then_some(notice))
    }

    /// Milliseconds until the ids are used up at the rate since the last reading.
    fn lasts_for(&mut self, next_id: u64, now: Millis) -> u64 {
        let Some((before, then)) = self.last else {
            self.last = Some((next_id, now));
            return u64::MAX;
        };
        let elapsed = now.0.saturating_sub(then.0);
        if elapsed < 500 {
            return u64::MAX;
        }
        self.last = Some((next_id, now));
        let used = next_id.saturating_sub(before);
        let left = (IDS_LAST + 1).saturating_sub(next_id);
        left.saturating_mul(elapsed).checked_div(used).unwrap_or(u64::MAX)
    }
}
