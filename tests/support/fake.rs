//! A gateway of another version, as far as the control socket tells.

use crate::daemon::Machine;
use ovpn_dco_protocol::{HEADER_LEN, HELLO, VERSION};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect,
    listen, recv, send, socket_with,
};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// A control socket that answers each HELLO by `answer`, if by anything, and hangs up; ended and removed when dropped.
pub struct Fake {
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    end: Arc<AtomicBool>,
    greeted: Arc<AtomicU32>,
}

impl Fake {
    /// At the machine's control socket. `answer`: of NLMSG_ERROR, negative.
    pub fn start(machine: &Machine, answer: Option<i32>) -> Fake {
        let path = machine.socket();
        let listener = seqpacket();
        bind(&listener, &SocketAddrUnix::new(&path).expect("a path")).expect("nobody is there");
        listen(&listener, 8).expect("a socket");
        let (end, greeted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (ended, count) = (end.clone(), greeted.clone());
        let thread = std::thread::spawn(move || {
            while let Ok(connection) = accept(&listener) {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let mut packet = [0; 64];
                let Ok((len, _)) = recv(&connection, &mut packet[..], RecvFlags::empty()) else {
                    continue;
                };
                assert_eq!(len, HEADER_LEN + 8);
                assert_eq!(packet[4..6], HELLO.to_ne_bytes());
                assert_eq!(packet[HEADER_LEN..HEADER_LEN + 4], VERSION.to_ne_bytes());
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(error) = answer {
                    let _ = send(&connection, &nack(&packet, error), SendFlags::NOSIGNAL);
                }
            }
        });
        Fake {
            thread: Some(thread),
            path,
            end,
            greeted,
        }
    }

    /// How often it was greeted.
    pub fn greeted(&self) -> u32 {
        self.greeted.load(Ordering::Relaxed)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = connect(seqpacket(), &SocketAddrUnix::new(&self.path).expect("a path"));
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
        assert!(
            std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()),
            "what it was greeted by: see above"
        );
    }
}

fn seqpacket() -> OwnedFd {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socket_with(kind.0, kind.1, kind.2, None).expect("a socket")
}

/// NLMSG_ERROR with the header of what it answers.
fn nack(request: &[u8], error: i32) -> Vec<u8> {
    const ERROR: u16 = 2;
    let header = &request[..HEADER_LEN];
    let len = (2 * HEADER_LEN + 4) as u32;
    [
        &len.to_ne_bytes()[..],
        &ERROR.to_ne_bytes(),
        &[0, 0],
        &header[8..12],
        &[0; 4],
        &error.to_ne_bytes(),
        header,
    ]
    .concat()
}
