//! Cutting a finished frame over the MTU into IP fragments, by copies.
//!
//! Drops: `unfragmentable`, `no_buffer`.

use arrayvec::ArrayVec;
use nf_wire::ip_fragment::Plan;

use super::finish::SMALL_LEN;
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::verdict::DropReason;

/// The most fragments that one frame is cut into: the longest IP packet over the smallest MTU of IPv6 makes 54.
pub const MAX_FRAGMENTS: usize = 64;

/// [`copies`] for a frame over the MTU; one that is not is given as it is.
///
/// # Errors
/// Those of [`copies`].
#[inline]
pub fn fragment<B: Buf, P: Buffers<B>>(
    frame: B,
    l2_len: usize,
    mtu: usize,
    id: u32,
    buffers: &mut P,
    give: &mut dyn FnMut(B),
) -> Result<u32, DropReason> {
    if frame.packet_len() <= l2_len + mtu {
        give(frame);
        return Ok(1);
    }
    copies(frame, l2_len, mtu, id, buffers, give)
}

/// Copies the frame (Ethernet, VLAN tags, IP from byte `l2_len` on) into fragments of at most `mtu` bytes of
/// IP, in small buffers, and gives them in order: how many there were. Fragments are smaller where the MTU is
/// larger than a small buffer; a packet that fits is one frame as it was. The checksum over the packet's
/// payload must be final, as it travels in the first fragment; `id` is the identification of IPv6 fragments,
/// those of IPv4 have that of the packet. DF is not asked, and is clear in fragments.
///
/// # Errors
/// Nothing was given then, and the frame is freed. [`DropReason::Unfragmentable`]: the packet reaches past the first
/// segment, would make more than [`MAX_FRAGMENTS`], or [`Plan::of`] refuses it. [`DropReason::NoBuffer`]: not enough
/// were free.
#[cold]
pub fn copies<B: Buf, P: Buffers<B>>(
    frame: B,
    l2_len: usize,
    mtu: usize,
    id: u32,
    buffers: &mut P,
    give: &mut dyn FnMut(B),
) -> Result<u32, DropReason> {
    let bytes = frame.data();
    let mtu = mtu.min(SMALL_LEN.saturating_sub(l2_len));
    let plan = Plan::of(bytes, bytes.len(), mtu, id)
        .filter(|plan| plan.len() <= MAX_FRAGMENTS)
        .ok_or(DropReason::Unfragmentable)?;
    // All or nothing: a datagram with a fragment missing only fills the receiver's table.
    let mut made = ArrayVec::<B, MAX_FRAGMENTS>::new();
    for piece in plan {
        let mut fragment = buffers.small().ok_or(DropReason::NoBuffer)?;
        if !(fragment.append(piece.head()) && fragment.append(&bytes[piece.payload.clone()])) {
            return Err(DropReason::NoBuffer);
        }
        made.push(fragment);
    }
    let count = made.len() as u32;
    drop(frame);
    made.into_iter().for_each(give);
    Ok(count)
}
