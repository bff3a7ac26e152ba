//! Packets through a socket, with file descriptors beside them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use zeroize::{Zeroize, Zeroizing};

use super::{FDS, Fds};

/// A packet to be sent.
pub(super) struct Packet {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) fd: Option<OwnedFd>,
}

/// A packet as it came.
pub(super) struct Received {
    /// Empty at the end of the connection.
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) fds: Fds,
    /// It was longer (`MSG_TRUNC`).
    pub(super) cut: bool,
    /// There were more file descriptors than are taken, or than this process may open.
    pub(super) fds_cut: bool,
}

/// Sends one packet now, or not at all.
pub(super) fn transmit(socket: BorrowedFd<'_>, packet: &Packet) -> Result<(), Errno> {
    let fds: ArrayVec<BorrowedFd<'_>, 1> = packet.fd.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(socket, &[IoSlice::new(&packet.bytes)], &mut control, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Receives one packet that is there, by way of a buffer that is wiped again.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    // Where there is no room for a descriptor the kernel closes it; should there be room for more than FDS, they go here.
    let mut fds = Fds::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            rights.for_each(|fd| drop(fds.try_push(fd)));
        }
    }
    let length = got.bytes.min(buffer.len());
    let bytes = Zeroizing::new(buffer[..length].to_vec());
    buffer[..length].zeroize();
    Ok(Received {
        bytes,
        fds,
        cut: got.flags.contains(ReturnFlags::TRUNC),
        fds_cut: got.flags.contains(ReturnFlags::CTRUNC),
    })
}
