//! Datagrams through a tunnel, both ways, at a rate far below what it carries.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::pair::{End, Pair, Side};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between the two addresses of peer 0.
const PORT: u16 = 5000;

/// It ends when told, or when dropped.
pub struct Load {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<usize>>,
}

impl Load {
    /// Of this many bytes each, four every two milliseconds.
    pub fn start(pair: &Pair, size: usize, v6: bool) -> Load {
        let end = Arc::new(AtomicBool::new(false));
        let sockets = [End::Left, End::Right].map(|e| bind(pair.side(e), e.vpn(0, v6).to_string()));
        let threads = sockets.into_iter().zip([End::Right, End::Left]);
        let threads = threads.map(|(socket, to)| {
            let (ended, to) = (end.clone(), SocketAddr::new(to.vpn(0, v6), PORT));
            std::thread::spawn(move || send(&socket, to, size, &ended))
        });
        Load {
            threads: threads.collect(),
            end,
        }
    }

    /// How many datagrams were sent, at the end.
    pub fn finish(mut self) -> usize {
        self.end.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        threads.map(|thread| thread.join().expect("it sends")).sum()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn bind(side: &Side, address: String) -> UdpSocket {
    let address = (address.parse::<std::net::IpAddr>().expect("an address"), PORT);
    side.namespace
        .enter(|| UdpSocket::bind(address).expect("an address of the tunnel interface"))
}

fn send(socket: &UdpSocket, to: SocketAddr, size: usize, end: &AtomicBool) -> usize {
    let (mut payload, mut sent) = (vec![0x5a; size], 0u64);
    while !end.load(Ordering::Relaxed) {
        for _ in 0..4 {
            // Each another one.
            payload[..8].copy_from_slice(&sent.to_be_bytes());
            socket.send_to(&payload, to).expect("there is a route");
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    sent as usize
}
