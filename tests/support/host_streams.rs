//! What hosts say to each other over TCP and UDP, compared byte for byte, and what they think of its checksums.

use crate::gateway::{Namespace, PATIENCE, run};
use crate::judge::packet::{Frame, Ip};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Carries `len` bytes each way at once over TCP, and compares them.
pub fn exchange([here, there]: [&Namespace; 2], to: IpAddr, len: usize) {
    let listener = there.enter(|| TcpListener::bind((to, 0)).expect("an address that is there"));
    let address = listener.local_addr().expect("bound");
    let bytes = [1, 2].map(|seed| {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        bytes
    });
    std::thread::scope(|scope| {
        let connected = here.enter(|| TcpStream::connect_timeout(&address, PATIENCE));
        let connected = connected.expect("a connection");
        let accepted = listener.accept().expect("a connection").0;
        for (i, stream) in [connected, accepted].into_iter().enumerate() {
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut reader = stream.try_clone().expect("a socket");
            let (send, expected) = (&bytes[i], &bytes[1 - i]);
            scope.spawn(move || {
                let mut writer = stream;
                writer.write_all(send).expect("the other side reads");
                writer
                    .shutdown(std::net::Shutdown::Write)
                    .expect("still connected");
            });
            scope.spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).expect("the other side sends");
                assert!(got == *expected, "{} bytes, of {len}, or others", got.len());
            });
        }
    });
}

/// Panics if the kernel of a namespace refused a packet for its checksum.
pub fn no_checksum_errors(namespace: &Namespace) {
    let counters = run(namespace
        .command("cat")
        .args(["/proc/net/snmp", "/proc/net/snmp6"]));
    let lines: Vec<Vec<&str>> = counters.lines().map(|l| l.split_whitespace().collect()).collect();
    let mut seen = 0;
    for pair in lines.windows(2).filter(|pair| pair[0][0] == pair[1][0]) {
        for (name, value) in pair[0].iter().zip(&pair[1]) {
            if name.contains("CsumErrors") {
                seen += 1;
                assert_eq!(*value, "0", "{} {name}", pair[0][0]);
            }
        }
    }
    let v6 = lines
        .iter()
        .filter(|l| l[0].ends_with("CsumErrors") || l[0] == "Ip6InHdrErrors");
    v6.for_each(|line| {
        seen += 1;
        assert_eq!(line[1], "0", "{}", line[0]);
    });
    assert!(seen >= 4, "the kernel has no such counters: {counters}");
}

/// The faults of the IP packets from `src`, as a capture at a host interface shows what came from the NIC.
pub fn wrong_checksums(frames: &[Vec<u8>], own: [u8; 6]) -> (usize, Vec<String>) {
    let (mut judged, mut wrong) = (0, Vec::new());
    for (i, bytes) in frames.iter().enumerate() {
        let frame = Frame::parse(bytes).expect("a header");
        if frame.src == own || !frame.is_ip() {
            continue;
        }
        let ip = Ip::parse(frame.payload).unwrap_or_else(|why| panic!("frame {i}: {why}"));
        judged += 1;
        if !ip.header_right || ip.checksum_right() == Some(false) {
            wrong.push(format!(
                "frame {i}: {} > {}, protocol {}",
                ip.src, ip.dst, ip.protocol
            ));
        }
    }
    (judged, wrong)
}

/// Fifty datagrams of different lengths, byte for byte.
pub fn datagrams_arrive(from: &Namespace, to: &Namespace, address: IpAddr) {
    let receiver = to.enter(|| UdpSocket::bind((address, 0)).expect("an address that is there"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let any: SocketAddr = if address.is_ipv4() {
        "0.0.0.0:0".parse().expect("an address")
    } else {
        "[::]:0".parse().expect("an address")
    };
    let sender = from.enter(|| UdpSocket::bind(any).expect("a socket"));
    for size in 1..=50usize {
        let payload: Vec<u8> = (0..size * 28).map(|i| (i * size) as u8).collect();
        let to = receiver.local_addr().expect("bound");
        // The first one waits for address resolution: one by one.
        sender.send_to(&payload, to).expect("there is a route");
        let mut got = [0; 2048];
        let len = receiver.recv(&mut got).expect("a datagram");
        assert!(
            got[..len] == payload,
            "{len} bytes of {}, or others",
            payload.len()
        );
    }
}
