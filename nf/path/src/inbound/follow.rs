//! Stages 1 to 3 in one step for a record that goes on with a run: its headers are those of the first record of the batch
//! that was begun last, so nothing needs to be parsed, classified or looked up again. Drops: none.

use crate::buf::{Buf, Verdict};
use nf_wire::template::Template;

/// What the first record of a batch says of those that follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    template: Template,
    /// The port's checksum verdicts.
    state: u64,
    /// Whether the port has verified the IPv4 header checksum, so that nobody else must.
    verified: bool,
    /// The batch's number, from 1; 0 is no batch's.
    pub(crate) number: usize,
}

impl Run {
    /// The run that begins with the record in `buf`, a plain one that is alone in its buffer, as batch `number`.
    #[inline]
    pub(crate) fn begin<B: Buf>(buf: &B, number: usize) -> Self {
        let seen = buf.rx_checksums();
        match Template::of(buf.data()) {
            // A bad UDP checksum was let pass for being zero, which is looked at each time.
            Some(template) if seen.l4 != Verdict::Bad => Run {
                template,
                state: buf.rx_state(),
                verified: seen.ip == Verdict::Good,
                number,
            },
            _ => Run::default(),
        }
    }

    /// The bytes of UDP payload in `buf`, if it holds a record that is as good as the first one and equal to it in all that
    /// matters: headers, verdicts, a right IPv4 header checksum, a buffer of its own. None says nothing but "not that".
    #[inline(always)]
    pub(crate) fn follows<B: Buf>(&self, buf: &B) -> Option<u16> {
        let payload_len = self.template.follows(buf.data(), buf.packet_len())?;
        let good = buf.rx_state() == self.state
            && buf.is_private()
            && (self.verified || self.template.header_ok(buf.data()));
        good.then_some(payload_len)
    }
}
