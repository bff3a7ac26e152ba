//! A client of the control socket, as the preload library is one on behalf of a daemon.

use super::message::{DONE, DUMP, ERROR, HEADER, NOOP, kind, message, seq, set_seq, u16_at, u32_at};
use super::request::{Family, link_new};
use crate::gateway::PATIENCE;
use ovpn_dco_protocol::{AGAIN, GENERIC, HELLO, MAX_PACKET, OPEN, ROUTE, SUBSCRIBE, VERSION};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A connection.
pub struct Socket(pub OwnedFd);

/// What came on a connection.
#[derive(Debug)]
pub enum Got {
    /// A packet, and descriptors beside it.
    Packet(Vec<u8>, Vec<OwnedFd>),
    /// Its end.
    End,
    /// Nothing within the time.
    Nothing,
}

impl Socket {
    /// Connects, and says nothing.
    pub fn connect(path: &Path) -> Socket {
        Socket::try_connect(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The same, or not.
    pub fn try_connect(path: &Path) -> Result<Socket, Errno> {
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(unix, packets, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Socket(socket))
    }

    /// Sends a packet; waits while there is no room. False: the connection has ended.
    pub fn send(&self, packet: &[u8], fds: &[BorrowedFd]) -> bool {
        self.try_send(packet, fds).is_ok()
    }

    /// The same with the error.
    pub fn try_send(&self, packet: &[u8], fds: &[BorrowedFd]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(
                control.push(SendAncillaryMessage::ScmRights(fds)),
                "room for eight"
            );
        }
        let parts = [IoSlice::new(packet)];
        sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// What comes next, within this time.
    pub fn receive(&self, patience: Duration) -> Got {
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(patience)).expect("a socket");
        let mut buffer = vec![0; MAX_PACKET];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        match recvmsg(&self.0, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) if got.bytes > 0 => {
                let mut fds = Vec::new();
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        fds.extend(rights);
                    }
                }
                buffer.truncate(got.bytes);
                Got::Packet(buffer, fds)
            }
            Ok(_) | Err(Errno::CONNRESET | Errno::PIPE) => Got::End,
            Err(Errno::AGAIN) => Got::Nothing,
            Err(e) => panic!("recvmsg: {e}"),
        }
    }

    /// The next packet.
    #[track_caller]
    pub fn packet(&self) -> (Vec<u8>, Vec<OwnedFd>) {
        match self.receive(PATIENCE) {
            Got::Packet(bytes, fds) => (bytes, fds),
            other => panic!("{other:?} instead of a packet"),
        }
    }

    /// Whether the other side has ended it; what still comes is passed over.
    pub fn ends(&self) -> bool {
        loop {
            match self.receive(PATIENCE) {
                Got::Packet(..) => {}
                Got::End => return true,
                Got::Nothing => return false,
            }
        }
    }

    /// Says which netlink protocol this connection has.
    #[track_caller]
    pub fn hello(&self, protocol: u32) {
        let payload = [VERSION.to_ne_bytes(), protocol.to_ne_bytes()].concat();
        assert!(self.send(&message(HELLO, REQUEST_ONLY, &payload), &[]));
        assert_eq!(code(&self.packet().0), 0);
    }
}

/// NLM_F_REQUEST.
const REQUEST_ONLY: u16 = 1;

/// What a request was answered by.
#[derive(Debug, Default)]
pub struct Answer {
    /// Messages before the end of it.
    pub replies: Vec<Vec<u8>>,
    /// The last message: NLMSG_ERROR, NLMSG_DONE or NLMSG_NOOP.
    pub last: Vec<u8>,
}

impl Answer {
    /// 0, or the error number, positive.
    pub fn code(&self) -> i32 {
        code(&self.last)
    }

    /// The text of the extended acknowledgement.
    pub fn text(&self) -> String {
        // After the error and the header of the request; NLMSGERR_ATTR_MSG.
        let found = super::message::find(&self.last, HEADER + 4 + HEADER, &[1]);
        let text = found.map(|t| t.strip_suffix(&[0]).expect("it ends with NUL").to_vec());
        String::from_utf8(text.unwrap_or_default()).expect("UTF-8")
    }

    /// It must have been done.
    #[track_caller]
    pub fn done(self) -> Vec<Vec<u8>> {
        assert_eq!(self.code(), 0, "{}", self.text());
        self.replies
    }

    /// It must have been refused so, and the reason been given.
    #[track_caller]
    pub fn refused(self, errno: i32) -> String {
        assert_eq!(self.code(), errno, "{}", self.text());
        assert!(self.replies.is_empty(), "{:?}", self.replies);
        let text = self.text();
        assert!(!text.is_empty(), "no reason given");
        text
    }
}

/// 0 or the error number of NLMSG_ERROR and NLMSG_DONE, positive.
fn code(message: &[u8]) -> i32 {
    match kind(message) {
        ERROR | DONE => (u32_at(message, HEADER) as i32).wrapping_neg(),
        NOOP => 0,
        other => panic!("message type {other} instead of an answer"),
    }
}

/// A process with its lifeline (rtnetlink) and one connection of generic netlink.
pub struct Client {
    /// rtnetlink, and what opens further connections.
    pub lifeline: Socket,
    /// The family's commands, and its notifications.
    pub generic: Socket,
    /// What it speaks.
    pub family: Family,
    /// Interface index in its commands.
    pub index: u32,
    seq: u32,
    notifications: Vec<Vec<u8>>,
}

impl Client {
    /// Connects and opens.
    #[track_caller]
    pub fn connect(path: &Path, family: Family, index: u32) -> Client {
        let lifeline = Socket::connect(path);
        lifeline.hello(ROUTE);
        let generic = open(&lifeline, GENERIC);
        Client {
            lifeline,
            generic,
            family,
            index,
            seq: 1000,
            notifications: Vec::new(),
        }
    }

    /// Asks for an interface and the notifications.
    #[track_caller]
    pub fn drive(&mut self, interface: &str, mode: u8) {
        self.subscribe();
        self.link(&link_new(interface, self.family.link_kind(), Some(mode)))
            .done();
    }

    /// Wants the notifications. When it returns they are on their way: that is not answered, but requests of a connection are
    /// taken in order, which those of two are not.
    #[track_caller]
    pub fn subscribe(&mut self) {
        let payload = self.family.group().to_ne_bytes();
        assert!(
            self.generic
                .send(&message(SUBSCRIBE, REQUEST_ONLY, &payload), &[])
        );
        let nothing = self.family.dump(0);
        self.ask(&nothing, &[]);
    }

    /// A further connection of the same process.
    #[track_caller]
    pub fn open(&self, protocol: u32) -> Socket {
        open(&self.lifeline, protocol)
    }

    /// A command of generic netlink and its whole answer.
    #[track_caller]
    pub fn ask(&mut self, request: &[u8], fds: &[BorrowedFd]) -> Answer {
        let mut request = request.to_vec();
        self.seq += 1;
        set_seq(&mut request, self.seq);
        assert!(self.generic.send(&request, fds), "the connection has ended");
        self.answer(&request)
    }

    /// The answer to a request that was sent.
    #[track_caller]
    pub fn answer(&mut self, request: &[u8]) -> Answer {
        let mut answer = Answer::default();
        loop {
            let (packet, fds) = self.generic.packet();
            assert!(fds.is_empty());
            if seq(&packet) == 0 && kind(&packet) > HEADER as u16 {
                self.notifications.push(packet);
                continue;
            }
            assert_eq!(seq(&packet), seq(request), "{packet:?} in answer to {request:?}");
            assert_eq!(packet[12..16], request[12..16], "the port id");
            if [ERROR, DONE, NOOP].contains(&kind(&packet)) {
                if kind(&packet) == DONE {
                    assert!(u16_at(request, 6) & DUMP != 0, "the end of no dump");
                }
                answer.last = packet;
                return answer;
            }
            answer.replies.push(packet);
        }
    }

    /// A command of rtnetlink.
    #[track_caller]
    pub fn link(&mut self, request: &[u8]) -> Answer {
        let mut request = request.to_vec();
        self.seq += 1;
        set_seq(&mut request, self.seq);
        assert!(self.lifeline.send(&request, &[]), "the connection has ended");
        let (last, _) = self.lifeline.packet();
        assert_eq!(seq(&last), self.seq);
        Answer {
            replies: Vec::new(),
            last,
        }
    }

    /// The next notification.
    #[track_caller]
    pub fn notification(&mut self) -> Vec<u8> {
        if !self.notifications.is_empty() {
            return self.notifications.remove(0);
        }
        let (packet, _) = self.generic.packet();
        assert_eq!((seq(&packet), u32_at(&packet, 12)), (0, 0), "{packet:?}");
        packet
    }

    /// Those that came before the last answer.
    pub fn told_by_now(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.notifications)
    }

    /// Those that have come by now. What was caused before has come when this returns, as requests are answered in order.
    #[track_caller]
    pub fn notifications(&mut self) -> Vec<Vec<u8>> {
        let dump = self.family.dump(self.index);
        self.ask(&dump, &[]);
        std::mem::take(&mut self.notifications)
    }

    /// Has a message sent back.
    pub fn again(&self, whole: &[u8]) {
        assert!(self.generic.send(&message(AGAIN, REQUEST_ONLY, whole), &[]));
    }

    /// The descriptor of a socket as the message's sender has it: beside a NEW_PEER.
    #[track_caller]
    pub fn new_peer(&mut self, new: &super::New, socket: impl AsFd) -> Answer {
        let request = self.family.new_peer(self.index, new);
        self.ask(&request, &[socket.as_fd()])
    }
}

#[track_caller]
fn open(lifeline: &Socket, protocol: u32) -> Socket {
    assert!(lifeline.send(&message(OPEN, REQUEST_ONLY, &protocol.to_ne_bytes()), &[]));
    let (answer, mut fds) = lifeline.packet();
    assert_eq!((code(&answer), fds.len()), (0, 1));
    Socket(fds.pop().expect("one"))
}
