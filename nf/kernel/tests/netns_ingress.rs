//! The kernel is shut out of what an interface receives, and let in again; packet sockets see all.

mod support;

use nf_kernel::Netlink;
use pcap::{Active, Capture};
use std::net::UdpSocket;
use std::time::Duration;
use support::{in_namespace, ip, run, run_words, veth, wait_for};

const PORT: u16 = 1194;

/// A UDP datagram from 10.8.0.2 at `v1` to 10.8.0.1 at `v0`, of one byte.
fn datagram(byte: u8) -> Vec<u8> {
    let mut ip = vec![
        0x45, 0, 0, 29, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 8, 0, 2, 10, 8, 0, 1,
    ];
    let sum: u32 = ip
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
        .sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());
    let ethernet = [2, 0, 0, 0, 0, 0x10, 2, 0, 0, 0, 0, 0x11, 8, 0];
    let udp = [&PORT.to_be_bytes()[..], &PORT.to_be_bytes(), &[0, 9, 0, 0, byte]].concat();
    [&ethernet[..], &ip, &udp].concat()
}

fn tap(interface: &str) -> Capture<Active> {
    let capture = Capture::from_device(interface)
        .expect("an interface")
        .immediate_mode(true)
        .timeout(100);
    let capture = capture.open().expect("a packet socket");
    capture.setnonblock().expect("a capture")
}

struct Wire {
    sender: Capture<Active>,
    receiver: Capture<Active>,
    socket: UdpSocket,
    sent: u8,
}

impl Wire {
    /// Sends a datagram; waits until packet sockets have seen it; tells whether the kernel delivered it.
    fn kernel_hears(&mut self) -> bool {
        self.sent += 1;
        let frame = datagram(self.sent);
        self.sender.sendpacket(&frame[..]).expect("sent");
        let Wire { receiver, .. } = self;
        wait_for("the frame at a packet socket", || {
            std::iter::from_fn(|| receiver.next_packet().ok().map(|p| p.data == frame)).any(|same| same)
        });
        let mut byte = [0];
        match self.socket.recv(&mut byte) {
            Ok(1) => {
                assert_eq!(byte, [self.sent]);
                true
            }
            Ok(n) => panic!("{n} bytes"),
            Err(_) => false,
        }
    }
}

#[test]
fn kernel_is_shut_out_and_let_in() {
    in_namespace("kernel_is_shut_out_and_let_in", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        ip("addr add 10.8.0.1/24 dev v0");
        let socket = UdpSocket::bind(("10.8.0.1", PORT)).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .expect("a time-out");
        let mut wire = Wire {
            sender: tap("v1"),
            receiver: tap("v0"),
            socket,
            sent: 0,
        };
        assert!(wire.kernel_hears());

        // Without anything there before: nothing is left.
        assert!(!netlink.has_ingress_qdisc(index).expect("a dump"));
        assert!(!netlink.ingress_is_shut(index).expect("a dump"));
        netlink.open_ingress(index, true).expect("nothing to undo");
        for _ in 0..2 {
            netlink.shut_ingress(index).expect("shut");
        }
        let filters = run("tc", "filter show dev v0 ingress");
        assert_eq!(filters.matches("direct-action").count(), 1, "{filters}");
        assert!(filters.contains("bytecode '1,6 0 0 2'"), "{filters}");
        assert!(netlink.ingress_is_shut(index).expect("a dump"));
        assert!(!wire.kernel_hears());
        netlink.open_ingress(index, true).expect("open");
        assert!(wire.kernel_hears());
        assert!(!run("tc", "qdisc show dev v0").contains("clsact"));

        // With a classifier of someone else, which lets everything in: it is overruled, and stays.
        run("tc", "qdisc add dev v0 clsact");
        let pass = ["bpf", "da", "bytecode", "1,6 0 0 0"];
        run_words(
            "tc",
            &[
                &["filter", "add", "dev", "v0", "ingress", "pref", "10"][..],
                &pass,
            ]
            .concat(),
        );
        assert!(wire.kernel_hears());
        netlink.shut_ingress(index).expect("shut");
        assert!(!wire.kernel_hears());
        for qdisc in [true, false] {
            netlink.open_ingress(index, qdisc).expect("open");
            assert!(wire.kernel_hears());
            let filters = run("tc", "filter show dev v0 ingress");
            assert_eq!(filters.matches("direct-action").count(), 1, "{filters}");
        }

        // In the first place, someone else's cannot be overruled.
        run_words(
            "tc",
            &[&["filter", "add", "dev", "v0", "ingress", "pref", "1"][..], &pass].concat(),
        );
        let taken = netlink.shut_ingress(index).expect_err("taken").to_string();
        assert!(taken.contains("another one of priority 1"), "{taken}");
        let gone = netlink.shut_ingress(9999).expect_err("no such interface");
        assert_eq!(gone.errno(), Some(19), "{gone}");
    });
}
