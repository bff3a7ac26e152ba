//! Stage 8: the frame leaves for the NIC port. Drops: `unfragmentable`, `no_buffer`.

use super::encap::{Outside, encap};
use super::fragment::fragment;
use super::{Outbound, Sink};
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::verdict::DropReason;

/// Writes the outer headers of a frame that holds a sealed record, and gives it to the NIC port: whole, or in fragments if
/// the IP packet is longer than the NIC's MTU.
#[inline(always)]
pub(super) fn emit<B: Buf, P: Buffers<B>, S: Sink<B>>(
    mut buf: B,
    outside: &Outside,
    path: &mut Outbound<B, P>,
    sink: &mut S,
) {
    let whole = outside.ip_len(buf.packet_len()) <= usize::from(path.nic.mtu);
    path.ip_id = path.ip_id.wrapping_add(1);
    if !encap(&mut buf, outside, &path.nic, whole, path.ip_id as u16) {
        path.counters.count(DropReason::Oversize, 1);
    } else if whole {
        sink.nic(buf);
    } else {
        in_fragments(buf, outside, path, sink);
    }
}

#[cold]
#[inline(never)]
fn in_fragments<B: Buf, P: Buffers<B>, S: Sink<B>>(
    buf: B,
    outside: &Outside,
    path: &mut Outbound<B, P>,
    sink: &mut S,
) {
    let mtu = usize::from(path.nic.mtu);
    let l2_len = outside.encap.l2_len();
    let give = &mut |piece| sink.nic(piece);
    match fragment(buf, l2_len, mtu, path.ip_id, &mut path.buffers, give) {
        Ok(fragments) => path.counters.fragments_tx.add(u64::from(fragments)),
        Err(reason) => path.counters.count(reason, 1),
    }
}
